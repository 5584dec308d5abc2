"""Scores of an estimator at sizes below the pilot: the covariance of their errors, and what speaks against them.

All sizes are tested on the same rows, and their errors are alike:

    cov(s, t) = V [exp(−c |log2 s − log2 t|) + 1 + delta_st (n sum_i w_is² − 1)].

V and c come from the delete-a-part jackknife over tested rows, averaged over sizes. The second part is from the rows as
training rows, through which a score is taken to vary as much: an estimator that is smooth in them varies as a mean
over them, with w_is the weight of row i in the training sets of size s, sum_i w_is = 1. Errors that are common to all
sizes leave the slope as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spikepool.errors import SizeError
from spikepool.forecasting.measured_curve import CLEAR, ProcessCurve
from spikepool.forecasting.score_scale import ScoreScale
from spikepool.kit.arrays import AnyArray, FloatArray

# Near interpolation, where learning curves fall and rise again (double descent), fits to labels in random order vary
# more on new rows than on their training rows: warned of and refused from these ratios of mean squares. An unbounded
# score of coefficients is refused where fits to labels in random order have this many times the loss of a constant.
AMPLIFIED, INTERPOLATING, HARMFUL = 1.25, 2.0, 3.0


@dataclass(frozen=True)
class MeasuredSizes:
    """Scores of an estimator at sizes below the pilot.

    Attributes
    ----------
    rows : int
        Rows of the pilot.
    n, score : array (p,)
        Sizes, increasing, and scores.
    without : array (p, G)
        Scores without each of G parts of the tested rows.
    reuse : array (p,)
        n sum_i w_is², 1 where every row has the same part in the training sets.
    linear : bool
        Whether the fitted estimators have coefficients.
    varied : array (p,)
        Whether predictions at a size differ between rows. Where a rare class is never predicted, the score does not
        vary, and says nothing about the error of those that do.
    shuffled : array (REWEIGHTINGS,)
        Scores of the predictions at the largest size for labels in random orders.
    amplification, noise_score : float
        Of fits to labels in random order, at the largest size: mean square of the predictions of new rows over that of
        training rows, and the score on new rows.
    nothing : float
        Score of a model that does not look at the features; NaN where the scorer does not accept it.
    """

    rows: int
    n: FloatArray
    score: FloatArray
    without: FloatArray
    reuse: FloatArray
    linear: bool = False
    varied: AnyArray | None = None
    shuffled: FloatArray | None = None
    amplification: float = 0.0
    noise_score: float = np.nan
    nothing: float = np.nan

    def chance(self, bounded: bool) -> tuple[float | None, float]:
        """Score of knowing nothing, None where unknown, and the one that a signal must exceed.

        A constant prediction is no rival where the score punishes wrong predictions without limit: there the same
        predictions of labels in random order are.
        """
        assert self.shuffled is not None
        mean, error = float(self.shuffled.mean()), float(self.shuffled.std()) / np.sqrt(len(self.shuffled))
        known = None if np.isnan(self.nothing) else self.nothing
        if not bounded:
            return known, mean
        level = mean if known is None or mean > known + 2 * error else known
        return level, level

    def doubts(self, curve: ProcessCurve, bounded: bool, name: str) -> tuple[str, ...]:
        """What to say of an estimator near interpolation, or of a class that it does not predict; raises SizeError.

        An unbounded score of such an estimator is refused unless the measured curve clearly rises.
        """
        size, ratio, notes = int(self.n[-1]), self.amplification, []
        harm = 1.0 if bounded else (curve.scale.high - self.noise_score) / max(curve.scale.high - self.nothing, 1e-300)
        harmful = self.linear and harm > HARMFUL
        seen = (
            f"have {harm:.1f} times the loss of a constant prediction on new rows"
            if harmful and ratio <= INTERPOLATING
            else f"vary {ratio:.2f} times as much on new rows as on training rows"
        )
        if ratio > INTERPOLATING or (harmful and curve.trend() < CLEAR):
            raise SizeError(
                f"{name} is near interpolation: its predictions of labels in random order {seen}. The learning curve "
                "falls and rises again (double descent), which smaller sizes do not show. Rows of the largest fit",
                size,
                "Regularise the estimator (shrinkage, a smaller C), use fewer features, or label several times as many",
            )
        if ratio > AMPLIFIED or harmful:
            notes.append(
                f"{name} is not far from interpolation at {size:,} rows: its predictions of labels in random order "
                f"{seen}, and the measured curve may be a dip"
            )
        if self.varied is not None and not self.varied.all():
            notes.append(
                f"at {int((~self.varied).sum())} of {len(self.n)} measured sizes {name} predicts the same for every "
                "row: a class is too rare for the pilot's smaller sizes, and the forecast is likely too low"
            )
        return tuple(notes)

    def curve(
        self,
        scale: ScoreScale,
        guide: Callable[[FloatArray], FloatArray] | None = None,
        family: str | None = None,
    ) -> ProcessCurve:
        """The points of a curve, with the covariance of their errors; V and c are taken on the transformed scale."""
        score, least = self.score, float(np.finfo(float).tiny)
        if np.isfinite(scale.low) and np.isfinite(scale.high):
            edge = 0.5 / self.rows  # the best or worst score of n rows is not evidence of a perfect one
            width = scale.high - scale.low
            score = np.clip(score, scale.low + edge * width, scale.high - edge * width)
            least = edge * width**2 / self.rows
        slope = scale.slope(score)
        left = (self.without - self.without.mean(axis=1, keepdims=True)) * slope[:, None]
        jackknife = (left.shape[1] - 1) / left.shape[1] * left @ left.T
        variance = np.maximum(np.diag(jackknife), least * slope**2)
        apart = np.abs(np.log2(self.n[:, None] / self.n))
        # decay of the correlation by least squares of its logarithm; sizes that are all but unrelated count as such
        logs = np.log(np.clip(jackknife / np.sqrt(np.outer(variance, variance)), 0.05, 1.0))
        rate = max(-float((logs * apart).sum() / (apart**2).sum()), 1e-3)
        parts = np.exp(-rate * apart) + 1 + np.diag(np.maximum(self.reuse - 1, 0.0))
        varied = slice(None) if self.varied is None or not self.varied.any() else self.varied
        covariance = float(variance[varied].mean()) * parts / np.outer(slope, slope)
        return ProcessCurve(self.n, score, covariance, scale, guide, family)
