"""Sweeps of a :class:`spikepool.QueryModel`."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spikepool.model import QueryModel
from spikepool.sweeps.kind import COMMON, SIGNAL, THRESHOLDS, Asked, Kind, Values, common_numbers, describe


class QueryKind(Kind):
    """A cell has all trials of one combination. The weights of a query are its kernel, which is a field."""

    model = QueryModel
    arrays = ("noise", "prior")
    inside = ("trial", "rank")
    predicted: ClassVar = {
        **COMMON,
        **SIGNAL,
        "query_eigenvalue": "eigenvalue along the query, were it not projected out; NaN where there is none",
        **THRESHOLDS,
    }
    options = ()

    def usual_pairs(self, model: QueryModel) -> int:
        """One: the query is projected out."""
        return 1

    def most_pairs(self, model: QueryModel) -> int:
        """The dimension without the query."""
        return model.d - 1

    def predict(self, spec: Asked, place: int, values: Values, caution: NDArray[Any], errors: NDArray[Any]) -> None:
        """One prediction."""
        try:
            prediction = spec.models[place].predict()
        except Exception as err:
            errors[...] = describe(err)
            return
        query = prediction.query
        numbers = common_numbers(prediction) | {"query_eigenvalue": query.eigenvalue if query else np.nan}
        for variable, number in numbers.items():
            values[variable][...] = number
        caution[...] = "; ".join(prediction.validity.reasons)

    def simulate(self, spec: Asked, place: int, trial: int, values: Values, errors: NDArray[Any]) -> None:
        """Trial j of combination i draws from the child (i, j) of the seed."""
        rng = np.random.SeedSequence(spec.seed, spawn_key=(place,))
        try:
            drawn = spec.models[place].simulate(spec.trials, spec.pairs, rng=rng)
        except Exception as err:
            errors[:] = describe(err)
        else:
            values["eigenvalues"][:], values["alignments"][:] = drawn.eigenvalues, drawn.alignments
