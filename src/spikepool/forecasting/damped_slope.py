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
points. The prior depends on the family of the learner (:mod:`spikepool.forecasting.damped_slope`): curves of
generative models flatten first, those of models whose number of parameters grows with the rows last. Where points have
no repeats, the size of their noise is unknown too and is part of the same mixture.

A *guide* g, the forecast curve of another model on the same rows, is a second explanation of the points, as likely as
the first before they are seen: E[z(x) − z(x0)] = g(x) − g(x0), with the covariance as above. The points decide.

The prior was fitted to learning curves of a public database (``benchmarks/studies/curve_prior.py``).

Families of learners whose learning curves flatten at different sizes.

A generative classifier is near its limit after about log d rows, a linear one after about d (Ng and Jordan 2001, "On
discriminative vs. generative classifiers"), and learners whose number of parameters grows with the rows, such as
nearest neighbours and trees, go on improving. The prior of a forecast curve has weights for each family
(:mod:`spikepool.forecasting.damped_slope`).

A measured learning curve, continued by the damped-slope process, with what speaks against its points.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, logsumexp, ndtr, ndtri

from spikepool.forecasting.score_scale import EDGE, MULTIPLES, ScoreScale
from spikepool.kit.arrays import FloatArray

FAMILIES = ("generative", "linear", "flexible")

# Modules of scikit-learn by family. Support vector machines, with any kernel, flatten as linear models do.
_MODULES = {
    "naive_bayes": "generative",
    "discriminant_analysis": "generative",
    "linear_model": "linear",
    "svm": "linear",
    "neighbors": "flexible",
    "tree": "flexible",
    "ensemble": "flexible",
    "neural_network": "flexible",
}
_EXCEPTIONS = {"LinearDiscriminantAnalysis": "linear", "NearestCentroid": "generative"}


def learner_name(model: Any) -> str:
    """Name of the class of an estimator; of the last step of a pipeline."""
    return _class(_last(model)).__name__


def learner_family(model: Any) -> str | None:
    """Family of a scikit-learn estimator, of its class, or of the class with that name; None where it is unknown."""
    model = _named(model) if isinstance(model, str) else _last(model)
    for base in _class(model).__mro__:
        package, _, rest = base.__module__.partition(".")
        family = _MODULES.get(rest.partition(".")[0]) if package == "sklearn" else None
        if family is not None:
            return _EXCEPTIONS.get(base.__name__, family)
    inner = getattr(model, "estimator", None)  # of a search, a calibration, one model per class
    return None if inner is None else learner_family(inner)


def _last(model: Any) -> Any:
    """The last step of a pipeline, or the estimator itself."""
    steps = getattr(model, "steps", None)
    return steps[-1][1] if steps else model


def _class(model: Any) -> type:
    return model if isinstance(model, type) else type(model)


def _named(name: str) -> type | None:
    """The class of scikit-learn with this name."""
    if name.isidentifier():
        for module in _MODULES:
            kind = getattr(importlib.import_module(f"sklearn.{module}"), name, None)
            if isinstance(kind, type):
                return kind
    return None


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


# Different sizes without which a curve is not forecast.
FEWEST_SIZES = 4
# Degrees of freedom of the variance of a point that its neighbours contribute.
_BORROWED_FREEDOM = 6.0
# Standard errors by which a fall, or a point beside the curve, is mentioned.
CLEAR = 3.0


@dataclass(frozen=True)
class ProcessCurve:
    """Points of a curve with their errors.

    Attributes
    ----------
    n, score : array (p,)
        Distinct sizes, increasing, and mean scores.
    covariance : array (p, p) or None
        Of the errors of the scores; None if unknown.
    scale : ScoreScale
    guide : callable, optional
        Transformed scores of another model on the same rows, by size.
    family : str, optional
        Family of the learner (:mod:`spikepool.forecasting.damped_slope`).
    """

    n: FloatArray
    score: FloatArray
    covariance: FloatArray | None
    scale: ScoreScale
    guide: Callable[[FloatArray], FloatArray] | None = None
    family: str | None = None

    @property
    def rows(self) -> float:
        """The largest size."""
        return float(self.n[-1])

    @cached_property
    def _points(self) -> tuple[FloatArray, FloatArray | None]:
        """Transformed scores and the covariance of their errors."""
        z, slope = self.scale.to_z(self.score), self.scale.slope(self.score)
        return z, None if self.covariance is None else self.covariance * np.outer(slope, slope)

    def posterior(self, n: ArrayLike) -> CurvePosterior:
        """Posterior of the transformed score at `n`."""
        at = np.atleast_1d(np.asarray(n, dtype=np.float64))
        guide = None if self.guide is None else self.guide(np.concatenate([self.n, at]))
        return posterior(self.n, *self._points, at, guide, self.family)

    def band(self, n: ArrayLike, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Median, lower and upper end on the transformed scale."""
        posterior = self.posterior(n)
        median, low, high = (posterior.quantile(q) for q in (0.5, (1 - level) / 2, (1 + level) / 2))
        return median, low, high

    def to_score(self, transformed: FloatArray) -> FloatArray:
        """Scores from the transformed scale."""
        return self.scale.to_score(transformed)

    def goal(self, target: float) -> float:
        """The target on the transformed scale."""
        return float(self.scale.to_z(np.array([target]))[0])

    def probability(self, n: ArrayLike, goal: float) -> FloatArray:
        """Probability that the transformed score at each size is the goal or better."""
        posterior = self.posterior(n)
        return np.asarray(posterior.weights @ ndtr((posterior.mean - goal) / posterior.deviation))

    @property
    def limit(self) -> float:
        """Score at the largest size that is looked at."""
        return float(self.scale.to_score(self.band([self.rows * MULTIPLES[-1]], 0.9)[0])[0])

    def trend(self) -> float:
        """Slope of the transformed score in log2 n, by generalised least squares, over its standard error."""
        z, noise = self._points
        assert noise is not None
        design = np.vander(np.log2(self.n / self.n[-1]), 2)
        precise = np.linalg.solve(noise + 1e-12 * np.eye(len(z)), np.column_stack([design, z]))
        spread = np.linalg.inv(design.T @ precise[:, :2])
        return float((spread @ design.T @ precise[:, 2])[0] / np.sqrt(spread[0, 0]))

    def misfit(self) -> float:
        """Root mean square difference of the scores and the fitted curve at the measured sizes."""
        return float(np.sqrt(np.mean((self.to_score(self.band(self.n, 0.9)[0]) - self.score) ** 2)))

    def warnings(self) -> list[str]:
        """What in the points speaks against a rising, flattening curve."""
        z, noise = self._points
        if noise is None:
            noise = np.eye(len(z)) * (float(np.std(z - self.band(self.n, 0.9)[0])) + 1e-6) ** 2
        best = np.array([int(np.argmax(z[: i + 1])) for i in range(len(z))])
        variance = np.diag(noise)
        drop = (z[best] - z) / np.sqrt(
            np.maximum(variance + variance[best] - 2 * noise[best, np.arange(len(z))], 1e-12)
        )
        if drop[-1] > CLEAR:
            return [
                f"the score at {self.n[-1]:,.0f} rows is worse than at {self.n[int(np.argmax(z))]:,.0f}: the curve "
                "falls, and the forecast assumes that more rows help; check the training at the larger sizes"
            ]
        if drop[1:-1].max(initial=0.0) > CLEAR:
            at = 1 + int(np.argmax(drop[1:-1]))
            return [
                f"the curve falls before {self.n[at]:,.0f} rows and rises after it (double descent): fit the points "
                "after the dip alone"
            ]
        if len(z) <= FEWEST_SIZES:
            return []
        # a parabola in log n passes by any smooth curve; what is left is noise or disagreement
        factor = np.linalg.cholesky(noise + 1e-12 * np.eye(len(z)))
        design = np.vander(np.log2(self.n) - np.log2(self.n[-1]), 3)
        system = np.linalg.solve(factor, np.column_stack([design, z]))
        fit = np.linalg.lstsq(system[:, :3], system[:, 3], rcond=None)[0]
        left, beside = system[:, 3] - system[:, :3] @ fit, np.abs(z - design @ fit)
        if self.covariance is not None and float(left @ left) / (len(z) - 3) > CLEAR**2:
            return [
                "the points disagree by more than their repeats say; the score at "
                f"{self.n[int(np.argmax(beside))]:,.0f} rows is furthest off: check how it was measured"
            ]
        if self.covariance is None and float(beside.max()) > 0.25 * float(np.ptp(z)) > 0:
            return ["the points scatter as much as the curve rises: measure each size several times"]
        return []


def point_errors(n: FloatArray, scores: FloatArray) -> FloatArray:
    """Standard errors (p,) of the means of repeats (p, r), NaN where one is missing.

    The variance of a repeat is shrunken towards a power law of n through all of them: five repeats know theirs to a
    factor of two.
    """
    times = np.isfinite(scores).sum(axis=1)
    with np.errstate(all="ignore"):
        observed = np.nanvar(scores, axis=1, ddof=1)
    known = (times > 1) & (observed > 0)
    if not known.any():
        return np.full(len(n), 1e-6)
    half = np.maximum(times - 1, 1) / 2  # the logarithm of a variance is too small by this on average:
    x, y = np.log(n / n[-1]), np.log(np.where(known, observed, 1.0)) + np.log(half) - digamma(half)
    centre = x[known] - x[known].mean()
    spread = float(centre @ centre)
    slope = float(np.clip(centre @ y[known] / spread, -1.0, 0.0)) if spread > 0 else 0.0
    smooth = np.exp(y[known].mean() + slope * (x - x[known].mean()))
    freedom = np.where(times > 1, times - 1, 0)
    variance = (freedom * np.where(times > 1, np.nan_to_num(observed), 0.0) + _BORROWED_FREEDOM * smooth) / (
        freedom + _BORROWED_FREEDOM
    )
    return np.asarray(np.sqrt(variance / np.maximum(times, 1)))
