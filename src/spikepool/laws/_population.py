"""Population laws as the separable equations see them: sums over atoms, or transforms of a law.

For a measure H on (0, inf), times a positive `scale`, and a point y off −(support of H),

    s(y) = scale ∫ t/(t+y) dH(t),        Q(y) = scale ∫ t²/(t+y)² dH(t),

and dy/ds = y/(Q − s). The two functions are all that :mod:`spikepool.laws._separable` needs to know of a law.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import ConvergenceError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.quadrature import derivative
from spikepool.laws.atomic import AtomicLaw, discretise
from spikepool.laws.base import SpectralLaw

# points x atoms handled at once: the temporaries stay in the processor's cache
_BLOCK = 1 << 16

# beyond this many times the largest atom, transforms of a law are summed as series in 1/y
_FAR = 64.0
_FAR_TERMS = 12

# numbers of quadrature nodes tried, one after the other
_NODES = (400, 1600)

# numbers of nodes along a path to infinity, tried until two agree; their least reach in the double exponential
# variable; how many times the upper end of the law the path goes at least; how far two results may differ
_PATH_NODES = (161, 321, 641, 1281)
_PATH_REACH = 3.6
_PATH_END = 1e14
_PATH_TOLERANCE = 1e-9


class Population(ABC):
    """A population law with total mass `scale`.

    Attributes
    ----------
    scale : float
        Factor in front of the law.
    mass, mean, second : float
        scale·(mass off zero), scale·∫t dH and scale·∫t² dH.
    pieces : numpy.ndarray of shape (k, 2)
        Smallest intervals that carry the mass off zero, in increasing order; an atom has length zero.
    """

    scale: float
    mass: float
    mean: float
    second: float
    pieces: FloatArray

    @abstractmethod
    def terms(self, y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """s(y) and Q(y) at a flat array of real or complex points."""

    @abstractmethod
    def cubes(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """s, Q and C = scale ∫ t³/(t+y)³ dH at real points; dQ/d log y = 2(C − Q)."""

    @abstractmethod
    def angle(self, y: NDArray[np.complex128]) -> FloatArray:
        """Return scale ∫ arg(1 + t/y) dH(t), for y in the lower half plane: each argument lies in (0, π)."""

    @abstractmethod
    def resolvent(self, y: NDArray[Any]) -> NDArray[Any]:
        """∫ dH(t)/(t+y), an atom at zero included and without `scale`."""

    @abstractmethod
    def mass_above(self, x: float) -> float:
        """Return scale·H((x, inf)) for an x off the pieces."""

    @property
    def single(self) -> bool:
        """Whether all the mass off zero is one atom."""
        return len(self.pieces) == 1 and self.pieces[0, 0] == self.pieces[0, 1]


class AtomPopulation(Population):
    """Point masses; `squares` are mass·t² of each."""

    def __init__(self, law: AtomicLaw, scale: float) -> None:
        positive = law.values > 0
        self.scale = scale
        self._law = law
        self._t = law.values[positive]
        self._p = scale * law.weights[positive]
        self.mass = float(self._p.sum())
        self.mean = float(self._p @ self._t)
        self.second = float(self._p @ self._t**2)
        self.pieces = np.column_stack([self._t, self._t])
        self._pt, self.squares = self._p * self._t, self._p * self._t**2

    def _blocks(self, n: int) -> list[slice]:
        step = max(1, _BLOCK // len(self._t))
        return [slice(i, min(i + step, n)) for i in range(0, n, step)]

    def terms(self, y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        s, Q = np.empty_like(y), np.empty_like(y)
        for rows in self._blocks(len(y)):
            if np.iscomplexobj(y):
                # 1/(t+y) = g − ih in real arithmetic, several times faster than complex division
                v = y[rows].imag[:, None]
                a = self._t + y[rows].real[:, None]
                h = a * a
                h += v * v
                np.reciprocal(h, out=h)
                g = a * h
                h *= v
                s.real[rows], s.imag[rows] = g @ self._pt, -(h @ self._pt)
                np.multiply(g, h, out=a)
                Q.imag[rows] = -2 * (a @ self.squares)
                np.subtract(g, h, out=a)
                g += h
                g *= a
                Q.real[rows] = g @ self.squares
            else:
                r = 1 / (self._t + y[rows][:, None])
                s[rows] = r @ self._pt
                r *= r
                Q[rows] = r @ self.squares
        return s, Q

    def cubes(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        s, Q, C = np.empty_like(y), np.empty_like(y), np.empty_like(y)
        for rows in self._blocks(len(y)):
            with np.errstate(divide="ignore", over="ignore"):
                tau = self._t / (self._t + y[rows][:, None])
            s[rows] = tau @ self._p
            square = tau * tau
            Q[rows] = square @ self._p
            square *= tau
            C[rows] = square @ self._p
        return s, Q, C

    def angle(self, y: NDArray[np.complex128]) -> FloatArray:
        e = 1 / y
        total = np.empty(len(y))
        for rows in self._blocks(len(y)):
            imag = e.imag[rows][:, None] * self._t
            real = 1 + e.real[rows][:, None] * self._t
            total[rows] = np.arctan2(imag, real) @ self._p
        return total

    def resolvent(self, y: NDArray[Any]) -> NDArray[Any]:
        values, weights = self._law.values, self._law.weights
        result = np.empty_like(y)
        for rows in self._blocks(len(y)):
            result[rows] = (1 / (values + y[rows][:, None])) @ weights
        return result

    def mass_above(self, x: float) -> float:
        return float(self._p[self._t > x].sum())


class LawPopulation(Population):
    """A law with a continuous part, through its Stieltjes transform: s(y) = scale (1 − y m(−y)), exactly."""

    def __init__(self, law: SpectralLaw, scale: float) -> None:
        self.scale = scale
        self._law = law
        self.pieces = law.intervals()
        self.mass = scale * (1 - law.atom)
        self._moments = [law.moment(k) for k in range(_FAR_TERMS + 1)]
        self.mean = scale * self._moments[1]
        self.second = scale * self._moments[2]
        self._nodes: dict[int, AtomPopulation] = {}

    def _radius(self, point: NDArray[Any]) -> FloatArray:
        """Part of the distance from `point` to the nearest singularity of the transform."""
        low, high = self.pieces[:, 0], self.pieces[:, 1]
        real = point.real[:, None]
        across = np.maximum(np.maximum(low - real, real - high), 0.0)
        distance = np.hypot(across, point.imag[:, None]).min(axis=1)
        if self._law.atom > 0:
            distance = np.minimum(distance, np.abs(point))
        return np.asarray(0.15 * distance)

    def terms(self, y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        s, Q = np.empty_like(y), np.empty_like(y)
        far = np.abs(y) > _FAR * self.pieces[-1, 1]
        if far.any():
            e = 1 / y[far]
            total, square = np.zeros_like(e), np.zeros_like(e)
            for k in range(_FAR_TERMS, 0, -1):
                total = (total + (-1) ** (k - 1) * self._moments[k]) * e
                square = (square + (-1) ** k * (k - 1) * self._moments[k]) * e
            s[far], Q[far] = self.scale * total, self.scale * square
        near = ~far
        if np.isrealobj(y):  # a trial step of a solver may fall into the support: not a number, for it to retreat
            hit = ((-y[:, None] >= self.pieces[:, 0]) & (-y[:, None] <= self.pieces[:, 1])).any(axis=1)
            hit |= (y == 0) & (self._law.atom > 0)
            hit |= np.isnan(y)
            s[hit], Q[hit] = np.nan, np.nan
            near &= ~hit
        if near.any():
            w = y[near]
            m = np.asarray(self._law.stieltjes(-w))
            slope = derivative(self._law.stieltjes, -w, self._radius(-w))
            if np.isrealobj(w):
                slope = slope.real
            s[near] = self.scale * (1 - w * m)
            Q[near] = s[near] - self.scale * (w * m) + self.scale * (w * w * slope)
        return s, Q

    def cubes(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        s, Q = self.terms(y)

        def squares(points: NDArray[Any]) -> NDArray[Any]:
            return self.terms(points.ravel())[1].reshape(points.shape)

        radius = np.minimum(self._radius(-y), 0.15 * np.abs(y))
        # C only steers Newton steps: six points, with an error of 1e-5, are enough
        return s, Q, Q + y * derivative(squares, y, radius, n=6).real / 2

    def angle(self, y: NDArray[np.complex128]) -> FloatArray:
        """By quadrature, with as many nodes as it takes to reproduce s(y), which is known exactly."""
        total = np.empty(len(y))
        exact, _ = self.terms(y)
        left = np.arange(len(y))
        error = np.zeros(len(y))
        for n in _NODES:
            if n not in self._nodes:
                self._nodes[n] = AtomPopulation(discretise(self._law, n), self.scale)
            nodes = self._nodes[n]
            total[left] = nodes.angle(y[left])
            error = np.abs(nodes.terms(y[left])[0] / exact[left] - 1)
            left = left[error > 1e-10]
            if not len(left):
                return total
        total[left] = self._angle_along_a_path(y[left])
        return total

    def _angle_along_a_path(self, y: NDArray[np.complex128]) -> FloatArray:
        """The same next to the support, where no number of nodes on it will do, from the transform alone.

        L(y) = ∫ log(1 + t/y) dH vanishes at infinity and L'(y) = m(−y) − 1/y, so that down a vertical line, away from
        the singularities, L(y) = i ∫_0^∞ [m(−y + ih) − 1/(y − ih)] dh: double exponential quadrature in h.
        """
        total = self._path_integral(y, _PATH_NODES[0])
        left, error = np.arange(len(y)), np.zeros(0)
        for count in _PATH_NODES[1:]:
            finer = self._path_integral(y[left], count)
            error = np.abs(finer - total[left])
            total[left] = finer
            left, error = left[error > _PATH_TOLERANCE], error[error > _PATH_TOLERANCE]
            if not len(left):
                return np.asarray(self.scale * total)
        worst = int(np.argmax(error))
        raise ConvergenceError(
            "the logarithmic potential of a population law was not resolved; the error is",
            float(error[worst]),
            "Pass that law as an AtomicLaw of its quantiles",
            point=complex(y[left[worst]]),
            residual=float(error[worst]),
        )

    def _path_integral(self, y: NDArray[np.complex128], count: int) -> FloatArray:
        """Imaginary part of L(y) from `count` nodes."""
        # far enough that mean/h, what lies beyond, is nothing: a small |y| has a long way to go
        beyond = np.log(_PATH_END * self.pieces[-1, 1] / np.abs(y).min())
        last = max(_PATH_REACH, float(np.arcsinh(2 / np.pi * beyond)))
        v, step = np.linspace(-_PATH_REACH, last, count, retstep=True)
        grow = np.exp(np.pi / 2 * np.sinh(v))
        h = np.abs(y)[:, None] * grow
        weight = h * (np.pi / 2 * np.cosh(v)) * step
        at = y[:, None] - 1j * h
        # beyond any float of the transform the integrand is −mean/y², and its share nothing
        far = np.abs(at) > _FAR * self.pieces[-1, 1]
        e = 1 / at
        f = np.empty_like(at)
        f[~far] = np.asarray(self._law.stieltjes(-at[~far])) - e[~far]
        series = np.zeros_like(e[far])
        for k in range(_FAR_TERMS, 0, -1):
            series = (series + (-1) ** k * self._moments[k]) * e[far]
        f[far] = series * e[far]
        return np.asarray((1j * (f * weight).sum(axis=1)).imag)

    def resolvent(self, y: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self._law.stieltjes(-y))

    def mass_above(self, x: float) -> float:
        return self.scale * (1 - float(self._law.cdf(x)))


def population(law: SpectralLaw, scale: float = 1.0) -> Population:
    """`law` in the form the solver needs."""
    if isinstance(law, AtomicLaw):
        return AtomPopulation(law, scale)
    pieces = law.intervals()
    if len(pieces) == 1 and pieces[0, 0] == pieces[0, 1]:  # a point mass in the guise of a law, as MP with ratio 0
        return AtomPopulation(AtomicLaw([0.0, pieces[0, 0]], [law.atom, 1 - law.atom]), scale)
    return LawPopulation(law, scale)
