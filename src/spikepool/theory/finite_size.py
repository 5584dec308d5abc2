"""Mean alignment of the top eigenvector at finite d: the floor below the threshold and the crossover at it.

In the limit the alignment is 0 up to the threshold and grows linearly from it. At finite d it is neither. Let the
resolvent at u be ``m(z)/(1 − mu² D(z))``, with m the Stieltjes transform of the bulk, E its right edge, and

    R = mu² D(E),    rho = d log D/d log m at E,    a = dA/dR at R = 1+  (A the alignment in the limit).

*Below the threshold* (R < 1) an eigenvector at the edge has the squared cosine ``Im[resolvent]/(d Im[m])``, which is
the derivative of ``m/(1 − mu² D)`` by m, over d:

    floor = (1 − R + rho R) / (d (1 − R)²).

*At the threshold* the top eigenvector follows the law of a spiked Gaussian matrix, in the variable u = (R − 1)/eps with
eps = (2 rho/(a d))^(1/3): its mean alignment is ``(a eps/2) F(u)`` with F(u) → 1/u² far below and F(u) → 2u far above.
F is a number for each u, tabulated here from 16,000 draws each of a tridiagonal Gaussian matrix of 64,000 rows. The two
statements are one:

    R <= 1:   1/d + (floor − 1/d) u² F(u),            R >= 1:   A + (a eps/2)(F(u) − 2u) + (1 − A)/d.

Single draws scatter around this mean by ``(a eps/2) S(u)``, S tabulated from 1,200 draws each.

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
from spikepool.theory.validity import Draws, OutlierLike

# u, and F(u) below the threshold or F(u) − 2u above it. Standard errors are .007 at most.
_U = np.array([-6, -5, -4, -3, -2.5, -2, -1.5, -1, -0.5, 0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4, 5, 6])
_BELOW = [0.0272, 0.0385, 0.0565, 0.092, 0.125, 0.169, 0.242, 0.356, 0.541, 0.838]
_ABOVE = [0.545, 0.303, 0.120, -0.012, -0.139, -0.150, -0.104, -0.056, -0.030, -0.011, 0.0]
_B = np.array(_BELOW + _ABOVE)
# S(u), the deviation of single draws in the same units; 4 % standard error. Far below it is sqrt(2) F(u).
_SCATTER_BELOW = [0.035, 0.051, 0.074, 0.120, 0.161, 0.217, 0.289, 0.401, 0.546, 0.727]
_SCATTER_ABOVE = [0.829, 0.886, 0.957, 1.07, 1.11, 1.04, 0.90, 0.82, 0.63, 0.51, 0.45]
_S = np.array(_SCATTER_BELOW + _SCATTER_ABOVE)


@dataclass(frozen=True)
class Threshold:
    """What the crossover needs to know of a threshold.

    Attributes
    ----------
    square : float
        mu² at the threshold.
    turn : float
        rho, d log D/d log m at the edge.
    slope : float
        a, the derivative of the limiting alignment by mu²/mu_c² just above the threshold.
    """

    square: float
    turn: float
    slope: float

    def _place(self, mu: float, d: int) -> tuple[float, float, float]:
        """R, eps and u."""
        R = mu**2 / self.square
        width = float((2 * self.turn / (self.slope * d)) ** (1 / 3))
        return R, width, (R - 1) / width

    def draws(self, limit: float, mu: float, d: int) -> Draws:
        """Mean and deviation of the alignment of the top eigenvector over draws in d dimensions."""
        R, width, u = self._place(mu, d)
        mean = self.mean_alignment(limit, mu, d)
        if R >= 1:
            return Draws(mean, self.slope * width / 2 * float(np.interp(u, _U, _S)))
        relative = math.sqrt(2) if u <= _U[0] else float(np.interp(u, _U, _S) / np.interp(u, _U[: len(_BELOW)], _BELOW))
        return Draws(mean, relative * mean)

    def mean_alignment(self, limit: float, mu: float, d: int) -> float:
        """Mean alignment of the top eigenvector over draws in d dimensions, for its limit `limit`."""
        R, width, u = self._place(mu, d)
        if R >= 1:
            excess = self.slope * width / 2 * float(np.interp(u, _U, _B, right=0.0)) + (1 - limit) / d
            return min(1.0, max(0.0, limit + excess))
        crossed = 1.0 if u <= _U[0] else u**2 * float(np.interp(u, _U, _B))
        if crossed == 0.0:
            return self.slope * width / 2 * _BELOW[-1] + 1 / d
        # what a direction without any signal has, 1/d, does not take part in the crossover
        return min(1.0, (1 + ((1 - R + self.turn * R) / (1 - R) ** 2 - 1) * crossed) / d)


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
        That of the signal.
    strength : callable
        Gives D at the top outlier.
    """
    alignment = 0.0 if top is None else top.alignment
    if mu == 0:
        return None
    if not leads(top, edge, d):
        return beside(strength(), mu, d, alignment)
    if crossing is None or (top is not None and top.eigenvalue >= 2 * edge):
        return None
    return _of_top(crossing, alignment, mu, d)


def _of_top(crossing: Threshold, alignment: float, mu: float, d: int) -> Draws:
    """The crossover, for a top eigenvector that may hold something of u also below the threshold."""
    mean, scatter = crossing.draws(alignment, mu, d)
    return Draws(mean if mu**2 >= crossing.square else max(mean, alignment), scatter)


def gain_strengths(mu: float, class_power: float, variance: float) -> tuple[float, float]:
    """Strengths of the signal at which the mean gain acts as one that is a deviation below or above it on mu."""
    power, deviation = mu**2 + class_power, min(0.5, math.sqrt(variance))
    low, high = (math.sqrt(max(0.0, factor * power - class_power)) for factor in (1 - deviation, 1 + deviation))
    return low, high


def over_gains(
    limit: Callable[[float], float], mu: float, class_power: float, variance: float, crossing: Threshold | None, d: int
) -> Draws:
    """Alignments of draws whose signal gain scatters: the mean of those at one deviation below and above its mean.

    Parameters
    ----------
    limit : callable
        Alignment in the limit at either of :func:`gain_strengths`.
    mu, d
        Strength of the signal and dimension.
    class_power : float
        zeta, the power of the class means of a sampled table. They are pooled with the signal, so that the gain
        multiplies mu² + zeta.
    variance : float
        Relative variance of the gain: Var(a²)/(N E[a²]²) for the pooled signs a of N sequences.
    crossing : Threshold or None
        That of the signal; without one the alignments are those of the limit.
    """
    power, found = mu**2 + class_power, []
    for at in gain_strengths(mu, class_power, variance):
        square = at**2
        # the class means stay where they are: the share of u in their sum with the signal is that at mu
        share = mu**2 / power * (square + class_power) / square if square > 0 else 0.0
        alignment = min(1.0, share * limit(at)) if square > 0 else 0.0
        found.append(Draws(alignment, 0.0) if crossing is None else _of_top(crossing, alignment, at, d))
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
    chance = (1 - alignment) * min(0.5, 1 / (d * (1 - R) ** 2))
    return Draws(alignment + chance, math.sqrt(2) * chance)


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


def numerical_threshold(D: FloatArray, m: FloatArray, g: FloatArray, z: FloatArray, step: float) -> Threshold | None:
    """Threshold from D, m, the transform g at u and z at three points of a curve beyond the edge, `step` apart.

    The first point is the edge, where dz/ds = 0: derivatives are one-sided, of second order.
    """
    if not (D[0] > 0 and np.isfinite(D).all()):
        return None
    c1 = (-3 * D[0] + 4 * D[1] - D[2]) / (2 * step) / D[0]
    m1 = (-3 * m[0] + 4 * m[1] - m[2]) / (2 * step) / m[0]
    curved = (8 * (z[1] - z[0]) - (z[2] - z[0])) / (2 * step**2)  # z − z(E) = curved s²/2 + O(s³), cubic term removed
    turn, slope = c1 / m1, -g[0] * curved / c1**2
    if not (turn > 0 and slope > 0 and math.isfinite(turn) and math.isfinite(slope)):
        return None
    return Threshold(float(1 / D[0]), float(turn), float(slope))
