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

from spikepool.kit.arrays import FloatArray
from spikepool.pooling.positional import PositionalGram

# Steps shrink with the gap between eigenvalues over the shift: a single very negative eigenvalue makes them tiny. What
# is not at rest by then is finished by the exact eigenvector on its support.
_MAX_STEPS = 2_000


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
    """Weights w >= 0 of unit sum that maximise w'Gw/w'w, by projected power steps from many starts at once.

    With a shift that makes G positive definite every step increases the objective. When G has negative entries the
    problem is not convex: starts are the uniform weights, the positive part of the top eigenvector in both signs, and
    that of every column of G. Ties go to the uniform weights.
    """
    P = len(G)
    values, vectors = np.linalg.eigh(G)
    spread = max(abs(float(values[-1])), abs(float(values[0])), np.finfo(np.float64).tiny)
    A = G + (max(0.0, -float(values[0])) + 1e-12 * spread) * np.eye(P)
    columns = np.maximum(G - np.diag(np.diag(G)), 0.0)
    columns[np.diag_indices(P)] = columns.max(axis=0)
    starts = np.column_stack([np.ones(P), np.maximum(vectors[:, -1], 0), np.maximum(-vectors[:, -1], 0), columns])
    starts = starts[:, starts.sum(axis=0) > 0]
    found = _ascend(A, starts / np.linalg.norm(starts, axis=0))
    best, best_value = _on_support(A, found[:, 0])
    for v in found[:, 1:].T:
        # polishing only can add rounding to a start that is clearly behind
        if v @ A @ v > best_value - 1e-6 * spread:
            candidate, value = _on_support(A, v)
            if value > best_value + 1e-12 * spread:
                best, best_value = candidate, value
    return np.asarray(best / best.sum())


def _ascend(A: FloatArray, V: FloatArray) -> FloatArray:
    """Projected power steps on the columns of V until the objective of none of them grows any more, or long enough.

    Every iterate is non-negative and better than the one before, so that stopping early costs gain, never validity.
    """
    value = np.einsum("ij,ij->j", V, A @ V)
    for _ in range(_MAX_STEPS):
        step = np.maximum(A @ V, 0.0)
        norm = np.linalg.norm(step, axis=0)
        V = np.where(norm > 0, step / np.where(norm > 0, norm, 1.0), V)
        previous, value = value, np.einsum("ij,ij->j", V, A @ V)
        if (value - previous <= 1e-12 * np.abs(value)).all():
            return V
    return V


def _on_support(A: FloatArray, v: FloatArray) -> tuple[FloatArray, float]:
    """The exact eigenvector on the support of v, where it is positive; and its value."""
    value = float(v @ A @ v)
    support = np.flatnonzero(v > 1e-5 * v.max())
    values, vectors = np.linalg.eigh(A[np.ix_(support, support)])
    top = vectors[:, -1] * (1.0 if vectors[:, -1].sum() > 0 else -1.0)
    # a (nearly) repeated top eigenvalue leaves the eigenvector free: the iterate itself is then as good
    repeated = len(values) > 1 and values[-1] - values[-2] <= 1e-9 * abs(values[-1])
    if repeated or top.min() < 0 or values[-1] < value * (1 - 1e-12):
        return v, value
    polished = np.zeros_like(v)
    polished[support] = top
    return polished, float(values[-1])
