"""What one cell computes: predictions, or one simulated draw, for all weights and all mu of one model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.model import Prediction, SequenceModel
from spikepool.sweeps import grid, schema
from spikepool.sweeps.grid import Cell
from spikepool.sweeps.spec import SweepSpec

FloatArray = NDArray[np.float64]
Values = dict[str, NDArray[Any]]


def blank(spec: SweepSpec, cell: Cell, message: str = "") -> Values:
    """The cell's variables, each (weights, mu) or (weights, mu, rank), full of NaN; `message` as the error."""
    shape = (len(spec.weights), len(spec.mus))
    errors = np.full(shape, message, dtype=object)
    if cell.is_prediction:
        return {name: np.full(shape, np.nan) for name in schema.PREDICTED} | {schema.PREDICTION_ERROR: errors}
    return {name: np.full((*shape, spec.k), np.nan) for name in schema.SIMULATED} | {schema.TRIAL_ERROR: errors}


def compute(spec: SweepSpec, cell: Cell) -> tuple[Values, bool]:
    """Values of the cell, and whether anything failed. What fails keeps NaN and its message; the rest goes on."""
    model = spec.outer_model(cell.index)
    values = blank(spec, cell)
    errors = values[schema.PREDICTION_ERROR if cell.is_prediction else schema.TRIAL_ERROR]
    for i, name in enumerate(spec.weights):
        try:
            w = spec.weight_vector(name, model)
        except Exception as err:
            errors[i] = describe(err)
            continue
        for j, mu in enumerate(spec.mus):
            try:
                if cell.is_prediction:
                    _predict(spec, model.replace(mu=mu), w, values, (i, j))
                else:
                    _simulate(spec, model.replace(mu=mu), w, cell.trial, values, (i, j))
            except Exception as err:
                errors[i, j] = describe(err)
    return values, bool(np.any(errors != ""))


def describe(error: BaseException) -> str:
    """One line: ``NotRealizableError: ...``."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _predict(spec: SweepSpec, model: SequenceModel, w: FloatArray, values: Values, at: tuple[int, int]) -> None:
    rng = grid.prediction_seed(spec.seed, model) if spec.exact else None
    prediction = model.predict(w, exact=spec.exact, rng=rng)
    for name, number in predicted_values(prediction).items():
        values[name][at] = number


def predicted_values(prediction: Prediction) -> dict[str, float]:
    """The numbers of a prediction under the names of :data:`spikepool.sweeps.schema.PREDICTED`."""
    signal = prediction.signal
    vocabulary = next((outlier for outlier in prediction.outliers if outlier.kind == "mean"), None)
    return {
        "alpha": prediction.alpha,
        "kappa": prediction.kappa,
        "edge": prediction.edge,
        "predicted_eigenvalue": prediction.eigenvalue,
        "predicted_alignment": prediction.alignment,
        "signal_eigenvalue": signal.eigenvalue if signal else np.nan,
        "signal_alignment": signal.alignment if signal else np.nan,
        "vocabulary_eigenvalue": vocabulary.eigenvalue if vocabulary else np.nan,
        "detectable": float(prediction.detectable),
        "mu_population": prediction.mu_population,
        "mu_sample": prediction.mu_sample,
    }


def _simulate(
    spec: SweepSpec, model: SequenceModel, w: FloatArray, trial: int, values: Values, at: tuple[int, int]
) -> None:
    result = model.simulate(w, trials=1, k=spec.k, rng=grid.trial_seed(spec.seed, model, trial))
    values["eigenvalues"][at] = result.eigenvalues[0]
    values["alignments"][at] = result.alignments[0]
