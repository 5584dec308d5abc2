"""Poolings that are ready for use: from tokens (b, T, d) to features (b, heads·d)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from spikepool.data.estimator_input import refuse_empty_rows
from spikepool.data.tokens import Block
from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.kit.gcv import RidgeFit
from spikepool.pooling.places import CONCAT, WEIGHT_RULES, rule_weights
from spikepool.pooling.scores import PositionScores, QueryScores, softmax_weights
from spikepool.pooling.token_space import TokenSpace

FIXED = (*WEIGHT_RULES, "max", "concat")
LEARNED = ("positions", "query")
POOLINGS = ("auto", *FIXED, *LEARNED)


class Pooling(Protocol):
    """A way to pool sequences."""

    @property
    def name(self) -> str:
        """Its name among :data:`POOLINGS`."""

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the blocks of d features that it makes."""

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Weight of every token in every head, (b, heads, T); unit sum over the tokens of a row."""

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Pooled features, (b, heads·d), head by head."""


class _Weighted:
    """Features are weighted sums of tokens."""

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        raise NotImplementedError

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Pooled features, (b, heads·d), head by head."""
        return np.asarray(np.matmul(self.weights(x, observed), x).reshape(len(x), -1))


@dataclass(frozen=True)
class RulePooling(_Weighted):
    """mean, last, first or ramp; or concat, which is mean, last and first side by side."""

    name: str

    @property
    def heads(self) -> tuple[str, ...]:
        """The rules behind the features."""
        return CONCAT if self.name == "concat" else (self.name,)

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, heads, T), whatever the tokens are."""
        return np.stack([rule_weights(rule, observed) for rule in self.heads], axis=1)


@dataclass(frozen=True)
class MaxPooling:
    """The largest value of each feature over the observed tokens; zeros for a row without any."""

    name: str = "max"
    heads: tuple[str, ...] = ("max",)

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Share of the features that each token supplies, (b, 1, T)."""
        winner = np.where(observed[..., None], x, -np.inf).argmax(axis=1)
        count = (winner[:, None, :] == np.arange(x.shape[1])[:, None]).mean(axis=2)
        return np.asarray(np.where(observed, count, 0.0)[:, None, :])

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, d)."""
        top = np.max(x, axis=1, where=observed[..., None], initial=-np.inf)
        return np.where(np.isfinite(top), top, 0.0)


class _Learned(_Weighted):
    """Sequences without a usable token (sinks only) get the mean of all other tokens; empty ones stay zeros."""

    space: TokenSpace

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Pooled features, (b, heads·d), head by head."""
        pooled = super().features(x, observed)
        if self.space.sink:
            lost = observed.any(axis=1) & ~self.space.usable(x, observed).any(axis=1)
            pooled[lost] = np.tile(self.space.mean, pooled.shape[1] // x.shape[2])
        return pooled


@dataclass(frozen=True, eq=False)
class QueryPooling(_Learned):
    """Softmax of q·z/rms(z) over the tokens, z their leading components; averaged over one or more queries q."""

    parameters: FloatArray  # (fits, p)
    space: TokenSpace
    name: str = "query"
    heads: tuple[str, ...] = ("query",)

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, 1, T)."""
        usable = self.space.usable(x, observed)
        return self.weigh(self.space.coordinates(x, usable), observed, usable)

    def weigh(self, z: FloatArray, observed: BoolArray, usable: BoolArray) -> FloatArray:
        """The same from tokens in components."""
        model = QueryScores(z)
        return _average([softmax_weights(model.scores(query), usable) for query in self.parameters])


@dataclass(frozen=True, eq=False)
class PositionPooling(_Learned):
    """Softmax of a_h[place from the start] + b_h[place from the end], in each head h; averaged over fits."""

    parameters: FloatArray  # (fits, heads, 2, T)
    space: TokenSpace
    name: str = "positions"

    @property
    def heads(self) -> tuple[str, ...]:
        """Numbered from one."""
        return tuple(f"head{h + 1}" for h in range(self.parameters.shape[1]))

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, heads, T)."""
        return self.weigh(x, observed, self.space.usable(x, observed))

    def weigh(self, z: FloatArray, observed: BoolArray, usable: BoolArray) -> FloatArray:
        """The same, whatever the tokens are."""
        model = PositionScores.of(observed, self.parameters.shape[1])
        return _average([softmax_weights(model.scores(fit.reshape(-1)), usable) for fit in self.parameters])


LearnedWeights = QueryPooling | PositionPooling


def _average(weights: list[FloatArray]) -> FloatArray:
    """The mean of several weightings of the same tokens; of one, that one to the last digit."""
    total = weights[0]
    for other in weights[1:]:
        total = total + other
    return total / len(weights)


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Pooled features of blocks of rows; small, and sent to workers in place of an estimator."""

    pooling: Pooling
    empty: str

    def __call__(self, block: Block, start: int) -> FloatArray:
        """(b, heads·d) for a block whose first row is number `start`."""
        refuse_empty_rows(block[1], start, self.empty)
        return self.pooling.features(*block)


@dataclass(frozen=True, eq=False)
class ValueRows:
    """Values that a ridge on pooled features predicts."""

    features: FeatureRows
    ridge: RidgeFit

    def __call__(self, block: Block, start: int) -> FloatArray:
        """(b, k) for a block whose first row is number `start`."""
        return self.ridge.predict(self.features(block, start))


@dataclass(frozen=True, eq=False)
class WeightRows:
    """Weights of the tokens, flattened."""

    pooling: Pooling

    def __call__(self, block: Block, start: int) -> FloatArray:
        """(b, heads·T)."""
        return self.pooling.weights(*block).reshape(len(block[0]), -1)


def fixed_pooling(name: str) -> Pooling:
    """The pooling of a fixed rule."""
    return MaxPooling() if name == "max" else RulePooling(name)
