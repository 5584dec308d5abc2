r"""Pooling weights from positional moments: shrinkage towards the exchangeable structure, and the maximiser.

Entry (t, s) of G has sampling variance v_ts = sigma²/(number of pairs). Towards the exchangeable structure (one
common value g, whose optimum is the mean) each entry moves by v_ts/(v_ts + tau²), with tau² the variance between
entries beyond sampling (a moment estimate): hardly at all when positions clearly differ, all the way when they do
not. The weights maximise w'Gw/w'w over w >= 0, sum 1. The diagonal of R only adds a constant to alpha/kappa, so the
maximiser needs no diagonal; and non-negative weights of unit sum cannot blow up: kappa = ‖w‖² <= 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import ConvergenceError
from spikepool.positional import PositionalGram

FloatArray = NDArray[np.float64]

_MAX_STEPS = 200_000


@dataclass(frozen=True)
class ShrunkGram:
    """G moved towards the exchangeable structure.

    Attributes
    ----------
    gram : array (P, P)
        Shrunk off-diagonal Gram matrix; the diagonal is the exchangeable value where no pair informs it.
    level : float
        The exchangeable value: average of all pairs.
    standard_error : array (P, P)
        Sampling error of each entry before shrinkage; infinite where nothing was observed.
    intensity : float
        Average share by which entries moved, between 0 and 1.
    """

    gram: FloatArray
    level: float
    standard_error: FloatArray
    intensity: float


def shrink(gram: PositionalGram, folds: NDArray[np.bool_] | None = None) -> ShrunkGram:
    """Empirical-Bayes shrinkage of G towards its average, entry by entry."""
    G, pairs = gram.average(folds)
    P = len(G)
    seen = pairs > 0
    upper = np.triu(seen)
    total = pairs[upper].sum()
    level = float((pairs[upper] * G[upper]).sum() / total) if total > 0 else 0.0
    keep = np.ones(len(gram.pairs), dtype=bool) if folds is None else folds
    sigma2 = _pair_variance(gram.sums[keep], gram.pairs[keep], G, upper)
    variance = np.where(seen, sigma2 / np.where(seen, pairs, 1.0), np.inf)
    # moment estimate of the variance between entries, each entry weighted by its number of pairs
    weight = pairs[upper]
    spread = float((weight * ((G[upper] - level) ** 2 - variance[upper])).sum() / total) if total > 0 else 0.0
    tau2 = max(spread, 0.0)
    if tau2 > 0:
        shift = np.where(seen, variance / (np.where(seen, variance, 1.0) + tau2), 1.0)
    else:
        shift = np.ones((P, P))
    shift = np.where(seen, shift, 1.0)
    return ShrunkGram(
        np.where(seen, level + (1 - shift) * (G - level), level),
        level,
        np.sqrt(variance),
        float((weight * shift[upper]).sum() / total) if total > 0 else 1.0,
    )


def _pair_variance(sums: FloatArray, pairs: FloatArray, G: FloatArray, upper: NDArray[np.bool_]) -> float:
    """Variance of one pair's product, pooled over entries, from the spread of folds around the average."""
    deviation = sums - pairs * G
    has = pairs > 0
    # Var(sum over the fold − pairs·G) = sigma²·pairs·(1 − pairs/total)
    expected = pairs * (1 - pairs / np.where(has.any(axis=0), pairs.sum(axis=0), 1.0))
    use = has & upper & (expected > 0)
    if not use.any():
        return 0.0
    return float((deviation[use] ** 2).sum() / expected[use].sum())


def best_nonnegative(G: FloatArray) -> FloatArray:
    """Weights w >= 0 of unit sum that maximise w'Gw/w'w, by projected power steps from several starts.

    With a shift that makes G positive definite each step increases the objective; it stops when the objective
    does. The problem is not convex when G has negative entries: starts are uniform, the positive part of the top
    eigenvector in both signs, and the best single pair.
    """
    P = len(G)
    values, vectors = np.linalg.eigh(G)
    shift = max(0.0, -float(values[0])) + 1e-12 * max(abs(float(values[-1])), abs(float(values[0])), 1e-300)
    A = G + shift * np.eye(P)
    starts = [np.ones(P), np.maximum(vectors[:, -1], 0), np.maximum(-vectors[:, -1], 0)]
    if P > 1:
        i, j = np.unravel_index(np.argmax(G - np.diag(np.full(P, np.inf))), G.shape)
        pair = np.zeros(P)
        pair[[i, j]] = 1.0
        starts.append(pair)
    best, best_value = np.full(P, 1.0 / P), -np.inf
    for start in starts:
        if start.sum() == 0:
            continue
        v, value = _ascend(A, start / np.linalg.norm(start))
        # uniform comes first: ties go to the mean
        if value > best_value * (1 + 1e-12) or best_value == -np.inf:
            best, best_value = v / v.sum(), value
    return best


def _ascend(A: FloatArray, v: FloatArray) -> tuple[FloatArray, float]:
    """Projected power steps until the objective stops growing, then the exact eigenvector on the support found."""
    value = float(v @ A @ v)
    for _ in range(_MAX_STEPS):
        step = np.maximum(A @ v, 0.0)
        norm = float(np.linalg.norm(step))
        if norm == 0:
            return v, value
        v = step / norm
        previous, value = value, float(v @ A @ v)
        if value - previous <= 1e-13 * abs(value):
            break
    else:
        raise ConvergenceError(
            "power steps for the pooling weights did not converge", remedy="Use weights='mean' and report the data"
        )
    support = np.flatnonzero(v > 1e-6 * v.max())
    values, vectors = np.linalg.eigh(A[np.ix_(support, support)])
    top = vectors[:, -1] * np.sign(vectors[:, -1].sum())
    # a degenerate top eigenvalue leaves the eigenvector free: the iterate itself is then as good
    if top.min() >= 0 and values[-1] >= value:
        v = np.zeros_like(v)
        v[support] = top
        value = float(values[-1])
    return v, value
