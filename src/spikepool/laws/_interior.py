"""Solutions inside the support, at many real points: where Newton starts, and what happens when it fails.

A point of an interval starts from a half circle between the values of y at the two edges (exact for one atom each).
When many points are asked for, a skeleton of solved points is refined first until interpolation between them predicts
new ones; points then need two or three evaluations each. A point on which Newton fails is followed down from far
above the real axis; if that fails too, it is NaN, and the caller names it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from spikepool.errors import ConvergenceError, UnresolvedPointWarning
from spikepool.kit.arrays import ComplexArray, FloatArray
from spikepool.laws import _separable
from spikepool.laws._population import Population

# An interval with more requested points than this gets a skeleton of solved points to start from.
_SKELETON_PAYS = 24
_SKELETON_FIRST, _SKELETON_LAST = 16, 4096


class Interior:
    """y(x + i0) inside the intervals of a separable law.

    Parameters
    ----------
    usage, noise : Population
        H with scale 1 and H_A with scale delta.
    intervals, edge_y : numpy.ndarray of shape (k, 2)
        The support, and y at its edges.
    """

    def __init__(self, usage: Population, noise: Population, intervals: FloatArray, edge_y: FloatArray) -> None:
        self._usage, self._noise = usage, noise
        self._intervals, self._edge_y = intervals, edge_y
        self._skeletons: dict[int, tuple[FloatArray, ComplexArray]] = {}

    def solve(self, flat: FloatArray) -> tuple[NDArray[np.bool_], ComplexArray]:
        """Mask of the points inside the intervals, and y at them; NaN where it was not found."""
        ends = self._intervals
        place = np.searchsorted(ends[:, 0], flat, side="right") - 1
        inside = (place >= 0) & (flat < ends[np.maximum(place, 0), 1]) & (flat > ends[np.maximum(place, 0), 0])
        x, place = flat[inside], place[inside]
        y = np.empty(len(x), dtype=np.complex128)
        for k in np.unique(place):
            rows = place == k
            y[rows] = self._interval_solution(int(k), x[rows])
        return inside, y

    def _interval_solution(self, k: int, x: FloatArray) -> ComplexArray:
        theta = self._theta(k, x)
        left, right = self._intervals[k]
        if len(x) > _SKELETON_PAYS and right - left > 1e-9 * right:  # a narrower one has no room for nodes
            nodes, values = self._skeleton(k)
            start = _interpolate(nodes, values, theta)
        elif k in self._skeletons:
            start = _interpolate(*self._skeletons[k], theta)
        else:
            start = self._arc(k, theta)
        return self._newton(x, start)

    def _newton(self, x: FloatArray, start: ComplexArray) -> ComplexArray:
        report = _separable.solve(self._usage, self._noise, x, start)
        y: ComplexArray = report.value
        if not report.converged.all():
            again = ~report.converged
            second = _separable.descend(self._usage, self._noise, x[again].astype(np.complex128))
            y[again] = np.where(second.converged, second.value, np.nan)
        return y

    def _theta(self, k: int, x: FloatArray) -> FloatArray:
        """Angle in (0, π) with x = middle − half·cos(theta): square-root edges become regular."""
        left, right = self._intervals[k]
        return np.asarray(2 * np.arctan2(np.sqrt(x - left), np.sqrt(right - x)))

    def _x(self, k: int, theta: FloatArray) -> FloatArray:
        left, right = self._intervals[k]
        return np.asarray(left + (right - left) * np.sin(theta / 2) ** 2)

    def _arc(self, k: int, theta: FloatArray) -> ComplexArray:
        """First guess: y on a half circle between its values at the edges, which is exact for one atom each."""
        first, last = self._edge_y[k]
        middle, half = (first + last) / 2, (first - last) / 2
        height = max(abs(half), 0.1 * abs(middle))
        return np.asarray(middle + half * np.cos(theta) - 1j * height * np.sin(theta))

    def _skeleton(self, k: int) -> tuple[FloatArray, ComplexArray]:
        """Solved points of an interval, refined until cubic interpolation between them predicts new ones."""
        if k not in self._skeletons:
            theta = np.pi * (np.arange(_SKELETON_FIRST) + 0.5) / _SKELETON_FIRST
            y = self._newton(self._x(k, theta), self._arc(k, theta))
            theta, y = theta[np.isfinite(y)], y[np.isfinite(y)]
            if len(theta) < 2:
                raise ConvergenceError(
                    "no solution of the separable equations inside the interval that starts at",
                    float(self._intervals[k, 0]),
                    "Merge atoms that nearly coincide",
                    point=float(self._intervals[k, 0]),
                )
            coarse = np.ones(len(theta) - 1, dtype=bool)
            while coarse.any() and len(theta) < _SKELETON_LAST:
                fresh = ((theta[1:] + theta[:-1]) / 2)[coarse]
                guess = _interpolate(theta, y, fresh)
                solved = self._newton(self._x(k, fresh), guess)
                found = np.isfinite(solved)
                fresh, guess, solved = fresh[found], guess[found], solved[found]
                poor = np.abs(guess / solved - 1) > 1e-3
                order = np.argsort(np.concatenate([theta, fresh]), kind="stable")
                flags = np.concatenate([np.zeros(len(theta), bool), poor])[order]
                theta = np.concatenate([theta, fresh])[order]
                y = np.concatenate([y, solved])[order]
                coarse = flags[1:] | flags[:-1]
            self._skeletons[k] = (theta, y)
        return self._skeletons[k]


def settle(found: NDArray[np.bool_], points: NDArray[Any], *, strict: bool) -> None:
    """Name the points that were not found: in an error if `strict` or when there is no other, else in a warning."""
    lost = np.flatnonzero(~found)
    if not len(lost):
        return
    first = points[lost[0]].item()
    if strict or len(lost) == len(points):
        raise ConvergenceError(
            "no solution of the separable equations at",
            first,
            "Move the point away from an edge of the support, or merge atoms that nearly coincide",
            point=first,
        )
    named = ", ".join(f"{points[i]:.17g}" for i in lost[:3])
    warnings.warn(
        f"{len(lost)} of {len(points)} points did not converge and are NaN: {named}{', ...' if len(lost) > 3 else ''}",
        UnresolvedPointWarning,
        stacklevel=4,
    )


def _interpolate(nodes: FloatArray, values: ComplexArray, at: FloatArray) -> ComplexArray:
    """Cubic interpolation of log y, kept in the lower half plane."""
    # log y is continuous with imaginary part in (−π, 0)
    logs = np.log(values)
    real, imag = PchipInterpolator(nodes, logs.real), PchipInterpolator(nodes, logs.imag)
    inner = np.clip(at, nodes[0], nodes[-1])
    angle = np.clip(imag(inner), -np.pi + 1e-12, -1e-12)
    # beyond the outermost nodes the angle tends to that of the edge like theta does
    angle = np.where(at < nodes[0], _fade(angle, at / nodes[0]), angle)
    angle = np.where(at > nodes[-1], _fade(angle, (np.pi - at) / (np.pi - nodes[-1])), angle)
    result: ComplexArray = np.exp(real(inner) + 1j * angle)
    return result


def _fade(angle: FloatArray, share: FloatArray) -> FloatArray:
    """`angle` moved towards the nearer of 0 and −π in proportion to 1 − `share`."""
    edge = np.where(angle > -np.pi / 2, 0.0, -np.pi)
    return np.asarray(edge + (angle - edge) * np.maximum(share, 1e-9))
