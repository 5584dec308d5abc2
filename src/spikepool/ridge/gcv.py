"""Ridge regression with the penalty chosen by generalised cross-validation, on standardised features or as they are.

    GCV(a) = (1/n)‖Y − H_a Y‖² / (1 − tr(H_a)/n)²,      H_a = S(S'S + a I)^{-1}S' + (intercept),

S the centred features, of unit variance when they are standardised. Embeddings have features whose scales differ by
orders of magnitude (some of a decoder's carry almost all of its variance), and a penalty common to all is fair only
once they agree. One eigendecomposition of the smaller Gram matrix serves the whole grid of penalties. With more rows
than features only sums over rows are kept, so that the features of all rows never exist at once.

The denominator counts rows that could have disagreed with the fit. Copies of a row cannot, and where features are as
many as rows, so that the others can be interpolated, they make a penalty of nothing look perfect: copies count once.
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
# With more rows than this many times the features copies hardly matter, and are not looked for.
COPIES_MATTER = 4
# Rows whose projections agree to this part of their spread are copies.
SAME = 1e-11
# Copies whose targets vary by more than this part of all variance are measurements of their own, and count as rows.
COPIES_VARY = 0.1


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
        Targets of all rows that will be added, in order.
    standardize : bool
        Scale the features to unit variance first.
    """

    def __init__(self, Y: FloatArray, *, standardize: bool = False) -> None:
        self.n = len(Y)
        self.standardize = standardize
        self.level = Y.mean(axis=0)
        self.target_energy = float(((Y - self.level) ** 2).sum())
        self._Y = Y
        self._direction: FloatArray | None = None
        self._projections: list[FloatArray] = []
        self._started = False

    def add(self, C: FloatArray, Y: FloatArray, *, overwrite: bool = False) -> None:
        """Add features (b, F) and their targets (b, k); with `overwrite` C may be used as working space."""
        F = C.shape[1]
        if not self._started:
            # sums around a point inside the cloud lose no digits when they are centred in the end
            self.shift = C.mean(axis=0)
        X = np.subtract(C, self.shift, out=C if overwrite else None)
        if not self._started:
            self.sums, self.gram, self.cross = X.sum(axis=0), X.T @ X, X.T @ (Y - self.level)
            if self.n < COPIES_MATTER * F:
                self._direction = _direction(X)
            self._started = True
        else:
            self.sums += X.sum(axis=0)
            self.gram += X.T @ X
            self.cross += X.T @ (Y - self.level)
        if self._direction is not None:
            self._projections.append(X @ self._direction)

    def fit(self, ridge: float | None = None) -> RidgeFit:
        """The ridge; its penalty by generalised cross-validation when `ridge` is None."""
        offset = self.sums / self.n
        gram = np.outer(offset, self.sums)
        np.subtract(self.gram, gram, out=gram)
        centre = self.shift + offset
        scale = _scale(np.sqrt(np.maximum(np.diag(gram), 0.0) / self.n), centre, self.standardize)
        gram /= scale
        gram /= scale[:, None]
        values, vectors = _eigen(gram)
        rotated = vectors.T @ (self.cross / scale[:, None])
        live = live_part(values, self.n)
        energy = (rotated[live] ** 2).sum(axis=1) / values[live]
        if ridge is None:
            distinct, within = self.n, 0.0
            if self._projections:
                distinct, within = _copies(np.concatenate(self._projections), self._Y)
            penalty = gcv_penalty(values[live], energy, self.target_energy - within, distinct, len(values))
        else:
            penalty = self.n * ridge
        coef = (vectors[:, live] @ (rotated[live] / (values[live] + penalty)[:, None])) / scale[:, None]
        return RidgeFit(np.asarray(coef), self.level - centre @ coef, penalty / self.n)


def fit_ridge(
    C: FloatArray, Y: FloatArray, ridge: float | None = None, *, standardize: bool = False, overwrite: bool = False
) -> RidgeFit:
    """Ridge with intercept on features C (n, F) for targets Y (n, k); its penalty by GCV when `ridge` is None.

    With `overwrite` C may be used as working space.
    """
    n, F = C.shape
    if n >= F:
        sums = RidgeSums(Y, standardize=standardize)
        sums.add(C, Y, overwrite=overwrite)
        return sums.fit(ridge)
    centre, level = C.mean(axis=0), Y.mean(axis=0)
    S = np.subtract(C, centre, out=C if overwrite else None)
    scale = _scale(np.sqrt(np.einsum("nf,nf->f", S, S) / n), centre, standardize)
    S /= scale
    Z = Y - level
    values, vectors = _eigen(S @ S.T)
    rotated = vectors.T @ Z
    live = live_part(values, F)
    if ridge is None:
        energy = (rotated[live] ** 2).sum(axis=1)
        distinct, within = _copies(S @ _direction(S), Y)
        penalty = gcv_penalty(values[live], energy, float((Z**2).sum()) - within, distinct, F)
    else:
        penalty = n * ridge
    dual = vectors[:, live] @ (rotated[live] / (values[live] + penalty)[:, None])
    coef = (S.T @ dual) / scale[:, None]
    return RidgeFit(np.asarray(coef), level - centre @ coef, penalty / n)


def _eigen(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues, ascending, and eigenvectors of a symmetric matrix, which is used up; little working space."""
    values, vectors = eigh(A.T, driver="evr", overwrite_a=True, check_finite=False)
    return values, vectors


def _direction(X: FloatArray) -> FloatArray:
    """A fixed direction in which the rows of centred features differ if they differ at all, whatever their units."""
    size = np.sqrt(np.einsum("nf,nf->f", X, X) / len(X))
    # what does not vary in these rows may in later ones
    size[size == 0] = float(size.max()) or 1.0
    return np.asarray(np.random.default_rng(0).standard_normal(len(size)) / size)


def _copies(projections: FloatArray, Y: FloatArray) -> tuple[int, float]:
    """Number of rows that copies leave, and the energy of the targets among copies, which is then left out."""
    order = np.argsort(projections, kind="stable")
    step = np.diff(projections[order])
    spread = float(np.abs(projections).max(initial=0.0))
    number = np.concatenate([[0], np.cumsum(step > SAME * spread)])
    distinct = int(number[-1]) + 1
    if distinct == len(Y):
        return distinct, 0.0
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    sums = np.add.reduceat(Y[order], starts, axis=0)
    counts = np.diff(starts, append=len(Y))
    within = max(float((Y**2).sum() - (sums**2 / counts[:, None]).sum()), 0.0)
    if within / (len(Y) - distinct) > COPIES_VARY * float(Y.var(axis=0).sum()):
        return len(Y), 0.0
    return distinct, within


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
