"""The bulk of a separable covariance, for any law of the noise and any law of the token usage."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import ConvergenceError, DomainError, NonFiniteError, OnSupportError
from spikepool.kit import validation as check
from spikepool.kit.arrays import ComplexArray, FloatArray
from spikepool.kit.roots import find_root
from spikepool.laws import _separable
from spikepool.laws._gaps import GapFinder
from spikepool.laws._population import population
from spikepool.laws._separable import Interior, settle
from spikepool.laws.base import SMALLEST_POINT, SpectralLaw, complex_points, like_input, probabilities, real_points
from spikepool.laws.measures import as_law

# Beyond these, bands of the support are too narrow beside their place for their shape to be a matter of doubles.
_DELTA_RANGE = (1e-14, 1e14)
# A transform next to a hard edge at zero, in units of the mean: s moves like the square root of z, or less.
_HARD_EDGE = 1e-14
# Where the search for a quantile looks instead of a point that is not found, as a share of the interval.
_ASIDE = 1e-7


class GeneralizedLaw(SpectralLaw):
    """Limiting spectrum of ``A^{1/2} Z M Z' A^{1/2} / V``, Z a d × V matrix of independent unit-variance entries.

    With H the law of M, H_A that of A and delta = d/V, the Stieltjes transform is

        m(z) = −(1/z) ∫ dH_A(a)/(1 + ẽ a),
        e = delta ∫ a dH_A(a)/(−z(1 + ẽ a)),    ẽ = ∫ t dH(t)/(−z(1 + e t)).

    This is the bulk of the pooled covariance S for a table with noise covariance A, given the token usage
    ``M = (V/N) W W'``; it is exact at any sequence length, token frequencies and weights (the paper's Theorem 1 is the
    case A = I with M Marchenko–Pastur).

    Parameters
    ----------
    noise, usage : SpectralLaw, array_like or operator
        Laws of A and of M: one of our laws, a vector of atoms (equal masses), a PSD matrix (its eigenvalues), or a
        sparse matrix or ``scipy.sparse.linalg.LinearOperator`` (read by Lanczos quadrature; see
        :func:`spikepool.laws.measures.as_law`). A law with a continuous part enters through its Stieltjes
        transform, without discretisation.
    delta : float
        d/V, from 1e-14 to 1e14. As it falls the law tends to that of A times the mean of M, each atom of A spread over
        a band of width of order sqrt(delta); at 1e-14 doubles resolve a band to about 1e-9 of its width. A *continuous*
        law of A is not resolved at a small delta, nor one of M at a large one: a :class:`ConvergenceError` then asks
        for its quantiles as atoms.
    strict : bool
        What happens to a point that does not converge: among others it is NaN and named in an
        :class:`UnresolvedPointWarning`; alone, or when `strict`, it raises :class:`ConvergenceError`.

    Notes
    -----
    Every returned number comes from a solution that passed a residual test and a certificate of uniqueness (see
    ``laws/_separable.py``). The distribution function
    needs no integration: with U(z) = ∫ log(x − z) dF(x),

        U = log(−z) + ∫ log(1 + ẽ a) dH_A(a) + (1/delta) ∫ log(1 + e t) dH(t) + z e ẽ/delta,

    and F(x) = −Im U(x + i0)/π. U is stationary in e and ẽ, so errors of the solver enter squared.

    Examples
    --------
    >>> from spikepool import AtomicLaw, GeneralizedLaw
    >>> law = GeneralizedLaw(noise=AtomicLaw([1.0]), usage=AtomicLaw([1.0, 10.0]), delta=4.0)
    >>> law.intervals().round(4)
    array([[ 1.3337,  6.5348],
           [17.3073, 73.8242]])
    """

    def __init__(self, noise: Any, usage: Any, delta: float, *, strict: bool = False) -> None:
        self.strict: bool = check.flag(strict, "strict")
        self.noise: SpectralLaw = as_law(noise, "noise")
        self.usage: SpectralLaw = as_law(usage, "usage")
        self.delta: float = check.positive(delta, "delta")
        low, high = _DELTA_RANGE
        if not low <= self.delta <= high:
            raise DomainError(
                f"delta must lie in [{low:g}, {high:g}], where doubles resolve the law",
                delta,
                "Below it use the noise law times the mean of the usage; above it check d/V",
            )
        for name, law in (("noise", self.noise), ("usage", self.usage)):
            if law.atom == 1:
                raise DomainError(f"{name} has all its mass at zero", 0.0, "Pass a law with some mass off zero")
        self._usage = population(self.usage)
        self._noise = population(self.noise, self.delta)

    def __repr__(self) -> str:
        return f"GeneralizedLaw(noise={self.noise!r}, usage={self.usage!r}, delta={self.delta:.6g})"

    @cached_property
    def _finder(self) -> GapFinder:
        try:
            return GapFinder(self._usage, self._noise)
        except (OnSupportError, NonFiniteError) as err:  # an edge closer to that of a continuous law than doubles are
            raise ConvergenceError(
                "an edge of the support cannot be told from that of a continuous population law at this delta",
                self.delta,
                "Pass that law as an AtomicLaw of its quantiles",
                point=self.delta,
            ) from err

    @cached_property
    def _intervals(self) -> FloatArray:
        gaps = self._finder.gaps
        ends = np.array([[a.high, b.low] for a, b in pairwise(gaps)])
        ends.setflags(write=False)
        return ends

    @cached_property
    def _edge_y(self) -> FloatArray:
        """Values of y at the two ends of every interval."""
        gaps = self._finder.gaps
        s = np.array([[a.s_high, b.s_low] for a, b in pairwise(gaps)])
        i = np.array([[a.usage, b.usage] for a, b in pairwise(gaps)], dtype=np.intp)
        j = np.array([[a.noise, b.noise] for a, b in pairwise(gaps)], dtype=np.intp)
        return self._finder.pair(s.ravel(), i.ravel(), j.ravel())[0].reshape(s.shape)

    @cached_property
    def _interior(self) -> Interior:
        return Interior(self._usage, self._noise, self._intervals, self._edge_y)

    @cached_property
    def _cumulative(self) -> FloatArray:
        """Mass of [0, x] for x in each gap, the first included: exact separation counts atoms of A and M.

        In a gap 1 + ẽa < 0 for the noise atoms a > −ỹ > 0, and 1 + et < 0 for the usage atoms t > −y > 0 (with the
        obvious changes for y or ỹ positive); they are the ones whose eigenvalues lie to the right.
        """
        finder = self._finder
        mass = np.empty(len(finder.gaps))
        for k, gap in enumerate(finder.gaps[1:-1], start=1):
            s = np.array([(gap.s_low + gap.s_high) / 2])
            if s[0] == 0:
                s[0] = 0.25 * gap.s_high
            y, yt = finder.pair(s, np.array([gap.usage]), np.array([gap.noise]))
            right = 0.0
            for pop, place in ((self._noise, -yt[0]), (self._usage, -y[0])):
                right += pop.mass_above(place) if place > 0 else 0.0
            mass[k] = 1 - right / self.delta
        mass[0], mass[-1] = self.atom, 1.0
        return mass

    @property
    def atom(self) -> float:
        """Mass at zero, 1 − min(P(a > 0), P(t > 0)/delta): rank of S over d."""
        mass = float(1 - min(self._noise.mass, self._usage.mass) / self.delta)
        return mass if mass > 1e-13 else 0.0  # sums of thousands of weights round

    def intervals(self) -> FloatArray:
        """Intervals of the continuous part, (k, 2); edges from Q Q̃ = s² (see ``laws/_gaps.py``)."""
        return self._intervals.copy()

    def _inside(self, flat: FloatArray) -> tuple[NDArray[np.bool_], ComplexArray]:
        """Points inside the intervals and y at them; those that are not found are named."""
        inside, y = self._interior.solve(flat)
        settle(np.isfinite(y), flat[inside], strict=self.strict)
        return inside, y

    def pdf(self, x: ArrayLike) -> Any:
        """Density of the continuous part, Im s/(π delta x); infinite at a hard edge 0."""
        points = real_points(x)
        flat = points.ravel()
        density = np.zeros(flat.shape)
        inside, y = self._inside(flat)
        s, _ = self._usage.terms(y)
        density[inside] = s.imag / (np.pi * self.delta * flat[inside])
        if self._intervals[0, 0] == 0:
            density[flat == 0] = np.inf
        return like_input(density, points)

    def cdf(self, x: ArrayLike) -> Any:
        """Mass of [0, x], from the logarithmic potential: no integration."""
        points = real_points(x)
        mass = self._mass(points.ravel())
        settle(np.isfinite(mass), points.ravel(), strict=self.strict)
        return like_input(mass, points)

    def _mass(self, flat: FloatArray) -> FloatArray:
        """The distribution function; NaN at points that are not found."""
        # off the intervals: the mass of the gap the point is in
        mass = self._cumulative[np.searchsorted(self._intervals[:, 1], flat, side="right")]
        mass = np.where(flat < 0, 0.0, mass)
        inside, y = self._interior.solve(flat)
        solved = np.isfinite(y)
        mass[np.flatnonzero(inside)[~solved]] = np.nan
        rows, y = np.flatnonzero(inside)[solved], y[solved]
        xs = flat[rows]
        s, _ = self._usage.terms(y)
        yt = -xs / (s * y)
        angles = self._noise.angle(yt) + self._usage.angle(y) + xs * (1 / (y * yt)).imag
        value = 1 - angles / (np.pi * self.delta)
        # each point belongs to an interval whose ends have known mass: rounding may not leave it
        place = np.searchsorted(self._intervals[:, 0], xs, side="right") - 1
        mass[rows] = np.clip(value, self._cumulative[place], self._cumulative[place + 1])
        return mass

    def ppf(self, q: ArrayLike) -> Any:
        """Quantile function, by bracketed root finding on the distribution function."""
        levels = probabilities(q)
        flat = levels.ravel()
        result = np.full(flat.shape, 0.0 if self.atom > 0 else self._intervals[0, 0])
        above = flat > self.atom
        target = flat[above]
        place = np.clip(np.searchsorted(self._cumulative, target, side="left") - 1, 0, len(self._intervals) - 1)
        left, right = self._intervals[place, 0], self._intervals[place, 1]

        def x_of(t: FloatArray, k: NDArray[np.intp]) -> FloatArray:
            # cubic at both ends: the distribution function starts like a power between 1/3 and 3/2 there
            width = 4 * (right[k] - left[k])
            return np.asarray(np.where(t < 0.5, left[k] + width * t**3, right[k] - width * (1 - t) ** 3))

        def excess(t: FloatArray, k: NDArray[np.intp]) -> FloatArray:
            at = x_of(t, k)
            value = self._mass(at)
            lost = np.isnan(value)
            if lost.any():  # a trial point that is not found: its neighbour tells as much
                value[lost] = self._mass(at[lost] + _ASIDE * (right[k] - left[k])[lost])
            return value - target[k]

        root = find_root(excess, np.zeros(len(target)), np.ones(len(target)), xtol=1e-13)
        settle(root.converged, target, strict=self.strict)
        result[above] = np.where(root.converged, x_of(root.value, np.arange(len(target))), np.nan)
        return like_input(result, levels)

    def stieltjes(self, z: ArrayLike) -> Any:
        """m(z) at complex points of either half plane, and at real points off the support.

        Raises
        ------
        OnSupportError
            At a real point of the support, the atom at zero included.
        """
        points = complex_points(z)
        flat = points.ravel()
        nearest = SMALLEST_POINT if self.atom > 0 else 0.0
        if self._intervals[0, 0] == 0:  # rounding of s takes the place of a z that is smaller
            nearest = _HARD_EDGE * self.mean()
        if (np.abs(flat) < nearest).any():
            raise OnSupportError(
                "the Stieltjes transform is singular at 0, and doubles do not tell this z from it",
                complex(flat[np.abs(flat) < nearest][0]),
                f"Stay {nearest:.1g} away from 0",
            )
        m = np.empty(len(flat), dtype=np.complex128)
        real = flat.imag == 0
        if real.any():
            y, yt, _ = self._off_support(flat[real].real, strict=self.strict)
            with np.errstate(divide="ignore"):
                m[real] = self._stieltjes_from(y, yt, flat[real].real)
        if not real.all():
            upper = np.where(flat[~real].imag < 0, flat[~real].conj(), flat[~real])
            report = _separable.descend(self._usage, self._noise, upper)
            settle(report.converged, upper, strict=self.strict)
            y = np.where(report.converged, report.value, np.nan)
            s, _ = self._usage.terms(y)
            with np.errstate(invalid="ignore"):  # a point that was lost
                value = self._stieltjes_from(y, -upper / (s * y), upper)
            m[~real] = np.where(flat[~real].imag < 0, value.conj(), value)
        return like_input(m if np.iscomplexobj(np.asarray(z)) else m.real, points)

    def _stieltjes_from(self, y: NDArray[Any], yt: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
        """−(1/z)∫ dH_A/(1+ẽa), as ∫ dH_A/(a+ỹ) over −z/ỹ: finite also at z = 0 when there is no atom.

        With an atom at zero m is −atom/z next to it, where ỹ has lost its digits and (s/delta − 1)/z keeps them.
        """
        s, _ = self._usage.terms(y)
        with np.errstate(divide="ignore", invalid="ignore"):
            m = np.asarray(self._noise.resolvent(yt) / (s * y))
            if self.atom == 0:
                return m
            product = s / self.delta - 1  # z m(z)
            return np.where(np.abs(product) > self.atom / 2, product / z, m)

    def boundary_values(self, x: ArrayLike) -> tuple[ComplexArray, ComplexArray]:
        """(e, ẽ) at x + i0, for real points x inside the intervals: the solution behind `pdf` and `cdf`.

        Raises
        ------
        DomainError
            At a point outside the intervals, where there is no solution in the upper half plane.
        """
        points = real_points(x)
        flat = points.ravel()
        inside, y = self._inside(flat)
        if not inside.all():
            raise DomainError(
                "x must lie inside the intervals of the continuous part",
                float(flat[~inside][0]),
                "Use stieltjes outside of them",
            )
        s, _ = self._usage.terms(y)
        return (1 / y).reshape(points.shape), (-s * y / flat).reshape(points.shape)

    def real_solution(self, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(y, ỹ, s) = (1/e, 1/ẽ, delta(1 + z m)) at real points off the support.

        Raises
        ------
        OnSupportError
            At a point of the support.
        ConvergenceError
            At a point that is not found.
        """
        return self._off_support(check.finite_array(z, "z", ndim=1, empty=True), strict=True)

    def _off_support(self, flat: FloatArray, *, strict: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
        ends = self._intervals
        place = np.searchsorted(ends[:, 1], flat, side="left")
        on = (place < len(ends)) & (flat >= ends[np.minimum(place, len(ends) - 1), 0])
        on |= np.isin(flat, ends)
        if self.atom > 0:
            on |= flat == 0
        if on.any():
            raise OnSupportError(
                "the Stieltjes transform has two values on the support",
                float(flat[on][0]),
                "Add a small imaginary part, or use pdf",
            )
        y, yt, s = np.empty(len(flat)), np.empty(len(flat)), np.empty(len(flat))
        for k in np.unique(place):
            rows = place == k
            s[rows], y[rows], yt[rows] = self._finder.solve(flat[rows], self._finder.gaps[k])
        settle(np.isfinite(s), flat, strict=strict)
        return y, yt, s

    @property
    def right_curve_start(self) -> float:
        """Parameter s < 0 of the right edge; points beyond the support have s between it and 0."""
        return self._finder.gaps[-1].s_low

    def right_curve(self, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(y, ỹ, z) to the right of the support, as functions of s = delta(1 + z m(z))."""
        zero = np.zeros(len(s), dtype=np.intp)
        y, yt = self._finder.pair(s, zero, zero)
        return y, yt, -s * y * yt

    def right_curve_slopes(self, s: FloatArray, y: FloatArray, yt: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Derivatives of log y and log ỹ with respect to log z there."""
        return self._finder.slopes(s, y, yt)

    def usage_outliers(self, t: FloatArray) -> FloatArray:
        """Outliers of isolated eigenvalues t of M, where 1 + e t = 0; none for those that stay in the bulk."""
        return self._finder.beyond(check.finite_array(t, "t", ndim=1, empty=True), usage=True)

    def noise_outliers(self, a: FloatArray) -> FloatArray:
        """Outliers of isolated eigenvalues a of A, where 1 + ẽ a = 0; none for those that stay in the bulk."""
        return self._finder.beyond(check.finite_array(a, "a", ndim=1, empty=True), usage=False)

    def moment(self, k: int) -> float:
        """Moment of order `k`: closed forms for k ≤ 2, else the residue of −z^k m(z) at infinity.

        The mean is ∫a dH_A ∫t dH, the second moment ∫a²(∫t)² + delta (∫a)²∫t². The trapezoidal rule on a circle
        around the support converges geometrically.
        """
        k = check.size(k, "k", minimum=0)
        a1, t1 = self._noise.mean / self.delta, self._usage.mean
        if k == 0:
            return 1.0
        if k == 1:
            return float(a1 * t1)
        if k == 2:
            return float(self._noise.second / self.delta * t1**2 + self.delta * a1**2 * self._usage.second)
        right = float(self._intervals[-1, 1])
        n = 128
        turn = np.exp(1j * np.pi * (np.arange(n) + 0.5) / n)  # upper half; the lower one is its mirror
        z = right / 2 + right * turn
        return float(np.mean((-(z**k) * self.stieltjes(z) * right * turn).real))
