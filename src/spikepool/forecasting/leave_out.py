"""Predictions for rows that a ridge fit has not seen: leave-one-group-out in closed form, and held-out rows.

With the centred features X = U diag(sqrt s) V' and the hat matrix of a ridge fit with intercept,

    H = 11'/n + U diag(s/(s + delta)) U',        y_g − f_{−g}(x_g) = (I − H_gg)^{-1} (y − H y)_g,

one eigendecomposition serves every penalty delta and every group g of rows that leave together (g = one row:
the residual over 1 − H_ii). The formula is exact.

What margins tell beyond right or wrong: a steadier accuracy.

The margin of a tested row is the fitted value of its class less the largest of the others. Counting the positive ones
is the usual accuracy; a smooth count is steadier, because rows near the boundary do not jump:

    accuracy ≈ mean of 2 Phi(m/h) − Phi(m/(sqrt(2) h)),      h = .3 sd(m),

whose bias is of fourth order in h, whatever the distribution of m.

How far the accuracy or R² that a pilot shows may be from the one it stands for.

The leave-one-out accuracy of n0 rows is a mean over rows, but not over independent ones: every row is also one that
the others are fitted to. Where few rows carry a class or a part of it, the accuracy varies between pilots by more than
counting says. Two disjoint halves A and B of the pilot are independent pilots of half the size. With z the probit of
the leave-one-out accuracy as a smooth count (:func:`spikepool.forecasting.leave_out.likely_right`), or −ln(MSE/var(y)),

    E (z_A − z_B)² = 2 var(z of n0/2 rows) ≈ 4 var(z of n0 rows),

averaged over random halvings. Nothing is linearised, and groups of rows stay together. The jackknife, which leaves one
row out at a time, states twice the observed variance of accuracies in the median of 17 kinds of rows (up to four
times), because a count is nearly a step in the fitted values, and 1.4 times that of R² (`docs/kinds.md`).

Rare large errors that the pilot of a regression has not seen are not in it. Its variance is multiplied by the kurtosis
of the left-out residuals over that of a Gaussian, where this is larger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from spikepool.data.folds import split_groups
from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.ridge.gcv import LEAST_FREEDOM, gcv_scores


@dataclass(frozen=True)
class Decomposition:
    """Singular vectors and squared singular values of centred features, null directions dropped."""

    left: FloatArray
    squared: FloatArray
    right: FloatArray

    @property
    def rank(self) -> int:
        """Number of directions with variance."""
        return len(self.squared)


def decompose(X: FloatArray) -> Decomposition:
    """Thin singular value decomposition of centred features, by the smaller Gram matrix."""
    n, d = X.shape
    values, vectors = np.linalg.eigh(X.T @ X if d <= n else X @ X.T)
    live = values > max(float(values[-1]), 0.0) * max(n, d) * np.finfo(np.float64).eps
    values, vectors = values[live], vectors[:, live]
    other = (X if d <= n else X.T) @ vectors / np.sqrt(values)
    return Decomposition(other, values, vectors) if d <= n else Decomposition(vectors, values, other)


def chosen_penalty(parts: Decomposition, Z: FloatArray, penalties: FloatArray) -> int:
    """Index of the penalty with the least generalised cross-validation score for centred targets Z."""
    energy = ((parts.left.T @ Z) ** 2).sum(axis=1)
    outside = max(float((Z**2).sum() - energy.sum()), 0.0)
    scores = gcv_scores(parts.squared, energy, outside, len(Z), penalties, least_freedom=LEAST_FREEDOM)
    # the largest penalty leaves the most: where even that is too little, it is the one
    return int(np.argmin(scores)) if np.isfinite(scores).any() else len(penalties) - 1


def leave_group_out(parts: Decomposition, Y: FloatArray, groups: IntArray, penalty: float) -> FloatArray:
    """Predictions (n, k) of each row by the fit to all rows outside its group.

    Parameters
    ----------
    parts : Decomposition
        Of the centred features.
    Y : array (n, k)
        Targets, not centred.
    groups : array (n,)
        Group of each row; all different for leave-one-out.
    penalty : float
        delta of ‖Y − f‖² + delta‖coef‖².
    """
    Z = Y - Y.mean(axis=0)
    share = parts.squared / (parts.squared + penalty)
    residual = Z - parts.left @ (share[:, None] * (parts.left.T @ Z))
    return np.asarray(Y - group_inverse(parts, groups, penalty)(residual))


def group_inverse(parts: Decomposition, groups: IntArray, penalty: float) -> Callable[[FloatArray], FloatArray]:
    """The map that multiplies the rows (n, k) of every group g by (I − H_gg)^{-1}."""
    n = len(groups)
    share = parts.squared / (parts.squared + penalty)
    # 1 − H_gg is singular where a group alone decides a direction (more features than rows, penalty near zero)
    least = float(np.sqrt(np.finfo(float).eps))
    alone = np.maximum(1 - 1 / n - parts.left**2 @ share, least)[:, None]
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=groups[order[0]] - 1))
    lengths = np.diff(starts, append=n)
    together = []
    for size in np.unique(lengths[lengths > 1]):
        rows = order[starts[lengths == size][:, None] + np.arange(size)]  # (groups of this size, size)
        U = parts.left[rows]
        hat = 1 / n + (U * share) @ U.transpose(0, 2, 1)
        together.append((rows, np.linalg.pinv(np.eye(size) - hat, rcond=least, hermitian=True)))

    def apply(values: FloatArray) -> FloatArray:
        solved = values / alone
        for rows, inverse in together:
            solved[rows] = inverse @ values[rows]
        return np.asarray(solved)

    return apply


def held_out_predictor(parts: Decomposition, Z: FloatArray, held_out: FloatArray) -> Callable[[float], FloatArray]:
    """Predictions (m, k) of centred targets Z for held-out rows, centred like the training rows, by penalty."""
    coordinates = held_out @ (parts.right / np.sqrt(parts.squared))
    loadings = parts.left.T @ Z

    def predict(penalty: float) -> FloatArray:
        share = parts.squared / (parts.squared + penalty)
        return np.asarray(coordinates @ (share[:, None] * loadings))

    return predict


# Width of the smoothing. Against the truth at the pilot's size it lowers the root mean square error of the accuracy by
# 6 % on average over 18 groups of development tasks and raises it in none; .4 gains 7 %, and loses 9 % in one.
_WIDTH = 0.3


def margins(f: FloatArray, labels: IntArray) -> FloatArray:
    """Fitted value of the own class less the largest of the others, by row."""
    rows = np.arange(len(labels))
    others = f.copy()
    others[rows, labels] = -np.inf
    return np.asarray(f[rows, labels] - others.max(axis=1))


def likely_right(margin: FloatArray, spread: float | None = None) -> FloatArray:
    """Smooth count: about 1 for right rows, about 0 for wrong ones; may leave [0, 1] by a tenth near the boundary.

    `spread` is the standard deviation that the width is taken of, that of `margin` if not given.
    """
    width = _WIDTH * max(float(margin.std()) if spread is None else spread, 1e-300)
    scaled = margin / width
    return np.asarray(2 * ndtr(scaled) - ndtr(scaled / np.sqrt(2)))


# Reweightings of the pilot's rows and random halvings of them: draws behind a variance.
REWEIGHTINGS = 30


def level_variance(
    X: FloatArray,
    Y: FloatArray,
    labels: IntArray | None,
    groups: IntArray,
    penalties: FloatArray,
    rng: np.random.Generator,
) -> float:
    """Variance over pilots of the probit of the leave-one-group-out accuracy, or of −ln(MSE/var(y)).

    Parameters
    ----------
    X : array (n, d)
        Features.
    Y : array (n, k)
        ±1 indicators of `labels`, or real targets.
    labels, groups : array (n,)
        Classes (None for regression), and groups of rows that stay together.
    penalties : array
        Ridge penalties, of which every half takes the one of generalised cross-validation.
    """
    n, differences = len(Y), []
    for _ in range(REWEIGHTINGS):
        halves = split_groups(groups, n // 2, rng)
        if min(len(rows) for rows in halves) > 1:
            one, other = (
                _level(X[rows], Y[rows], None if labels is None else labels[rows], groups[rows], penalties)
                for rows in halves
            )
            differences.append((one - other) ** 2 / sum(n / len(rows) for rows in halves))
    return float(np.mean(differences)) if differences else 0.0


def heavy_tails(residual: FloatArray) -> float:
    """Kurtosis of left-out residuals over that of a Gaussian, where it is larger."""
    square = max(float((residual**2).mean()), 1e-150)
    return max(1.0, float((residual**4).mean()) / (3 * square**2))


def _level(X: FloatArray, Y: FloatArray, labels: IntArray | None, groups: IntArray, penalties: FloatArray) -> float:
    parts, Z = decompose(X - X.mean(axis=0)), Y - Y.mean(axis=0)
    f = leave_group_out(parts, Y, groups, float(penalties[chosen_penalty(parts, Z, penalties)]))
    if labels is None:
        return float(np.log(max(float((Z**2).sum()), 1e-300) / max(float(((Y - f) ** 2).sum()), 1e-300)))
    edge = 0.5 / len(Y)  # none or all correct does not mean an accuracy of 0 or 1
    return float(ndtri(np.clip(likely_right(margins(f, labels)).mean(), edge, 1 - edge)))
