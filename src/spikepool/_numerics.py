"""Vectorised solvers that report, and quadrature nodes.

Nothing here decides what to do about a failure: every solver returns a :class:`Report` and the caller, who knows
the point and the remedy, raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_GOLDEN = (3 - 5**0.5) / 2


@dataclass(frozen=True)
class Report:
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
) -> Report:
    """Roots of many scalar functions at once, each bracketed by ``[lo, hi]`` (Chandrupatla, 1997).

    Inverse quadratic interpolation where it is safe, bisection elsewhere: a bracket is never lost, and the number
    of steps is that of bisection at worst.

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
    Report
        `residual` is the final length of the bracket relative to the root. A problem without a sign change is
        reported as not converged, with an infinite residual.
    """
    everything = np.arange(len(lo))
    a, b = np.array(hi, dtype=np.float64), np.array(lo, dtype=np.float64)
    fa, fb = np.asarray(f(a, everything), float), np.asarray(f(b, everything), float)
    c, fc = a.copy(), fa.copy()
    t = np.full(len(a), 0.5)
    bracketed = np.sign(fa) * np.sign(fb) <= 0
    value = np.where(np.abs(fa) < np.abs(fb), a, b)
    residual = np.where(bracketed & ((fa == 0) | (fb == 0)), 0.0, np.inf)
    active = np.flatnonzero(bracketed & (fa != 0) & (fb != 0))
    steps = 0
    for steps in range(1, max_steps + 1):  # noqa: B007 (reported after the loop)
        if not len(active):
            break
        i = active
        x = a[i] + t[i] * (b[i] - a[i])
        fx = np.asarray(f(x, i), float)
        same = np.sign(fx) == np.sign(fa[i])
        c[i] = np.where(same, a[i], b[i])
        fc[i] = np.where(same, fa[i], fb[i])
        b[i] = np.where(same, b[i], a[i])
        fb[i] = np.where(same, fb[i], fa[i])
        a[i], fa[i] = x, fx
        best = np.where(np.abs(fa[i]) < np.abs(fb[i]), a[i], b[i])
        width = np.abs(b[i] - a[i])
        tolerance = 2 * xtol * np.abs(best) + 1e-300
        value[i] = best
        residual[i] = width / np.maximum(np.abs(best), 1e-300)
        limit = tolerance / np.maximum(width, 1e-300)
        done = (limit > 0.5) | (fx == 0)
        residual[i] = np.where(fx == 0, 0.0, residual[i])
        with np.errstate(divide="ignore", invalid="ignore"):
            xi = (a[i] - b[i]) / (c[i] - b[i])
            phi = (fa[i] - fb[i]) / (fc[i] - fb[i])
            quadratic = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            al = (c[i] - a[i]) / (b[i] - a[i])
            new = fa[i] / (fb[i] - fa[i]) * fc[i] / (fb[i] - fc[i]) + al * fa[i] / (fc[i] - fa[i]) * fb[i] / (
                fc[i] - fb[i]
            )
        t[i] = np.clip(np.where(quadratic & np.isfinite(new), new, 0.5), limit, 1 - np.minimum(limit, 0.5))
        active = i[~done]
    converged = np.ones(len(a), dtype=bool)
    converged[active] = False
    return Report(value, residual, converged & bracketed, steps)


def minimise(
    f: Callable[[FloatArray, NDArray[np.intp]], FloatArray],
    lo: FloatArray,
    hi: FloatArray,
    *,
    below: float | None = None,
    steps: int = 40,
) -> tuple[FloatArray, FloatArray]:
    """Minima of many unimodal functions on open intervals by golden sections; ``(where, value)``.

    With `below`, a problem is left as soon as a value below it is found.
    """
    everything = np.arange(len(lo))
    a, b = lo.astype(np.float64), hi.astype(np.float64)
    x1, x2 = a + _GOLDEN * (b - a), b - _GOLDEN * (b - a)
    f1, f2 = f(x1, everything), f(x2, everything)
    active = everything
    for _ in range(steps):
        if below is not None:
            active = active[np.minimum(f1[active], f2[active]) >= below]
        if not len(active):
            break
        i = active
        left = f1[i] < f2[i]
        b[i] = np.where(left, x2[i], b[i])
        a[i] = np.where(left, a[i], x1[i])
        fresh = np.where(left, a[i] + _GOLDEN * (b[i] - a[i]), b[i] - _GOLDEN * (b[i] - a[i]))
        value = f(fresh, i)
        kept, kept_value = np.where(left, x1[i], x2[i]), np.where(left, f1[i], f2[i])
        x1[i], f1[i] = np.where(left, fresh, kept), np.where(left, value, kept_value)
        x2[i], f2[i] = np.where(left, kept, fresh), np.where(left, kept_value, value)
    where = np.where(f1 < f2, x1, x2)
    return where, np.minimum(f1, f2)


def tanh_sinh(n: int = 200, reach: float = 3.4) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Nodes of double exponential quadrature on [0, 1]: ``(u, 1 − u, weights)``.

    Integrable singularities of any algebraic order at either end are allowed; the distances to both ends are
    given, so that neither is lost to rounding.
    """
    k = np.linspace(-reach, reach, n)
    step = k[1] - k[0]
    argument = np.pi * np.sinh(k)
    u, v = 1 / (1 + np.exp(-argument)), 1 / (1 + np.exp(argument))
    return u, v, step * np.pi * np.cosh(k) * u * v


def derivative(f: Callable[[Any], Any], z: NDArray[Any], radius: FloatArray, n: int = 16) -> NDArray[Any]:
    """f'(z) of an analytic f as the mean over `n` points of a circle (Cauchy's formula).

    The error is that of f over `radius`, plus (radius over the distance to the nearest singularity)^n.
    """
    turn = np.exp(2j * np.pi * (np.arange(n) + 0.5) / n)
    points = np.asarray(z)[..., None] + np.asarray(radius)[..., None] * turn
    result: NDArray[Any] = np.mean(f(points) * turn.conj(), axis=-1) / radius
    return result
