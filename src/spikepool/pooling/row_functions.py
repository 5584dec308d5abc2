"""What fitted poolings do to a block of rows: features, predicted values, weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.data.estimator_input import refuse_empty_rows
from spikepool.data.tokens import Block
from spikepool.kit.arrays import BoolArray, FloatArray, IntArray
from spikepool.pooling.fitted import Part
from spikepool.pooling.registry import FunctionPooling, Pooling
from spikepool.pooling.sequence import SequencePooling


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Tokens (n, T, d) of a few rows by layer, finite and zero where not observed: they are not checked again."""

    tokens: dict[Any, FloatArray]
    observed: BoolArray

    @property
    def rows(self) -> IntArray:
        """Their numbers."""
        return np.arange(len(self.observed))

    def block(self, layer: Any) -> Block:
        """Tokens of a layer, and the mask."""
        return self.tokens[layer].astype(np.float64), self.observed


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Features of blocks of rows."""

    pooling: Pooling
    empty: str

    @property
    def trims(self) -> bool:
        """Whether padding may be cut off: a function of others may look at it."""
        return not isinstance(self.pooling, FunctionPooling)

    def __call__(self, block: Block, rows: IntArray) -> FloatArray:
        """(b, F) for a block with these numbers of rows; zeros for a row without tokens."""
        x, observed = block
        refuse_empty_rows(observed, rows, self.empty)
        features = self.pooling.features(x, observed)
        nothing = ~observed.any(axis=1)
        if nothing.any():
            features[nothing] = 0.0
        return features


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """The weighted sum of the scores of several parts in one layer."""

    parts: tuple[Part, ...]
    empty: str

    @property
    def trims(self) -> bool:
        """Whether padding may be cut off."""
        return all(FeatureRows(part.pooling, self.empty).trims for part in self.parts)

    def __call__(self, block: Block, rows: IntArray) -> FloatArray:
        """(b, k) for a block with these numbers of rows."""
        features = [
            part.weight * part.linear(FeatureRows(part.pooling, self.empty)(block, rows)) for part in self.parts
        ]
        return np.asarray(sum(features[1:], features[0]))


@dataclass(frozen=True, eq=False)
class WeightRows:
    """Weights of the tokens, flattened."""

    pooling: Pooling
    importance: FloatArray | None = None

    def __call__(self, block: Block, rows: IntArray) -> FloatArray:
        """(b, heads·T)."""
        if self.importance is None or not isinstance(self.pooling, SequencePooling):
            return self.pooling.weights(*block).reshape(len(block[0]), -1)
        return self.pooling.token_importance(self.importance, *block)
