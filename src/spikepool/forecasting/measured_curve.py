"""A measured learning curve, continued by the damped-slope process, with what speaks against its points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, ndtr

from spikepool.forecasting.damped_slope import CurvePosterior, posterior
from spikepool.forecasting.score_scale import ScoreScale
from spikepool.forecasting.sizes import MULTIPLES
from spikepool.kit.arrays import FloatArray

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
        Family of the learner (:mod:`spikepool.forecasting.learner_families`).
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
