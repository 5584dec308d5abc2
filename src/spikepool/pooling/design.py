"""Features as heads see them: centred, scaled, and at most as many columns as there are rows.

Each feature has unit variance; those of a sequence of positions keep their relative scales. More features than rows are
rotated to as many columns as rows,

    Z Z' = S S',    S the centred and scaled features (n, F),    Z (n, min(n, F)),

which changes no prediction of a model that penalises ‖coef‖². What was fitted to Z is carried back to the features as
they are (:class:`LinearMap`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from spikepool.kit.arrays import FloatArray
from spikepool.pooling.registry import Pooling, saved
from spikepool.pooling.sequence import SequencePooling
from spikepool.ridge.gcv import CONSTANT

# Added to products of rows in units of their rounding error, or a power of ten more.
ROUNDING = 8.0
# Rows that are copied at a time.
BLOCK_ROWS = 256


@saved
@dataclass(frozen=True, eq=False)
class LinearMap:
    """coef (F, k) on the features as they are, and intercept (k,)."""

    coef: FloatArray
    intercept: FloatArray

    def __call__(self, C: FloatArray) -> FloatArray:
        """Scores (n, k) of features (n, F)."""
        return np.asarray(C @ self.coef + self.intercept)


@dataclass(frozen=True, eq=False)
class Design:
    """Features of some rows as heads see them, and the way back to features as they are.

    Attributes
    ----------
    Z : array (n, r)
        Centred and scaled features, rotated where there are more of them than rows.
    back : callable
        Coefficients (r, k) on Z and intercept (k,) as a :class:`LinearMap`.
    """

    Z: FloatArray
    back: Callable[[FloatArray, FloatArray], LinearMap]


def design(rows: Any, pooling: Pooling, weights: FloatArray) -> Design:
    """The design of a pooling on the learning rows."""
    if isinstance(pooling, SequencePooling) and pooling.size > rows.source.n:
        return _of_products(rows, pooling, weights)
    C = rows.features(pooling, rows.working_type)
    return of_features(C, weights, scaled=not isinstance(pooling, SequencePooling))


def of_features(C: FloatArray, weights: FloatArray, *, scaled: bool) -> Design:
    """The design of features C (n, F), which are used up; constant ones become 0."""
    n, F = C.shape
    total = weights.sum()
    parts = [slice(k, k + BLOCK_ROWS) for k in range(0, n, BLOCK_ROWS)]  # a copy of all would double memory
    centre = sum((weights[part] @ C[part] for part in parts), np.zeros(F)) / total
    squares = sum((weights[part] @ (C[part] - centre) ** 2 for part in parts), np.zeros(F))
    deviation = np.sqrt(squares / total)
    scale = np.where(deviation > CONSTANT * np.abs(centre), deviation if scaled else 1.0, np.inf)
    S = C
    S -= centre
    S /= scale
    Z = S if n >= F else _root((S @ S.T).astype(np.float64), S.dtype)

    def back(coef: FloatArray, intercept: FloatArray) -> LinearMap:
        if Z is not S:
            coef = np.asarray(S.T @ solve_triangular(Z, coef, trans="T", lower=True).astype(S.dtype), dtype=np.float64)
        coef = coef / scale[:, None]
        return LinearMap(coef, intercept - centre @ coef)

    return Design(Z, back)


def _of_products(rows: Any, pooling: SequencePooling, weights: FloatArray) -> Design:
    """The design of a sequence of positions with more features than rows, which are never held together."""
    share = weights / weights.sum()
    K = pooling.products(rows)
    mean = K @ share
    K -= mean[:, None]
    K -= mean - share @ mean
    Z = _root(K, rows.working_type)

    def back(coef: FloatArray, intercept: FloatArray) -> LinearMap:
        alpha = solve_triangular(Z, coef, trans="T", lower=True)
        full, centre = pooling.coefficients(rows, alpha - share[:, None] * alpha.sum(axis=0))
        return LinearMap(full, intercept - centre @ full)

    return Design(Z, back)


def _root(gram: FloatArray, dtype: Any) -> FloatArray:
    """L, lower triangular, with L L' = gram plus as much of the identity as the rounding of `dtype` takes."""
    added = max(ROUNDING * float(np.finfo(dtype).eps) * float(np.trace(gram)) / len(gram), 1e-30)
    while True:
        try:
            return np.asarray(cholesky(gram + added * np.eye(len(gram)), lower=True))
        except LinAlgError:
            added *= 10
