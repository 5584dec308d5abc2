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
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import ComplexArray
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
