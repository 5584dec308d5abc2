"""A few learned queries beside the mean: attentive pooling whose weights follow the content of a token.

Query h weighs token t of sequence n by the softmax over the usable tokens of s_nth = q_h·ẑ_nt, ẑ = z/rms(z), z the
token in its p leading components. Features are [q_1 pooled, .., q_H pooled, mean].

**Start.** At q = 0 the softmax is flat, and to first order query q moves the pooled component v by Cov_n(z_v, ẑ·q). A
ridge of the residual (after the mean) on the token covariances has one symmetric p x p matrix of coefficients for each
target; the leading left singular vectors of these matrices side by side are the directions in which queries gain most.
Sign and size of each are chosen from ±1, ±2, one query after the other, by the loss of
:class:`spikepool.pooling.query_loss.PooledRidgeLoss`, which a few steps of L-BFGS then lower further.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.kit.arrays import BoolArray, FloatArray, IntArray
from spikepool.pooling.design import of_features
from spikepool.pooling.places import rule_weights
from spikepool.pooling.query_loss import PooledRidgeLoss, inverse_rms, softmax_weights
from spikepool.pooling.registry import PoolingSpec, head_names, register
from spikepool.pooling.token_space import TokenSpace
from spikepool.ridge.folds import FoldRidge

# Sizes tried for each query at the start: ẑ has components of unit size, so that 1 is a spread of e between tokens.
START_SIZES = (1.0, -1.0, 2.0, -2.0)
# Penalty of the ridge that finds the start, relative to the average eigenvalue; only directions are taken from it.
START_PENALTY = 1.0


@dataclass(frozen=True, eq=False)
class QueryPooling:
    """Softmax of q·z/rms(z) over the tokens for each query, and the mean."""

    queries: FloatArray  # (H, p)
    space: TokenSpace
    name: str = "query"

    @property
    def heads(self) -> tuple[str, ...]:
        """Queries numbered from one, then the mean."""
        return (*(f"query{h + 1}" for h in range(len(self.queries))), "mean")

    @property
    def full_queries(self) -> FloatArray:
        """Queries (H, d) in the space of tokens: scores are q·(x − mean)/rms(z), z the leading components of x."""
        return np.asarray(self.queries @ self.space.directions.T)

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, H + 1, T)."""
        usable = self.space.usable(x, observed)
        return self._weigh(self.space.coordinates(x, usable), usable)

    def _weigh(self, z: FloatArray, usable: BoolArray) -> FloatArray:
        scores = np.matmul(self.queries, (z * inverse_rms(z)[..., None]).transpose(0, 2, 1))
        return np.concatenate([softmax_weights(scores, usable), rule_weights("mean", usable)[:, None]], axis=1)

    def features(
        self, x: FloatArray, observed: BoolArray, known: tuple[FloatArray, BoolArray] | None = None
    ) -> FloatArray:
        """(b, (H + 1)·d), head by head; `known` are the tokens in components and which are usable, if at hand."""
        if known is None:
            usable = self.space.usable(x, observed)
            known = self.space.coordinates(x, usable), usable
        return self.space.pooled(self._weigh(*known), x, observed, known[1])

    def feature_names(self, d: int) -> list[str]:
        """Head by head."""
        return head_names(self.heads, d)


def start_queries(loss: PooledRidgeLoss, covariances: FloatArray, heads: int) -> FloatArray:
    """Queries (H, p) to begin with, from the covariances (n, p(p+1)/2) of the same rows."""
    p = loss.p
    whole = of_features(covariances.astype(np.float64), loss.weights, scaled=True)
    ridge = FoldRidge(whole.Z, loss.mean_residual(), loss.weights, np.full(len(covariances), -1))
    found = ridge.whole.solve(START_PENALTY * ridge.unit)
    coef = whole.back(found[:-1], found[-1]).coef
    full = np.zeros((p, p, coef.shape[1]))
    i, j = np.triu_indices(p)
    full[i, j] += coef / 2
    full[j, i] += coef / 2
    _, vectors = np.linalg.eigh(np.einsum("iak,jak->ij", full, full))
    queries = np.zeros((heads, p))
    for h in range(min(heads, p)):
        direction = vectors[:, -1 - h]
        starts = []
        for size in START_SIZES:
            queries[h] = size * direction
            starts.append(loss.value(queries[: h + 1]))
        queries[h] = START_SIZES[int(np.argmin(starts))] * direction
    return queries


def learn_queries(
    z: FloatArray,
    usable: BoolArray,
    covariances: FloatArray,
    Y: FloatArray,
    weights: FloatArray,
    train: IntArray,
    heads: int,
    max_steps: int,
) -> FloatArray:
    """Queries (H, p) for the rows `train` of tokens z (n, T, p), targets (n, k) and row weights (n,)."""
    loss = PooledRidgeLoss(z, usable, Y[train], weights[train], train=train)
    return loss.minimise(start_queries(loss, covariances[train], heads), max_steps)


def _fit(name: str, heads: int | None) -> Any:
    def fit(rows: Any, Y: FloatArray, weights: FloatArray, train: IntArray, options: Any) -> QueryPooling:
        count = options.queries if heads is None else heads
        given = (rows.z, rows.usable, rows.covariances, Y, weights, train)
        return QueryPooling(learn_queries(*given, count, options.max_steps), rows.space, name)

    return fit


register(PoolingSpec("query", "mean, and attention with one learned query", _fit("query", 1), learned=True, cost=10.0))
register(
    PoolingSpec(
        "attention",
        "mean, and attention with several learned queries",
        _fit("attention", None),
        learned=True,
        in_layers=True,
        cost=25.0,
    )
)
