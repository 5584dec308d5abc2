"""The formulas as the paper prints them, by the paper's own route, for comparison with the exact ones.

The library's predictions come from :mod:`spikepool.theory.spikes` and :mod:`spikepool.model`. This module keeps the
printed expressions: the bulk edge of Proposition 1, the population outlier of Theorem 2, the quadratic of
Theorem 3, the companion transform and implicit derivative of Theorem 4, the thresholds of Section 3.5. They
describe a table whose noise is centred within each class (``table="class_centered"``); for the table as the
paper states it they leave out the vocabulary's sample means, which is an effect of order one.

Theorem 3 says that the outlier is the larger root of its quadratic. The smaller one is the eigenvalue (and
is the one behind the paper's own numbers); ``root="larger"`` gives the statement as printed.

Every function broadcasts over its arguments and needs ``delta > 0`` and ``gamma > 0``: the printed
expressions divide by both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import DomainError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray

ROOTS = ("smaller", "larger")


@dataclass(frozen=True)
class PublishedThresholds:
    """Signal strengths at which the paper's two transitions happen, Section 3.5.

    Attributes
    ----------
    population, sample : float or numpy.ndarray
        mu_pop and mu_samp.
    """

    population: Any
    sample: Any


def _positive(value: ArrayLike, name: str) -> FloatArray:
    array = check.finite_array(value, name, empty=True)
    if array.size and float(array.min()) <= 0:
        raise DomainError(
            f"{name} must be above 0: the printed formula divides by it",
            float(array.min()),
            "Use spikepool.theory.spikes, whose formulas hold at 0",
        )
    return array


def _operands(alpha: ArrayLike, kappa: ArrayLike, delta: ArrayLike, gamma: ArrayLike) -> tuple[FloatArray, ...]:
    return (
        _positive(alpha, "alpha"),
        _positive(kappa, "kappa"),
        _positive(delta, "delta"),
        _positive(gamma, "gamma"),
    )


def _spike_ratio(mu: ArrayLike, alpha: FloatArray, kappa: FloatArray) -> FloatArray:
    strength = check.finite_array(mu, "mu", empty=True)
    if strength.size and float(strength.min()) < 0:
        raise DomainError("mu must be at least 0", float(strength.min()), "Pass a norm")
    return alpha * strength**2 / kappa


def published_edge(delta: ArrayLike, gamma: ArrayLike, kappa: ArrayLike = 1.0) -> Any:
    """Right bulk edge by Proposition 1: the largest of three trigonometric roots.

    Loses every digit as ``delta * gamma`` goes to 0, where it divides a rounding error by ``12 delta gamma``;
    :func:`spikepool.theory.spikes.bulk_edge` does not.
    """
    delta, gamma, kappa = _positive(delta, "delta"), _positive(gamma, "gamma"), _positive(kappa, "kappa")
    q = delta * gamma
    r0 = delta + gamma + q
    D0 = r0 * (r0**3 + 216 * q**2)
    D1 = 2 * (r0**6 - 540 * q**2 * r0**3 - 5832 * q**4)
    # the argument lies in [−1, 1] on paper; rounding may put it a few units in the last place outside
    phi = np.arccos(np.clip(D1 / (2 * D0**1.5), -1.0, 1.0))
    b = r0**2 - 12 * q * r0 + 12 * q**2 - 12 * q
    roots = [-(b + 2 * np.sqrt(D0) * np.cos((phi + 2 * np.pi * k) / 3)) / (12 * q) for k in range(3)]
    return (kappa * np.max(roots, axis=0))[()]


def _cubic(z: FloatArray, m: FloatArray, delta: FloatArray, gamma: FloatArray, kappa: FloatArray) -> FloatArray:
    """F(z, m), the left side of the bulk cubic (Theorem 1)."""
    q = delta * gamma
    linear = z + kappa * (delta - 1) * (1 - gamma)
    return q * kappa * z**2 * m**3 - kappa * z * (delta + gamma - 2 * q) * m**2 - linear * m - 1


def _companion_at_edge(edge: FloatArray, delta: FloatArray, gamma: FloatArray, kappa: FloatArray) -> FloatArray:
    """Companion transform at the right edge, where the cubic has a double root in m.

    The double root solves dF/dm = 0, a quadratic; of its two roots it is the one that also solves F = 0.
    """
    q = delta * gamma
    a = 3 * q * kappa * edge**2
    b = -2 * kappa * edge * (delta + gamma - 2 * q)
    c = -(edge + kappa * (delta - 1) * (1 - gamma))
    spread = np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0))
    candidates = np.stack([(-b - spread) / (2 * a), (-b + spread) / (2 * a)])
    residuals = np.abs(_cubic(edge, candidates, delta, gamma, kappa))
    m = np.take_along_axis(candidates, np.argmin(residuals, axis=0)[None], axis=0)[0]
    return np.asarray(-(1 - gamma) / edge + gamma * m)


def published_thresholds(alpha: ArrayLike, kappa: ArrayLike, delta: ArrayLike, gamma: ArrayLike) -> PublishedThresholds:
    """mu_pop and mu_samp of Section 3.5.

    mu_samp solves beta_out(rho) = beta_crit = −1/m̲(lambda_plus), a quadratic in rho whose root above
    ``delta + sqrt(delta)`` counts. The vocabulary's class means lower both for a sampled table
    (:attr:`spikepool.Prediction.mu_sample`).
    """
    alpha, kappa, delta, gamma = np.broadcast_arrays(*_operands(alpha, kappa, delta, gamma))
    edge = np.asarray(published_edge(delta, gamma, kappa))
    beta = -1 / _companion_at_edge(edge, delta, gamma, kappa)
    b = kappa * (1 - delta) - beta
    rho = (-b + np.sqrt(b**2 - 4 * kappa * beta * delta)) / (2 * kappa)
    population = np.sqrt(kappa * (delta + np.sqrt(delta)) / alpha)
    return PublishedThresholds(population[()], np.sqrt(kappa * rho / alpha)[()])


class _Spike(NamedTuple):
    """Arguments broadcast together, whether mu is above the sample threshold, and Theorem 2 at such mu."""

    kappa: FloatArray
    delta: FloatArray
    gamma: FloatArray
    above: NDArray[np.bool_]
    beta: FloatArray
    overlap: FloatArray


def _supercritical(mu: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, delta: ArrayLike, gamma: ArrayLike) -> _Spike:
    """beta_out and the population overlap of Theorem 2; stand-ins where mu is at or below the sample threshold."""
    alpha, kappa, delta, gamma = _operands(alpha, kappa, delta, gamma)
    rho, alpha, kappa, delta, gamma = np.broadcast_arrays(_spike_ratio(mu, alpha, kappa), alpha, kappa, delta, gamma)
    critical = alpha * np.asarray(published_thresholds(alpha, kappa, delta, gamma).sample) ** 2 / kappa
    above = rho > critical
    rho = np.where(above, rho, critical + 1.0)
    beta = kappa * rho * (rho - delta + 1) / (rho - delta)
    return _Spike(kappa, delta, gamma, above, beta, 1 - delta / (rho - delta) ** 2)


def _quadratic_root(beta: FloatArray, delta: FloatArray, gamma: FloatArray, kappa: FloatArray, root: str) -> FloatArray:
    """A root of the quadratic of Theorem 3."""
    a = delta * kappa
    b = -(beta**2) * gamma + beta * kappa * (gamma * (1 + delta) - 2 * delta)
    c = beta**2 * (beta * gamma + kappa * (1 - gamma) * (delta - gamma))
    # On paper the discriminant is a square (the roots are beta(1+gamma/x) and beta(1+gamma x/delta)).
    larger = (-b + np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0))) / (2 * a)
    return larger if root == "larger" else c / (a * larger)


def published_outlier(
    mu: ArrayLike,
    alpha: ArrayLike,
    kappa: ArrayLike,
    delta: ArrayLike,
    gamma: ArrayLike,
    root: str = "smaller",
) -> Any:
    """Sample outlier by Theorem 3, or the bulk edge where mu is at or below the sample threshold.

    Parameters
    ----------
    mu, alpha, kappa, delta, gamma : array_like
        Signal strength, gains and aspect ratios.
    root : {"smaller", "larger"}
        Which root of the quadratic; ``"larger"`` is the statement as printed, which no simulation follows.
    """
    check.choice(root, "root", ROOTS)
    spike = _supercritical(mu, alpha, kappa, delta, gamma)
    outlier = _quadratic_root(spike.beta, spike.delta, spike.gamma, spike.kappa, root)
    return np.where(spike.above, outlier, np.asarray(published_edge(spike.delta, spike.gamma, spike.kappa)))[()]


def published_alignment(mu: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, delta: ArrayLike, gamma: ArrayLike) -> Any:
    """Alignment of the top eigenvector with u as printed: Theorem 4 times Theorem 2, with the smaller root.

        1/(beta lambda m̲'(lambda)) · (1 − delta/(rho − delta)²)

    m̲' by implicit differentiation of the cubic at m = (1−gamma)/(gamma lambda) − 1/(gamma beta); zero at
    and below mu_samp.
    """
    spike = _supercritical(mu, alpha, kappa, delta, gamma)
    beta, kappa, delta, gamma = spike.beta, spike.kappa, spike.delta, spike.gamma
    z = _quadratic_root(beta, delta, gamma, kappa, "smaller")
    m = (1 - gamma) / (gamma * z) - 1 / (gamma * beta)
    q = delta * gamma
    slope_m = (
        3 * q * kappa * z**2 * m**2
        - 2 * kappa * z * (delta + gamma - 2 * q) * m
        - (z + kappa * (delta - 1) * (1 - gamma))
    )
    slope_z = 2 * q * kappa * z * m**3 - kappa * (delta + gamma - 2 * q) * m**2 - m
    companion_slope = (1 - gamma) / z**2 - gamma * slope_z / slope_m
    return np.where(spike.above, spike.overlap / (beta * z * companion_slope), 0.0)[()]
