"""Sequences with relevant tokens at unknown places, and a query that looks for them.

A sequence has T tokens, some of which are relevant: ``e = xi mu u + nu k + z``, with xi = ±1 the sign of the sequence,
u and k orthogonal unit vectors and z ~ N(0, I_d). The others are noise, e = z. Which tokens are relevant is drawn by a
law of :mod:`spikepool.world.relevance`. A query q, a unit vector orthogonal to u with overlap m = q·k, scores each
token by h = q·e, and the weights are a function of the scores. What a pooled vector c = sum_t w_t e_t holds of the
signal, of the noise and of the query are three numbers per sequence,

    A = sum of the weights of relevant tokens,    kappa = sum_t w_t²,    f = q·c = sum_t w_t h_t.

Several queries, orthonormal directions q_1, ..., q_p, give p scores per token, and f has p coordinates.

With coloured noise z ~ N(0, S_0) the query is scaled so that the noise of a score has variance 1, q'S_0q = 1. Then
h = s r + N(0, 1) with the strength s = nu q·k, as for white noise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtri

from spikepool.errors import DomainError, InvalidInputError, ShapeError, SizeError, WeightsError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.world.relevance import Chain, Independent, Relevance, Scattered, Span, prior_moments, top_pair

# Kernels that are functions of one score with a slope beta, and those that use the law of the relevance.
KERNELS = ("softmax", "sigmoid", "linear")
POSTERIORS = ("posterior", "optimal")
RELEVANCE = ("scattered", "span", "chain")
Kernel = Callable[[FloatArray], Any]
# Beyond this the squares of a signal or the exponential of a score are no longer doubles.
_LARGEST_STRENGTH = 1e6
_LARGEST_BETA = 1e3
# Scores drawn at a time.
_BLOCK = 1 << 20


class Pooled(NamedTuple):
    """What matters of n pooled sequences.

    A and kappa (n,), f (n, p), and E[A² | scores] (n,) where it is known, A² elsewhere.
    """

    A: FloatArray
    kappa: FloatArray
    f: FloatArray
    square: FloatArray


class Vocabulary(NamedTuple):
    """Scores, signs (+1, −1, or 0 for a neutral token) and relevance (1 or 0) of the V tokens, (V,) each."""

    scores: FloatArray
    signs: FloatArray
    relevant: FloatArray


@dataclass(frozen=True)
class QueryWorld:
    """The data of :class:`spikepool.QueryModel`, whose docstring has the parameters; checked when it is made."""

    d: int
    N: int
    T: int
    L: int
    mu: float
    nu: float
    overlap: float | Sequence[float] = 1.0
    kernel: str | Kernel = "softmax"
    beta: float | None = None
    normalize: bool = True
    V: int | None = None
    relevance: str = "scattered"
    run: float | None = None
    prior: ArrayLike | None = None
    window: int | None = None
    noise: ArrayLike | None = None
    matched: bool = False

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
        put("overlap", self._checked_overlap())
        if not callable(self.kernel):
            put("kernel", check.choice(self.kernel, "kernel", KERNELS + POSTERIORS))
        if self.beta is not None:
            beta = check.finite_number(self.beta, "beta")
            if abs(beta) > _LARGEST_BETA:
                raise DomainError(f"beta must be at most {_LARGEST_BETA:g} in size", beta, "Scores are of order one")
            put("beta", beta)
        put("normalize", check.flag(self.normalize, "normalize"))
        put("matched", check.flag(self.matched, "matched"))
        self._check_relevance(put)
        self._check_directions(put)
        if self.V is not None:
            put("V", check.size(self.V, "V", minimum=2))
            if self.relevant_per_sign < 1 or (self.share < 1 and 2 * self.relevant_per_sign >= self.V):
                raise SizeError(
                    f"V must hold relevant tokens of both signs, and others, at a share of {self.share:.3g}",
                    self.V,
                    f"Use V of at least {int(np.ceil(2 / self.share))}",
                )

    def _checked_overlap(self) -> float | tuple[float, ...]:
        if np.ndim(self.overlap) == 0:
            return check.fraction(self.overlap, "overlap")
        overlaps = check.finite_array(self.overlap, "overlap", ndim=1)
        if overlaps @ overlaps > 1 + check.IDENTITY_TOLERANCE:
            raise DomainError(
                "the squares of the overlaps must sum to at most 1", float(overlaps @ overlaps), "k has unit norm"
            )
        return tuple(overlaps.tolist())

    def _check_relevance(self, put: Callable[[str, Any], None]) -> None:
        put("relevance", check.choice(self.relevance, "relevance", RELEVANCE))
        if self.prior is not None:
            prior = check.finite_array(self.prior, "prior", ndim=1)
            if self.relevance != "scattered":
                raise InvalidInputError("prior is for scattered relevance", self.relevance, "Leave one of them out")
            if len(prior) != self.T or prior.min() < 0 or prior.max() > 1 or prior.sum() == 0:
                raise ShapeError(
                    f"prior must be {self.T} probabilities that are not all 0", prior, "Pass one for each position"
                )
            put("prior", tuple(prior.tolist()))
        if (self.run is not None) != (self.relevance == "chain"):
            raise InvalidInputError("run is the mean run length of a chain", self.run, 'Use both run and "chain"')
        if self.run is not None:
            put("run", check.positive(self.run, "run"))
            if self.L == self.T:
                raise SizeError(f"L must be below T = {self.T} for a chain", self.L, "Leave some tokens irrelevant")
            least = max(1.0, self.L / (self.T - self.L))
            if self.run < least:
                raise DomainError(f"run must be at least {least:.4g} at L/T = {self.L}/{self.T}", self.run, "Raise it")

    def _check_directions(self, put: Callable[[str, Any], None]) -> None:
        if self.window is not None:
            put("window", check.size(self.window, "window"))
            if self.window > self.T:
                raise SizeError(f"window must be at most T = {self.T}", self.window, "Use fewer neighbours")
            if self.kernel != "softmax" and not callable(self.kernel):
                raise InvalidInputError("a window needs a softmax or a callable", self.kernel, 'Use kernel="softmax"')
        if self.directions > 1:
            if self.window is not None or self.V is not None or self.noise is not None:
                raise InvalidInputError(
                    "several directions are for white tokens that never repeat, without a window",
                    self.overlap,
                    "Leave out window, V and noise, or use one overlap",
                )
            if self.kernel in KERNELS:
                raise InvalidInputError(
                    f"kernel {self.kernel!r} takes one score", self.overlap, "Use a callable of scores (n, T, p)"
                )
        if self.noise is None:
            if self.matched:
                raise InvalidInputError("a matched filter needs noise", self.matched, "Pass noise, or matched=False")
            return
        A = check.finite_array(self.noise, "noise")
        if A.ndim not in (1, 2) or len(A) != self.d:
            raise ShapeError(f"noise must be ({self.d},) or ({self.d}, {self.d})", A, "Match d")
        values = A if A.ndim == 1 else np.linalg.eigvalsh(check.symmetric_psd(A, "noise"))
        if values.min() <= 0:
            raise DomainError("noise must be positive definite", float(values.min()), "Pass variances above 0")
        put("noise", tuple(np.sort(values)[::-1].tolist()))

    @property
    def gamma(self) -> float:
        """Aspect ratio d/N."""
        return self.d / self.N

    @property
    def overlaps(self) -> FloatArray:
        """Overlaps of the p directions with k, (p,)."""
        return np.atleast_1d(np.asarray(self.overlap, dtype=np.float64))

    @property
    def directions(self) -> int:
        """p, the number of directions along which tokens are scored."""
        return len(self.overlaps)

    @property
    def expected(self) -> float:
        """Expected number of relevant tokens of a sequence: L, or the sum of the prior."""
        return float(self.L) if self.prior is None else float(np.sum(self.prior))

    @property
    def share(self) -> float:
        """Expected share of relevant tokens."""
        return self.expected / self.T

    @property
    def relevant_per_sign(self) -> int:
        """Tokens of the vocabulary that are relevant with sign +1; as many have sign −1."""
        assert self.V is not None
        return self.V // 2 if self.share == 1 else round(self.V * self.expected / self.T / 2)

    @property
    def strength(self) -> float:
        """Strength s = nu q·k: what a mark adds to the score of a token, in units of the score's noise."""
        if self.noise is None:
            return self.nu * (float(self.overlaps[0]) if self.directions == 1 else self._seen)
        values = np.asarray(self.noise)
        factor = np.sqrt(np.mean(1 / values)) if self.matched else 1 / np.sqrt(np.mean(values))
        return self.nu * float(self.overlaps[0]) * float(factor)

    @property
    def _seen(self) -> float:
        """Norm of k on the directions."""
        return min(1.0, float(np.linalg.norm(self.overlaps)))

    @property
    def missed(self) -> float:
        """Norm of the mark nu k off the query, nu sqrt(1 − m²)."""
        return self.nu * float(np.sqrt(1 - self._seen**2))

    @property
    def slope(self) -> float:
        """`beta`, or what it is when not given."""
        if self.beta is not None:
            return self.beta
        if self.kernel != "softmax":
            return self.strength
        if self.window is not None:
            return self.strength * self.window
        return dilute_beta(self.strength, self.expected, self.T)

    @cached_property
    def relevance_law(self) -> Relevance:
        """The law of the relevant places."""
        if self.prior is not None:
            return Independent(np.asarray(self.prior))
        if self.relevance == "span":
            return Span(self.T, self.L)
        if self.run is not None:
            return Chain(self.T, self.L / self.T, self.run)
        return Scattered(self.T, self.L)

    @cached_property
    def mean_gain(self) -> float:
        """alpha/kappa of mean pooling, E[(sum_t r_t)²]/T; L²/T where exactly L tokens are relevant."""
        if self.prior is None and self.run is None:
            return self.L**2 / self.T
        return float(prior_moments(self.relevance_law).sum()) / self.T

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **check.fields(self, changes))

    def whitened(self) -> Self:
        """The model of the whitened tokens S_0^{-1/2} e, which have white noise.

        mu² and nu² are multiplied by the mean of the inverse eigenvalues of S_0 (u'S_0^{-1}u for a generic u), and the
        overlap is that of S_0^{1/2} q with S_0^{-1/2} k, which is `overlap` for the matched filter.
        """
        if self.noise is None:
            return self.replace()
        scale = float(np.sqrt(np.mean(1 / np.asarray(self.noise))))
        overlap = self.strength / (self.nu * scale) if self.nu > 0 else self.overlap
        return self.replace(noise=None, matched=False, mu=self.mu * scale, nu=self.nu * scale, overlap=overlap)

    def token_alignment(self, alignment: float) -> float:
        """Alignment with u in token space, from that of a direction found in whitened tokens.

        a/(a + (1 − a) c) with c the mean of the inverse eigenvalues of S_0 times the mean of its eigenvalues, at
        least 1: S_0^{1/2} brings a direction v = sqrt(a) u~ + sqrt(1 − a) noise back to the tokens.
        """
        a = check.fraction(alignment, "alignment")
        values = np.ones(1) if self.noise is None else np.asarray(self.noise)
        return float(a / (a + (1 - a) * np.mean(1 / values) * np.mean(values)))

    def evidence(self, scores: FloatArray) -> FloatArray:
        """Log-likelihood ratio (n, T) of relevance: s h − s²/2, over all directions."""
        if scores.ndim == 2:
            return self.strength * scores - self.strength**2 / 2
        return np.asarray(self.nu * (scores @ self.overlaps) - self.strength**2 / 2)

    def weights(self, scores: FloatArray) -> FloatArray:
        """Weights (n, T) of tokens with these scores, (n, T) or (n, T, p)."""
        return self.weights_and_square(scores)[0]

    def weights_and_square(self, scores: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Weights (n, T), and E[A² | scores] (n,) where the kernel comes with it."""
        if self.kernel == "posterior":
            evidence = self.evidence(scores)
            p = self.relevance_law.posterior(evidence)[1]
            w = p / np.sqrt(1 + self.mu**2 * np.einsum("nt,nt->n", p, p))[:, None]
            return w, self.relevance_law.quadratic(evidence, w)
        if self.kernel == "optimal":
            value, vector = top_pair(self.relevance_law.moments(self.evidence(scores)))
            value = np.maximum(value, 0.0)
            square = value / (1 + self.mu**2 * value)
            return vector * np.sqrt(square)[:, None], value * square
        w = self._raw_weights(scores) if self.window is None else self._window_weights(scores)
        if not self.normalize:
            return w, None
        total = w.sum(axis=1, keepdims=True)
        size = np.abs(w).sum(axis=1, keepdims=True)
        if np.any(np.abs(total) < check.IDENTITY_TOLERANCE * size):
            raise WeightsError(
                "the weights of a sequence sum to zero and cannot be normalised",
                remedy="Use normalize=False, or weights of one sign",
            )
        return np.where(size > 0, w / np.where(size > 0, total, 1.0), 1 / scores.shape[1]), None

    def _window_weights(self, scores: FloatArray) -> FloatArray:
        """Weights of tokens under a mean of neighbours and the kernel on the scores of these means."""
        assert self.window is not None
        means = np.lib.stride_tricks.sliding_window_view(scores, self.window, axis=1).mean(axis=-1)
        of_means = self._raw_weights(means) / self.window
        w = np.zeros_like(scores)
        for i in range(self.window):
            w[:, i : i + means.shape[1]] += of_means
        return w

    def _raw_weights(self, scores: FloatArray) -> FloatArray:
        if callable(self.kernel):
            w = check.finite_array(self.kernel(scores), "weights returned by the kernel", ndim=2)
            if w.shape != scores.shape[:2]:
                raise WeightsError(f"the kernel must return weights of shape {scores.shape[:2]}", w, "Keep the shape")
        elif self.kernel == "softmax":
            # normalised weights do not change with a constant in the exponent; others must not lose it
            top = scores * self.slope
            w = np.exp(top - top.max(axis=1, keepdims=True)) if self.normalize else np.exp(np.minimum(top, 200.0))
        elif self.kernel == "sigmoid":
            with np.errstate(divide="ignore"):  # every token is relevant at L = T
                if self.prior is None:
                    prior = np.log(self.L) - np.log(self.T - self.L)
                else:
                    prior = np.log(np.asarray(self.prior)) - np.log1p(-np.asarray(self.prior))
            w = np.asarray(expit(self.slope * (scores - self.strength / 2) + prior))
        else:
            w = np.maximum(0.0, 1 + self.slope * scores)
        check.moderate_weights(w)
        return w

    @property
    def _places_matter(self) -> bool:
        """Whether the weights may look at the place of a token: a callable may, and a window does."""
        return callable(self.kernel) or self.window is not None

    def draw_relevance(self, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Which tokens of `n` sequences are relevant, (n, T); the first L where the place plays no part."""
        if not isinstance(self.relevance_law, Scattered):
            return self.relevance_law.draw(n, rng)
        relevant = np.zeros((n, self.T), dtype=bool)
        relevant[:, : self.L] = True
        return np.asarray(rng.permuted(relevant, axis=1)) if self._places_matter else relevant

    def relevance_blocks(self, n: int, rng: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
        """`draw_relevance` in blocks of as many sequences as are handled at a time."""
        step = max(1, _BLOCK // (self.T * self.cost))
        for start in range(0, n, step):
            yield self.draw_relevance(min(step, n - start), rng)

    def draw_scores(self, relevant: NDArray[np.bool_], rng: np.random.Generator) -> FloatArray:
        """Scores of tokens that never repeat, (n, T), or (n, T, p) for several directions."""
        if self.directions == 1:
            return rng.standard_normal(relevant.shape) + self.strength * relevant
        noise = rng.standard_normal((*relevant.shape, self.directions))
        return np.asarray(noise + self.nu * self.overlaps * relevant[..., None])

    def draw_pooled(self, n: int, rng: np.random.Generator) -> Pooled:
        """(A, kappa, f) of `n` sequences whose tokens never repeat."""
        result = Pooled(np.empty(n), np.empty(n), np.empty((n, self.directions)), np.empty(n))
        start = 0
        for relevant in self.relevance_blocks(n, rng):
            rows = slice(start, start + len(relevant))
            start = rows.stop
            h = self.draw_scores(relevant, rng)
            w, square = self.weights_and_square(h)
            result.A[rows] = (w * relevant).sum(axis=1)
            result.kappa[rows] = np.einsum("nt,nt->n", w, w)
            result.f[rows] = np.einsum("nt,ntp->np", w, h if h.ndim == 3 else h[..., None])
            result.square[rows] = result.A[rows] ** 2 if square is None else square
        return result

    @property
    def cost(self) -> int:
        """Numbers handled per token for the weights of a sequence."""
        return self.T if self.kernel in POSTERIORS or getattr(self.kernel, "pairwise", False) else 1

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
        return Vocabulary(noise + self.strength * relevant, signs, relevant)

    def draw_tokens(self, rng: np.random.Generator) -> tuple[NDArray[np.int32], FloatArray]:
        """Token ids (N, T) and the signs xi (N,) of the sequences."""
        assert self.V is not None
        R = self.relevant_per_sign
        xi = rng.integers(0, 2, self.N) * 2.0 - 1
        tokens = np.empty((self.N, self.T), dtype=np.int32)
        if not isinstance(self.relevance_law, Scattered):
            relevant = self.relevance_law.draw(self.N, rng)
            tokens[:] = 2 * rng.integers(0, R, tokens.shape) + (xi < 0)[:, None]
            if not relevant.all():
                tokens[~relevant] = rng.integers(2 * R, self.V, int((~relevant).sum()))
            return tokens, np.asarray(xi, dtype=np.float64)
        tokens[:, : self.L] = 2 * rng.integers(0, R, (self.N, self.L)) + (xi < 0)[:, None]
        if self.L < self.T:
            tokens[:, self.L :] = rng.integers(2 * R, self.V, (self.N, self.T - self.L))
        if self._places_matter:
            tokens[:] = rng.permuted(tokens, axis=1)
        return tokens, np.asarray(xi, dtype=np.float64)


def check_white(world: QueryWorld, what: str) -> None:
    """Raise unless the tokens never repeat and their noise is white."""
    if world.V is not None:
        raise InvalidInputError(f"{what} is for tokens that never repeat", world.V, "Use replace(V=None)")
    if world.noise is not None:
        raise InvalidInputError(f"{what} is for white noise", "noise", "Use whitened()")


def dilute_beta(strength: float, L: float, T: int) -> float:
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
