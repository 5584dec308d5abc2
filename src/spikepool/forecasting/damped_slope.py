"""Learning curves as a damped-slope Gaussian process: posterior of the curve given measured points.

On a transformed score z (the probit for scores in [0, 1], minus the logarithm for losses) and x = log2 n, the slope
dz/dx is a Gaussian process with

    mean  tau a(x),    covariance  tau² a(x) a(x') exp(−k|x − x'|),    a(x) = exp(−b (x − 8)),

and z is its integral with a free level, plus a small random walk. With u = x − x0, x0 the smallest size, and
a0 = a(x0) both are closed:

    E[z(x) − z(x0)] = tau a0 (1 − e^{−bu})/b,
    Cov = tau² a0² { 2/(k − b) [(1 − e^{−2bu})/2b − (1 − e^{−(b+k)u})/(b + k)]
                     + (1 − e^{−(b−k)u})/(b − k) · (e^{−(b+k)u} − e^{−(b+k)v})/(b + k) },     u <= v.

The scale tau and the damping b are unknown: a mixture over pairs of them, weighted by a prior and the likelihood of the
points. The prior depends on the family of the learner (:mod:`spikepool.forecasting.learner_families`): curves of
generative models flatten first, those of models whose number of parameters grows with the rows last. Where points have
no repeats, the size of their noise is unknown too and is part of the same mixture.

A *guide* g, the forecast curve of another model on the same rows, is a second explanation of the points, as likely as
the first before they are seen: E[z(x) − z(x0)] = g(x) − g(x0), with the covariance as above. The points decide.

The prior was fitted to learning curves of a public database (``benchmarks/studies/curve_prior.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from spikepool.forecasting.learner_families import FAMILIES
from spikepool.forecasting.score_scale import EDGE
from spikepool.kit.arrays import FloatArray

# Scale tau of a curve's slope at 256 rows and damping b per doubling, with prior weights for generative, linear and
# flexible learners.
PRIOR = (
    (0.005, 0.05, (0.278, 0.289, 0.087)),
    (0.04, 0.05, (0.0, 0.125, 0.221)),
    (0.08, 0.05, (0.076, 0.179, 0.327)),
    (0.16, 0.05, (0.096, 0.097, 0.186)),
    (0.32, 0.05, (0.050, 0.045, 0.085)),
    (0.64, 0.05, (0.053, 0.0, 0.027)),
    (0.02, 0.4, (0.112, 0.0, 0.0)),
    (0.04, 0.4, (0.134, 0.144, 0.0)),
    (0.08, 0.4, (0.071, 0.052, 0.033)),
    (0.16, 0.4, (0.071, 0.024, 0.0)),
    (0.32, 0.4, (0.058, 0.045, 0.035)),
)
# Decay k of the slope's correlation per doubling.
MEMORY = 0.5
# Standard deviation, per square root of a doubling, of a random walk that is added to the curve.
ROUGH = 0.03
# Standard deviations of points without repeats: a grid far wider than any curve.
_NOISES = (0.003, 0.01, 0.03, 0.1, 0.3)


def slope_moments(x: FloatArray, damping: float) -> tuple[FloatArray, FloatArray]:
    """Mean (m,) and covariance (m, m) of z(x) − z(x[0]) at tau = 1, for increasing x = log2 n."""
    b, k = damping, MEMORY
    start = float(np.exp(-b * (x[0] - 8)))
    u = x - x[0]
    low, high = np.minimum(u[:, None], u), np.maximum(u[:, None], u)
    square = 2 / (k - b) * (-np.expm1(-2 * b * low) / (2 * b) + np.expm1(-(b + k) * low) / (b + k))
    strip = -np.expm1(-(b - k) * low) / (b - k) * (np.exp(-(b + k) * low) - np.exp(-(b + k) * high)) / (b + k)
    return start * -np.expm1(-b * u) / b, start**2 * (square + strip)


@dataclass(frozen=True)
class CurvePosterior:
    """Posterior of a curve at asked sizes: a mixture of Gaussians, one for each scale (and noise).

    Attributes
    ----------
    weights : array (c,)
        Weights of the components.
    mean : array (c, m)
    covariance : array (c, m, m)
    """

    weights: FloatArray
    mean: FloatArray
    covariance: FloatArray

    @property
    def deviation(self) -> FloatArray:
        """Standard deviation (c, m) of z at each size."""
        return np.asarray(np.sqrt(np.maximum(np.diagonal(self.covariance, axis1=1, axis2=2), 1e-18)))

    def quantile(self, level: float) -> FloatArray:
        """Quantile (m,) of z at each size."""
        deviation = self.deviation
        low, high = (self.mean - 9 * deviation).min(axis=0), (self.mean + 9 * deviation).max(axis=0)
        for _ in range(60):  # bisection: the mixture's distribution function rises
            middle = (low + high) / 2
            below = self.weights @ ndtr((middle - self.mean) / deviation) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray((low + high) / 2)


def prior(family: str | None) -> list[tuple[float, float, float]]:
    """Scales, dampings and weights for a family of learners; the mean over the families when it is unknown."""
    shares = np.array([weights for _, _, weights in PRIOR])
    chosen = shares.mean(axis=1) if family is None else shares[:, FAMILIES.index(family)]
    return [(tau, b, float(weight)) for (tau, b, _), weight in zip(PRIOR, chosen, strict=True) if weight > 0]


def posterior(
    n: FloatArray,
    z: FloatArray,
    noise: FloatArray | None,
    at: FloatArray,
    guide: FloatArray | None = None,
    family: str | None = None,
) -> CurvePosterior:
    """Posterior at the sizes `at` given points z (p,) at sizes n (p,).

    Parameters
    ----------
    n, z : array (p,)
        Sizes, not necessarily different or sorted, and transformed scores.
    noise : array (p, p) or None
        Covariance of the points' errors: an error that all points share makes the level uncertain and the slope not.
        None: independent errors, equal up to a factor n^(-1/4), of unknown size.
    at : array (m,)
    guide : array (p + m,), optional
        Transformed scores of another model at `n` and `at`.
    family : str, optional
        One of ``FAMILIES``.
    """
    x = np.log2(np.concatenate([n, at]).astype(np.float64))
    order = np.argsort(x, kind="stable")
    back = np.argsort(order)
    components = prior(family)
    moments = {b: slope_moments(x[order], b) for b in {b for _, b, _ in components}}
    steps = x - x.min()
    # the level is free: any of the scale
    walk = ROUGH**2 * np.minimum(steps[:, None], steps) + float(ndtri(EDGE)) ** 2
    points, centre = len(n), float(z[np.argmax(n)])
    noises = [noise] if noise is not None else [np.diag(s**2 * np.sqrt(n.max() / n)) for s in _NOISES]
    logs, means, covariances = [], [], []
    for scale, damping, weight in components:
        mean, covariance = moments[damping]
        full = scale**2 * covariance[np.ix_(back, back)] + walk
        expected = [scale * mean[back]] if guide is None else [scale * mean[back], guide - guide[np.argmax(n)]]
        for errors, mean in product(noises, expected):
            rest = np.column_stack([z - centre - mean[:points], full[:points, points:]])
            factor = np.linalg.cholesky(full[:points, :points] + errors + 1e-10 * np.eye(points))
            solved = np.linalg.solve(factor, rest)
            white, gain = solved[:, 0], solved[:, 1:]
            logs.append(np.log(weight) - 0.5 * white @ white - np.log(np.diag(factor)).sum())
            means.append(centre + mean[points:] + gain.T @ white)
            covariances.append(full[points:, points:] - gain.T @ gain)
    log = np.array(logs)
    weights = np.exp(log - logsumexp(log))
    return CurvePosterior(weights / weights.sum(), np.array(means), np.array(covariances))
