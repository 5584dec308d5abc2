"""Sweeps of a :class:`spikepool.SequenceModel`: weights and mu share the draws of a cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import FloatArray
from spikepool.model import Prediction, SequenceModel
from spikepool.simulation.drawn import maximal_rank, usual_pairs
from spikepool.simulation.simulate import simulate_draw, takes_drawn_table
from spikepool.sweeps.kind import COMMON, SIGNAL, THRESHOLDS, Asked, Kind, Values, common_numbers, describe
from spikepool.sweeps.seeds import cell_key, prediction_seed, trial_seed
from spikepool.theory.closed_form import Positions, is_plain, predict_gains, predict_strengths
from spikepool.theory.given_tokens import prepare_tokens
from spikepool.world.tokens import draw_tokens


class SequenceKind(Kind):
    """A cell has all weights and all mu of one combination and trial: they share one draw."""

    model = SequenceModel
    arrays = ("R", "frequencies", "covariance", "direction", "token_weights")
    inside = ("weights", "mu", "rank")
    predicted: ClassVar = {
        **COMMON,
        **SIGNAL,
        "vocabulary_eigenvalue": "eigenvalue of the vocabulary mean's outlier; NaN where there is none",
        **THRESHOLDS,
    }
    options = ("weights", "exact", "table_drawn")

    def usual_pairs(self, model: SequenceModel) -> int:
        """One where S is centred, else two."""
        return usual_pairs(model)

    def most_pairs(self, model: SequenceModel) -> int:
        """The largest rank of S."""
        return maximal_rank(model)

    def route(self, models: tuple[SequenceModel, ...], table_drawn: bool | None) -> bool | None:
        """Drawn where the noise is not Gaussian, or where asked for."""
        routes = {takes_drawn_table(model, (), table_drawn) for model in models}
        return routes.pop() if len(routes) == 1 else None

    def predict(self, spec: Asked, place: int, values: Values, caution: NDArray[Any], errors: NDArray[Any]) -> None:
        """Every weighting is prepared once and asked at all mu; exact predictions share one draw of the tokens."""
        model = spec.models[place]
        try:
            prepare = _prepared(spec, model)
        except Exception as err:
            errors[:] = describe(err)
            return
        for i, name in enumerate(spec.weights):
            try:
                predict = prepare(spec.weight_vector(name, place))
            except Exception as err:
                errors[i] = describe(err)
                continue
            for j, mu in enumerate(spec.mus):
                try:
                    prediction = predict(mu)
                except Exception as err:
                    errors[i, j] = describe(err)
                else:
                    for variable, number in _sequence_numbers(prediction).items():
                        values[variable][i, j] = number
                    caution[i, j] = "; ".join(prediction.validity.reasons)

    def simulate(self, spec: Asked, place: int, trial: int, values: Values, errors: NDArray[Any]) -> None:
        """One draw, shared by all weights and mu; each weights fail on their own."""
        model = spec.models[place]
        weights: dict[str, FloatArray] = {}
        places = list(spec.weights)
        for i, name in enumerate(places):
            try:
                weights[name] = spec.weight_vector(name, place)
            except Exception as err:
                errors[i] = describe(err)
        attempts = [weights] if weights else []
        while attempts:
            chosen = attempts.pop(0)
            rows = [places.index(name) for name in chosen]
            try:
                draw = simulate_draw(
                    model,
                    chosen,
                    spec.mus,
                    spec.pairs,
                    rng=trial_seed(spec.seed, cell_key(model), trial),
                    table_drawn=spec.table_drawn,
                )
            except Exception as err:
                if len(chosen) == 1:
                    errors[rows] = describe(err)
                else:  # each by itself, to tell which it was
                    attempts = [{name: w} for name, w in chosen.items()]
            else:
                values["eigenvalues"][rows], values["alignments"][rows] = draw


def _prepared(spec: Asked, model: SequenceModel) -> Callable[[FloatArray], Callable[[float], Prediction]]:
    """From weights to predictions as a function of mu."""
    if spec.exact:
        rng = prediction_seed(spec.seed, cell_key(model))
        drawn = draw_tokens(model, rng)
        return lambda w: prepare_tokens(model, drawn, w, rng=rng).predict

    def closed(w: FloatArray) -> Callable[[float], Prediction]:
        alpha, kappa = model.gains(w)
        if is_plain(model):  # all mu at once
            predictions = predict_strengths(model, alpha, kappa, spec.mus, Positions.of(w, model.R))
            return dict(zip(spec.mus, predictions, strict=True)).__getitem__
        return lambda mu: predict_gains(model.replace(mu=mu), alpha, kappa, Positions.of(w, model.R))

    return closed


def _sequence_numbers(prediction: Prediction) -> dict[str, float]:
    """The numbers of a prediction under the names of ``SequenceKind.predicted``."""
    vocabulary = next((outlier for outlier in prediction.outliers if outlier.kind == "mean"), None)
    return {
        **common_numbers(prediction),
        "vocabulary_eigenvalue": vocabulary.eigenvalue if vocabulary else np.nan,
    }
