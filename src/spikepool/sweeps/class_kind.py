"""Sweeps of a :class:`spikepool.ClassModel`."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spikepool.model import ClassModel
from spikepool.sweeps.kind import COMMON, Asked, Kind, Values, describe
from spikepool.sweeps.seeds import cell_key


class ClassKind(Kind):
    """A cell has all weights and all trials of one combination."""

    model = ClassModel
    arrays = ("R", "means", "shares")
    inside = ("weights", "trial", "rank")
    predicted: ClassVar = {
        **COMMON,
        "predicted_alignment": "squared length of the top eigenvector's projection on the class differences",
        "outliers": "number of eigenvalues outside the bulk",
    }
    options = ("weights", "table_drawn")

    def usual_pairs(self, model: ClassModel) -> int:
        """One for each class."""
        return model.K

    def most_pairs(self, model: ClassModel) -> int:
        """The dimension."""
        return model.d

    def route(self, models: tuple[ClassModel, ...], table_drawn: bool | None) -> bool | None:
        """Drawn where asked for."""
        return bool(table_drawn)

    def predict(self, spec: Asked, place: int, values: Values, caution: NDArray[Any], errors: NDArray[Any]) -> None:
        """Each weighting by itself."""
        for i, name in enumerate(spec.weights):
            try:
                prediction = spec.models[place].predict(spec.weight_vector(name, place))
            except Exception as err:
                errors[i] = describe(err)
                continue
            top = prediction.outliers[0] if prediction.outliers else None
            numbers = {
                "alpha": prediction.alpha,
                "kappa": prediction.kappa,
                "edge": prediction.edge,
                "predicted_eigenvalue": top.eigenvalue if top else prediction.edge,
                "predicted_alignment": top.alignment if top else 0.0,
                "outliers": float(len(prediction.outliers)),
            }
            for variable, number in numbers.items():
                values[variable][i] = number
            caution[i] = "; ".join(prediction.validity.reasons)

    def simulate(self, spec: Asked, place: int, trial: int, values: Values, errors: NDArray[Any]) -> None:
        """All weights see the same draws."""
        model = spec.models[place]
        rng = np.random.SeedSequence(spec.seed, spawn_key=(cell_key(model),))
        for i, name in enumerate(spec.weights):
            try:
                drawn = model.simulate(
                    spec.weight_vector(name, place), spec.trials, spec.pairs, rng=rng, table_drawn=spec.table_drawn
                )
            except Exception as err:
                errors[i] = describe(err)
            else:
                values["eigenvalues"][i], values["alignments"][i] = drawn.eigenvalues, drawn.alignments
