"""What one cell computes: predictions, or one simulated draw, for all weights and all mu of one model.

What happens on a worker: one cell, computed and written. Nothing here raises but for a bug.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spikepool import __version__
from spikepool.errors import DataSourceError, SpikepoolError, StoreWriteError, SweepError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import single_threaded_blas
from spikepool.model import Prediction, SequenceModel
from spikepool.simulation.simulate import simulate_draw
from spikepool.sweeps import schema
from spikepool.sweeps import schema as grid
from spikepool.sweeps.schema import Cell
from spikepool.sweeps.spec import SweepSpec
from spikepool.sweeps.store import Store
from spikepool.theory.given_tokens import prepare_tokens
from spikepool.world.tokens import draw_tokens

Values = dict[str, NDArray[Any]]


def blank(spec: SweepSpec, cell: Cell, message: str = "") -> Values:
    """The cell's variables, each (weights, mu) or (weights, mu, rank), full of NaN; `message` as the error."""
    shape = (len(spec.weights), len(spec.mus))
    errors = np.full(shape, message, dtype=object)
    if cell.is_prediction:
        numbers = {name: np.full(shape, np.nan) for name in schema.PREDICTED}
        return numbers | {schema.VALIDITY: np.full(shape, "", dtype=object), schema.PREDICTION_ERROR: errors}
    return {name: np.full((*shape, spec.pairs), np.nan) for name in schema.SIMULATED} | {schema.TRIAL_ERROR: errors}


def compute(spec: SweepSpec, cell: Cell) -> tuple[Values, bool]:
    """Values of the cell, and whether anything failed. What fails keeps NaN and its message; the rest goes on."""
    values = blank(spec, cell)
    model = spec.outer_model(cell.index)
    fill = _predict if cell.is_prediction else _simulate
    errors = values[schema.PREDICTION_ERROR if cell.is_prediction else schema.TRIAL_ERROR]
    fill(spec, model, cell, values, errors)
    return values, bool(np.any(errors != ""))


def describe(error: BaseException) -> str:
    """One line: ``NotRealizableError: ...``."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _predict(spec: SweepSpec, model: SequenceModel, cell: Cell, values: Values, errors: NDArray[Any]) -> None:
    """Every weighting is prepared once and asked at all mu; exact predictions share one draw of the tokens."""
    try:
        prepare = _prepared(spec, model)
    except Exception as err:
        errors[:] = describe(err)
        return
    for i, name in enumerate(spec.weights):
        try:
            predict = prepare(spec.weight_vector(name, model))
        except Exception as err:
            errors[i] = describe(err)
            continue
        for j, mu in enumerate(spec.mus):
            try:
                prediction = predict(mu)
            except Exception as err:
                errors[i, j] = describe(err)
            else:
                for variable, number in predicted_values(prediction).items():
                    values[variable][i, j] = number
                values[schema.VALIDITY][i, j] = "; ".join(prediction.validity.reasons)


def _prepared(spec: SweepSpec, model: SequenceModel) -> Callable[[FloatArray], Callable[[float], Prediction]]:
    """From weights to predictions as a function of mu."""
    if spec.exact:
        rng = grid.prediction_seed(spec.seed, model)
        drawn = draw_tokens(model, rng)
        return lambda w: prepare_tokens(model, drawn, w, rng=rng).predict

    def closed(w: FloatArray) -> Callable[[float], Prediction]:
        gains = model.gains(w)
        return lambda mu: model.replace(mu=mu).predict_gains(*gains)

    return closed


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


def _simulate(spec: SweepSpec, model: SequenceModel, cell: Cell, values: Values, errors: NDArray[Any]) -> None:
    """One draw, shared by all weights and mu; each weights fail on their own."""
    weights: dict[str, FloatArray] = {}
    for i, name in enumerate(spec.weights):
        try:
            weights[name] = spec.weight_vector(name, model)
        except Exception as err:
            errors[i] = describe(err)
    seed, places = grid.trial_seed(spec.seed, model, cell.trial), list(spec.weights)

    def fill(chosen: dict[str, FloatArray]) -> None:
        draw = simulate_draw(model, chosen, spec.mus, spec.pairs, rng=seed, table_drawn=spec.table_drawn)
        rows = [places.index(name) for name in chosen]
        values["eigenvalues"][rows], values["alignments"][rows] = draw

    attempts = [weights] if weights else []
    while attempts:
        chosen = attempts.pop(0)
        try:
            fill(chosen)
        except Exception as err:
            if len(chosen) == 1:
                (name,) = chosen
                errors[places.index(name)] = describe(err)
            else:  # each by itself, to tell which it was
                attempts = [{name: w} for name, w in chosen.items()]


@dataclass(frozen=True)
class Outcome:
    """How a cell went: ``"done"`` and ``"failed"`` are on disk, ``"unwritable"`` and ``"refused"`` end the sweep."""

    status: Literal["done", "failed", "unwritable", "refused"]
    message: str = ""


class _SingleThreadedBLAS:
    """One BLAS thread while any cell is being computed in this process.

    The order in which several threads add numbers up changes the last bits, and every core has a worker anyway.
    The limit belongs to the process, so it is lifted only when the last of several threads leaves.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limits.enter_context(single_threaded_blas())
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.close()


_single_threaded_blas = _SingleThreadedBLAS()


@lru_cache(maxsize=8)
def _store(path: str, fingerprint: str) -> Store:
    """The store, opened once a process; `fingerprint` tells it from an earlier one at the same path."""
    store = Store.open(path)
    if store.fingerprint != fingerprint:
        raise SweepError("the store there is another one", path)
    return store


def run_cell(cell: Cell, path: str, fingerprint: str, version: str) -> Outcome:
    """Compute `cell` of the store at `path` (or URL) and write it; the spec is read from the store."""
    if version != __version__:
        return Outcome("refused", f"the driver runs spikepool {version}, this worker {__version__}")
    try:
        store = _store(path, fingerprint)
    except SpikepoolError as err:
        return Outcome("refused", f"a worker cannot use the store: {err}")
    with _single_threaded_blas:
        values, failed = compute(store.spec, cell)
    try:
        store.write(cell, values, failed=failed)
    except (StoreWriteError, DataSourceError) as err:
        return Outcome("unwritable", str(err))
    return Outcome("failed" if failed else "done")
