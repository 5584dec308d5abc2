"""Fixed rules: features that are the same function of the tokens whatever the labels are.

Weighted sums with given weights (mean, last, first, ramp), several of them side by side, the largest value, mean and
standard deviation, and the mean (d) with the upper triangle of

    Cov_n = (1/L_n) Σ_t z_nt z_nt' − m_n m_n',

z the tokens in their p leading components: p(p + 1)/2 more features. A softmax at small scores pools the mean plus
Cov_n q, so that a linear model on these features contains every query to first order, without learning one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.pooling.places import CONCAT, WEIGHT_RULES, rule_weights
from spikepool.pooling.registry import PoolingSpec, head_names, register, saved
from spikepool.pooling.token_space import TokenSpace


@saved
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


@saved
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


@saved
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


def token_covariances(z: FloatArray, usable: BoolArray) -> FloatArray:
    """Upper triangles (n, p(p+1)/2) of the covariances of tokens z (n, T, p) within each sequence."""
    w = rule_weights("mean", usable).astype(z.dtype)
    mean = np.matmul(w[:, None], z)[:, 0]
    second = np.matmul((z * w[..., None]).transpose(0, 2, 1), z)
    second -= mean[:, :, None] * mean[:, None, :]
    i, j = np.triu_indices(z.shape[2])
    return np.asarray(second[:, i, j])


@saved
@dataclass(frozen=True, eq=False)
class CovariancePooling:
    """Mean of the usable tokens, and the covariances of their components."""

    space: TokenSpace
    name: str = "covariance"

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Equal weights of the usable tokens, (b, 1, T)."""
        return rule_weights("mean", self.space.usable(x, observed))[:, None]

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, d + p(p+1)/2)."""
        usable = self.space.usable(x, observed)
        mean = self.space.pooled(rule_weights("mean", usable)[:, None], x, observed, usable)
        return np.concatenate([mean, token_covariances(self.space.coordinates(x, usable), usable)], axis=1)

    def feature_names(self, d: int) -> list[str]:
        """Means, then pairs of components."""
        pairs = zip(*np.triu_indices(self.space.directions.shape[1]), strict=True)
        return [*head_names(("mean", ""), d)[:d], *(f"cov_{i}_{j}" for i, j in pairs)]


register(
    PoolingSpec(
        "covariance",
        "mean, and covariances of the tokens within a sequence",
        lambda rows, *_: CovariancePooling(rows.space),
        cost=4.0,
    )
)
