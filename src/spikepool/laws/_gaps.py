"""Gaps of the support, from real solutions of the separable equations.

A real pair (y, ỹ) with s(y) = s̃(ỹ) gives the real point z = −s y ỹ. Along such a curve

    d log z/ds = (Q Q̃ − s²) / (s (Q − s)(Q̃ − s)),

and z lies outside the support exactly where it increases with s, which in every case of signs means

    Q Q̃ < s²                                                     (gap)

(the criterion of Silverstein and Choi for one population law, of Couillet and Hachem for two). The ends of the
gaps are the edges of the support: Q Q̃ = s². By Cauchy–Schwarz s² ≤ Q·mass and s² ≤ Q̃·mass~, so that a gap needs
Q < mass~ and Q̃ < mass; each holds on one window of a branch, and few branches have one. For a single noise atom
Q̃ = s²/mass~ and the windows are the gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import ConvergenceError, OnSupportError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.roots import SolverReport, find_root
from spikepool.laws._branches import windows
from spikepool.laws._population import Population

# points at which a pair of windows is searched for sign changes of the gap criterion
_GRID = 32


@dataclass(frozen=True)
class Gap:
    """One component of the complement of the support.

    Attributes
    ----------
    low, high : float
        Its ends; minus infinity for the one that holds the negative numbers, infinity for the last.
    s_low, s_high : float
        s at these ends, between which z increases with s.
    usage, noise : int
        Windows of y and of ỹ.
    """

    low: float
    high: float
    s_low: float
    s_high: float
    usage: int
    noise: int


class GapFinder:
    """All gaps of a separable law, and the real solutions inside them."""

    def __init__(self, usage: Population, noise: Population) -> None:
        self.usage, self.noise = usage, noise
        self._u = windows(usage, noise.mass)
        self._n = windows(noise, usage.mass)
        self.gaps = self._find()

    def pair(self, s: FloatArray, i: NDArray[np.intp], j: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """(y, ỹ) on windows i and j at given s."""
        return self._u.invert(s, i), self._n.invert(s, j)

    def _excess(self, s: FloatArray, i: NDArray[np.intp], j: NDArray[np.intp]) -> FloatArray:
        """log(Q Q̃/s²): negative in a gap."""
        y, yt = self.pair(s, i, j)
        with np.errstate(divide="ignore"):
            Q, Qt = self.usage.terms(y)[1], self.noise.terms(yt)[1]
            return np.asarray(np.log(Q / np.abs(s)) + np.log(Qt / np.abs(s)))

    def point(self, s: FloatArray, i: NDArray[np.intp], j: NDArray[np.intp]) -> FloatArray:
        """Return z = −s y ỹ."""
        y, yt = self.pair(s, i, j)
        return -s * y * yt

    def _find(self) -> list[Gap]:
        ranges = self._gap_ranges()
        low, high = np.array([r[0] for r in ranges]), np.array([r[1] for r in ranges])
        i, j = np.array([r[2] for r in ranges], dtype=np.intp), np.array([r[3] for r in ranges], dtype=np.intp)
        s = np.concatenate([low, high])
        finite = s != 0
        z = np.where(np.arange(len(s)) < len(low), -np.inf, np.inf)
        z[finite] = self.point(s[finite], np.tile(i, 2)[finite], np.tile(j, 2)[finite])
        # a hard edge: the first gap ends at zero, up to rounding and to the distance kept from a singularity
        first = int(np.argmin(z[: len(low)])) + len(low)
        if z[first] < 1e-14 * self.usage.mean * self.noise.mean:
            z[first] = 0.0
        columns = zip(z[: len(low)], z[len(low) :], low, high, i, j, strict=True)
        gaps = [Gap(float(a), float(b), float(c), float(d), int(k), int(q)) for a, b, c, d, k, q in columns]
        gaps.sort(key=lambda gap: gap.low)
        for left, right in pairwise(gaps):
            if not (left.low < left.high < right.low < right.high):
                raise ConvergenceError(
                    "gaps of the support overlap near",
                    left.high,
                    "Merge atoms that nearly coincide",
                    point=left.high,
                    residual=left.high - right.low,
                )
        return gaps

    def _gap_ranges(self) -> list[tuple[float, float, int, int]]:
        """(s_low, s_high, i, j) of every gap; the outer two meet at s = 0, where z is infinite."""
        u, n = self._u, self._n
        if self.noise.single or self.usage.single:
            w, swap = (u, False) if self.noise.single else (n, True)
            out = []
            for k in range(len(w.low)):
                parts = [(w.low[k], 0.0), (0.0, w.high[k])] if w.central[k] else [(w.low[k], w.high[k])]
                out += [(float(a), float(b), 0, k) if swap else (float(a), float(b), k, 0) for a, b in parts]
            return out
        return self._outer_ranges() + self._inner_ranges()

    def _outer_ranges(self) -> list[tuple[float, float, int, int]]:
        """The two unbounded gaps. Both branches are central and the criterion grows with |s|: one edge each."""
        u, n = self._u, self._n
        zero = np.zeros(2, dtype=np.intp)
        ends = np.array([max(u.low[0], n.low[0]), min(u.high[0], n.high[0])])
        # in log |s|: the edge may lie orders of magnitude below the end of the window
        depth = np.concatenate([np.linspace(0.0, 6.0, 25)[1:], [10.0, 20.0, 60.0]])
        s = ends[:, None] * np.exp(-np.concatenate([[1e-9], depth]))
        many = np.zeros(s.size, dtype=np.intp)
        outside = self._excess(s.ravel(), many, many).reshape(s.shape) >= 0
        place = outside.sum(axis=1)  # the first point of the gap, counted from the end of the window
        rows = np.arange(2)
        far, near = s[rows, np.maximum(place, 1) - 1], s[rows, np.minimum(place, s.shape[1] - 1)]
        edge, good = self._polish((far + near) / 2, zero, zero, np.minimum(far, near), np.maximum(far, near))
        # without a sign change the criterion holds up to the end of the window: a hard edge at zero
        hard = place == 0
        slow = np.flatnonzero(~good & ~hard)
        if len(slow):
            root = find_root(lambda x, q: self._excess(x, zero[q], zero[q]), far[slow], near[slow], xtol=1e-10)
            self._found(root)
            edge[slow] = root.value
        edge = np.where(hard, ends, edge)
        return [(float(edge[0]), 0.0, 0, 0), (0.0, float(edge[1]), 0, 0)]

    @staticmethod
    def _found(root: SolverReport) -> None:
        if not root.converged.all():
            worst = int(np.argmin(root.converged))
            raise ConvergenceError(
                "an edge of the support was not found near s",
                float(root.value[worst]),
                "Merge atoms that nearly coincide",
                point=float(root.value[worst]),
                residual=float(root.residual[worst]),
            )

    def _polish(
        self, s: FloatArray, i: NDArray[np.intp], j: NDArray[np.intp], low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Newton for s(y) = s̃(ỹ), Q Q̃ = s s̃ in (log |y|, log |ỹ|), and where it succeeded with low < s < high."""
        with np.errstate(all="ignore"):
            y, yt = self.pair(s, i, j)
            length = np.full(len(s), np.inf)
            for _ in range(25):
                try:
                    a, Q, C = self.usage.cubes(y)
                    b, Qt, Ct = self.noise.cubes(yt)
                except OnSupportError:
                    # a step onto the support of a continuous law: leave all of them to bisection, which stays outside
                    return s, np.zeros(len(s), dtype=bool)
                f1, f2 = a - b, np.log(Q / np.abs(a)) + np.log(Qt / np.abs(b))
                da, db = Q - a, Qt - b
                ga, gb = 2 * (C - Q) / Q - da / a, 2 * (Ct - Qt) / Qt - db / b
                determinant = da * gb + db * ga
                step, step_t = -(f1 * gb + f2 * db) / determinant, (f1 * ga - f2 * da) / determinant
                length = np.maximum(np.abs(step), np.abs(step_t))
                shrink = np.minimum(1.0, 0.7 / length)
                y, yt = y * np.exp(step * shrink), yt * np.exp(step_t * shrink)
                if np.all((length < 1e-9) | ~np.isfinite(length)):
                    break
            a = self.usage.terms(y)[0]
            good = (length < 1e-9) & (a > low) & (a < high)
            # the branch: the windows' own inverse must give the same point
            if good.any():
                back = self.pair(a[good], i[good], j[good])
                same = (np.abs(back[0] / y[good] - 1) <= 1e-6) & (np.abs(back[1] / yt[good] - 1) <= 1e-6)
                good[good] = same
        return a, good

    def _inner_ranges(self) -> list[tuple[float, float, int, int]]:
        """Bounded gaps: the parts of pairs of windows, at least one of them inner, where the criterion holds."""
        u, n = self._u, self._n
        low, high = np.maximum.outer(u.low, n.low), np.minimum.outer(u.high, n.high)
        both = np.logical_and.outer(u.central, n.central)
        i, j = np.nonzero((high > low) & ~both)
        if not len(i):
            return []
        a, b = low[i, j], high[i, j]
        # two inner branches meet at z = 0 when s = 0: their two signs of s are separate
        split = ~u.central[i] & ~n.central[j] & (a < 0) & (b > 0)
        i, j = np.concatenate([i, i[split]]), np.concatenate([j, j[split]])
        a, b = (
            np.concatenate([a, np.zeros(int(split.sum()))]),
            np.concatenate([np.where(split, 0.0, b), b[split]]),
        )
        # nodes crowd at both ends, where narrow gaps live
        unit = (1 - np.cos(np.pi * (np.arange(_GRID) + 0.5) / _GRID)) / 2
        s = a[:, None] + (b - a)[:, None] * unit
        s = np.where(s == 0, 1e-9 * (b - a)[:, None], s)
        g = self._excess(s.ravel(), np.repeat(i, _GRID), np.repeat(j, _GRID)).reshape(s.shape)
        g = self._deepen(s, g, i, j)
        inside = np.pad(g < 0, ((0, 0), (1, 1)))
        # at the ends of a window the criterion is positive (Cauchy–Schwarz), so changes come in pairs
        s = np.concatenate([a[:, None], s, b[:, None]], axis=1)
        k, c = np.nonzero(inside[:, 1:] != inside[:, :-1])
        if not len(k):
            return []
        start, stop, own_i, own_j = s[k, c], s[k, c + 1], i[k], j[k]
        edges, good = self._polish((start + stop) / 2, own_i, own_j, start, stop)
        if not good.all():
            bad = np.flatnonzero(~good)
            root = find_root(
                lambda x, q: self._excess(x, own_i[bad[q]], own_j[bad[q]]), start[bad], stop[bad], xtol=1e-10
            )
            # for nearly one atom the criterion vanishes at the end of the window itself, up to rounding
            end = np.where(inside[k, c], stop, start)[bad]
            at_end = ~root.converged & (np.abs(self._excess(end, own_i[bad], own_j[bad])) < 1e-6)
            self._found(SolverReport(root.value, root.residual, root.converged | at_end, root.steps))
            edges[bad] = np.where(at_end, end, root.value)
        return [(float(edges[q]), float(edges[q + 1]), int(own_i[q]), int(own_j[q])) for q in range(0, len(k), 2)]

    def _deepen(self, s: FloatArray, g: FloatArray, i: NDArray[np.intp], j: NDArray[np.intp]) -> FloatArray:
        """Follow local minima of the criterion that the grid left positive: a narrow gap may hide in them."""
        k, c = np.nonzero((g[:, 1:-1] > 0) & (g[:, 1:-1] < 1) & (g[:, 1:-1] <= g[:, :-2]) & (g[:, 1:-1] <= g[:, 2:]))
        if not len(k):
            return g
        low, high = s[k, c], s[k, c + 2]
        unit = np.linspace(0.0, 1.0, 9)
        rows = np.arange(len(k))
        for _ in range(4):  # a ninefold grid around the lowest point, four times
            fine = low[:, None] + (high - low)[:, None] * unit
            fine = np.where(fine == 0, 1e-9 * (high - low)[:, None], fine)
            value = self._excess(fine.ravel(), np.repeat(i[k], 9), np.repeat(j[k], 9)).reshape(fine.shape)
            lowest = np.clip(value.argmin(axis=1), 1, 7)
            low, high = fine[rows, lowest - 1], fine[rows, lowest + 1]
        where, depth = fine[rows, lowest], value[rows, lowest]
        deep = depth < 0
        s[k[deep], c[deep] + 1], g[k[deep], c[deep] + 1] = where[deep], depth[deep]
        return g

    def slopes(self, s: FloatArray, y: FloatArray, yt: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return d log y/d log z = s(Q̃ − s)/(Q Q̃ − s²), and d log ỹ/d log z = s(Q − s)/(Q Q̃ − s²)."""
        Q, Qt = self.usage.terms(y)[1], self.noise.terms(yt)[1]
        with np.errstate(divide="ignore"):
            scale = s / (Q * Qt - s * s)
        return scale * (Qt - s), scale * (Q - s)

    def beyond(self, t: FloatArray, *, usage: bool) -> FloatArray:
        """Outliers of spikes t of the usage (or of the noise): points of the last gap with y = −t (or ỹ = −t).

        Spikes too small to leave the bulk give none.
        """
        population, other, windows = (self.usage, self._n, self._u) if usage else (self.noise, self._u, self._n)
        t = t[t > population.pieces[-1, 1]]
        if not len(t):
            return np.empty(0)
        s, _ = population.terms(-t)
        keep = s > max(self.gaps[-1].s_low, float(windows.low[0]))
        t, s = t[keep], s[keep]
        return np.asarray(s * t * other.invert(s, np.zeros(len(s), dtype=np.intp)))

    def solve(self, z: FloatArray, gap: Gap) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(s, y, ỹ) at real points of a gap; NaN where there is none to 1e-9."""
        n = len(z)
        i, j = np.full(n, gap.usage), np.full(n, gap.noise)
        low, high = np.full(n, gap.s_low), np.full(n, gap.s_high)
        mean = self.usage.mean * self.noise.mean  # s z -> −mean at infinity
        if gap.high == np.inf:
            high = np.minimum(-mean / z, -1e-300)
        elif gap.low == -np.inf:
            # s = delta ∫ x/(x−z) dF: bounded by mean/|z| above, and by mean/(|z| + right edge) below
            right = self.gaps[-1].low
            low = mean / (right + np.maximum(-z, right)) * (1 - 1e-12)

        def miss(s: FloatArray, q: NDArray[np.intp]) -> FloatArray:
            return np.asarray(self.point(s, i[q], j[q]) - z[q])

        root = find_root(miss, low, np.maximum(high, low))
        s = root.value
        y, yt = self.pair(s, i, j)
        error = np.abs(-s * y * yt - z) / np.maximum(np.abs(z), 1e-6 * mean)
        bad = ~(error < 1e-9)
        s[bad], y[bad], yt[bad] = np.nan, np.nan, np.nan
        return s, y, yt
