"""Class centring: the projection off the class means, the one home of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import FloatArray


class Projection:
    """P, the projection off the class means; the identity without class-centring."""

    def __init__(self, signs: NDArray[Any] | None) -> None:
        self._classes = [] if signs is None else [np.flatnonzero(signs == c) for c in np.unique(signs)]

    def __call__(self, x: FloatArray) -> FloatArray:
        """P x, along the first axis."""
        if self._classes:
            x = x.copy()
            for rows in self._classes:
                x[rows] -= x[rows].mean(axis=0)
        return x
