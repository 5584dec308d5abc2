r"""Ridge regression with the penalty chosen by generalised cross-validation, on standardised features or as they are.

    GCV(a) = (1/n)‖Y − H_a Y‖² / (1 − tr(H_a)/n)²,      H_a = S(S'S + a I)^{-1}S' + (intercept),

S the centred features, of unit variance when they are standardised. Embeddings have features whose scales differ by
orders of magnitude (some of a decoder's carry almost all of its variance), and a penalty common to all is fair only
once they agree. One eigendecomposition of the smaller Gram matrix serves the whole grid of penalties. With more rows
than features only sums over rows are kept, so that the features of all rows never exist at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spikepool.kit.arrays import FloatArray

# Penalties relative to the average eigenvalue of S'S, from interpolation to a constant prediction.
RELATIVE_PENALTIES = np.logspace(-6, 3, 37)
# A feature whose standard deviation is smaller than this part of its typical size is constant up to rounding.
CONSTANT = 1e-9


@dataclass(frozen=True)
class RidgeFit:
    """coef (d, k) on the features as they are, intercept (k,), and the penalty lam of (1/n)‖.‖² + lam‖.‖²."""

    coef: FloatArray
    intercept: FloatArray
    ridge: float

    def predict(self, C: FloatArray) -> FloatArray:
        """Values (n, k) of pooled rows."""
        return np.asarray(C @ self.coef + self.intercept)


class RidgeSums:
    """Sums over rows from which the ridge follows, in as many blocks as the features come in.

    Parameters
    ----------
    Y : array (n, k)
        Targets of all rows that will be added.
    standardize : bool
        Scale the features to unit variance first.
    """

    def __init__(self, Y: FloatArray, *, standardize: bool = False) -> None:
        self.n = len(Y)
        self.standardize = standardize
        self.level = Y.mean(axis=0)
        self.target_energy = float(((Y - self.level) ** 2).sum())
        self._started = False

    def add(self, C: FloatArray, Y: FloatArray) -> None:
        """Add features (b, F) and their targets (b, k)."""
        if not self._started:
            # sums around a point inside the cloud lose no digits when they are centred in the end
            self.shift = C.mean(axis=0)
            self.sums = np.zeros(C.shape[1])
            self.gram = np.zeros((C.shape[1], C.shape[1]))
            self.cross = np.zeros((C.shape[1], Y.shape[1]))
            self._started = True
        X = C - self.shift
        self.sums += X.sum(axis=0)
        self.gram += X.T @ X
        self.cross += X.T @ (Y - self.level)

    def fit(self, ridge: float | None = None) -> RidgeFit:
        """The ridge; its penalty by generalised cross-validation when `ridge` is None."""
        offset = self.sums / self.n
        gram = self.gram - np.outer(offset, self.sums)
        centre = self.shift + offset
        scale = _scale(np.sqrt(np.maximum(np.diag(gram), 0.0) / self.n), centre, self.standardize)
        values, vectors = np.linalg.eigh(gram / np.outer(scale, scale))
        rotated = vectors.T @ (self.cross / scale[:, None])
        live = live_part(values, self.n)
        energy = (rotated[live] ** 2).sum(axis=1) / values[live]
        penalty = (
            self.n * ridge
            if ridge is not None
            else gcv_penalty(values[live], energy, self.target_energy, self.n, len(values))
        )
        coef = (vectors[:, live] @ (rotated[live] / (values[live] + penalty)[:, None])) / scale[:, None]
        return RidgeFit(np.asarray(coef), self.level - centre @ coef, penalty / self.n)


def fit_ridge(C: FloatArray, Y: FloatArray, ridge: float | None = None, *, standardize: bool = False) -> RidgeFit:
    """Ridge with intercept on features C (n, F) for targets Y (n, k); its penalty by GCV when `ridge` is None."""
    n, F = C.shape
    if n >= F:
        sums = RidgeSums(Y, standardize=standardize)
        sums.add(C, Y)
        return sums.fit(ridge)
    centre, level = C.mean(axis=0), Y.mean(axis=0)
    S = C - centre
    scale = _scale(np.sqrt(np.einsum("nf,nf->f", S, S) / n), centre, standardize)
    S /= scale
    Z = Y - level
    values, vectors = np.linalg.eigh(S @ S.T)
    rotated = vectors.T @ Z
    live = live_part(values, F)
    energy = (rotated[live] ** 2).sum(axis=1)
    penalty = n * ridge if ridge is not None else gcv_penalty(values[live], energy, float((Z**2).sum()), n, F)
    dual = vectors[:, live] @ (rotated[live] / (values[live] + penalty)[:, None])
    coef = (S.T @ dual) / scale[:, None]
    return RidgeFit(np.asarray(coef), level - centre @ coef, penalty / n)


def _scale(deviation: FloatArray, centre: FloatArray, standardize: bool) -> FloatArray:
    """Divisors of the features: infinity, hence a coefficient of zero, for one that is constant up to rounding."""
    return np.where(deviation > CONSTANT * np.abs(centre), deviation if standardize else 1.0, np.inf)


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
        Numbers of rows and of features.
    """
    if not len(values):
        return 0.0
    outside = max(total - float(energy.sum()), 0.0)
    grid = RELATIVE_PENALTIES * float(values.sum()) / min(n, features)
    return float(grid[int(np.argmin(gcv_scores(values, energy, outside, n, grid)))])


def gcv_scores(values: FloatArray, energy: FloatArray, outside: float, n: int, penalties: FloatArray) -> FloatArray:
    """n·GCV at each penalty; arguments as in :func:`gcv_penalty`, `outside` being the energy along no direction."""
    kept = penalties[:, None] / (values + penalties[:, None])  # 1 − shrinkage factor of each direction
    residual = kept**2 @ energy + outside
    freedom = n - 1 - (1 - kept).sum(axis=1)
    # more parameters than rows interpolate at small penalties: 0/0, never the minimum
    return np.where(freedom > 1e-6 * n, residual / np.maximum(freedom, 1e-6 * n) ** 2, np.inf)
