r"""Mean of the tokens, and how their leading components vary together within a sequence.

Features are the mean (d) and the upper triangle of Cov_n = (1/L_n) Σ_t z_nt z_nt' − m_n m_n', z the tokens in their p
leading components: p(p + 1)/2 more features. A softmax at small scores pools the mean plus Cov_n q, so that a linear
model on these features contains every query to first order, without learning one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.pooling.places import rule_weights
from spikepool.pooling.registry import PoolingSpec, register
from spikepool.pooling.rules import head_names
from spikepool.pooling.token_space import TokenSpace


def token_covariances(z: FloatArray, usable: BoolArray) -> FloatArray:
    """Upper triangles (n, p(p+1)/2) of the covariances of tokens z (n, T, p) within each sequence."""
    w = rule_weights("mean", usable).astype(z.dtype)
    mean = np.matmul(w[:, None], z)[:, 0]
    second = np.matmul((z * w[..., None]).transpose(0, 2, 1), z)
    second -= mean[:, :, None] * mean[:, None, :]
    i, j = np.triu_indices(z.shape[2])
    return np.asarray(second[:, i, j])


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
