r"""Ridge regression with the penalty chosen by generalised cross-validation, primal or dual by shape.

    GCV(a) = (1/n)‖Y − H_a Y‖² / (1 − tr(H_a)/n)²,      H_a = C(C'C + a I)^{-1}C' + (intercept).

One eigendecomposition of the smaller Gram matrix serves the whole grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spikepool.kit.arrays import FloatArray

# Penalties relative to the average eigenvalue of C'C, from interpolation to a constant prediction.
RELATIVE_PENALTIES = np.logspace(-6, 3, 37)


@dataclass(frozen=True)
class RidgeFit:
    """coef (d, k), intercept (k,) and the penalty lam of (1/n)‖.‖² + lam‖coef‖²."""

    coef: FloatArray
    intercept: FloatArray
    ridge: float

    def predict(self, C: FloatArray) -> FloatArray:
        """Values (n, k) of pooled rows."""
        return np.asarray(C @ self.coef + self.intercept)


def fit_ridge(C: FloatArray, Y: FloatArray, ridge: float | None = None) -> RidgeFit:
    """Ridge with intercept; the penalty by generalised cross-validation when `ridge` is None."""
    n, d = C.shape
    centre, level = C.mean(axis=0), Y.mean(axis=0)
    X, Z = C - centre, Y - level
    primal = d <= n
    values, vectors = np.linalg.eigh(X.T @ X if primal else X @ X.T)
    values = np.maximum(values, 0.0)  # a Gram matrix has none below zero but for rounding
    # coordinates of the targets along the left singular vectors, times singular values when primal
    rotated = vectors.T @ (X.T @ Z) if primal else vectors.T @ Z
    floor = values[-1] * max(n, d) * np.finfo(np.float64).eps
    live = values > floor
    if not live.any():
        return RidgeFit(np.zeros((d, Y.shape[1])), level, 0.0 if ridge is None else float(ridge))
    energy = (rotated[live] ** 2).sum(axis=1) / (values[live] if primal else 1.0)
    eigenvalues = values[live]
    if ridge is None:
        outside = max(float((Z**2).sum() - energy.sum()), 0.0)
        grid = RELATIVE_PENALTIES * float(eigenvalues.sum()) / min(n, d)
        kept = grid[:, None] / (eigenvalues + grid[:, None])  # 1 − shrinkage factor of each direction
        residual = kept**2 @ energy + outside
        freedom = n - 1 - (1 - kept).sum(axis=1)
        # more parameters than rows interpolate at small penalties: 0/0, never the minimum
        score = np.where(freedom > 1e-6 * n, residual / np.maximum(freedom, 1e-6 * n) ** 2, np.inf)
        penalty = float(grid[int(np.argmin(score))])
    else:
        penalty = float(ridge) * n
    shrunk = np.zeros_like(values)
    shrunk[live] = 1.0 / (eigenvalues + penalty) if penalty > 0 else 1.0 / eigenvalues
    coef = vectors @ (shrunk[:, None] * rotated)
    if not primal:
        coef = X.T @ coef
    return RidgeFit(np.asarray(coef), level - centre @ coef, penalty / n)
