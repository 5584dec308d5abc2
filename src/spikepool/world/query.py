"""Sequences with relevant tokens at unknown places, and a query that looks for them.

A sequence has T tokens, L of which are relevant: ``e = xi mu u + nu k + z``, with xi = ±1 the sign of the sequence, u
and k orthogonal unit vectors and z ~ N(0, I_d). The others are noise, e = z. A query q, a unit vector orthogonal to u
with overlap m = q·k, scores each token by h = q·e, and the weights are a function of the scores. What a pooled vector
c = sum_t w_t e_t holds of the signal, of the noise and of the query are three numbers per sequence,

    A = sum of the weights of relevant tokens,    kappa = sum_t w_t²,    f = q·c = sum_t w_t h_t.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from spikepool.errors import DomainError, SizeError, WeightsError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray

KERNELS = ("softmax", "sigmoid", "linear")
Kernel = Callable[[FloatArray], Any]
# Beyond this the squares of a signal or the exponential of a score are no longer doubles.
_LARGEST_STRENGTH = 1e6
_LARGEST_BETA = 1e3
# Scores drawn at a time.
_BLOCK = 1 << 20


class Pooled(NamedTuple):
    """What matters of the pooled sequences: one number each, (n,)."""

    A: FloatArray
    kappa: FloatArray
    f: FloatArray


class Vocabulary(NamedTuple):
    """Scores, signs (+1, −1, or 0 for a neutral token) and relevance (1 or 0) of the V tokens, (V,) each."""

    scores: FloatArray
    signs: FloatArray
    relevant: FloatArray


@dataclass(frozen=True)
class QueryWorld:
    """Sequences whose few relevant tokens are found by a query (content attention).

    L of the T tokens of a sequence are relevant, at unknown places: ``e = xi mu u + nu k + z``, where xi = ±1 is the
    sign of the sequence; the others are noise, ``e = z``. A query of overlap m with k scores tokens by ``h = q·e`` and
    pools with weights f(h). The query direction is then projected out of the pooled vectors, their mean is subtracted,
    and S is their covariance.

    Parameters
    ----------
    d, N, T, L : int
        Embedding dimension, number of sequences, tokens per sequence, relevant tokens per sequence.
    mu, nu : float
        Norm of the signal, and of the mark that makes a token relevant.
    overlap : float
        m = q·k, between 0 and 1.
    kernel : {"softmax", "sigmoid", "linear"} or callable
        Weight of a token as a function of its score:
        exp(beta h); sigma(beta (h − nu m/2) + log(L/(T − L))), which for beta = nu m is the posterior probability that
        the token is relevant; max(0, 1 + beta h); or any function of scores (n, T) that returns weights (n, T).
    beta : float, optional
        Slope of the weights in the score, the inverse temperature. When not given, the slope that maximises
        E[A]²/E[kappa] of weights that are not normalised: nu m, and for the softmax nu m (1 − pi), pi the share of the
        relevant tokens in E[kappa].
    normalize : bool
        Whether weights are divided by their sum over the sequence. A sequence whose weights are all zero gets equal
        ones.
    V : int, optional
        Size of the vocabulary. V·L/T of its tokens are relevant, half of them of each sign; tokens of a kind are
        equally frequent, and the scores are frozen with the table. When not given, tokens never repeat.
    """

    d: int
    N: int
    T: int
    L: int
    mu: float
    nu: float
    overlap: float = 1.0
    kernel: str | Kernel = "softmax"
    beta: float | None = None
    normalize: bool = True
    V: int | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("d", check.size(self.d, "d", minimum=4))
        put("N", check.size(self.N, "N", minimum=2))
        put("T", check.size(self.T, "T"))
        put("L", check.size(self.L, "L"))
        if self.L > self.T:
            raise SizeError(f"L must be at most T = {self.T}", self.L, "At most all tokens are relevant")
        for name in ("mu", "nu"):
            value = check.non_negative(getattr(self, name), name)
            if value > _LARGEST_STRENGTH:
                raise DomainError(f"{name} must be at most {_LARGEST_STRENGTH:g}", value, "Use units of the noise")
            put(name, value)
        put("overlap", check.fraction(self.overlap, "overlap"))
        if not callable(self.kernel):
            put("kernel", check.choice(self.kernel, "kernel", KERNELS))
        if self.beta is not None:
            beta = check.finite_number(self.beta, "beta")
            if abs(beta) > _LARGEST_BETA:
                raise DomainError(f"beta must be at most {_LARGEST_BETA:g} in size", beta, "Scores are of order one")
            put("beta", beta)
        put("normalize", check.flag(self.normalize, "normalize"))
        if self.V is not None:
            put("V", check.size(self.V, "V", minimum=2))
            if self.relevant_per_sign < 1 or (self.L < self.T and 2 * self.relevant_per_sign >= self.V):
                raise SizeError(
                    f"V must hold relevant tokens of both signs, and others, at L/T = {self.L / self.T:.3g}",
                    self.V,
                    f"Use V of at least {int(np.ceil(2 * self.T / self.L))}",
                )

    @property
    def gamma(self) -> float:
        """Aspect ratio d/N."""
        return self.d / self.N

    @property
    def relevant_per_sign(self) -> int:
        """Tokens of the vocabulary that are relevant with sign +1; as many have sign −1."""
        assert self.V is not None
        return self.V // 2 if self.L == self.T else round(self.V * self.L / self.T / 2)

    @property
    def missed(self) -> float:
        """Norm of the mark nu k off the query, nu sqrt(1 − m²)."""
        return self.nu * float(np.sqrt(1 - self.overlap**2))

    @property
    def slope(self) -> float:
        """`beta`, or what it is when not given."""
        if self.beta is not None:
            return self.beta
        strength = self.nu * self.overlap
        return dilute_beta(strength, self.L, self.T) if self.kernel == "softmax" else strength

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **check.fields(self, changes))

    def weights(self, scores: FloatArray) -> FloatArray:
        """Weights (n, T) of tokens with these scores (n, T)."""
        w = self._raw_weights(scores)
        if not self.normalize:
            return w
        total = w.sum(axis=1, keepdims=True)
        size = np.abs(w).sum(axis=1, keepdims=True)
        if np.any(np.abs(total) < check.IDENTITY_TOLERANCE * size):
            raise WeightsError(
                "the weights of a sequence sum to zero and cannot be normalised",
                remedy="Use normalize=False, or weights of one sign",
            )
        return np.where(size > 0, w / np.where(size > 0, total, 1.0), 1 / scores.shape[1])

    def _raw_weights(self, scores: FloatArray) -> FloatArray:
        if callable(self.kernel):
            w = check.finite_array(self.kernel(scores), "weights returned by the kernel", ndim=2)
            if w.shape != scores.shape:
                raise WeightsError(f"the kernel must return weights of shape {scores.shape}", w, "Keep the shape")
        elif self.kernel == "softmax":
            # normalised weights do not change with a constant in the exponent; others must not lose it
            top = scores * self.slope
            w = np.exp(top - top.max(axis=1, keepdims=True)) if self.normalize else np.exp(np.minimum(top, 200.0))
        elif self.kernel == "sigmoid":
            with np.errstate(divide="ignore"):  # every token is relevant at L = T
                prior = np.log(self.L) - np.log(self.T - self.L)
            w = np.asarray(expit(self.slope * (scores - self.nu * self.overlap / 2) + prior))
        else:
            w = np.maximum(0.0, 1 + self.slope * scores)
        check.moderate_weights(w)
        return w

    def draw_pooled(self, n: int, rng: np.random.Generator) -> Pooled:
        """(A, kappa, f) of `n` sequences whose tokens never repeat."""
        result = Pooled(np.empty(n), np.empty(n), np.empty(n))
        step = max(1, _BLOCK // self.T)
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            relevant = np.zeros((rows.stop - rows.start, self.T), dtype=bool)
            relevant[:, : self.L] = True
            if callable(self.kernel):  # which may look at the place
                relevant = rng.permuted(relevant, axis=1)
            h = rng.standard_normal(relevant.shape) + self.nu * self.overlap * relevant
            w = self.weights(h)
            result.A[rows] = (w * relevant).sum(axis=1)
            result.kappa[rows] = np.einsum("nt,nt->n", w, w)
            result.f[rows] = np.einsum("nt,nt->n", w, h)
        return result

    def vocabulary(self, rng: np.random.Generator | None = None) -> Vocabulary:
        """The vocabulary: scores drawn by `rng`, or the quantiles of their law when it is None."""
        assert self.V is not None
        R = self.relevant_per_sign
        signs = np.zeros(self.V)
        signs[: 2 * R : 2], signs[1 : 2 * R : 2] = 1.0, -1.0
        if rng is None:
            parts = [ndtri((np.arange(n) + 0.5) / n) for n in (2 * R, self.V - 2 * R) if n]
            noise = np.concatenate(parts)
        else:
            noise = rng.standard_normal(self.V)
        relevant = np.abs(signs)
        return Vocabulary(noise + self.nu * self.overlap * relevant, signs, relevant)

    def draw_tokens(self, rng: np.random.Generator) -> tuple[NDArray[np.int32], FloatArray]:
        """Token ids (N, T) and the signs xi (N,) of the sequences."""
        assert self.V is not None
        R = self.relevant_per_sign
        xi = rng.integers(0, 2, self.N) * 2.0 - 1
        tokens = np.empty((self.N, self.T), dtype=np.int32)
        tokens[:, : self.L] = 2 * rng.integers(0, R, (self.N, self.L)) + (xi < 0)[:, None]
        if self.L < self.T:
            tokens[:, self.L :] = rng.integers(2 * R, self.V, (self.N, self.T - self.L))
        if callable(self.kernel):  # which may look at the place
            tokens[:] = rng.permuted(tokens, axis=1)
        return tokens, np.asarray(xi, dtype=np.float64)


def dilute_beta(strength: float, L: int, T: int) -> float:
    """The beta that maximises E[A]²/E[kappa] of weights exp(beta h) that are not normalised.

    With ``strength = nu m``, E[A] = L e^{beta nu m + beta²/2} and E[kappa] = e^{2 beta²}(L e^{2 beta nu m} + T − L), so

        beta = nu m (1 − pi),    pi = L e^{2 beta nu m}/(L e^{2 beta nu m} + T − L),

    which has one root; for L << T it is nu m, with a gain over the mean of e^{(nu m)²}.
    """
    if strength == 0 or L == T:
        return 0.0
    low, high = 0.0, strength
    odds = np.log(L) - np.log(T - L)
    for _ in range(200):
        beta = (low + high) / 2
        if beta < strength * float(expit(-(2 * beta * strength + odds))):
            low = beta
        else:
            high = beta
    return (low + high) / 2
