"""Mean alignment of the top eigenvector at finite d: the floor below the threshold and the crossover at the edge.

In the limit the alignment is 0 up to the threshold and grows linearly from it. At finite d it is neither. Let the
resolvent at u be ``g(z)/(1 − mu² D(z))``, with g that of the noise alone, m the Stieltjes transform of the bulk (g = m
where the noise is isotropic), E its right edge, and at E

    R = mu² D,    rho = (g/m) d log D/d log m,    own = dg/dm.

*Below the threshold* (R < 1) an eigenvector at the edge has the squared cosine ``Im[resolvent]/(d Im[m])``, which is
the derivative of ``g/(1 − mu² D)`` by m, over d:

    floor = (own (1 − R) + rho R)/(d (1 − R)²).

*At the edge* the top eigenvector follows the law of a spiked Gaussian matrix: its mean alignment is F(u) in units in
which it is 2u far above the edge, with F(u) → 1/u² far below. F is tabulated here, from 16,000 draws for each u
of a tridiagonal Gaussian matrix of 64,000 rows; S(u) is the deviation of single draws in the same units, from 1,200
draws each. Below the threshold these units are ``a eps/2`` with a = dA/dR at R = 1+ (A the alignment in the limit) and
eps = (2 rho/(a d))^(1/3), which makes the two statements one:

    own/d + (floor − own/d) u² F(u),            u = (R − 1)/eps.

Above it an outlier of eigenvalue z and alignment A is told from the edge by how far it stands out of the scatter of the
top of the bulk, blur d^{-2/3}. With any parameter s of the curve beyond the bulk,

    A F(u)/(2u) + (1 − A)/d,      u² = (z − E) d^{2/3}/blur,      blur = (|z''(s)|/(2 m'(s)²))^{1/3} at the edge.

Next to the threshold that u is (R − 1)/eps and A/(2u) is a eps/2. The second form asks for no threshold: it also holds
where a direction of the usage, or the class means of a sampled table, make the outlier stand out at any mu > 0.

*Beside another outlier* of eigenvalue z, that of the vocabulary mean, the top eigenvector has about
``1/(d (1 − mu² D(z))²)`` of u by chance.

References
----------
Benaych-Georges and Nadakuditi (arXiv 1103.2221) for outliers and their vectors; "Eigenvector distribution of random
matrices under critical finite-rank deformations" (arXiv 2605.30779) for the overlap in the crossover, of order
``d^(-1/3)``. The constant of the floor is derived above; ``tests/theory/test_finite_size.py`` holds it against draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.theory.mixing import mixed
from spikepool.theory.validity import Draws, OutlierLike

# u, and F(u) below the edge or F(u) − 2u above it. Standard errors are .007 at most.
_U = np.array([-6, -5, -4, -3, -2.5, -2, -1.5, -1, -0.5, 0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4, 5, 6])
_BELOW = [0.0272, 0.0385, 0.0565, 0.092, 0.125, 0.169, 0.242, 0.356, 0.541, 0.838]
_ABOVE = [0.545, 0.303, 0.120, -0.012, -0.139, -0.150, -0.104, -0.056, -0.030, -0.011, 0.0]
_B = np.array(_BELOW + _ABOVE)
# S(u); 4 % standard error. Far below it is sqrt(2) F(u).
_SCATTER_BELOW = [0.035, 0.051, 0.074, 0.120, 0.161, 0.217, 0.289, 0.401, 0.546, 0.727]
_SCATTER_ABOVE = [0.829, 0.886, 0.957, 1.07, 1.11, 1.04, 0.90, 0.82, 0.63, 0.51, 0.45]
_S = np.array(_SCATTER_BELOW + _SCATTER_ABOVE)


@dataclass(frozen=True)
class Threshold:
    """What determines the alignments of draws below a threshold, or at it.

    Attributes
    ----------
    square : float
        mu² at the threshold.
    turn : float
        rho.
    slope : float
        a, the derivative of the limiting alignment by R just above the threshold.
    own : float
        dg/dm at the edge: 1 for isotropic noise.
    """

    square: float
    turn: float
    slope: float
    own: float = 1.0

    def draws(self, mu: float, d: int) -> Draws:
        """Mean and deviation of the alignment of the top eigenvector over draws in d dimensions, for R <= 1."""
        R = min(1.0, mu**2 / self.square)
        width = float((2 * self.turn / (self.slope * d)) ** (1 / 3))
        u = (R - 1) / width
        shape = 1 / u**2 if u <= _U[0] else float(np.interp(u, _U, _B))
        if u > -1e-6:
            mean = self.own / d + self.slope * width / 2 * shape
        else:
            # what a direction without any signal has, own/d, does not take part in the crossover
            floor = (self.own * (1 - R) + self.turn * R) / (1 - R) ** 2
            mean = (self.own + (floor - self.own) * u**2 * shape) / d
        mean = min(1.0, mean)
        relative = math.sqrt(2) if u <= _U[0] else float(np.interp(u, _U, _S)) / shape
        return Draws(mean, relative * mean)


def beyond(alignment: float, distance: float, d: int) -> Draws:
    """Draws of an outlier that is `distance` = (z − E)/blur from the edge, for its alignment in the limit."""
    u = math.sqrt(max(1e-12, distance)) * d ** (1 / 3)
    half = alignment / (2 * u)
    mean = alignment + half * float(np.interp(u, _U, _B, right=0.0)) + (1 - alignment) / d
    return Draws(min(1.0, max(0.0, mean)), half * float(np.interp(u, _U, _S)))


def leads(top: OutlierLike | None, edge: float, d: int) -> bool:
    """Whether the top eigenvector is the signal's, in the limit or by chance.

    It is, unless another outlier is clear of the edge: by more than the d^{-2/3} over which the top of the bulk
    scatters.
    """
    return top is None or getattr(top, "kind", "") == "signal" or top.eigenvalue <= edge * (1 + d ** (-2 / 3))


def top_draws(
    top: OutlierLike | None,
    edge: float,
    mu: float,
    d: int,
    crossing: Threshold | None,
    blur: Callable[[], float],
    strength: Callable[[], float],
) -> Draws | None:
    """Alignments of the top eigenvector over draws in d dimensions; None where the limit is all that is known.

    Far above the edge the signal's limit holds.

    Parameters
    ----------
    top : OutlierLike or None
        The largest outlier in the limit.
    edge : float
        Right edge of the bulk.
    mu, d
        Strength of the signal and dimension.
    crossing : Threshold or None
        That of the signal; None where it stands out at any mu.
    blur : callable
        Gives the blur of the edge.
    strength : callable
        Gives D at the top outlier.
    """
    alignment = 0.0 if top is None else top.alignment
    if mu == 0:
        return None
    if not leads(top, edge, d):
        return beside(strength(), mu, d, alignment)
    if top is None:
        return None if crossing is None else crossing.draws(mu, d)
    if top.eigenvalue >= 2 * edge:
        return None
    return of_top(crossing, alignment, mu, d, lambda: (top.eigenvalue - edge) / blur())


def of_top(crossing: Threshold | None, alignment: float, mu: float, d: int, distance: Callable[[], float]) -> Draws:
    """Draws of a top eigenvector of this limiting alignment, which may hold something of u below the threshold too."""
    if crossing is None or (alignment > 0 and mu**2 > crossing.square):
        return beyond(alignment, distance(), d)
    mean, scatter = crossing.draws(mu, d)
    return Draws(max(mean, alignment), scatter)


def gain_strengths(mu: float, class_power: float, variance: float) -> tuple[float, float]:
    """Strengths of the signal at which the mean gain acts as one that is a deviation below or above it on mu.

    The class means of a sampled table, of power `class_power` (zeta), are pooled with the signal, so that the gain
    multiplies mu² + zeta. `variance` is that of the gain, relatively: Var(a²)/(N E[a²]²) for the pooled signs a of N
    sequences.
    """
    power, deviation = mu**2 + class_power, min(0.5, math.sqrt(variance))
    least = 0.03 * mu  # a gain below that of the class means alone leaves no strength
    low, high = (math.sqrt(max(0.0, factor * power - class_power)) for factor in (1 - deviation, 1 + deviation))
    return max(least, low), max(least, high)


def over_gains(draws: Callable[[float, float], Draws], mu: float, class_power: float, variance: float) -> Draws:
    """Alignments of draws whose signal gain scatters: the mean of those at one deviation below and above its mean.

    Parameters
    ----------
    draws : callable
        Draws at either of :func:`gain_strengths`, for the alignment in the limit there times a factor: the class means
        stay where they are, and the share of u in their sum with the signal is that at mu.
    mu, class_power, variance : float
        As in :func:`gain_strengths`.
    """
    power, found = mu**2 + class_power, []
    for at in gain_strengths(mu, class_power, variance):
        shared = (mu / at) ** 2 * ((at**2 + class_power) / power) if power > 0 else 1.0  # mu² may underflow
        found.append(draws(at, shared))
    low, high = found
    scatter = math.sqrt((low.scatter**2 + high.scatter**2) / 2 + ((high.mean - low.mean) / 2) ** 2)
    return Draws((low.mean + high.mean) / 2, scatter)


def beside(D: float, mu: float, d: int, alignment: float = 0.0) -> Draws | None:
    """What the eigenvector of an outlier that is not the signal's has of u, where mu² D at it is below 1.

    A squared normal variable, by chance, on top of its `alignment` in the limit.
    """
    R = mu**2 * D
    if not 0 <= R < 1:
        return None
    # two directions that mix hold at most half of each other
    chance = (1 - alignment) * mixed(1 / (d * (1 - R) ** 2))
    return Draws(alignment + chance, math.sqrt(2) * chance)


def closed_blur(delta: float, gamma: float, star: float) -> float:
    """The blur of the edge, in units of kappa."""
    m = -star / ((star + delta) * (star + gamma))
    m_slope = 1 / star - 1 / (star + delta) - 1 / (star + gamma)
    z = (star + 1) * (star + delta) * (star + gamma) / star**2
    z_bend = 2 / star**2 - 1 / (star + 1) ** 2 - 1 / (star + delta) ** 2 - 1 / (star + gamma) ** 2
    return float((z * z_bend / (2 * (m * m_slope) ** 2)) ** (1 / 3))


def closed_threshold(gain: float, delta: float, gamma: float, star: float, class_power: float) -> Threshold | None:
    """Threshold of the closed form; None where the class means of the table, or nothing, make the outlier.

    In units of kappa: ``D = G/(x + delta − zeta G)`` with zeta the class means' power, ``m = −x/((x+delta)(x+gamma))``.

    Parameters
    ----------
    gain : float
        G = alpha/kappa.
    delta, gamma, star : float
        Aspect ratios, and the critical excess x at the edge.
    class_power : float
        zeta, delta for a sampled table with ±1 latents and 0 otherwise.
    """
    beyond = star + delta - class_power * gain
    if gain <= 0 or beyond <= 0:
        return None
    square = beyond / gain
    m_slope = 1 / star - 1 / (star + delta) - 1 / (star + gamma)
    r0 = delta + gamma + delta * gamma
    total = (3 * star**2 - r0) / (star**2 * (star + gamma))  # dA/dx where its numerator vanishes
    return Threshold(square, -1 / (beyond * m_slope), square / (square + class_power) * total * beyond)


def numerical_blur(m: FloatArray, z: FloatArray, step: float) -> float:
    """The blur of the edge, from m and z as in :func:`numerical_threshold`."""
    return float((abs(_bend(z, step)) / (2 * _slope(m, step) ** 2)) ** (1 / 3))


def _slope(values: FloatArray, step: float) -> float:
    return float((-3 * values[0] + 4 * values[1] - values[2]) / (2 * step))


def _bend(z: FloatArray, step: float) -> float:
    """Second derivative where the first is 0: z − z(E) = z'' s²/2 + O(s³), with the cubic term removed."""
    return float((8 * (z[1] - z[0]) - (z[2] - z[0])) / (2 * step**2))


def numerical_threshold(D: FloatArray, m: FloatArray, g: FloatArray, z: FloatArray, step: float) -> Threshold | None:
    """Threshold from D, m, the transform g at u and z at three points of a curve beyond the edge, `step` apart.

    The first point is the edge, where dz/ds = 0: derivatives are one-sided, of second order.
    """
    if not (D[0] > 0 and np.isfinite(D).all()):
        return None
    m_slope, D_slope = _slope(m, step), _slope(D, step) / D[0]
    turn, slope = D_slope / m_slope * g[0], -g[0] * _bend(z, step) / D_slope**2
    if not (turn > 0 and slope > 0 and math.isfinite(turn) and math.isfinite(slope)):
        return None
    return Threshold(float(1 / D[0]), float(turn), float(slope), _slope(g, step) / m_slope)
