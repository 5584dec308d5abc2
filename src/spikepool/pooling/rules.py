"""Fixed rules: features that are the same function of the tokens whatever the labels are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.pooling.places import CONCAT, WEIGHT_RULES, rule_weights
from spikepool.pooling.registry import PoolingSpec, register
from spikepool.pooling.token_space import TokenSpace


def head_names(heads: tuple[str, ...], d: int) -> list[str]:
    """Names of d features for each head; of one head, ``pooled0``, ``pooled1``, ..."""
    if len(heads) == 1:
        return [f"pooled{i}" for i in range(d)]
    return [f"{head}_{i}" for head in heads for i in range(d)]


@dataclass(frozen=True)
class RulePooling:
    """Weighted sums with given weights: mean, last, first, ramp (w_t ~ t); or concat, the first three side by side."""

    name: str

    @property
    def heads(self) -> tuple[str, ...]:
        """The rules behind the features."""
        return CONCAT if self.name == "concat" else (self.name,)

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, heads, T), whatever the tokens are."""
        return np.stack([rule_weights(rule, observed) for rule in self.heads], axis=1)

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, heads·d), head by head."""
        return np.asarray(np.matmul(self.weights(x, observed), x).reshape(len(x), -1))

    def feature_names(self, d: int) -> list[str]:
        """Rule by rule."""
        return head_names(self.heads, d)


@dataclass(frozen=True)
class MaxPooling:
    """The largest value of each feature over the observed tokens; zeros for a row without any."""

    name: str = "max"

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Share of the features that each token supplies, (b, 1, T)."""
        winner = np.where(observed[..., None], x, -np.inf).argmax(axis=1)
        count = (winner[:, None, :] == np.arange(x.shape[1])[:, None]).mean(axis=2)
        return np.asarray(np.where(observed, count, 0.0)[:, None, :])

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, d)."""
        top = np.max(x, axis=1, where=observed[..., None], initial=-np.inf)
        return np.where(np.isfinite(top), top, 0.0)

    def feature_names(self, d: int) -> list[str]:
        """One for each feature of a token."""
        return head_names(("max",), d)


@dataclass(frozen=True, eq=False)
class SpreadPooling:
    """The mean of the usable tokens and the standard deviation of each feature over them."""

    space: TokenSpace
    name: str = "std"

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Equal weights of the usable tokens, (b, 1, T)."""
        return rule_weights("mean", self.space.usable(x, observed))[:, None]

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, 2d)."""
        w = self.weights(x, observed)
        mean = np.matmul(w, x - self.space.mean)[:, 0]
        square = np.matmul(w, (x - self.space.mean) ** 2)[:, 0]
        return np.concatenate([mean + self.space.mean, np.sqrt(np.maximum(square - mean**2, 0.0))], axis=1)

    def feature_names(self, d: int) -> list[str]:
        """Means, then deviations."""
        return head_names(("mean", "std"), d)


_DESCRIPTIONS = {
    "mean": "mean of the tokens",
    "last": "last token",
    "first": "first token",
    "ramp": "mean with weights that grow with the position (w_t ~ t)",
    "concat": "mean, last and first token side by side",
}


def _fixed(name: str) -> Any:
    return lambda *_: RulePooling(name)


for _name in (*WEIGHT_RULES, "concat"):
    register(PoolingSpec(_name, _DESCRIPTIONS[_name], _fixed(_name), cost=5.0 if _name == "concat" else 1.0))
register(PoolingSpec("max", "largest value of each feature", lambda *_: MaxPooling(), candidate=False))
register(
    PoolingSpec(
        "std", "mean and standard deviation of each feature", lambda rows, *_: SpreadPooling(rows.space), cost=2.0
    )
)
