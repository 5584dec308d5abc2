r"""Scores s_nth whose softmax over the tokens of a sequence are pooling weights, as functions of few parameters.

**Query** (attentive pooling): one vector q, s_nt = q·z_nt / rms(z_nt). Weights follow the content of a token.

**Position heads**: H pairs of vectors, s_nth = a_h[t] + b_h[L_n − 1 − t], t counted over the L_n observed tokens of the
sequence: from the start *and* from the end, because sequences of unequal length are aligned at one or the other.

Each knows how to pull a gradient with respect to the scores back to its parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.pooling.places import places


class Scores(Protocol):
    """Scores of the tokens of n sequences as a function of parameters."""

    @property
    def heads(self) -> int:
        """Number of weights of each token."""

    def start(self) -> FloatArray:
        """Parameters to begin with."""

    def scores(self, parameters: FloatArray) -> FloatArray:
        """(n, heads, T)."""

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Gradient by parameters from the gradient by scores (n, heads, T)."""


def inverse_rms(z: FloatArray) -> FloatArray:
    """1/rms of each token (n, T); 0 for a token of zeros."""
    rms = np.sqrt(np.einsum("ntp,ntp->nt", z, z) / z.shape[2])
    return np.asarray(np.divide(1.0, rms, out=np.zeros_like(rms), where=rms > 0))


class QueryScores:
    """s_nt = q·z_nt/rms(z_nt) for tokens z (n, T, p)."""

    heads = 1

    def __init__(self, z: FloatArray) -> None:
        self.z = z
        self.inverse = inverse_rms(z)

    def start(self) -> FloatArray:
        """Q = 0: the mean."""
        return np.zeros(self.z.shape[2])

    def scores(self, parameters: FloatArray) -> FloatArray:
        """(n, 1, T)."""
        return np.asarray((self.z @ parameters * self.inverse)[:, None, :])

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Sum of ds_nt z_nt/rms(z_nt)."""
        T, p = self.z.shape[1:]
        return np.asarray((gradient[:, 0] * self.inverse).reshape(-1) @ self.z.reshape(len(self.z) * T, p))


@dataclass(frozen=True, eq=False)
class PositionScores:
    """s_nth = a_h[place from the start] + b_h[place from the end]; parameters (heads, 2, T), flattened."""

    from_start: NDArray[np.intp]
    from_end: NDArray[np.intp]
    heads: int

    @classmethod
    def of(cls, observed: BoolArray, heads: int) -> PositionScores:
        """For sequences with the given observed tokens."""
        return cls(*places(observed), heads)

    @property
    def T(self) -> int:
        """Number of positions."""
        return int(self.from_start.shape[1])

    def start(self) -> FloatArray:
        """Heads at the mean, the last and the first token, the ramp; further ones on stretches in between."""
        return position_start(self.heads, self.T).reshape(-1)

    def scores(self, parameters: FloatArray) -> FloatArray:
        """(n, heads, T)."""
        a, b = parameters.reshape(self.heads, 2, self.T).transpose(1, 0, 2)
        return np.asarray((a[:, self.from_start] + b[:, self.from_end]).swapaxes(0, 1))

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """Sums of the gradient by place."""
        result = np.empty((self.heads, 2, self.T))
        for h in range(self.heads):
            by_token = gradient[:, h].reshape(-1)
            for side, place in enumerate((self.from_start, self.from_end)):
                result[h, side] = np.bincount(place.reshape(-1), by_token, minlength=self.T)
        return result.reshape(-1)


def position_start(heads: int, T: int) -> FloatArray:
    """Starting parameters (heads, 2, T) of position heads."""
    start = np.zeros((heads, 2, T))
    # e·T against T − 1 tokens with score 0: about three quarters of the weight
    peak = 1.0 + np.log(T)
    places_ = np.arange(T)
    for h in range(1, heads):
        if h == 1:
            start[h, 1, 0] = peak
        elif h == 2:
            start[h, 0, 0] = peak
        elif h == 3:
            ramp = np.log1p(places_)
            start[h, 0] = ramp - ramp.mean()
        else:
            centre = (h - 3) * T / (heads - 3)
            start[h, 0] = -(((places_ - centre) * (heads - 3) / T) ** 2)
    return start


def softmax_weights(scores: FloatArray, observed: BoolArray) -> FloatArray:
    """Weights (n, heads, T): the softmax of the scores over observed tokens; zeros in a row without any."""
    seen = observed[:, None, :]
    top = np.max(scores, axis=-1, keepdims=True, where=seen, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    weights = np.exp(np.minimum(scores - top, 0.0)) * seen
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights / np.where(total > 0, total, 1.0))
