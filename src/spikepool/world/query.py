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

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from spikepool.errors import InvalidInputError, WeightsError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.world.query_fields import POSTERIORS, QueryFields
from spikepool.world.relevance import Scattered, top_pair

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


class QueryWorld(QueryFields):
    """The weights that a query gives to tokens, and draws of scores, relevance and tokens."""

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
        """Whether the weights may look at the place of a token.

        A callable may, and a window does; so does the top eigenvector where scores say nothing and places are ties.
        """
        tied = self.kernel == "optimal" and self.strength == 0
        return callable(self.kernel) or self.window is not None or tied

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
