"""Ridge regression whose penalty and out-of-fold predictions come from the same folds.

For features C (n, F), targets Y (n, k) and row weights w, the fit at penalty a minimises

    Σ_i w_i ‖y_i − b − c_i beta‖² + a ‖beta‖²,

with an intercept b that is not penalised. Two forms give the same predictions:

* primal, F <= n: with the weighted sums G = Σ w c c', each fold subtracts its own rows from G, so that the features are
  multiplied once for all folds and penalties;
* dual, F > n: with K = C C' and D = diag(1/w), (K + a D) alpha = Y − b, each fold takes a submatrix of K.

One penalty serves all folds and the fit on all rows. It minimises the out-of-fold squared error, found by descent on a
logarithmic grid relative to the average eigenvalue; each evaluation costs one Cholesky factor for each fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from spikepool.errors import ConvergenceError
from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.ridge.gcv import CONSTANT, RidgeFit

# Decimal exponents of the penalty relative to the average eigenvalue: from near interpolation to a constant prediction.
LOWEST, HIGHEST, START, STEP = -5.0, 3.0, -0.5, 0.5
# Rows that are copied at a time.
BLOCK_ROWS = 256


class FoldProblem(Protocol):
    """Rows of one fold, predicted from the others."""

    def predict(self, a: float) -> FloatArray:
        """Predictions (b, k) of the fold at penalty `a`."""


@dataclass(frozen=True, eq=False)
class PrimalFold:
    """Sums over the training rows, and the features of the fold."""

    gram: FloatArray
    cross: FloatArray
    sums: FloatArray
    total: float  # weight of the training rows
    level: FloatArray
    test: FloatArray

    def predict(self, a: float) -> FloatArray:
        """Predictions (b, k) of the fold at penalty `a`."""
        beta = _solve(self.gram, a, self.cross)
        return np.asarray(self.level + (self.test - self.sums / self.total) @ beta)


@dataclass(frozen=True, eq=False)
class DualFold:
    """Products of the training rows with each other and with the fold."""

    kernel: FloatArray
    rows: IntArray
    test: IntArray
    Y: FloatArray
    weights: FloatArray

    def predict(self, a: float) -> FloatArray:
        """Predictions (b, k) of the fold at penalty `a`."""
        alpha, b = dual_solve(self.kernel[np.ix_(self.rows, self.rows)], self.Y[self.rows], self.weights[self.rows], a)
        return np.asarray(self.kernel[np.ix_(self.test, self.rows)] @ alpha + b)


def _solve(gram: FloatArray, a: float, right: FloatArray) -> FloatArray:
    """(gram + a I)^{-1} right."""
    shifted = gram.copy()
    shifted[np.diag_indices(len(shifted))] += a
    return _cholesky(shifted, right)


def _cholesky(matrix: FloatArray, right: FloatArray) -> FloatArray:
    try:
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError as err:
        raise ConvergenceError(
            "the normal equations of the ridge are not positive definite", remedy="Rescale X, or pass a larger ridge"
        ) from err
    return np.asarray(cho_solve(factor, right, check_finite=False))


def dual_solve(kernel: FloatArray, Y: FloatArray, weights: FloatArray, a: float) -> tuple[FloatArray, FloatArray]:
    """Alpha (n, k) and the intercept (k,) of the dual form; `kernel` is used up."""
    kernel[np.diag_indices(len(kernel))] += a / weights
    solved = _cholesky(kernel, np.column_stack([Y, np.ones(len(Y))]))
    b = solved[:, :-1].sum(axis=0) / solved[:, -1].sum()
    return np.asarray(solved[:, :-1] - solved[:, -1:] * b), np.asarray(b)


@dataclass(frozen=True, eq=False)
class Standardised:
    """Features of weighted mean 0 and, unless their scale is kept, variance 1; constant ones become 0."""

    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, C: FloatArray, weights: FloatArray, *, scaled: bool = True) -> Standardised:
        """From features (n, F) and row weights (n,)."""
        total = weights.sum()
        parts = [slice(k, k + BLOCK_ROWS) for k in range(0, len(C), BLOCK_ROWS)]  # a copy of all would double memory
        centre = sum((weights[part] @ C[part] for part in parts), np.zeros(C.shape[1])) / total
        squares = sum((weights[part] @ (C[part] - centre) ** 2 for part in parts), np.zeros(C.shape[1]))
        deviation = np.sqrt(squares / total)
        live = deviation > CONSTANT * np.abs(centre)
        return cls(centre, np.where(live, deviation if scaled else 1.0, np.inf))

    def __call__(self, C: FloatArray) -> FloatArray:
        """The features, standardised in place."""
        C -= self.centre
        C /= self.scale
        return C

    def unscale(self, beta: FloatArray, level: FloatArray, penalty: float) -> RidgeFit:
        """The ridge on features as they are, from coefficients on standardised ones."""
        coef = beta / self.scale[:, None]
        return RidgeFit(np.asarray(coef), level - self.centre @ coef, penalty)


class FeatureRidge:
    """Out-of-fold predictions and the final fit from features that all folds share.

    Parameters
    ----------
    C : array (n, F)
        Features; used up.
    Y : array (n, k)
        Targets.
    weights : array (n,)
        Positive row weights.
    folds : array (n,) of int
        Fold of each row; rows of number −1 are in none and only train.
    scaled : bool
        Scale the features to unit variance.
    """

    def __init__(
        self, C: FloatArray, Y: FloatArray, weights: FloatArray, folds: IntArray, *, scaled: bool = True
    ) -> None:
        self.Y, self.weights = Y, weights
        self.standard = Standardised.of(C, weights, scaled=scaled)
        S = self.S = self.standard(C)
        n, F = S.shape
        self.primal = n >= F
        tests = [np.flatnonzero(folds == k) for k in range(int(folds.max()) + 1)]
        if self.primal:
            parts = [self._sums(rows) for rows in (*tests, np.flatnonzero(folds < 0))]
            self.gram, self.cross = sum(g for g, _ in parts[1:]) + parts[0][0], sum(c for _, c in parts)
            trace = float(np.trace(self.gram))
        else:
            self.gram = S @ S.T
            trace = float(weights @ np.diag(self.gram))
        self.unit = trace / min(n, F) if trace > 0 else 1.0
        self.problems: list[FoldProblem] = [
            self._fold(rows, *parts[k])
            if self.primal
            else DualFold(self.gram, np.setdiff1d(np.arange(n), rows), rows, Y, weights)
            for k, rows in enumerate(tests)
        ]

    def _sums(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Weighted products of features with each other and with the targets over some rows."""
        root = np.sqrt(self.weights[rows])[:, None]
        weighted = self.S[rows] * root
        return weighted.T @ weighted, weighted.T @ (root * self.Y[rows])

    def _fold(self, rows: IntArray, gram: FloatArray, cross: FloatArray) -> PrimalFold:
        """Sums without the rows of a fold, from those over them, which are overwritten."""
        w, S, Y = self.weights[rows], self.S[rows], self.Y[rows]
        total = float(self.weights.sum() - w.sum())
        # the weighted sums of all rows are zero
        sums, level = -(w @ S), (self.weights @ self.Y - w @ Y) / total
        np.subtract(self.gram, gram, out=gram)
        gram -= np.outer(sums, sums / total)
        return PrimalFold(gram, self.cross - cross - np.outer(sums, level), sums, total, level, S)

    def fit(self, a: float) -> RidgeFit:
        """The ridge on all rows, for features as they are."""
        total = float(self.weights.sum())
        if self.primal:
            level = self.weights @ self.Y / total
            beta = _solve(self.gram, a, self.cross - np.outer(self.weights @ self.S, level))
            return self.standard.unscale(beta, level, a / total)
        alpha, level = dual_solve(self.gram.copy(), self.Y, self.weights, a)
        return self.standard.unscale(self.S.T @ alpha, level, a / total)


def out_of_fold(
    problems: Sequence[FoldProblem],
    unit: float,
    Y: FloatArray,
    weights: FloatArray,
    folds: IntArray,
    penalty: Callable[[float], float] | None = None,
    start: float = START,
) -> tuple[FloatArray, float, float]:
    """Out-of-fold predictions (n, k) at the penalty of least squared error, that penalty, and its exponent.

    Parameters
    ----------
    problems : sequence
        One for each fold.
    unit : float
        Average eigenvalue, the unit of penalties.
    Y, weights, folds : arrays
        Targets, row weights and fold of each row.
    penalty : callable, optional
        A fixed penalty as a function of the weight of the training rows; no search then.
    start : float
        Exponent to begin with.
    """

    def predictions(a: Callable[[float], float]) -> FloatArray:
        predicted = np.full_like(Y, np.nan)
        for k, problem in enumerate(problems):
            rows = folds == k
            predicted[rows] = problem.predict(a(float(weights[~rows].sum())))
        return predicted

    if penalty is not None:
        return predictions(penalty), penalty(float(weights.sum())), start
    seen: dict[float, tuple[float, FloatArray]] = {}

    def loss(exponent: float) -> float:
        if exponent not in seen:
            predicted = predictions(lambda _: unit * 10**exponent)
            seen[exponent] = (float(weights @ ((Y - predicted) ** 2).sum(axis=1)), predicted)
            for other in [e for e in seen if seen[e][0] > min(v for v, _ in seen.values())]:
                seen[other] = (seen[other][0], predicted[:0])  # only the best predictions are kept
        return seen[exponent][0]

    best = start
    while True:
        sides = [e for e in (best - STEP, best + STEP) if LOWEST <= e <= HIGHEST]
        better = min((best, *sides), key=loss)
        if better == best:
            return seen[best][1], unit * 10**best, best
        best = better
