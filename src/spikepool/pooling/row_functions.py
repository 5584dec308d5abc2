"""What fitted poolings do to a block of rows: features, predicted values, weights; sent to workers as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.data.estimator_input import refuse_empty_rows
from spikepool.data.tokens import Block
from spikepool.kit.arrays import FloatArray
from spikepool.pooling.registry import FunctionPooling, Pooling
from spikepool.pooling.sequence import SequencePooling


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Features of blocks of rows; small, and sent to workers in place of an estimator."""

    pooling: Pooling
    empty: str

    @property
    def trims(self) -> bool:
        """Whether padding may be cut off: a function of others may look at it."""
        return not isinstance(self.pooling, FunctionPooling)

    def __call__(self, block: Block, start: int) -> FloatArray:
        """(b, F) for a block whose first row is number `start`; zeros for a row without tokens."""
        x, observed = block
        refuse_empty_rows(observed, start, self.empty)
        found = self.pooling.features(x, observed)
        nothing = ~observed.any(axis=1)
        if nothing.any():
            found[nothing] = 0.0
        return found


@dataclass(frozen=True, eq=False)
class ValueRows:
    """The sum of what ridges (or other heads) on several poolings predict, each with its weight."""

    parts: tuple[tuple[float, Pooling, Any], ...]
    empty: str

    @property
    def trims(self) -> bool:
        """Whether padding may be cut off."""
        return all(FeatureRows(pooling, self.empty).trims for _, pooling, _ in self.parts)

    def __call__(self, block: Block, start: int) -> FloatArray:
        """(b, k) for a block whose first row is number `start`."""
        found = [
            weight * ridge.predict(FeatureRows(pooling, self.empty)(block, start))
            for weight, pooling, ridge in self.parts
        ]
        return np.asarray(sum(found[1:], found[0]))


@dataclass(frozen=True, eq=False)
class WeightRows:
    """Weights of the tokens, flattened."""

    pooling: Pooling
    importance: FloatArray | None = None

    def __call__(self, block: Block, start: int) -> FloatArray:
        """(b, heads·T)."""
        if self.importance is None or not isinstance(self.pooling, SequencePooling):
            return self.pooling.weights(*block).reshape(len(block[0]), -1)
        return self.pooling.token_importance(self.importance, *block)
