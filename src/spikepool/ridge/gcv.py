"""Ridge regression with the penalty chosen by generalised cross-validation, on standardised features or as they are.

    GCV(a) = (1/n)‖Y − H_a Y‖² / (1 − tr(H_a)/n)²,      H_a = S(S'S + a I)^{-1}S' + (intercept),

S the centred features, of unit variance when they are standardised. One eigendecomposition of the smaller Gram matrix
serves the whole grid of penalties. :func:`fit_ridge` is the model that a forecast of ridge regression is about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from spikepool.kit.arrays import FloatArray

# Penalties relative to the average eigenvalue of S'S, from interpolation to a constant prediction.
RELATIVE_PENALTIES = np.logspace(-6, 3, 37)
# A feature whose standard deviation is smaller than this part of its typical size is constant up to rounding.
CONSTANT = 1e-9
# Residual degrees of freedom, as a part of the rows, below which GCV is unreliable: rows that are nearly copies fill
# what is left (2 in 1,000 did on a corpus of requests, and cost twelve points).
LEAST_FREEDOM = 0.05


@dataclass(frozen=True)
class RidgeFit:
    """coef (d, k) on the features as they are, intercept (k,), and the penalty lam of (1/n)‖.‖² + lam‖.‖²."""

    coef: FloatArray
    intercept: FloatArray
    ridge: float

    def predict(self, C: FloatArray) -> FloatArray:
        """Values (n, k) of pooled rows."""
        return np.asarray(C @ self.coef + self.intercept)


def fit_ridge(C: FloatArray, Y: FloatArray, ridge: float | None = None, *, standardize: bool = False) -> RidgeFit:
    """Ridge with intercept on features C (n, F) for targets Y (n, k); its penalty by GCV when `ridge` is None."""
    n, F = C.shape
    centre, level = C.mean(axis=0), Y.mean(axis=0)
    S, Z = C - centre, Y - level
    deviation = np.sqrt(np.einsum("nf,nf->f", S, S) / n)
    # infinity, hence a coefficient of zero, for a feature that is constant up to rounding
    scale = np.where(deviation > CONSTANT * np.abs(centre), deviation if standardize else 1.0, np.inf)
    S /= scale
    primal = n >= F
    values, vectors = eigh(S.T @ S if primal else S @ S.T)
    live = live_part(values, max(n, F))
    values, vectors = values[live], vectors[:, live]
    rotated = vectors.T @ (S.T @ Z if primal else Z)
    energy = (rotated**2).sum(axis=1) / (values if primal else 1.0)
    penalty = gcv_penalty(values, energy, float((Z**2).sum()), n, F) if ridge is None else n * ridge
    solved = vectors @ (rotated / (values + penalty)[:, None])
    coef = (solved if primal else S.T @ solved) / scale[:, None]
    return RidgeFit(np.asarray(coef), level - centre @ coef, penalty / n)


def live_part(values: FloatArray, size: int) -> slice:
    """Eigenvalues, in ascending order, that are more than rounding."""
    floor = max(float(values[-1]), 0.0) * max(size, len(values)) * np.finfo(np.float64).eps
    return slice(int(np.searchsorted(values, floor, side="right")), None)


def gcv_penalty(values: FloatArray, energy: FloatArray, total: float, n: int, features: int) -> float:
    """Penalty a on S'S + a I where GCV is smallest on the grid; zero when nothing varies.

    Parameters
    ----------
    values : array
        Eigenvalues of S'S that are not zero.
    energy : array
        Energy of the centred targets along each of the directions.
    total : float
        Their whole energy.
    n, features : int
        Numbers of (different) rows and of features.
    """
    if not len(values):
        return 0.0
    outside = max(total - float(energy.sum()), 0.0)
    grid = RELATIVE_PENALTIES * float(values.sum()) / min(n, features)
    scores = gcv_scores(values, energy, outside, n, grid, least_freedom=LEAST_FREEDOM)
    # the largest penalty leaves the most: where even that is too little, it is the one
    return float(grid[int(np.argmin(scores))] if np.isfinite(scores).any() else grid[-1])


def gcv_scores(
    values: FloatArray,
    energy: FloatArray,
    outside: float,
    n: int,
    penalties: FloatArray,
    least_freedom: float = 1e-6,
) -> FloatArray:
    """n·GCV at each penalty; infinite where fewer than `least_freedom`·n degrees of freedom are left.

    Arguments as in :func:`gcv_penalty`, `outside` being the energy along no direction.
    """
    kept = penalties[:, None] / (values + penalties[:, None])  # 1 − shrinkage factor of each direction
    residual = kept**2 @ energy + outside
    freedom = n - 1 - (1 - kept).sum(axis=1)
    # more parameters than rows interpolate at small penalties: 0/0, never the minimum
    least = least_freedom * n
    return np.where(freedom > least, residual / np.maximum(freedom, least) ** 2, np.inf)
