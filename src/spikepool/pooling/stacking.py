"""Predictions of several candidates combined, and whether the combination is better than the mean alone.

With E_c (n, k) the out-of-fold residuals of candidate c and G_cc' = Σ_i w_i <E_ci, E_c'i>, the weights of the stack are

    v = argmin v'Gv,     v >= 0,  Σ v = 1,

non-negative least squares of the targets on the candidates' out-of-fold scores. To judge the stack, v is found anew
without each fold and applied to that fold.

Probabilities from ridge scores: p = softmax(a·f), the scale a by maximum likelihood on out-of-fold scores.

One parameter cannot change which class is largest, so that `predict` and `predict_proba` agree; scores of rows that the
ridge has not seen keep it from being overconfident. For two classes p = 1/(1 + exp(−2af)).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize_scalar, nnls
from scipy.special import logsumexp, softmax

from spikepool.kit.arrays import BoolArray, FloatArray, IntArray

# Weight of the equation Σ v = 1 against the others, relative to their size; v is normalised afterwards.
SUM_WEIGHT = 1e3
# Weights below this share are dropped: they change predictions by less than their error and cost a candidate each.
LEAST_WEIGHT = 0.01


def residual_gram(scores: Sequence[FloatArray], Y: FloatArray, weights: FloatArray) -> FloatArray:
    """G (m, m) of the out-of-fold residuals of m candidates."""
    root = np.sqrt(weights)[:, None]
    residuals = np.stack([(root * (score - Y)).reshape(-1) for score in scores])
    return np.asarray(residuals @ residuals.T)


def simplex_weights(gram: FloatArray) -> FloatArray:
    """V >= 0 of unit sum that minimises v'Gv."""
    m = len(gram)
    scale = float(np.trace(gram)) / m
    if scale <= 0:
        return np.full(m, 1 / m)
    values, vectors = np.linalg.eigh(gram / scale)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    system = np.vstack([root, SUM_WEIGHT * np.ones(m)])
    v, _ = nnls(system, np.r_[np.zeros(m), SUM_WEIGHT])
    v = np.where(v < LEAST_WEIGHT * v.sum(), 0.0, v)
    return np.asarray(v / v.sum())


def cross_fitted(
    scores: Sequence[FloatArray], Y: FloatArray, weights: FloatArray, folds: IntArray, allowed: BoolArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Weights of the stack on all rows, and out-of-fold scores of a stack whose weights have not seen the fold.

    `allowed` (folds, m) says which candidates the stack of each fold may use; all of them by default.
    """
    count = int(folds.max()) + 1
    grams = np.stack(
        [residual_gram([s[folds == k] for s in scores], Y[folds == k], weights[folds == k]) for k in range(count)]
    )
    total = grams.sum(axis=0)
    predicted = np.empty_like(Y)
    for k in range(count):
        use = list(range(len(scores))) if allowed is None else np.flatnonzero(allowed[k]).tolist()
        v = simplex_weights((total - grams[k])[np.ix_(use, use)])
        predicted[folds == k] = sum(share * scores[c][folds == k] for share, c in zip(v, use, strict=True))
    return simplex_weights(total), predicted


def paired(difference: FloatArray, weights: FloatArray, clusters: IntArray) -> tuple[float, float]:
    """Weighted mean of a paired difference and its cautious standard error, with clusters as the independent units.

    Cautious: as if the largest difference had been seen once more in each direction, so that a few differing rows, all
    in favour, are not significant.
    """
    total = float(weights.sum())
    mean = float(weights @ difference) / total
    sums = np.bincount(clusters, weights * (difference - mean))
    units = len(np.unique(clusters))
    if units < 2:
        return mean, float("inf")
    largest = float(np.abs(np.bincount(clusters, weights * difference)).max())
    energy = float((sums**2).sum()) * units / (units - 1) + 2 * largest**2
    return mean, float(np.sqrt(energy)) / total


# Range of ln a; scores are about ±1.
LOG_SCALE = (-4.0, 5.0)
# Where no row could be left out: scores of ±1 are then probabilities of .12 and .88.
DEFAULT_SCALE = 1.0


def class_scores(values: FloatArray) -> FloatArray:
    """Scores (n, K) of all classes; for two classes from one column f they are −f and f."""
    return np.column_stack([-values, values]) if values.shape[1] == 1 else values


def fit_scale(values: FloatArray, codes: IntArray, weights: FloatArray, random_rows: float = 0.0) -> float:
    """The scale a of largest likelihood, given out-of-fold values (n, k), classes (n,) and row weights.

    With `random_rows`, as if so many rows more had been drawn, of the same scores and of random classes.
    """
    scores = class_scores(values)
    right = scores[np.arange(len(codes)), codes]
    more = random_rows / len(codes)
    right = right + more * scores.mean(axis=1)

    def loss(log_scale: float) -> float:
        a = np.exp(log_scale)
        return float(weights @ ((1 + more) * logsumexp(a * scores, axis=1) - a * right))

    return float(np.exp(minimize_scalar(loss, bounds=LOG_SCALE, method="bounded").x))


def probabilities(values: FloatArray, scale: float) -> FloatArray:
    """Probabilities (n, K) of the classes."""
    return np.asarray(softmax(scale * class_scores(values), axis=1))
