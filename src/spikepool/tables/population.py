r"""The population behind a bulk: inversion of Silverstein's equation.

With m̲(z) the companion transform of the observed bulk, Silverstein's equation is *linear* in the population law,

.. math:: z + \frac{1}{m̲(z)} = c \int \frac{t\, dH(t)}{1 + t\, m̲(z)},

so H on a grid of values is a least-squares problem over points z near the spectrum with nonnegative weights (El
Karoui 2008), solved exactly, with one addition: the second differences of the weights are penalised, because the
inversion is ill-posed and its bare solution is a comb of spikes. The top of the grid is set so that
the fitted law ends at the edge found by :mod:`spikepool.laws.bulk_edge`: the least-squares fit alone leaves a few
parts in a thousand of mass far above the true support, where it moves the edge of the law by several Tracy-Widom units.

On log-uniform populations over [.2, 5] with d = 300 the predicted spectrum of a new sample is closer to the
mean spectrum than the sample that was fitted is, at every d/V from .01 to 1.5.

The fitted law is drawn as one curve.
A table with n independent rows (n = V − 1 after centring) of covariance Σ has sample eigenvalues whose law is
Silverstein's, with H the law of the eigenvalues of Σ and c = d/n. In the variable v = −1/m̲, m̲ the companion
transform, the equation reads

.. math:: z(v) = v + c \int \frac{t\, v}{v − t}\, dH(t),

and on the real line its complex solutions v = u + iy are those with (Ledoit and Wolf's QuEST parametrisation)

.. math:: \int \frac{t^2}{(t − u)^2 + y^2}\, dH(t) = \frac1c, \qquad
          f(x) = \frac{1}{\pi c} \frac{y}{u^2 + y^2}, \quad x = \mathrm{Re}\, z(u + iy).

The left side falls with y, so each point of the curve is one root of a monotone function: no branch to choose. The
distribution function is closed too, since ∫ m̲ dz = z m̲ − ∫ z dm̲:

.. math:: 1 − c + c F(x) = \frac1\pi \mathrm{Im}\Big[ x m̲ + \log m̲ − c \int \log(1 + t m̲)\, dH(t) \Big].

:class:`spikepool.GeneralizedLaw` is the same law at single points and for other noise; this curve is what the fits
of a table need, hundreds of times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, nnls

from spikepool.errors import ConvergenceError
from spikepool.kit.arrays import FloatArray

CURVE_POINTS = 400
NEWTON_STEPS = 100


def spike_map(ell: float, atoms: FloatArray, weights: FloatArray, ratio: float) -> float:
    """Where a population eigenvalue `ell` above the critical one puts its sample eigenvalue: z(ell)."""
    return float(ell + ratio * ell * np.sum(weights * atoms / (ell - atoms)))


def right_edge(atoms: FloatArray, weights: FloatArray, ratio: float, n: int) -> tuple[float, float, float]:
    r"""(right edge, critical population eigenvalue, Tracy-Widom scale) of the law.

    The critical value ℓ solves c ∫ t²/(ℓ − t)² dH = 1, the edge is z(ℓ), and the largest eigenvalue of n Gaussian
    rows fluctuates as edge + scale · TW₁ with scale = n^{-2/3} (ℓ³ + c ∫ t³ℓ³/(ℓ − t)³ dH)^{1/3} (El Karoui 2007).
    """
    top = float(atoms[weights > 0].max())
    share = float(weights[atoms == top].sum())
    # ℓ/top − 1 lies between the root for the top atom alone and the one for all the mass at the top.
    low, high = 1 + np.sqrt(ratio * share) * (1 - 1e-9), 1 + np.sqrt(ratio) * (1 + 1e-9)
    x = atoms / top
    ell = top * float(brentq(lambda s: 1 - ratio * np.sum(weights * (x / (s - x)) ** 2), low, high, xtol=1e-14))
    cube = ell**3 + ratio * np.sum(weights * (atoms * ell / (ell - atoms)) ** 3)
    return spike_map(ell, atoms, weights, ratio), ell, float(np.cbrt(cube) * n ** (-2 / 3))


def density_curve(
    atoms: FloatArray, weights: FloatArray, ratio: float, points: int = CURVE_POINTS
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(x, density, distribution function) along the support, x increasing.

    The distribution function counts the mass at zero, the larger of 1 − 1/c and the population's own; the density does
    not.
    """
    # atoms at zero add nothing to any of the sums, and have no branch of their own
    atoms, weights = atoms[atoms > 0], weights[atoms > 0]
    u = _abscissae(atoms, weights, ratio, points)[:, None]
    y = np.sqrt(_heights(u, atoms, weights, ratio))
    gap2 = (atoms - u) ** 2 + y**2
    gap2 = np.where(gap2 > 0, gap2, np.finfo(float).tiny)
    x = (u + ratio * (weights * atoms * (1 + atoms * (u - atoms) / gap2)).sum(axis=1, keepdims=True))[:, 0]
    m = -1 / (u + 1j * y)  # the companion transform
    angles = (weights * np.angle(1 + atoms * m)).sum(axis=1)
    companion = (x * m.imag[:, 0] + np.angle(m[:, 0]) - ratio * angles) / np.pi
    cdf = (companion - (1 - ratio)) / ratio
    return np.maximum.accumulate(x), m.imag[:, 0] / (np.pi * ratio), np.maximum.accumulate(cdf)


def _abscissae(atoms: FloatArray, weights: FloatArray, ratio: float, points: int) -> FloatArray:
    """Real parts u of the curve, from the left end of the support to the right one."""
    low, high = float(atoms.min()), float(atoms.max())
    spread = float(np.sqrt(ratio * np.sum(weights * atoms**2)))

    def excess(u: float) -> float:
        return float(np.sum(weights * (atoms / (atoms - u)) ** 2) - 1 / ratio)

    u_max = right_edge(atoms, weights, ratio, 1)[1]
    # Below the smallest atom the integral falls away from it, and cannot reach 1/c further than `spread` off.
    u_min = float(brentq(excess, low - spread * (1 + 1e-9), low * (1 - 1e-12), xtol=1e-15 * high))
    # Square-root edges want points crowded at both ends; the inside is followed where the atoms are.
    crowded = u_min + (u_max - u_min) * (1 - np.cos(np.linspace(0, np.pi, points // 2))) / 2
    inside = np.quantile(atoms, np.linspace(0, 1, points - points // 2))
    return np.unique(np.concatenate([crowded, inside]))


def _heights(u: FloatArray, atoms: FloatArray, weights: FloatArray, ratio: float) -> FloatArray:
    """y² at each u: zero in gaps of the support, else the root of 1/Σ wt²/((t−u)²+y²) = c.

    As a function of y² the left side is increasing and concave (a parallel sum), so Newton's method started at
    zero climbs to the root without ever passing it.
    """
    squares, gap2 = weights * atoms**2, (atoms - u) ** 2
    scale = float(atoms.max()) ** 2
    w = np.full((len(u), 1), 1e-28 * scale)
    for _ in range(NEWTON_STEPS):
        inverse = 1 / (gap2 + w)
        total = (squares * inverse).sum(axis=1, keepdims=True)
        slope = (squares * inverse**2).sum(axis=1, keepdims=True) / total**2
        step = np.maximum((ratio - 1 / total) / slope, 0.0)
        w = w + step
        if np.all(step <= 1e-13 * w):
            return np.where(w > 1e-27 * scale, w, 0.0)
    raise ConvergenceError("the curve of the bulk density did not converge", float((step / w).max()))


def quantiles(atoms: FloatArray, weights: FloatArray, ratio: float, count: int) -> FloatArray:
    """Expected ordered nonzero eigenvalues, largest first: the law's quantiles at (i − 1/2)/count of its bulk."""
    x, _, cdf = density_curve(atoms, weights, ratio)
    at_zero = float(weights[atoms == 0].sum())
    atom = max(at_zero, 1 - 1 / ratio, 0.0)
    # of max(count, c·count) coordinates the population leaves a share `own` empty: these eigenvalues are zero
    filled = min(count, round(max(count, ratio * count) * (1 - at_zero)))
    levels = atom + (1 - atom) * (np.arange(filled)[::-1] + 0.5) / filled
    return np.concatenate([np.interp(levels, cdf, x), np.zeros(count - filled)])


GRID = 100  # population values, equally spaced in logarithm
POINTS = 80  # points z
HEIGHT = 0.5  # Im z = HEIGHT · x · n^(-1/3): the scale below which n eigenvalues do not resolve a density
SMOOTHNESS = 0.01  # weight of the second differences; .001 to .1 give the same predictions within 10 %
EDGE_TOLERANCE = 1e-10  # of the logarithm of the top of the grid
# Rows of the sum constraint weigh this much against the relative errors of the equation.
SUM_WEIGHT = 100.0


@dataclass(frozen=True)
class TablePopulation:
    """Equally weighted population eigenvalues with the ratio c = d/n they are sampled at.

    Attributes
    ----------
    atoms : ndarray
        Population eigenvalues, increasing, one for each dimension of the bulk.
    n : int
        Independent rows: V − 1 for a centred table.
    """

    atoms: FloatArray
    n: int

    @property
    def ratio(self) -> float:
        """C = d/n."""
        return len(self.atoms) / self.n

    @property
    def weights(self) -> FloatArray:
        """Equal weights."""
        return np.full(len(self.atoms), 1 / len(self.atoms))

    @cached_property
    def edge(self) -> float:
        """Right edge of the sample law."""
        return self._right[0]

    @cached_property
    def critical(self) -> float:
        """Population eigenvalue above which a spike leaves the bulk."""
        return self._right[1]

    @cached_property
    def scale(self) -> float:
        """Tracy-Widom scale of the largest eigenvalue of the bulk."""
        return self._right[2]

    @cached_property
    def _right(self) -> tuple[float, float, float]:
        return right_edge(self.atoms, self.weights, self.ratio, self.n)

    def curve(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(x, density, distribution function) of the sample law."""
        return density_curve(self.atoms, self.weights, self.ratio)

    def expected(self, n: int | None = None) -> FloatArray:
        """Expected nonzero sample eigenvalues, largest first, for `n` rows (the rows of the fit by default)."""
        n = n or self.n
        d = len(self.atoms)
        return quantiles(self.atoms, self.weights, d / n, min(d, n))

    def law(self) -> Any:
        """The sample law as a :class:`spikepool.GeneralizedLaw`."""
        from spikepool.laws.atomic import AtomicLaw
        from spikepool.laws.generalized import GeneralizedLaw

        return GeneralizedLaw(noise=AtomicLaw(self.atoms), usage=AtomicLaw([1.0]), delta=self.ratio)


def fit_population(bulk: FloatArray, d: int, n: int, edge: float) -> TablePopulation:
    """Population of dimension `d` whose sample law with `n` rows fits the nonzero eigenvalues `bulk`.

    Parameters
    ----------
    bulk : ndarray
        Nonzero eigenvalues without the outliers, largest first: min(d, n) of them.
    d : int
        Dimension of the bulk, eigenvalues at zero included: the number of columns less the outliers.
    n : int
        Independent rows, less the outliers: each takes one dimension of either side with it.
    edge : float
        Right edge the law must have.
    """
    ratio = d / n
    z, companion = _observations(bulk, d, n)
    bottom = max(0.3 * float(bulk[-1]), 1e-3 * float(bulk[0]))

    @cache
    def fitted(top: float) -> TablePopulation:
        grid = np.geomspace(min(bottom, top / 20), top, GRID)
        return TablePopulation(_equal_weights(grid, _grid_weights(z, companion, ratio, grid), d), n)

    # The edge of the law grows with the top of the grid: z(ℓ) > ℓ > top, so the top is below the edge.
    low, high = np.log(edge / (1 + np.sqrt(ratio)) ** 2 * 0.5), np.log(edge)

    def excess(log_top: float) -> float:
        return float(np.log(fitted(float(np.exp(log_top))).edge / edge))

    if excess(high) <= 0:
        return fitted(edge)
    if excess(low) >= 0:
        return fitted(float(np.exp(low)))
    return fitted(float(np.exp(brentq(excess, low, high, xtol=EDGE_TOLERANCE, rtol=EDGE_TOLERANCE))))


def plug_in(bulk: FloatArray, d: int, n: int) -> TablePopulation:
    """The paper's choice: the observed eigenvalues taken as the population's.

    Sampling has already spread them once, so the law they give is too wide: by a factor of about 1 + c in variance.
    It is accurate only when d/V is small.
    """
    atoms = np.concatenate([bulk, np.full(d - len(bulk), bulk[-1] * 1e-6)])
    return TablePopulation(atoms[::-1].copy(), n)


def _observations(bulk: FloatArray, d: int, n: int) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Points z above the spectrum and the companion transform of the observed bulk there."""
    x = np.quantile(bulk, np.linspace(0, 1, POINTS))
    x = np.concatenate([x, x[-1] * np.array([1.1, 1.3])])
    height = HEIGHT * np.maximum(x, 0.05 * np.median(bulk)) * len(bulk) ** (-1 / 3)
    z = x + 1j * height
    # n m̲ = Σ 1/(λ − z) over all n companion eigenvalues, n − len(bulk) of which are zero.
    companion = ((1 / (bulk - z[:, None])).sum(axis=1) - (n - len(bulk)) / z) / n
    return z, companion


def _grid_weights(
    z: NDArray[np.complex128], companion: NDArray[np.complex128], ratio: float, grid: FloatArray
) -> FloatArray:
    rows = grid / (1 + grid * companion[:, None])
    values = (z + 1 / companion) / ratio
    rows, values = rows / np.abs(values)[:, None], values / np.abs(values)
    smooth = SMOOTHNESS * len(grid) * np.diff(np.eye(len(grid)), 2, axis=0)
    design = np.concatenate([rows.real, rows.imag, np.full((1, len(grid)), SUM_WEIGHT), smooth])
    target = np.concatenate([values.real, values.imag, [SUM_WEIGHT], np.zeros(len(smooth))])
    weights, _ = nnls(design, target, maxiter=50 * len(grid))
    return np.asarray(weights / weights.sum())


def _equal_weights(grid: FloatArray, weights: FloatArray, d: int) -> FloatArray:
    """Quantiles at (i − 1/2)/d of the law that spreads each weight over its cell, evenly in logarithm."""
    logs = np.log(grid)
    borders = np.concatenate([logs[:1], (logs[1:] + logs[:-1]) / 2, logs[-1:]])
    cumulative = np.concatenate([[0.0], np.cumsum(weights)])
    levels = (np.arange(d) + 0.5) / d
    return np.asarray(np.exp(np.interp(levels, cumulative / cumulative[-1], borders)))
