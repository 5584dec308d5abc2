"""Transforms of free probability, for any law from its Stieltjes transform and moments.

With G(z) = −m(z) = ∫ dF(x)/(z − x) and psi(t) = ∫ t x/(1 − t x) dF(x) = −1 − m(1/t)/t,

    R(g) = G^{-1}(g) − 1/g,        S(z) = (1 + z)/z · psi^{-1}(z),        m~(z) = c m(z) − (1 − c)/z.

R-transforms add for sums of free variables, S-transforms multiply for products; m~ is the companion transform, that of
the n x n matrix X'X where m is that of XX' (p x p) and c = p/n. Laws in closed form replace the numerical solutions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.optimize import brentq

from spikepool.errors import ConvergenceError, DomainError
from spikepool.kit import validation as check

# Points of the trapezoidal rule on a circle inside the gap at zero, whose error is geometric.
_CIRCLE = 256


class FreeTransforms:
    """R- and S-transform, free cumulants, companion transform, negative moments and log-moment of a law."""

    @property
    @abstractmethod
    def atom(self) -> float:
        """Mass at zero."""

    @abstractmethod
    def support(self) -> tuple[float, float]:
        """Ends of the continuous part."""

    @abstractmethod
    def stieltjes(self, z: ArrayLike) -> Any:
        """m(z)."""

    @abstractmethod
    def moment(self, k: int) -> float:
        """Moment of order `k`."""

    def companion_stieltjes(self, z: ArrayLike, ratio: float) -> Any:
        """Stieltjes transform of the companion law, ``ratio·m(z) − (1 − ratio)/z``.

        Parameters
        ----------
        z : array_like
            Points off the support and off zero.
        ratio : float
            p/n, rows over columns of the matrix whose XX' has this law.
        """
        c = check.positive(ratio, "ratio")
        return c * np.asarray(self.stieltjes(z))[()] - (1 - c) / np.asarray(z)[()]

    def r_transform(self, g: ArrayLike) -> Any:
        """R(g) at real g between G(0−) or 0 and G(right edge); R(0) is the mean."""
        return self._pointwise(self._r_transform, g, "g")

    def s_transform(self, z: ArrayLike) -> Any:
        """S(z) at real z with atom − 1 < z <= 0; S(0) is one over the mean."""
        return self._pointwise(self._s_transform, z, "z")

    def free_cumulant(self, k: int) -> float:
        """Free cumulant of order k >= 1, from the moments.

        ``m_n = sum_{s=1}^n kappa_s [t^{n−s}] M(t)^s`` with M(t) = 1 + m_1 t + m_2 t² + ..., solved for kappa_n.
        """
        k = check.size(k, "k")
        moments = np.array([self.moment(i) for i in range(k + 1)])
        cumulants: list[float] = []
        for n in range(1, k + 1):
            power, total = np.array([1.0]), 0.0
            for s in range(1, n):
                power = np.convolve(power, moments)[: k + 1]
                total += cumulants[s - 1] * power[n - s]
            cumulants.append(float(moments[n] - total))
        return cumulants[-1]

    def negative_moment(self, k: int = 1) -> float:
        """E[x^−k]; infinite where there is mass at or next to zero."""
        k = check.size(k, "k")
        left = self.support()[0]
        if self.atom > 0 or left <= 0:
            return math.inf
        # m(z) = sum_j E[x^−(j+1)] z^j inside the gap at zero
        angle = np.pi * (np.arange(_CIRCLE) + 0.5) / _CIRCLE
        z = left / 2 * np.exp(1j * angle)
        return float(np.mean((np.asarray(self.stieltjes(z)) * z ** (1 - k)).real))

    def log_moment(self) -> float:
        """E[log x]; minus infinity with mass at zero.

        ``log s + ∫_0^∞ (1/(1+t) − s m(−s t)) dt`` with s the right edge, in log t; the tail beyond t = e^10 is
        ``(mean/s − 1) e^−10`` to 1e-8.
        """
        if self.atom > 0:
            return -math.inf
        s = self.support()[1]

        def integrand(u: float) -> float:
            t = math.exp(u)
            return t / (1 + t) - t * s * float(self.stieltjes(-s * t))

        value, error = quad(integrand, -45, 10, points=[-20, -8, -3, 0, 3], limit=400)
        if error > 1e-6:
            raise ConvergenceError(
                "the log-moment was not found", value, "Report this law", point=float(value), residual=error
            )
        return math.log(s) + float(value) + (self.moment(1) / s - 1) * math.exp(-10)

    def _pointwise(self, function: Callable[[float], float], points: ArrayLike, name: str) -> Any:
        values = check.finite_array(points, name)
        return np.array([function(float(value)) for value in values.ravel()]).reshape(values.shape)[()]

    def _r_transform(self, g: float) -> float:
        if g == 0:
            return self.moment(1)
        left, right = self.support()

        def gap(z: float) -> float:
            return -float(self.stieltjes(z)) - g

        if g > 0:
            low, high = right * (1 + 1e-12), right + 2 / g
            if gap(low) < 0:
                raise DomainError(f"g must be below {gap(low) + g:.6g}, its value at the edge", g, "Lower g")
        else:
            high = left * (1 - 1e-12) if self.atom == 0 and left > 0 else -1e-12 * right
            low = min(high, 0.0) - 2 / -g - right
            if gap(high) > 0:
                raise DomainError(f"g must be above {gap(high) + g:.6g}, its value at the left end", g, "Raise g")
        return float(brentq(gap, low, high, xtol=1e-300, rtol=1e-14, maxiter=1000)) - 1 / g

    def _s_transform(self, z: float) -> float:
        if z == 0:
            return 1 / self.moment(1)
        if not self.atom - 1 < z < 0:
            raise DomainError(f"z must lie in ({self.atom - 1:.6g}, 0]", z, "Choose a point in between")

        def gap(u: float) -> float:  # t = −exp(u), psi decreases in u
            t = -math.exp(u)
            return -1 - float(self.stieltjes(1 / t)) / t - z

        low = high = -math.log(self.moment(1))
        while gap(low) < 0:
            low -= 2
        while gap(high) > 0:
            high += 2
        t = -math.exp(float(brentq(gap, low, high, xtol=1e-15, rtol=1e-15, maxiter=1000)))
        return (1 + z) / z * t


class ProductTransforms(FreeTransforms):
    """The transforms of scale · (MP_delta ⊠ MP_gamma) in closed form."""

    delta: float
    gamma: float
    scale: float

    def r_transform(self, g: ArrayLike) -> Any:
        """R(g) = 1/y with y the larger root of ``scale (y + delta g)(y + gamma g) = y``.

        For MP_c it is scale/(1 − scale c g). At real or complex g up to the branch point at G(right edge).
        """
        g = np.asarray(g, dtype=np.result_type(np.asarray(g).dtype, np.float64))
        b = 1 - self.scale * g * (self.delta + self.gamma)
        square = b**2 - 4 * (self.scale * g) ** 2 * self.delta * self.gamma
        if not np.iscomplexobj(g) and np.any((square < 0) | (b < 0)):
            raise DomainError("g must be below its value at the right edge of the law", g, "Lower g")
        return (2 * self.scale / (b + np.sqrt(square)))[()]

    def s_transform(self, z: ArrayLike) -> Any:
        """S(z) = 1/(scale (1 + delta z)(1 + gamma z)), by analytic continuation for any z off its poles."""
        z = np.asarray(z, dtype=np.result_type(np.asarray(z).dtype, np.float64))
        return (1 / (self.scale * (1 + self.delta * z) * (1 + self.gamma * z)))[()]

    def negative_moment(self, k: int = 1) -> float:
        """E[x^−k] by Lagrange inversion of the S-transform of 1/x; infinite where a ratio is 1 or more.

        With a = delta/(1 − delta) and b = gamma/(1 − gamma),
        ``[scale (1−delta)(1−gamma)]^−k/k · sum_{i+j+l=k−1} C(k,i) C(k+j−1,j) a^j C(k+l−1,l) b^l``; for k = 1 the first
        factor.
        """
        k = check.size(k, "k")
        if max(self.delta, self.gamma) >= 1:
            return math.inf
        a, b = self.delta / (1 - self.delta), self.gamma / (1 - self.gamma)
        total = math.fsum(
            math.comb(k, k - 1 - j - i) * math.comb(k + j - 1, j) * a**j * math.comb(k + i - 1, i) * b**i
            for j in range(k)
            for i in range(k - j)
        )
        return float(total / k / (self.scale * (1 - self.delta) * (1 - self.gamma)) ** k)

    def log_moment(self) -> float:
        """E[log x] = log scale + l(delta) + l(gamma), l(c) = −1 − (1 − c) log(1 − c)/c."""
        if max(self.delta, self.gamma) > 1:
            return -math.inf
        return math.log(self.scale) + sum(_log_moment(c) for c in (self.delta, self.gamma))


def _log_moment(c: float) -> float:
    """E[log x] of MP_c, c <= 1; its series for small c."""
    if c == 1:
        return -1.0
    if c < 1e-3:  # −sum_k c^k/(k (k+1))
        return -sum(c**k / (k * (k + 1)) for k in range(1, 7))
    return -1 - (1 - c) * math.log1p(-c) / c


__all__: list[str] = ["FreeTransforms", "ProductTransforms"]
