"""The pair of scalar equations of a separable covariance, solved at many points.

For S = X M X' with X = A^{1/2} Z/sqrt(V) the equations of theory are, with H the law of M (V x V) and H_A that
of A (d x d),

    e = delta ∫ a dH_A/(−z(1 + ẽ a)),          ẽ = ∫ t dH/(−z(1 + e t)).

In y = 1/e and ỹ = 1/ẽ, and with s and Q of :mod:`spikepool.laws._population` (`scale` is 1 for H and delta for H_A),
they become

    s(y) = s̃(ỹ),           z = −s y ỹ.

*Uniqueness.* Given z, eliminating ỹ leaves a fixed point of T(e) = e·s̃/s, a holomorphic map of the upper half plane
into itself: it has at most one fixed point there (Denjoy–Wolff), also for real z > 0. A solution with Im e > 0 and
a small residual is therefore *the* solution, whatever path led to it, and no solution exists at a real z outside
the support.

*Newton.* With r = log(s̃/s), d r/d log y = 1 − Q Q̃/(s s̃). T never moves two points apart in the hyperbolic metric, so
the hyperbolic length of the step from e to T(e) is a merit function that every T-step lowers: a Newton step that
does not lower it is shortened, and replaced by a T-step when shortening does not help.

*Certificate.* At a fixed point in the half plane |Q Q̃/s²| ≤ 1 (Schwarz–Pick), while the real solutions that are not
limits from above have Q Q̃/s² > 1: a point that crept to the real axis is told from one that is inside the bulk.

Solutions inside the support, at many real points: where Newton starts, and what happens when it fails.

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
from spikepool.kit.roots import SolverReport
from spikepool.laws._population import Population

# Newton stops at this residual, or at this step; both are relative, r and log y being logarithms.
_RESIDUAL = 2e-15
_STEP = 1e-14
# What is accepted once rounding keeps the merit from falling: near an edge of the support the residual is small
# and the step is not, elsewhere it is the step that measures the error.
_ACCEPTED_RESIDUAL = 1e-12
_ACCEPTED_STEP = 1e-11
# d log s/d log y = Q/s − 1: rounding of y and ỹ enters the residual multiplied by these, without bound as delta -> 0,
# where y lies within sqrt(delta) of an atom. No residual below this many roundings can be asked for.
_ROUNDINGS = 8 * np.finfo(np.float64).eps


class State:
    """s, Q, s̃, Q̃, ỹ and the residual at points y."""

    def __init__(self, usage: Population, noise: Population, z: NDArray[Any], y: NDArray[Any]) -> None:
        self.y = y
        self.s, self.Q = usage.terms(y)
        self.yt = -z / (self.s * y)
        self.st, self.Qt = noise.terms(self.yt)
        self.r = np.log(self.st / self.s)
        self.jacobian = 1 - (self.Q / self.s) * (self.Qt / self.st)

    @property
    def attainable(self) -> NDArray[np.float64]:
        """A residual that rounding alone may leave."""
        return np.asarray(_ROUNDINGS * (np.abs(self.Q / self.s) + np.abs(self.Qt / self.st)))

    @property
    def merit(self) -> NDArray[np.float64]:
        """Tanh of half the hyperbolic distance from e to T(e)."""
        e = 1 / self.y
        image = e * self.st / self.s
        with np.errstate(divide="ignore", invalid="ignore"):
            rho = np.abs(e - image) / np.abs(e - image.conj())
        return np.where(np.isfinite(rho), rho, 1.0)


def solve(
    usage: Population, noise: Population, z: NDArray[Any], start: ComplexArray, *, max_steps: int = 60
) -> SolverReport:
    """y(z) in the lower half plane, at real z inside the support or complex z of the upper half plane.

    Parameters
    ----------
    usage, noise : Population
        H with scale 1 and H_A with scale delta.
    z, start : numpy.ndarray
        Points, and first guesses of y in the lower half plane.
    max_steps : int
        Limit on the evaluations of each point.

    Returns
    -------
    SolverReport
        `value` holds y, `residual` the final |r|; a point is `converged` only if Im y < 0, the certificate holds,
        and its residual or its last Newton step is at rounding level.
    """
    y = np.array(start, dtype=np.complex128)
    n = len(y)
    residual = np.full(n, np.inf)
    converged = np.zeros(n, dtype=bool)
    merit = np.full(n, np.inf)
    shrink = np.ones(n)
    base = y.copy()  # the last accepted point, and the steps that lead away from it
    newton, picard = np.zeros(n, dtype=np.complex128), np.zeros(n, dtype=np.complex128)
    best_step = np.full(n, np.inf)
    contraction = np.full(n, np.inf)
    attainable = np.zeros(n)
    active = np.arange(n)
    steps = 0
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for steps in range(1, max_steps + 1):  # noqa: B007 (reported after the loop)
            if not len(active):
                break
            i = active
            state = State(usage, noise, z[i], y[i])
            rho = state.merit
            usable = np.isfinite(state.r) & np.isfinite(state.jacobian) & (y[i].imag < 0)
            # a T-step is always progress; the factor only absorbs rounding
            accepted = usable & ((rho <= merit[i] * (1 - 1e-12)) | (shrink[i] == 0))
            step = -state.r / state.jacobian
            size, error = np.abs(step), np.abs(state.r)
            stalled = ~accepted & (shrink[i] < 1) & (best_step[i] <= _ACCEPTED_STEP)
            stalled |= ~accepted & (residual[i] <= _ACCEPTED_RESIDUAL) & (shrink[i] < 0.01)
            stalled |= ~accepted & (residual[i] <= attainable[i])
            good = i[accepted]
            base[good], merit[good] = y[good], rho[accepted]
            newton[good], picard[good] = step[accepted], -state.r[accepted]
            residual[good], best_step[good] = error[accepted], size[accepted]
            attainable[good] = state.attainable[accepted]
            contraction[good] = np.abs(1 - state.jacobian[accepted])  # of the point kept, not of a trial that failed
            finished = accepted & ((error <= _RESIDUAL) | (size <= _STEP))
            done = finished | stalled
            converged[i[done]] = True
            shrink[good] = 1.0
            refused = i[~accepted]
            # 1 -> 1/4 -> 1/16 -> 1/64 -> T-step (marked 0)
            shrink[refused] = np.where(shrink[refused] > 0.02, shrink[refused] / 4, 0.0)
            active = i[~done]
            j = active
            with_newton = shrink[j] > 0
            length = shrink[j] * np.minimum(1.0, 3.0 / np.maximum(np.abs(newton[j]), 1e-300))
            y[j] = base[j] * np.exp(np.where(with_newton, length * newton[j], picard[j]))
    y[:] = base
    accepted_residual = np.maximum(_ACCEPTED_RESIDUAL, attainable)
    # at an edge, where the certificate holds with equality, an error of the residual enters y by its square root
    certified = contraction <= 1 + np.maximum(1e-6, np.sqrt(accepted_residual))
    close = np.flatnonzero(converged & ~certified & (y.imag < 0))
    if len(close):
        certified[close] = contraction[close] <= 1 + _edge_error(usage, noise, z[close], y[close], attainable[close])
    converged &= (y.imag < 0) & certified & ((residual <= accepted_residual) | (best_step <= _ACCEPTED_STEP))
    return SolverReport(y, residual, converged, steps)


def _edge_error(
    usage: Population, noise: Population, z: NDArray[Any], y: ComplexArray, rounding: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What `rounding` of the residual may add to |1 − J| at an edge, J the Jacobian and J' its slope in log y.

    There r ≈ J' (log y − log y_0)²/2, so an r of that size displaces log y by sqrt(2r/|J'|) and J by sqrt(2r|J'|). For
    a narrow band, next to a pole of s, J' is of the order of one over its relative width.
    """
    turn = np.exp(1j * 0.01 * np.minimum(np.abs(np.angle(y)), np.pi - np.abs(np.angle(y))))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ahead, behind = (State(usage, noise, z, point).jacobian for point in (y * turn, y / turn))
        slope = np.abs(ahead - behind) / (2 * np.abs(np.angle(turn)))
    return np.asarray(np.nan_to_num(2 * np.sqrt(2 * rounding * slope), posinf=0.0))


def descend(usage: Population, noise: Population, z: ComplexArray) -> SolverReport:
    """:func:`solve` without a first guess: follow each point down from far above the real axis.

    At height h far above, e ≈ −delta ∫a dH_A/z; h falls by a constant factor until the point itself is reached.
    """
    scale = 4 * noise.mean * usage.second / usage.mean + 4 * np.abs(z) + usage.mean * noise.second / noise.mean
    target = np.maximum(z.imag, 0.0)
    factor = 0.25
    height = np.maximum(scale, target)
    y = -(z.real + 1j * height) / noise.mean
    floor = np.maximum(target, 1e-6 * np.abs(z))
    report = SolverReport(y, np.zeros(len(y)), np.ones(len(y), dtype=bool), 0)
    while True:
        at = z.real + 1j * height
        report = solve(usage, noise, at, report.value, max_steps=400)
        if np.all(height <= floor):
            break
        height = np.maximum(height * factor, floor)
    return solve(usage, noise, z, report.value, max_steps=400)


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
        report = solve(self._usage, self._noise, x, start)
        y: ComplexArray = report.value
        if not report.converged.all():
            again = ~report.converged
            second = descend(self._usage, self._noise, x[again].astype(np.complex128))
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
                solved_at = np.isfinite(solved)
                fresh, guess, solved = fresh[solved_at], guess[solved_at], solved[solved_at]
                poor = np.abs(guess / solved - 1) > 1e-3
                order = np.argsort(np.concatenate([theta, fresh]), kind="stable")
                flags = np.concatenate([np.zeros(len(theta), bool), poor])[order]
                theta = np.concatenate([theta, fresh])[order]
                y = np.concatenate([y, solved])[order]
                coarse = flags[1:] | flags[:-1]
            self._skeletons[k] = (theta, y)
        return self._skeletons[k]


def settle(solved: NDArray[np.bool_], points: NDArray[Any], *, strict: bool) -> None:
    """Name the points that were not found: in an error if `strict` or when there is no other, else in a warning."""
    lost = np.flatnonzero(~solved)
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
