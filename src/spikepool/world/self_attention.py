"""Stacks of self-attention layers as pooling weights: functions of the scores of a sequence alone.

Tokens x_t (d,) with values equal to themselves go through layers

    x_t ← rho x_t + (1 − rho) sum_s A_ts x_s,      A_ts ∝ exp(h_t' M h_s),      h_t = Q'x_t the scores of the layer,

and are pooled at the end. By induction x = W E with W (T × T) a function of the first scores H = E Q, so that the
result is c = sum_t w_t e_t with weights w(H) that sum to one: content attention of section "any stack" of
:mod:`spikepool.theory.query`, at the cost of T² p numbers per sequence and never of d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import InvalidInputError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray

POOLS = ("mean", "last", "query")
# Entries of the attention matrices of a block of sequences.
_BLOCK = 1 << 22


@dataclass(frozen=True)
class SelfAttention:
    """Weights of a stack; made by :func:`self_attention`. Call it on scores (n, T) or (n, T, p)."""

    beta: tuple[tuple[float, ...], ...]
    layers: int
    residual: float
    causal: bool
    pool: str

    # the weights of a sequence cost its pairs of tokens
    pairwise: ClassVar[bool] = True

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Weights (n, T), each row summing to one."""
        M = np.array(self.beta)
        x = scores[..., None] if scores.ndim == 2 else scores
        if x.ndim != 3 or x.shape[2] != len(M):
            raise ShapeError(f"these layers take scores along {len(M)} directions", scores, "Match beta and overlap")
        step = max(1, _BLOCK // (x.shape[1] ** 2 * self.layers))
        return np.concatenate([self._weights(x[i : i + step], M) for i in range(0, len(x), step)])

    def _weights(self, x: FloatArray, M: FloatArray) -> FloatArray:
        n, T, _ = x.shape
        layers = []
        for _ in range(self.layers):
            A = np.einsum("ntp,pq,nsq->nts", x, M, x, optimize=True)
            if self.causal:
                A[:, np.triu(np.ones((T, T), dtype=bool), 1)] = -np.inf
            layers.append(_softmax(A))
            x = self.residual * x + (1 - self.residual) * layers[-1] @ x
        if self.pool == "mean":
            w = np.full((n, T), 1 / T)
        elif self.pool == "last":
            w = np.zeros((n, T))
            w[:, -1] = 1.0
        else:
            w = _softmax(M[0, 0] * x[..., 0])
        for A in reversed(layers):
            w = self.residual * w + (1 - self.residual) * np.einsum("nt,nts->ns", w, A)
        return w


def _softmax(scores: FloatArray) -> FloatArray:
    top = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(top / top.sum(axis=-1, keepdims=True))


def self_attention(
    beta: ArrayLike, layers: int = 1, residual: float = 0.0, causal: bool = False, pool: str = "mean"
) -> SelfAttention:
    """A stack of self-attention layers as a kernel of :class:`spikepool.QueryModel`.

    Layer: ``x_t ← residual x_t + (1 − residual) sum_s A_ts x_s`` with A_ts the softmax over s of ``beta h_t h_s``,
    h = q·x. The result is a function of scores (n, T) that returns weights (n, T) which sum to one.

    Parameters
    ----------
    beta : float or array_like of shape (p, p)
        Slope of the scores; a matrix M for scores ``h_t'M h_s`` along p directions (a model with p overlaps).
    layers : int
        Number of layers.
    residual : float
        Share of the residual stream, from 0 to 1.
    causal : bool
        Whether a token attends only to itself and earlier ones.
    pool : {"mean", "last", "query"}
        The mean over tokens, the last token, or a softmax of the last scores at slope `beta`.

    Examples
    --------
    >>> import spikepool as sp
    >>> q = sp.QueryModel(d=200, N=800, T=20, L=3, mu=1.2, nu=2.0, kernel=sp.self_attention(0.6))
    >>> round(q.predict().alignment, 2)
    0.74
    """
    given = check.finite_array(beta, "beta")
    M = given.reshape(1, 1) if given.ndim == 0 else given
    if M.ndim != 2 or M.shape[0] != M.shape[1]:
        raise ShapeError("beta must be a number or a (p, p) matrix", given, "Pass one slope for each pair")
    pool = check.choice(pool, "pool", POOLS)
    if pool == "query" and len(M) > 1:
        raise InvalidInputError("pooling by a query needs one direction", given, 'Use pool="mean" or "last"')
    return SelfAttention(
        tuple(map(tuple, M.tolist())),
        check.size(layers, "layers"),
        check.fraction(residual, "residual"),
        check.flag(causal, "causal"),
        pool,
    )
