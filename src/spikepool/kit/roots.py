"""Root finders that report how they ended.

Nothing here decides what to do about a failure: every solver returns a :class:`SolverReport` and the caller, who knows
the point and the remedy, raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import elementwise

from spikepool.kit.arrays import FloatArray


@dataclass(frozen=True)
class SolverReport:
    """Outcome of an iterative solver, one entry for each problem.

    Attributes
    ----------
    value : numpy.ndarray
        Where it stopped.
    residual : numpy.ndarray
        Size of what should be zero, in the solver's own measure.
    converged : numpy.ndarray of bool
        Whether the tolerance was met.
    steps : int
        Iterations spent, counted once for the whole batch.
    """

    value: NDArray[Any]
    residual: FloatArray
    converged: NDArray[np.bool_]
    steps: int


def find_root(
    f: Callable[[FloatArray, NDArray[np.intp]], FloatArray],
    lo: FloatArray,
    hi: FloatArray,
    *,
    xtol: float = 4e-16,
    max_steps: int = 200,
) -> SolverReport:
    """Roots of many scalar functions at once, each bracketed by ``[lo, hi]``: scipy's Chandrupatla with an index.

    Parameters
    ----------
    f : callable
        ``f(x, index)`` gives the values at points `x` of the problems `index`.
    lo, hi : numpy.ndarray
        Brackets; the signs of f at the two ends must differ (zero counts as either).
    xtol : float
        Stop when the bracket is this short relative to the root.
    max_steps : int
        Limit on the iterations.

    Returns
    -------
    SolverReport
        `residual` is the final length of the bracket relative to the root. A problem without a sign change is
        reported as not converged, with an infinite residual.
    """
    index = np.arange(len(lo))
    if not len(index):
        return SolverReport(np.empty(0), np.empty(0), np.empty(0, dtype=bool), 0)
    with np.errstate(all="ignore"):  # a problem without a sign change runs on as NaN
        solution = elementwise.find_root(
            lambda x, i: np.asarray(f(x, i.astype(np.intp)), dtype=np.float64),
            (np.asarray(lo, dtype=np.float64), np.asarray(hi, dtype=np.float64)),
            args=(index,),
            tolerances={"xatol": 1e-300, "xrtol": 2 * xtol, "fatol": 0.0, "frtol": 0.0},
            maxiter=max_steps,
        )
        width = np.abs(solution.bracket[1] - solution.bracket[0]) / np.maximum(np.abs(solution.x), 1e-300)
    residual = np.where(solution.success, np.where(solution.f_x == 0, 0.0, width), np.inf)
    return SolverReport(solution.x, residual, np.asarray(solution.success), int(solution.nfev.max()))


def newton(
    f: Callable[[FloatArray, NDArray[np.intp]], tuple[FloatArray, FloatArray]],
    negative: FloatArray,
    positive: FloatArray,
    start: FloatArray,
    *,
    max_steps: int = 200,
) -> SolverReport:
    """Roots of many monotone functions by Newton's method, kept inside shrinking brackets.

    Parameters
    ----------
    f : callable
        ``f(x, index)`` gives values and slopes at points `x` of the problems `index`.
    negative, positive : numpy.ndarray
        Ends of the brackets at which f is negative and positive, in either order; they are not evaluated.
    start : numpy.ndarray
        First guesses inside the brackets.
    max_steps : int
        Limit on the iterations.

    Returns
    -------
    SolverReport
        `residual` is the length of the last step relative to the root.
    """
    a, b = np.array(negative, dtype=np.float64), np.array(positive, dtype=np.float64)
    x = np.array(start, dtype=np.float64)
    residual = np.full(len(x), np.inf)
    previous = np.full(len(x), np.inf)
    active = np.arange(len(x))
    steps = 0
    for steps in range(1, max_steps + 1):  # noqa: B007 (reported after the loop)
        if not len(active):
            break
        i, w = active, x[active]
        value, slope = f(w, i)
        below = value < 0
        a[i], b[i] = np.where(below, w, a[i]), np.where(below, b[i], w)
        left, right = np.minimum(a[i], b[i]), np.maximum(a[i], b[i])
        size = np.abs(value)
        with np.errstate(divide="ignore", invalid="ignore"):
            fresh = w - value / slope
        # a step that stays inside but did not halve the value is followed by a bisection
        safe = (fresh >= left) & (fresh <= right) & (size <= 0.5 * previous[i])
        previous[i] = np.where(safe | np.isinf(previous[i]), size, np.inf)
        fresh = np.where(safe, fresh, (left + right) / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            residual[i] = np.abs(fresh - w) / np.abs(w)
        # Newton squares the error: a step of 1e-10 leaves nothing but rounding
        done = (safe & (residual[i] <= 1e-10)) | (right - left <= 4e-16 * np.abs(w)) | (value == 0)
        residual[i] = np.where(value == 0, 0.0, residual[i])
        x[i] = np.where(done & ~safe, w, fresh)
        active = i[~done]
    converged = np.ones(len(x), dtype=bool)
    converged[active] = False
    return SolverReport(x, residual, converged, steps)


def dips_below(
    f: Callable[[FloatArray, NDArray[np.intp]], tuple[FloatArray, FloatArray]],
    lo: FloatArray,
    hi: FloatArray,
    *,
    max_steps: int = 100,
) -> tuple[NDArray[np.bool_], FloatArray]:
    """Which convex functions, infinite at the ends of their intervals, take a negative value, and where.

    Bisection on the sign of the slope, ended as soon as a negative value is found or the tangents at the two ends
    of the bracket meet above zero.

    Parameters
    ----------
    f : callable
        ``f(x, index)`` gives values and slopes at points `x` of the problems `index`.
    lo, hi : numpy.ndarray
        The intervals.
    """
    a, b = lo.astype(np.float64), hi.astype(np.float64)
    fa, fb = np.full(len(a), np.inf), np.full(len(a), np.inf)
    da, db = np.full(len(a), -np.inf), np.full(len(a), np.inf)
    where = (a + b) / 2
    negative = np.zeros(len(a), dtype=bool)
    active = np.arange(len(a))
    for _ in range(max_steps):
        if not len(active):
            break
        i = active
        x = (a[i] + b[i]) / 2
        value, slope = f(x, i)
        where[i], negative[i] = x, value < 0
        left = slope > 0
        b[i], fb[i], db[i] = np.where(left, x, b[i]), np.where(left, value, fb[i]), np.where(left, slope, db[i])
        a[i], fa[i], da[i] = np.where(left, a[i], x), np.where(left, fa[i], value), np.where(left, da[i], slope)
        with np.errstate(invalid="ignore", over="ignore"):
            meet = (fa[i] * db[i] - fb[i] * da[i] + da[i] * db[i] * (b[i] - a[i])) / (db[i] - da[i])
        hopeless = np.isfinite(meet) & (meet > 0)
        active = i[~(negative[i] | hopeless | (b[i] - a[i] <= 1e-15 * np.abs(x)))]
    return negative, where
