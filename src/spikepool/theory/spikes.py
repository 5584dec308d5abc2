"""Outliers and alignments over the free product bulk: one variable, rational formulas.

A spike is an additive perturbation ``theta * v v'`` of the pooled covariance ``kappa * Z Z' / V``. Everything about
it is a function of

    x = theta / kappa − delta

    population outlier    beta(x)   = kappa (x+1)(x+delta)/x
    sample outlier        lambda(x) = kappa (x+1)(x+delta)(x+gamma)/x²
    population alignment            = 1 − delta/x²
    total alignment       A(x)      = (x³ − r0 x − 2q) / (x² (x+gamma)),  q = delta gamma, r0 = delta+gamma+q

A(x) is the squared inner product of the sample eigenvector with v. The paper reaches the same numbers through
the bulk cubic, its companion transform and an implicit derivative (Theorems 2 to 4); it then takes the larger
root of a quadratic for the sample outlier where the smaller one, ``lambda(x)``, is the physical root.

All functions are vectorised with numpy broadcasting. ``x`` is called ``excess`` in the signatures. They are formulas
and check nothing: delta, gamma and theta are at least 0, kappa is above 0, and all are finite. Arguments are checked
where they enter the library, by the models and by :func:`spikepool.predict_arrays`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import DomainError, UnreachableError
from spikepool.kit.arrays import FloatArray


def _float(value: ArrayLike) -> FloatArray:
    return np.asarray(value, dtype=np.float64)


def spike_excess(theta: ArrayLike, delta: ArrayLike, kappa: ArrayLike = 1.0) -> Any:
    """Excess x = theta/kappa − delta, the variable of every formula here.

    Parameters
    ----------
    theta : array_like
        Strength of the additive spike; ``alpha * mu**2`` in the paper, ``alpha * (mu**2 + delta)`` for a sampled
        table (see :class:`spikepool.SequenceModel`).
    delta : array_like
        Aspect ratio d/V.
    kappa : array_like
        Noise gain ``sum(w**2)``.
    """
    return (_float(theta) / _float(kappa) - _float(delta))[()]


def critical_excess(delta: ArrayLike, gamma: ArrayLike) -> Any:
    """x_star, the excess above which the sample covariance has an outlier.

    The positive root of x³ − r0 x − 2q = 0 in trigonometric form. The arccosine's argument
    ``q (3/r0)^{3/2}`` is at most 1 by the inequality of arithmetic and geometric means, with equality only at
    delta = gamma = 1.
    """
    delta, gamma = _float(delta), _float(gamma)
    q = delta * gamma
    r0 = delta + gamma + q
    # q (3/r0)^{3/2} as a product of ratios <= 1, so that nothing under- or overflows for extreme ratios
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.where(r0 > 0, 3 * (q / r0) * np.sqrt(3 / r0), 0.0)
    return (2 * np.sqrt(r0 / 3) * np.cos(np.arccos(np.minimum(cosine, 1.0)) / 3))[()]


def bulk_edge(delta: ArrayLike, gamma: ArrayLike, kappa: ArrayLike = 1.0) -> Any:
    """Right edge of the bulk, ``lambda(x_star)``.

    Equal to the paper's Proposition 1, but accurate as delta or gamma goes to 0, where that expression divides a
    rounding error by 12 delta gamma. ``delta = gamma = 0`` gives ``kappa``, the point mass.
    """
    return sample_outlier(critical_excess(delta, gamma), delta, gamma, kappa)


def _product_over_square(x: FloatArray, delta: FloatArray, gamma: FloatArray) -> FloatArray:
    """(x+1)(x+delta)(x+gamma)/x², with the limit 1 at x = delta = gamma = 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        factor_d = np.where(delta == 0, 1.0, 1 + delta / x)
        factor_g = np.where(gamma == 0, 1.0, 1 + gamma / x)
    return (x + 1) * factor_d * factor_g


def population_outlier(excess: ArrayLike, delta: ArrayLike, kappa: ArrayLike = 1.0) -> Any:
    """beta(x) = kappa (x+1)(x+delta)/x, the outlier of the population covariance (any x > 0)."""
    x = _float(excess)
    return (_float(kappa) * (x + 1) * (1 + _float(delta) / x))[()]


def sample_outlier(excess: ArrayLike, delta: ArrayLike, gamma: ArrayLike, kappa: ArrayLike = 1.0) -> Any:
    """lambda(x) = kappa (x+1)(x+delta)(x+gamma)/x², symmetric in delta and gamma.

    An eigenvalue of the sample covariance only for ``x > critical_excess(delta, gamma)``; the formula itself is
    evaluated for any x > 0.
    """
    return (_float(kappa) * _product_over_square(_float(excess), _float(delta), _float(gamma)))[()]


def population_alignment(excess: ArrayLike, delta: ArrayLike) -> Any:
    """1 − delta/x² above the population threshold x = sqrt(delta), and 0 below it."""
    x = _float(excess)
    delta = _float(delta)
    root = np.sqrt(delta)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (x - root) / x * ((x + root) / x)
    return np.where(x > root, np.clip(value, 0.0, 1.0), 0.0)[()]


def total_alignment(excess: ArrayLike, delta: ArrayLike, gamma: ArrayLike) -> Any:
    """A(x), the squared cosine between the sample eigenvector and the spike; 0 at and below x_star.

    The numerator is evaluated as (x − x_star)(x² + x x_star + 2q/x_star): no cancellation near the threshold,
    where the alignment vanishes linearly (it does not jump).
    """
    return alignment_beyond(excess, critical_excess(delta, gamma), delta, gamma)


def alignment_beyond(excess: ArrayLike, critical: ArrayLike, delta: ArrayLike, gamma: ArrayLike) -> Any:
    """:func:`total_alignment`, given the critical excess x_star of the ratios."""
    x, star, delta, gamma = _float(excess), _float(critical), _float(delta), _float(gamma)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(star > 0, star / x, 0.0)
        tail = np.where(star > 0, 2 * (delta / x) * (gamma / x) * (x / star) / x, 0.0)
        value = (x - star) / (x + gamma) * (1 + ratio + tail)
    return np.where(x > star, np.clip(value, 0.0, 1.0), 0.0)[()]


def sample_alignment(excess: ArrayLike, delta: ArrayLike, gamma: ArrayLike) -> Any:
    """Squared cosine between sample and population eigenvectors: total over population alignment."""
    total = np.asarray(total_alignment(excess, delta, gamma))
    population = np.asarray(population_alignment(excess, delta))
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = total / population
    # x > x_star implies x > sqrt(delta), so the division is safe wherever the total is positive
    return np.where(total > 0, np.clip(factor, 0.0, 1.0), 0.0)[()]


def population_threshold(delta: ArrayLike) -> Any:
    """Smallest detectable theta/kappa in the population covariance, delta + sqrt(delta)."""
    return (_float(delta) + np.sqrt(_float(delta)))[()]


def sample_threshold(delta: ArrayLike, gamma: ArrayLike) -> Any:
    """Smallest detectable theta/kappa in the sample covariance, delta + x_star."""
    return (critical_excess(delta, gamma) + _float(delta))[()]


def excess_from_eigenvalue(eigenvalue: ArrayLike, delta: ArrayLike, gamma: ArrayLike, kappa: ArrayLike = 1.0) -> Any:
    """Inverse of :func:`sample_outlier`: the x > x_star whose outlier is the observed `eigenvalue`.

    The largest root of (x+1)(x+delta)(x+gamma) = (lambda/kappa) x². With :func:`total_alignment` it turns an
    eigenvalue seen in data into an estimate of its alignment with the unseen truth.

    Raises
    ------
    DomainError
        If an eigenvalue is not above the bulk edge: there is no outlier to explain.
    """
    ell, delta, gamma, kappa = np.broadcast_arrays(*map(_float, (eigenvalue, delta, gamma, kappa)))
    star = np.asarray(critical_excess(delta, gamma))
    edge = kappa * _product_over_square(star, delta, gamma)
    if np.any(ell <= edge):
        worst = int(np.argmin((ell - edge).ravel()))
        raise DomainError(
            f"eigenvalue must exceed the bulk edge {edge.ravel()[worst]:.12g}",
            float(ell.ravel()[worst]),
            "An eigenvalue inside the bulk carries no spike; keep only outliers",
        )
    # x = a s with a = lambda/kappa − 1 − delta − gamma > 0 (formed without cancellation when the bulk is narrow):
    # s³ − s² + c1 s + c0 = 0 has three real roots above the edge, and the largest in trigonometric form is
    a = (ell - kappa) / kappa - delta - gamma
    c1 = (delta + gamma + delta * gamma) / a / a
    c0 = (delta / a) * (gamma / a) / a
    radius = np.sqrt(np.maximum(1 - 3 * c1, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = np.where(radius > 0, (1 - 4.5 * c1 - 13.5 * c0) / radius**3, 1.0)
    s = (1 + 2 * radius * np.cos(np.arccos(np.clip(cosine, -1.0, 1.0)) / 3)) / 3
    # one Newton step removes the rounding of the explicit form; at the edge itself the slope vanishes
    slope = (3 * s - 2) * s + c1
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(slope > 1e-4, (((s - 1) * s + c1) * s + c0) / slope, 0.0)
    return np.maximum(a * (s - step), star)[()]


def required_gamma(excess: ArrayLike, delta: ArrayLike, alignment: ArrayLike) -> Any:
    """Largest gamma = d/N at which the total alignment still reaches `alignment`.

        gamma = (x³ (1−A) − delta x) / ((1+delta) x + 2 delta + A x²)

    Raises
    ------
    UnreachableError
        If even infinitely many sequences (gamma = 0) leave the alignment below the target.
    """
    x, delta, target = _float(excess), _float(delta), _float(alignment)
    limit = np.asarray(population_alignment(x, delta))
    if np.any(limit <= target):
        worst = int(np.argmin((limit - target).ravel()))
        best = float(np.broadcast_to(limit, np.broadcast_shapes(limit.shape, target.shape)).ravel()[worst])
        raise UnreachableError(
            f"no number of sequences reaches the target; the limit is {best:.6g}",
            float(np.broadcast_to(target, np.broadcast_shapes(limit.shape, target.shape)).ravel()[worst]),
            "Raise mu, use a larger vocabulary or better weights, or lower the target",
            limit=best,
        )
    # over x², so that no power of a large x overflows
    return ((x * (1 - target) - delta / x) / ((1 + delta) / x + 2 * (delta / x) / x + target))[()]


def alignment_slope(excess: ArrayLike, delta: ArrayLike, gamma: ArrayLike) -> Any:
    """Derivative of the total alignment in the excess, 0 below the threshold.

    With A = 1 − gamma/(x+gamma) − r0/(x (x+gamma)) − 2q/(x² (x+gamma)),
    ``A' = [gamma x³ + r0 x (2x + gamma) + 2q (3x + 2 gamma)]/(x³ (x + gamma)²)``.
    """
    x, d, g = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (excess, delta, gamma)))
    q, r0 = d * g, d + g + d * g
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (g * x**3 + r0 * x * (2 * x + g) + 2 * q * (3 * x + 2 * g)) / (x**3 * (x + g) ** 2)
    return np.where(x > np.asarray(critical_excess(d, g)), slope, 0.0)[()]
