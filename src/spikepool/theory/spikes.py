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

All functions are vectorised with numpy broadcasting. ``x`` is called ``excess`` in the signatures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import DomainError, UnreachableError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray


def _operand(value: ArrayLike, name: str, *, minimum: float | None = None, strict: bool = False) -> FloatArray:
    array = check.finite_array(value, name, empty=True)
    if minimum is not None and array.size:
        smallest = float(array.min() if array.ndim else array)
        if smallest < minimum or (strict and smallest == minimum):
            raise DomainError(
                f"{name} must be {'above' if strict else 'at least'} {minimum:g}",
                smallest,
                "Check the inputs",
            )
    return array


def _ratios(delta: ArrayLike, gamma: ArrayLike) -> tuple[FloatArray, FloatArray]:
    return _operand(delta, "delta", minimum=0.0), _operand(gamma, "gamma", minimum=0.0)


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
    theta = _operand(theta, "theta", minimum=0.0)
    delta = _operand(delta, "delta", minimum=0.0)
    kappa = _operand(kappa, "kappa", minimum=0.0, strict=True)
    return (theta / kappa - delta)[()]


def critical_excess(delta: ArrayLike, gamma: ArrayLike) -> Any:
    """x_star, the excess above which the sample covariance has an outlier.

    The positive root of x³ − r0 x − 2q = 0 in trigonometric form. The arccosine's argument
    ``q (3/r0)^{3/2}`` is at most 1 by the inequality of arithmetic and geometric means, with equality only at
    delta = gamma = 1.
    """
    delta, gamma = _ratios(delta, gamma)
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
    delta, gamma = _ratios(delta, gamma)
    kappa = _operand(kappa, "kappa", minimum=0.0, strict=True)
    x = np.asarray(critical_excess(delta, gamma))
    return (kappa * _product_over_square(x, delta, gamma))[()]


def _product_over_square(x: FloatArray, delta: FloatArray, gamma: FloatArray) -> FloatArray:
    """(x+1)(x+delta)(x+gamma)/x², with the limit 1 at x = delta = gamma = 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        factor_d = np.where(delta == 0, 1.0, 1 + delta / x)
        factor_g = np.where(gamma == 0, 1.0, 1 + gamma / x)
    return (x + 1) * factor_d * factor_g


def population_outlier(excess: ArrayLike, delta: ArrayLike, kappa: ArrayLike = 1.0) -> Any:
    """beta(x) = kappa (x+1)(x+delta)/x, the outlier of the population covariance (any x > 0)."""
    x = _operand(excess, "excess", minimum=0.0, strict=True)
    delta = _operand(delta, "delta", minimum=0.0)
    kappa = _operand(kappa, "kappa", minimum=0.0, strict=True)
    return (kappa * (x + 1) * (1 + delta / x))[()]


def sample_outlier(excess: ArrayLike, delta: ArrayLike, gamma: ArrayLike, kappa: ArrayLike = 1.0) -> Any:
    """lambda(x) = kappa (x+1)(x+delta)(x+gamma)/x², symmetric in delta and gamma.

    An eigenvalue of the sample covariance only for ``x > critical_excess(delta, gamma)``; the formula itself is
    evaluated for any x > 0.
    """
    x = _operand(excess, "excess", minimum=0.0, strict=True)
    delta, gamma = _ratios(delta, gamma)
    kappa = _operand(kappa, "kappa", minimum=0.0, strict=True)
    return (kappa * _product_over_square(x, delta, gamma))[()]


def population_alignment(excess: ArrayLike, delta: ArrayLike) -> Any:
    """1 − delta/x² above the population threshold x = sqrt(delta), and 0 below it."""
    x = _operand(excess, "excess")
    delta = _operand(delta, "delta", minimum=0.0)
    root = np.sqrt(delta)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (x - root) / x * ((x + root) / x)
    return np.where(x > root, np.clip(value, 0.0, 1.0), 0.0)[()]


def total_alignment(excess: ArrayLike, delta: ArrayLike, gamma: ArrayLike) -> Any:
    """A(x), the squared cosine between the sample eigenvector and the spike; 0 at and below x_star.

    The numerator is evaluated as (x − x_star)(x² + x x_star + 2q/x_star): no cancellation near the threshold,
    where the alignment vanishes linearly (it does not jump).
    """
    x = _operand(excess, "excess")
    delta, gamma = _ratios(delta, gamma)
    x, delta, gamma = np.broadcast_arrays(x, delta, gamma)
    star = np.asarray(critical_excess(delta, gamma))
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
    delta = _operand(delta, "delta", minimum=0.0)
    return (delta + np.sqrt(delta))[()]


def sample_threshold(delta: ArrayLike, gamma: ArrayLike) -> Any:
    """Smallest detectable theta/kappa in the sample covariance, delta + x_star."""
    return (np.asarray(critical_excess(delta, gamma)) + np.asarray(delta, dtype=np.float64))[()]


def excess_from_eigenvalue(eigenvalue: ArrayLike, delta: ArrayLike, gamma: ArrayLike, kappa: ArrayLike = 1.0) -> Any:
    """Inverse of :func:`sample_outlier`: the x > x_star whose outlier is the observed `eigenvalue`.

    The largest root of (x+1)(x+delta)(x+gamma) = (lambda/kappa) x². With :func:`total_alignment` it turns an
    eigenvalue seen in data into an estimate of its alignment with the unseen truth.

    Raises
    ------
    DomainError
        If an eigenvalue is not above the bulk edge: there is no outlier to explain.
    """
    eigenvalue = _operand(eigenvalue, "eigenvalue", minimum=0.0, strict=True)
    delta, gamma = _ratios(delta, gamma)
    kappa = _operand(kappa, "kappa", minimum=0.0, strict=True)
    ell, delta, gamma, kappa = np.broadcast_arrays(eigenvalue, delta, gamma, kappa)
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
    x = _operand(excess, "excess")
    delta = _operand(delta, "delta", minimum=0.0)
    target = _operand(alignment, "alignment", minimum=0.0)
    if target.size and float(target.max()) > 1:
        raise DomainError("alignment must lie in [0, 1]", float(target.max()), "Pass a squared cosine")
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
