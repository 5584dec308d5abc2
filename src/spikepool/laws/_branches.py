"""Real branches of s(y): where the mass is not, s runs monotonically between two poles.

On the circle of real numbers with infinity, s(y) has a pole at minus every atom and increases with −y in between (a
continuous piece takes the place of a run of poles). One branch, the *central* one, runs from below −t_max through
infinity and zero to −t_min; it is parametrised by

    omega = y/(y + t_max),   y = t_max·omega/(1 − omega),    omega from omega_min ≤ 0 to +inf,

in which s is decreasing, with y = 0 at omega = 0 and y = infinity (s = 0) at omega = 1. The *inner* branches lie
between neighbouring pieces t_lo < −y < t_hi and are parametrised by x = −y, in which s is increasing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import ConvergenceError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.roots import dips_below, newton
from spikepool.laws._population import AtomPopulation, Population

# nodes of the table from which a branch is inverted; odd, for the middle of the central branch
_NODES = 65

# beyond this many times the largest atom, y is not read from omega alone
_FAR = 16.0

# from here on y = −t_max to the last bit, where Q of atoms is infinite
_LARGEST_OMEGA = 1e30

# omega this close to zero is a hard edge; the transform of a law has a singularity at zero itself
_HARD = 1e-11


@dataclass(frozen=True)
class Windows:
    """Parts of the branches on which Q stays below a bound, one entry for each.

    Attributes
    ----------
    population : Population
        Whose branches they are.
    central : numpy.ndarray of bool
        Whether the parameter is omega (central branch) or x = −y (inner branch).
    start, stop : numpy.ndarray
        Parameters of the ends at which s is smallest and largest.
    low, high : numpy.ndarray
        s at these ends.
    """

    population: Population
    central: NDArray[np.bool_]
    start: FloatArray
    stop: FloatArray
    low: FloatArray
    high: FloatArray

    def y(self, parameter: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        """Points y at parameters of the windows `index`."""
        top = self.population.pieces[-1, 1]
        with np.errstate(divide="ignore"):
            return np.where(self.central[index], top * parameter / (1 - parameter), -parameter)

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray]:
        """Parameters along each window, crowded at its ends, and s there; s increases along a row."""
        unit = (1 - np.cos(np.pi * np.arange(_NODES) / (_NODES - 1))) / 2
        nodes = self.start[:, None] + (self.stop - self.start)[:, None] * unit
        # the middle of the central branch is s = 0, at omega = 1; its two sides differ by orders of magnitude
        half = (_NODES - 1) // 2
        ramp = (np.arange(half + 1) / half) ** 2
        below = 1 + (self.start[:, None] - 1) * ramp[::-1]
        above = 1 + (self.stop[:, None] - 1) * ramp[1:]
        nodes = np.where(self.central[:, None], np.concatenate([below, above], axis=1), nodes)
        index = np.repeat(np.arange(len(nodes)), _NODES)
        y = self.y(nodes.ravel(), index)
        s = np.zeros(len(y))
        finite = np.isfinite(y)
        s[finite] = self.population.terms(y[finite])[0]
        return nodes, np.maximum.accumulate(s.reshape(nodes.shape), axis=1)

    def parameter(self, s: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        """Parameter on the windows `index` at which s takes given values, each between low and high.

        Newton's method from a table, kept inside a shrinking bracket.
        """
        pop = self.population
        nodes, values = self._table
        place = np.clip((values[index] < s[:, None]).sum(axis=1), 1, _NODES - 1)
        a, b = nodes[index, place - 1], nodes[index, place]  # s(a) <= s <= s(b)
        sa, sb = values[index, place - 1], values[index, place]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.nan_to_num((s - sa) / (sb - sa), nan=0.5)
        x = a + np.clip(share, 0.0, 1.0) * (b - a)
        central = self.central[index]

        def miss(w: FloatArray, i: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
            with np.errstate(divide="ignore", invalid="ignore"):
                y = self.y(w, index[i])
                value, Q = pop.terms(np.where(np.isfinite(y), y, 1e300))
                return value - s[i], (Q - value) / np.where(central[i], w * (1 - w), w)

        report = newton(miss, a, b, x)
        if not report.converged.all():
            worst = int(np.argmin(report.converged))
            raise ConvergenceError(
                "a real branch could not be inverted at s",
                float(s[worst]),
                "Merge atoms that agree to more than 13 digits",
                point=float(s[worst]),
                residual=float(report.residual[worst]),
            )
        return np.asarray(report.value)

    def invert(self, s: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        """Points y on the windows `index` at which s(y) takes given values."""
        if self.population.single:
            return np.asarray(self.population.pieces[0, 0] * (self.population.mass / s - 1))
        y = self.y(self.parameter(s, index), index)
        # omega near 1 holds few digits of a large y, where s is nearly mean/y: a Newton step for log s as a function of
        # log y, d log s/d log y = Q/s − 1, brings them back
        far = self.central[index] & (np.abs(y) > _FAR * self.population.pieces[-1, 1]) & np.isfinite(y)
        if far.any():
            value, Q = self.population.terms(y[far])
            y[far] *= np.exp(np.log(s[far] / value) / (Q / value - 1))
        return y


def windows(pop: Population, bound: float) -> Windows:
    """Return the parts of all branches with Q < `bound`; Q is convex along a branch, so each is one interval."""
    central, inner = _central_window(pop, bound), _inner_windows(pop, bound)
    start, stop = np.concatenate([central[0], inner[0]]), np.concatenate([central[1], inner[1]])
    kind = np.arange(len(start)) == 0
    bare = Windows(pop, kind, start, stop, start, stop)
    index = np.arange(len(start))
    low, _ = pop.terms(bare.y(start, index))
    high, _ = pop.terms(bare.y(stop, index))
    return Windows(pop, kind, start, stop, low, high)


def _central_window(pop: Population, bound: float) -> tuple[FloatArray, FloatArray]:
    """Ends omega (large: s lowest; small: s highest) of {Q < bound} on the central branch."""
    low, top = pop.pieces[0, 0], pop.pieces[-1, 1]
    target = np.sqrt(bound)

    def excess(omega: FloatArray, _: Any = None) -> tuple[FloatArray, FloatArray]:
        # the square root of Q is nearly linear in omega: few steps
        _, Q, C = pop.cubes(top * omega / (1 - omega))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sqrt(Q) - target, (C - Q) / (np.sqrt(Q) * omega * (1 - omega))

    def reach(near: float, widen: Callable[[float], float]) -> float:
        """The first of a sequence of parameters at which Q exceeds the bound."""
        while abs(near) < _LARGEST_OMEGA:
            if not excess(np.array([near]))[0][0] < 0:
                return near
            near = widen(near)
        raise ConvergenceError(
            "a window of the central branch has no end",
            near,
            "Pass continuous laws as an AtomicLaw of their quantiles, or rescale the atoms",
            point=near,
        )

    # Q ≤ mass (omega − 1)² on the right, with equality for one atom
    first = 1 + target / np.sqrt(pop.mass)
    far = reach(first, lambda omega: 1 + 4 * (omega - 1))
    right = newton(excess, np.ones(1), np.array([far]), np.array([first])).value
    # towards the smallest mass, where omega_min = −low/(top − low); Q passes through `mass` at omega = 0
    if pop.mass >= bound or low == 0:
        if excess(np.array([_HARD]))[0][0] <= 0:  # mass reaches to zero, and Q stays below the bound up to there
            return right, np.array([_HARD])
        guess = max(0.5 * (2 - first), 1e-3)
        left = newton(excess, np.ones(1), np.array([_HARD]), np.array([guess]))
    else:
        floor = -low / (top - low) if top > low else -np.inf
        guess = max(min(2 - first, -2 * _HARD), floor / 2)

        def nearer(omega: float) -> float:
            return 4 * omega if top == low else max(4 * omega, floor + (omega - floor) / 4)

        near = reach(guess, nearer)
        left = newton(excess, np.array([max(-_HARD, floor / 4)]), np.array([near]), np.array([near]))
    return right, left.value


def _inner_windows(pop: Population, bound: float) -> tuple[FloatArray, FloatArray]:
    """Ends x (small: s lowest) of {Q < bound} on the inner branches where it is not empty."""
    low, high = pop.pieces[:-1, 1], pop.pieces[1:, 0]
    keep = high > low
    if isinstance(pop, AtomPopulation):
        # Q exceeds the share of the two neighbours, whose minimum over the branch is (a^{1/3} + b^{1/3})³/width²
        share = np.cbrt(pop.squares)
        keep &= (share[:-1] + share[1:]) ** 3 < bound * (high - low) ** 2
    low, high = low[keep], high[keep]
    if not len(low):
        return low, high

    def excess(x: FloatArray, _: Any = None) -> tuple[FloatArray, FloatArray]:
        _, Q, C = pop.cubes(-x)
        with np.errstate(invalid="ignore", over="ignore"):  # next to a pole both are infinite
            return Q - bound, 2 * (C - Q) / x

    deep, where = dips_below(excess, low, high)
    low, high, where = low[deep], high[deep], where[deep]
    inside = 1e-14 * np.abs(where)

    def root_excess(x: FloatArray, _: Any = None) -> tuple[FloatArray, FloatArray]:
        # next to a pole 1/sqrt(Q) is linear
        value, slope = excess(x)
        Q = value + bound
        return 1 / np.sqrt(bound) - 1 / np.sqrt(Q), slope / (2 * Q * np.sqrt(Q))

    left, right = np.minimum(low + inside, where), np.maximum(high - inside, where)
    # 1/sqrt(Q) is about distance/sqrt(squares): start where the line from the pole says
    start = newton(root_excess, where, left, (left + where) / 2)
    stop = newton(root_excess, where, right, (right + where) / 2)
    return start.value, stop.value
