"""Predictions for rows that a ridge fit has not seen: leave-one-group-out in closed form, and held-out rows.

With the centred features X = U diag(sqrt s) V' and the hat matrix of a ridge fit with intercept,

    H = 11'/n + U diag(s/(s + delta)) U',        y_g − f_{−g}(x_g) = (I − H_gg)^{-1} (y − H y)_g,

one eigendecomposition serves every penalty delta and every group g of rows that leave together (g = one row:
the residual over 1 − H_ii). The formula is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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
