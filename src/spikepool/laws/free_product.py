"""The bulk of pooled covariances: the free product of two Marchenko–Pastur laws.

Everything follows from the root of one cubic (:mod:`spikepool.laws._cubic`). The Marchenko–Pastur law is the same
cubic at delta = 0, the limit of infinite vocabulary, and shares the implementation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import ConvergenceError, OnSupportError
from spikepool.kit import validation as check
from spikepool.kit.arrays import ComplexArray, FloatArray
from spikepool.laws import _cubic
from spikepool.laws._transforms import ProductTransforms
from spikepool.laws.base import SMALLEST_POINT, SpectralLaw, complex_points, like_input, probabilities, real_points

# Below this |u| the difference log(1 + u) − u is summed as a series; powers up to the 18th reach double precision.
_SERIES_RADIUS = 0.1
_SERIES_TERMS = 18
# Points evaluated at a time: temporaries of this size stay in the cache.
_BLOCK = 8192


class ProductLaw(ProductTransforms, SpectralLaw):
    """scale · (MP_delta ⊠ MP_gamma); subclasses provide `delta`, `gamma` and `scale`."""

    delta: float
    gamma: float
    scale: float

    @property
    def _reduced(self) -> _cubic.Reduced:
        return _cubic.reduce_law(self.delta, self.gamma, self.scale)

    @property
    def _degenerate(self) -> bool:
        return self.delta == 0 and self.gamma == 0

    @property
    def atom(self) -> float:
        """Mass at zero, max(0, 1 − 1/max(delta, gamma))."""
        largest = max(self.delta, self.gamma)
        return (largest - 1) / largest if largest > 1 else 0.0

    def intervals(self) -> FloatArray:
        """The single interval of the continuous part; a point mass gives an interval of length zero."""
        law = self._reduced
        return np.array([[law.left, law.right]])

    def pdf(self, x: ArrayLike) -> Any:
        """Density of the continuous part, Im m(x + i0)/π.

        Infinite at 0 when the density diverges there (a ratio of exactly one), and at the point mass.
        """
        points = real_points(x)
        flat = points.ravel()
        left, right = self.support()
        if self._degenerate:
            return like_input(np.where(flat == self.scale, np.inf, 0.0), points)
        density = np.zeros(flat.shape)
        inside = np.flatnonzero((flat > left) & (flat < right))
        for start in range(0, inside.size, _BLOCK):
            block = inside[start : start + _BLOCK]
            xs = flat[block]
            root = _cubic.bulk_root(xs, self._reduced)
            density[block] = root.imag / (np.pi / self._reduced.mass * xs * root.modulus2)
        if left == 0:
            density[flat == 0] = np.inf
        return like_input(density, points)

    def cdf(self, x: ArrayLike) -> Any:
        """Mass of [0, x], in closed form.

        The Stieltjes transform has the elementary antiderivative, in the root omega of the cubic,

            ∫ m dz = log omega − log(omega+delta) − log(omega+gamma)
                     + log(1+delta/omega)/delta + log(1+gamma/omega)/gamma − 2/omega,

        and the distribution function is 1 plus its imaginary part over π.
        """
        points = real_points(x)
        flat = points.ravel()
        left, right = self.support()
        mass = np.where(flat >= right, 1.0, np.where(flat >= 0, self.atom, 0.0))
        inside = (flat > left) & (flat < right)
        if inside.any():
            mass[inside] = np.clip(self._interior_cdf(flat[inside]), self.atom, 1.0)
        return like_input(mass, points)

    def _interior_cdf(self, x: FloatArray) -> FloatArray:
        law = self._reduced
        root = _cubic.bulk_root(x, law)
        omega = root.real + 1j * root.imag
        angle = np.arctan2(root.imag, root.real)
        total = -angle
        for ratio in (law.delta, law.gamma):
            # arg(1 + ratio/omega), in (−π, 0]; the shifted real part resolves omega ≈ −ratio when ratio ≈ 1
            real = root.shifted_real + (ratio - 1) if abs(ratio - 1) < 0.5 else root.real + ratio
            turn = np.arctan2(root.imag, real) - angle
            total += -turn + self._log_remainder(turn, ratio, omega)
        return np.asarray(1 + law.mass * (total / np.pi), dtype=np.float64)

    @staticmethod
    def _log_remainder(turn: FloatArray, ratio: float, omega: ComplexArray) -> FloatArray:
        """Im[(log(1+u) − u)/ratio] with u = ratio/omega and Im log(1+u) = `turn` known."""
        if ratio == 0:
            return np.zeros_like(turn)
        inverse = 1 / omega
        u = ratio * inverse
        result = turn / ratio - inverse.imag
        small = np.abs(u) < _SERIES_RADIUS
        if small.any():
            us = u[small]
            series = np.zeros_like(us)
            for k in range(_SERIES_TERMS, 1, -1):
                series = series * us + (-1) ** (k + 1) / k
            result[small] = (us * inverse[small] * series).imag
        return np.asarray(result, dtype=np.float64)

    def ppf(self, q: ArrayLike) -> Any:
        """Quantile function, by bracketed root finding on the closed-form cdf."""
        from scipy.optimize import elementwise

        levels = probabilities(q)
        flat = levels.ravel()
        left, right = self.support()
        result = np.where(flat >= 1, right, left)
        if self.atom > 0:
            result[flat <= self.atom] = 0.0
        inside = (flat > self.atom) & (flat < 1) & (right > left)
        if inside.any():
            width = right - left

            # cubes, because the distribution function may start like a cube root at a hard edge
            def excess(t: FloatArray, level: FloatArray) -> FloatArray:
                return np.asarray(self.cdf(left + width * t**3)) - level

            targets = flat[inside]
            solution = elementwise.find_root(
                excess,
                (np.zeros_like(targets), np.ones_like(targets)),
                args=(targets,),
                tolerances={"xatol": 0.0, "xrtol": 4e-16, "fatol": 0.0, "frtol": 0.0},
                maxiter=400,
            )
            if not np.all(solution.success):
                bad = int(np.argmin(solution.success))
                raise ConvergenceError(
                    "a quantile was not found",
                    float(targets[bad]),
                    "Report these parameters",
                    point=float(targets[bad]),
                    residual=float(solution.f_x[bad]),
                )
            result[inside] = left + width * solution.x**3
        return like_input(result, levels)

    def stieltjes(self, z: ArrayLike) -> Any:
        """m(z) = ∫ dF(x)/(x − z) at complex points of either half plane and real points off the support.

        Raises
        ------
        OnSupportError
            At a real point of the support (the atom at zero included), where the two half planes disagree.
        """
        points = complex_points(z)
        flat = points.ravel()
        left, right = self.support()
        bad = (flat.imag == 0) & (flat.real >= left) & (flat.real <= right)
        if self.atom > 0 or left == 0:
            bad |= np.abs(flat) < SMALLEST_POINT
        if bad.any():
            raise OnSupportError(
                f"the Stieltjes transform is not defined on the support [{left:.6g}, {right:.6g}]"
                + (" or at the atom 0" if self.atom > 0 else ""),
                complex(flat[bad][0]),
                "Add a small imaginary part, or use pdf",
            )
        if self._degenerate:
            m = 1 / (self.scale - flat)
        else:
            law = self._reduced
            m = law.mass * _cubic.stieltjes(flat, law)
            if self.atom > 0:
                m -= self.atom / flat
        result = like_input(m, points)
        return result if np.iscomplexobj(np.asarray(z)) else np.real(result)[()]

    def moment(self, k: int) -> float:
        """Moment of order `k` by Lagrange inversion, a polynomial with positive terms:

        ``scale^k/k · Σ_{i+j+l=k−1} C(k,i) C(k,j) C(k,l) delta^j gamma^l``.
        """
        k = check.size(k, "k", minimum=0)
        if k == 0:
            return 1.0
        total = math.fsum(
            math.comb(k, k - 1 - j - i) * math.comb(k, j) * self.delta**j * math.comb(k, i) * self.gamma**i
            for j in range(k)
            for i in range(k - j)
        )
        return total / k * self.scale**k

    def var(self) -> float:
        """Variance, ``scale² (delta + gamma)``."""
        return self.scale**2 * (self.delta + self.gamma)


@dataclass(frozen=True)
class FreeProductLaw(ProductLaw):
    """``scale · (MP_delta ⊠ MP_gamma)``, the limiting bulk of S (Theorem 1 of the paper).

    Its Stieltjes transform m solves, with kappa the scale,

        delta gamma kappa z² m³ − kappa z (delta + gamma − 2 delta gamma) m² − (z + kappa (delta−1)(1−gamma)) m − 1 = 0.

    It is the limit of spread-out weights; at finite sequence length :class:`spikepool.GeneralizedLaw` is exact.

    Parameters
    ----------
    delta, gamma : float
        Aspect ratios d/V and d/N, from 0 (exactly) upwards. With one of them 0 it is a Marchenko–Pastur law, with
        if both are 0, the law is a point mass at `scale`; above 1 there is an atom at zero.
    scale : float
        Multiplies the law; the noise gain kappa for pooled covariances.

    Examples
    --------
    >>> from spikepool import FreeProductLaw
    >>> law = FreeProductLaw(delta=0.625, gamma=0.5)
    >>> [round(end, 6) for end in law.support()]
    [0.016713, 4.710744]
    """

    delta: float
    gamma: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check.non_negative(self.delta, "delta"))
        object.__setattr__(self, "gamma", check.non_negative(self.gamma, "gamma"))
        object.__setattr__(self, "scale", check.positive(self.scale, "scale"))


@dataclass(frozen=True)
class MarchenkoPastur(ProductLaw):
    """Limiting spectrum of ``scale/n · G G'`` for a p × n matrix G of independent unit-variance entries.

    The density is ``sqrt((b−x)(x−a)) / (2π ratio scale x)`` on ``scale (1 ∓ sqrt(ratio))²``, with an atom of mass
    ``1 − 1/ratio`` at zero when ratio > 1. It is :class:`FreeProductLaw` with one ratio equal to zero.

    Parameters
    ----------
    ratio : float
        p/n, from 0 (a point mass at `scale`) upwards.
    scale : float
        Variance of the entries.

    Examples
    --------
    >>> from spikepool import MarchenkoPastur
    >>> MarchenkoPastur(0.25).support()
    (0.25, 2.25)
    """

    ratio: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", check.non_negative(self.ratio, "ratio"))
        object.__setattr__(self, "scale", check.positive(self.scale, "scale"))

    @property
    def delta(self) -> float:  # type: ignore[override]
        """Zero: the first ratio of the free product."""
        return 0.0

    @property
    def gamma(self) -> float:  # type: ignore[override]
        """The ratio, as the second ratio of the free product."""
        return self.ratio
