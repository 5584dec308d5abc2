"""Law of what a query makes of a sequence: its usage, and the pooled signs, relevance and scores seen by it.

Given the scores, sequence n has the signal gain A_n, the noise gain kappa_n and the pooled scores f_n. Tokens that
never repeat have B'B = diag(kappa_n). A finite vocabulary has B'B = (V/N) W'W, and the signs +1, −1 and 0 of the tokens
as signal.

The law is that of N sequences, not of infinitely many: kappa has a heavy tail, and the few sequences whose attention
falls on one token are outliers of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.laws.measures import non_negative
from spikepool.theory.general_spikes import Measure
from spikepool.theory.token_usage import Usage, sample_usage
from spikepool.theory.usage_pairs import TOP, TopPairs
from spikepool.world.pooling_matrix import Projection, token_matrix
from spikepool.world.query import QueryWorld, Vocabulary

# Quantiles of kappa: the largest one per sequence, the rest in equal shares.
_SINGLE, _SHARES = 256, 1792
# Usage matrices up to this size are diagonalised once for all three vectors.
_DENSE = 3000


@dataclass(frozen=True)
class QueryUsage:
    """One usage seen by the vectors xi A, A and f_1, ..., f_p, the last ones centred, with E[A²] and E[kappa].

    `right` has the coordinates of these 2 + p vectors; its first rows are the top pairs of `signal`. A usage too large
    to be diagonalised has none, but one usage more for each of A and f.
    """

    signal: Usage
    alpha: float
    kappa: float
    covariance: FloatArray  # of (A, f_1, ..., f_p)
    right: Measure | None
    others: tuple[Usage, ...] = ()
    spread: float = 0.0  # Var(A²)/E[A²]²


def token_draws(world: QueryWorld, *, sequences: int = 4000, most: int = 10) -> int:
    """Draws of the tokens of a finite vocabulary: with about so many `sequences` together, and at most so many."""
    return 1 if world.V is None else int(np.clip(round(sequences / world.N), 1, most))


def query_usage(world: QueryWorld, rng: int, draw: int = 0, *, regressed: bool = True) -> QueryUsage:
    """Draw 0 is at quantiles, of kappa or of the scores of a vocabulary; the others are as simulations draw them."""
    seed = check.size(rng, "rng", minimum=0)
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(draw,) if draw else ()))
    if world.V is None:
        return _quantile_usages(world, generator, world.N if draw else sequence_draws(world))
    vocabulary = world.vocabulary(generator if draw else None)
    return _token_usages(world, vocabulary, generator, regressed and world.noise is not None)


def sequence_draws(world: QueryWorld, *, each: int = 32, sequences: int = 1 << 19, scores: int = 1 << 22) -> int:
    """Sequences to draw for the law of (A, kappa, f).

    Parameters
    ----------
    world : QueryWorld
        The model.
    each : int
        Draws for each of the N sequences, at most. Quantiles of 32 leave .002 of the scatter of a single draw's
        alignment (d = 200, N = 800, T = 20).
    sequences : int
        Beyond this many sequences each draw stands for several.
    scores : int
        Scores to draw in all; twice as many where a kernel costs more than its scores.
    """
    draws = min(world.N, max(sequences // world.cost, _SINGLE + _SHARES))
    budget = scores if world.cost == 1 else 2 * scores
    return draws * int(np.clip(budget // (draws * world.T * world.cost), 1, each))


def _quantile_usages(world: QueryWorld, rng: np.random.Generator, draws: int) -> QueryUsage:
    """B'B = diag(kappa_n) at the quantiles of kappa, with the mean squares of xi A, A and f around each."""
    N = world.N
    pooled = world.draw_pooled(draws, rng)
    order = np.argsort(-pooled.kappa, kind="stable")
    kappa, square = pooled.kappa[order], pooled.square[order]
    b = np.column_stack([pooled.A, pooled.f])[order]
    b -= b.mean(axis=0)
    if N <= _SINGLE + _SHARES:
        starts = np.round(np.arange(N) * (draws / N)).astype(np.intp)
    else:  # the largest kappa one by one, the rest in equal shares
        single = np.arange(_SINGLE) * (draws / N)
        rest = np.linspace(_SINGLE * (draws / N), draws, _SHARES + 1)[:-1]
        starts = np.unique(np.concatenate([single, rest]).astype(np.intp))
    counts = np.diff(np.append(starts, draws))

    def mean(values: FloatArray) -> FloatArray:
        shape = (-1, *np.ones(values.ndim - 1, dtype=int))
        return np.asarray(np.add.reduceat(values, starts, axis=0) / counts.reshape(shape))

    values, weights = mean(kappa), counts / draws
    signal = np.sqrt(mean(square) * weights)
    usage = diagonal_usage(values, weights, signal, N)
    # around each quantile (A, f) has a second moment matrix, whose square root are as many rows of coordinates; that of
    # a single sequence is its top eigenvector
    t, basis = np.linalg.eigh(mean(b[:, :, None] * b[:, None, :]))
    rows = np.sqrt(np.maximum(t, 0.0) * weights[:, None])[:, :, None] * basis.swapaxes(1, 2)
    k, r = len(usage.top), b.shape[1]
    top = np.column_stack([signal[:k], rows[:k, -1]])
    alone = np.column_stack([signal[k:], np.zeros((len(values) - k, r))])
    rest_rows = np.column_stack([np.zeros((len(values) - k) * r), rows[k:].reshape(-1, r)])
    right = Measure(np.concatenate([values, np.repeat(values[k:], r)]), np.concatenate([top, alone, rest_rows]))
    alpha, A2 = float(np.mean(square)), pooled.A**2
    spread = float(np.var(A2) / np.mean(A2) ** 2) if A2.any() else 0.0
    covariance = np.atleast_2d(np.cov(b.T, bias=True))
    return QueryUsage(usage, alpha, float(kappa.mean()), covariance, right, spread=spread)


def diagonal_usage(values: FloatArray, weights: FloatArray, b: FloatArray, size: int) -> Usage:
    """A usage whose eigenvectors play no part: descending values, their masses, and coordinates of the signal."""
    single = int(np.argmin(np.append(weights * size < 1.5, False)))  # the first ones are one direction each
    k = min(TOP, single, len(values) - 1)
    nothing = np.broadcast_to(0.0, (size, k))
    top = TopPairs(values[:k], nothing, b[:k], np.zeros(k))
    measure = Measure(values[k:], b[k:, None])
    return Usage(top, values[k:], weights[k:], measure, np.broadcast_to(0.0, size), float(b @ b), False)


def _token_usages(world: QueryWorld, vocabulary: Vocabulary, rng: np.random.Generator, regressed: bool) -> QueryUsage:
    """B'B = (V/N) W'W of drawn tokens, centred, at the pooled signs, the pooled relevance and the pooled scores.

    Where pooled vectors are regressed on their scores, the scores are projected out of the sequences.
    """
    assert world.V is not None
    tokens, _ = world.draw_tokens(rng)
    W_t = token_matrix(tokens, world.weights(vocabulary.scores[tokens]), world.V)
    vectors = np.stack([vocabulary.signs, vocabulary.relevant, vocabulary.scores])
    pooled = np.asarray(W_t @ vectors.T)
    alpha = float(np.mean(pooled[:, 0] ** 2))
    kappa = float((W_t.data @ W_t.data) / world.N)
    b = (pooled - pooled.mean(axis=0)) / np.sqrt(world.N)
    covariance = b[:, 1:].T @ b[:, 1:]
    f = b[:, 2] / (float(np.linalg.norm(b[:, 2])) or 1.0)
    if regressed:
        b[:, :2] -= np.outer(f, f @ b[:, :2])
    if min(world.N, world.V) > _DENSE:
        three = [sample_usage(W_t, None, x, centered=True, project=Projection(None), rng=0) for x in vectors]
        return QueryUsage(three[0], alpha, kappa, covariance, None, (three[1], three[2]))
    scale = world.V / world.N
    if world.N <= world.V:
        M = scale * (W_t @ W_t.T).toarray()
        M += M.mean() - M.mean(axis=0) - M.mean(axis=1)[:, None]
        if regressed:
            image = M @ f
            M += (f @ image) * np.outer(f, f) - np.outer(f, image) - np.outer(image, f)
        t, basis = np.linalg.eigh(M)
        t, coordinates = non_negative(t, "usage", float(t[-1]))[::-1], (basis.T @ b)[::-1]
    else:
        mean = np.asarray(W_t.sum(axis=0)).ravel() / world.N
        M = scale * (W_t.T @ W_t).toarray() - world.V * np.outer(mean, mean)
        if regressed:
            along = np.sqrt(scale) * np.asarray(W_t.T @ f)
            M -= np.outer(along, along)
        t, basis = np.linalg.eigh(M)
        t = non_negative(t, "usage", float(t[-1]))[::-1]
        image = (basis.T @ (np.sqrt(scale) * np.asarray(W_t.T @ b)))[::-1]  # b is centred, so W need not be
        coordinates = np.divide(image, np.sqrt(t)[:, None], out=np.zeros_like(image), where=t[:, None] > 0)
    weights = np.full(len(t), 1 / world.V)
    usage = diagonal_usage(t, weights, coordinates[:, 0], world.V)
    # eigenvalues that B'B does not show are zeros, as is the part of b off its range
    missing = np.maximum(0.0, np.einsum("ni,nj->ij", b, b) - coordinates.T @ coordinates)
    outside = np.sqrt(np.diag(missing))
    measure = Measure(np.append(usage.measure.values, 0.0), np.append(usage.measure.coordinates, outside[0])[:, None])
    values = np.append(usage.values, np.zeros(world.V - len(t)))
    masses = np.full(len(values), 1 / world.V)
    usage = Usage(usage.top, values, masses, measure, usage.remainder, float(b[:, 0] @ b[:, 0]), False)
    right = Measure(np.append(t, np.zeros(3)), np.vstack([coordinates, np.diag(outside)]))
    return QueryUsage(usage, alpha, kappa, covariance, right)
