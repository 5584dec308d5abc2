"""How far overlaps may be from the simulated ones: scatter, misfit of the halves, resampling, what no row shows.

Where every eigenvalue is fitted, the fit is repeated on draws from itself, whose overlaps are known: its errors there
are those of the interval. Elsewhere resampling of the rows themselves, which assumes no model but is biased when the
rows are few for k, has a weight that grows with n/k. Lower ends also allow for the flattest spectrum that explains the
sample, and for columns that are rarely set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.kit.statistics import NORMAL_90, SIGNIFICANCE
from spikepool.trust.draws import overlaps_with_axes
from spikepool.trust.effort import Effort
from spikepool.trust.hypotheses import HALVES_SCALE, Fit, World, half_overlaps, mean_halves
from spikepool.trust.levels import flat_levels
from spikepool.trust.regimes import equal_variances_level
from spikepool.trust.sample import SMALLEST_STEADY_SPAN, Sample
from spikepool.trust.spans import angle, overlap_of, steady_spans


@dataclass(frozen=True)
class Drawn:
    """Samples drawn from the hypotheses; overlaps (draws, len(ks)) on the angle.

    Attributes
    ----------
    own : numpy.ndarray
        Overlaps with the fitted spectrum's components.
    response : numpy.ndarray
        How much the overlaps of the spectrum redrawn from each sample differ from those of the fitted one.
    scattered : numpy.ndarray
        The prediction with its error: a draw of the overlap that the sample at hand may have.
    single : list of numpy.ndarray
        Squared cosines of single components.
    votes : numpy.ndarray of shape (draws,)
        Weights of the draws, which sum to one.
    """

    own: FloatArray
    response: FloatArray
    scattered: FloatArray
    single: list[FloatArray]
    votes: FloatArray

    @property
    def model(self) -> FloatArray:
        """Expected overlaps, on the angle."""
        return np.asarray(self.votes @ self.own)


@dataclass(frozen=True)
class Wide:
    """Expected overlaps and their uncertainty on the angle, (len(ks),); see :class:`Simulated`."""

    centre: FloatArray
    variance: FloatArray
    lower: FloatArray
    one_level: bool
    widening: float
    kurtosis: float


def widen(sample: Sample, work: Effort, fits: dict[str, Fit], weights: dict[str, float], drawn: Drawn) -> Wide:
    """What the overlaps may differ by: scatter of the draws, misfit of the halves, resampling, flat spectra."""
    n, ks = sample.n_effective, sample.ks
    observed, steady = sample.halves.mean(axis=0), steady_spans(ks)
    # an eigenvalue scatters by sqrt((E[y⁴] − 1)/n) of itself, with E[y⁴] = 3 E[s²] for the scores y of simulated rows
    kurtosis = float(sum(weight * np.mean(fits[name].world.scales ** 2) for name, weight in weights.items()))
    widening = math.sqrt(max((sample.fourth - 1) / (3 * kurtosis - 1), 1.0))
    # the scatter of the sample and of the spectrum fitted to it, and the distance between the hypotheses; the truth is
    # one more draw beside the m that estimate mean and variance
    m = 1 / float(drawn.votes @ drawn.votes)
    variance = widening**2 * (m + 1) / (m - 1) * (drawn.votes @ (drawn.scattered - drawn.model) ** 2)
    # what the simulation is seen to miss between halves, it may miss here; small spans of halves say little of that
    unlike = (angle(observed) - angle(mean_halves(fits, weights))) ** 2
    variance = variance + np.where(ks < SMALLEST_STEADY_SPAN, unlike[steady].mean(), unlike)
    centre, lower, one_level = drawn.model, np.zeros(len(ks)), False
    if sample.resampled is not None:
        # a mixture of two predictions has the variance between them as well
        share, resampled = n / (n + work.resampling_rows * ks), angle(sample.resampled.mean(axis=0))
        between = share * (1 - share) * (resampled - centre) ** 2
        if work.fitted:
            lower = NORMAL_90 * np.sqrt(between)
        else:
            centre, variance = (1 - share) * centre + share * resampled, variance + between
    if work.fitted:
        sunk, one_level = _sunk(sample, work, fits, weights, centre, widening)
        lower = np.hypot(lower, sunk)
    lower = np.hypot(lower, centre - angle(overlap_of(centre) * (1 - _unseen(sample))))
    return Wide(centre, variance, lower, one_level, widening, kurtosis)


def _unseen(sample: Sample) -> FloatArray:
    """Share (len(ks),) of each span that components may take which no row shows.

    Columns that one row determines, such as a pixel that is rarely set, tell of others that no row has: they are about
    as many, of the same variances (Good and Turing). The columns of one row are one component, which has a place among
    the first k if its variance is at least the k-th eigenvalue.
    """
    places = np.minimum(sample.lone / sample.values[sample.ks - 1, None], 1.0).sum(axis=1)
    return np.asarray(np.minimum(places / sample.ks, 1.0))


def _sunk(
    sample: Sample, work: Effort, fits: dict[str, Fit], weights: dict[str, float], centre: FloatArray, widening: float
) -> tuple[FloatArray, bool]:
    """How much lower the overlaps of the flattest spectrum are, and whether that spectrum is one level.

    One level also has to pass John's test, with as many rows as heavy tails leave.
    """
    n, ks = sample.n_effective, sample.ks
    observed, steady = sample.halves.mean(axis=0), steady_spans(ks)
    best, sunk, one_level = max(weights, key=lambda name: weights[name]), np.zeros(len(ks)), False
    for name, weight in weights.items():
        fit = fits[name]
        level, cuts = flat_levels(sample.values, fit.world.tau, fit.rounds, widening)
        one_level |= name == best and len(cuts) == 2
        overlaps = [overlaps_with_axes(draw.leading(level, int(ks[-1])), ks)[0] for draw in fit.rounds]
        shortfall = weight * np.maximum(centre - angle(np.array(overlaps)).mean(axis=0), 0.0)
        halves = half_overlaps(World(fit.world.scales, level), n, ks, work.halves, fit.rng)
        worse = max((float(np.abs(halves - observed)[steady].mean()) - fit.difference) / HALVES_SCALE, 0.0)
        # halves are compared over steady spans, and say nothing of the gaps that smaller ones hang on
        sunk += np.where(ks < SMALLEST_STEADY_SPAN, 1.0, math.exp(-worse / 2)) * shortfall
    rows = max(int(n / widening**2), 2)
    return sunk, one_level and equal_variances_level(sample.values, rows) >= SIGNIFICANCE
