"""Ridge regression whose penalty and out-of-fold predictions come from the same folds.

For features Z (n, r), targets Y (n, k) and row weights w, the fit at penalty a minimises

    Σ_i w_i ‖y_i − b − z_i beta‖² + a ‖beta‖²,

with an intercept b that is not penalised: the coefficient of a column of ones beside Z. With the weighted sums
G = Σ w z z' each fold subtracts its own rows from G, so that the features are multiplied once for all folds and
penalties. More features than rows are first rotated to as many columns as rows (:mod:`spikepool.pooling.design`).

One penalty serves all folds and the fit on all rows. It minimises the out-of-fold squared error, found by descent on a
logarithmic grid relative to the average eigenvalue; each evaluation costs one Cholesky factor for each fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from spikepool.errors import ConvergenceError
from spikepool.kit.arrays import FloatArray, IntArray

# Decimal exponents of the penalty relative to the average eigenvalue: from near interpolation to a constant prediction.
LOWEST, HIGHEST, START, STEP = -5.0, 3.0, -0.5, 0.5


@dataclass(frozen=True, eq=False)
class Sums:
    """Weighted products over some rows, of features with each other and with the targets; the last column is ones."""

    gram: FloatArray
    cross: FloatArray

    def solve(self, a: float) -> FloatArray:
        """Coefficients (r + 1, k) at penalty `a`, the intercepts last."""
        shifted = self.gram.copy()
        shifted[np.diag_indices(len(shifted) - 1)] += a
        try:
            factor = cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError as err:
            raise ConvergenceError(
                "the normal equations of the ridge are not positive definite",
                remedy="Rescale X, or pass a larger ridge",
            ) from err
        return np.asarray(cho_solve(factor, self.cross, check_finite=False))


@dataclass(frozen=True, eq=False)
class Fold:
    """Sums over the training rows, and the rows of the fold, predicted from them."""

    train: Sums
    test: FloatArray

    def predict(self, a: float) -> FloatArray:
        """Predictions (b, k) of the fold at penalty `a`."""
        return np.asarray(self.test @ self.train.solve(a))


class FoldRidge:
    """Out-of-fold predictions and the final fit from features that all folds share.

    Parameters
    ----------
    Z : array (n, r)
        Features.
    Y : array (n, k)
        Targets.
    weights : array (n,)
        Positive row weights.
    folds : array (n,) of int
        Fold of each row; rows of number −1 are in none and only train.

    Attributes
    ----------
    whole : Sums
        Over all rows.
    problems : list of Fold
        One for each fold.
    unit : float
        Average eigenvalue of the products of features, the unit of penalties.
    """

    def __init__(self, Z: FloatArray, Y: FloatArray, weights: FloatArray, folds: IntArray) -> None:
        with_ones = np.ones((len(Z), Z.shape[1] + 1))
        with_ones[:, :-1] = Z
        tests = [np.flatnonzero(folds == k) for k in range(int(folds.max()) + 1)]
        parts = [_sums(with_ones[rows], Y[rows], weights[rows]) for rows in (*tests, np.flatnonzero(folds < 0))]
        gram, cross = parts[-1].gram, parts[-1].cross
        for part in parts[:-1]:
            gram, cross = gram + part.gram, cross + part.cross
        self.whole = Sums(gram, cross)
        self.problems = []
        for rows, part in zip(tests, parts, strict=False):
            np.subtract(gram, part.gram, out=part.gram)
            self.problems.append(Fold(Sums(part.gram, cross - part.cross), with_ones[rows]))
        trace = float(np.trace(gram[:-1, :-1]))
        self.unit = trace / Z.shape[1] if trace > 0 else 1.0


def _sums(Z: FloatArray, Y: FloatArray, weights: FloatArray) -> Sums:
    """The sums over rows, whose features are used up."""
    root = np.sqrt(weights)[:, None]
    Z *= root
    return Sums(Z.T @ Z, Z.T @ (root * Y))


def out_of_fold(
    problems: Sequence[Fold],
    unit: float,
    Y: FloatArray,
    weights: FloatArray,
    folds: IntArray,
    relative: float | None = None,
) -> tuple[FloatArray, float]:
    """Out-of-fold predictions (n, k) at the penalty of least squared error, and that penalty.

    Parameters
    ----------
    problems : sequence of Fold
        One for each fold.
    unit : float
        Average eigenvalue, the unit of penalties.
    Y, weights, folds : arrays
        Targets, row weights and fold of each row; predictions of a row of no fold are NaN.
    relative : float, optional
        The penalty relative to the weight of the training rows; no search then.
    """

    def predictions(a: Callable[[float], float]) -> FloatArray:
        predicted = np.full_like(Y, np.nan)
        for k, problem in enumerate(problems):
            rows = folds == k
            predicted[rows] = problem.predict(a(float(weights[~rows].sum())))
        return predicted

    if relative is not None:
        return predictions(lambda total: relative * total), relative * float(weights.sum())
    left_out, losses = folds >= 0, dict[float, float]()
    best, reached = START, predictions(lambda _: unit * 10**START)

    def loss(predicted: FloatArray) -> float:
        return float(weights[left_out] @ ((Y - predicted)[left_out] ** 2).sum(axis=1))

    losses[best] = loss(reached)
    while True:
        start = best
        for exponent in (start - STEP, start + STEP):
            if LOWEST <= exponent <= HIGHEST and exponent not in losses:
                predicted = predictions(lambda _, e=exponent: unit * 10**e)  # type: ignore[misc]
                losses[exponent] = loss(predicted)
                if losses[exponent] < losses[best]:
                    best, reached = exponent, predicted
        if best == start:
            return reached, unit * 10**best
