r"""The forecast curve: equivalents and power law together, with the spread over reweighted rows.

Accuracies are combined on the probit scale z = Phi^{-1}(accuracy),

    z(n) = (1 − omega) [z_equivalents(n) + z_measured(n0) − z_equivalents(n0)] + omega z_power(n),
    omega = .25/(1 + (n/8n0)²),

z_measured(n0) being the leave-one-out accuracy as a smooth count: the curve keeps its shape and passes through what
the pilot itself shows. Intervals are z ± 1.645 sd for 90 %, see :mod:`spikepool.forecasting.width`; part of sd
comes from reweightings of the pilot's rows (exponential weights: the Bayesian bootstrap). For regression the same is
done with ln(MSE/var(y)), without level and power law.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from spikepool.forecasting.crossing import ASKED, MULTIPLES, crossing
from spikepool.forecasting.equivalents import equivalents
from spikepool.forecasting.level_error import REWEIGHTINGS
from spikepool.forecasting.link import Link, fit_link
from spikepool.forecasting.pilot import Pilot, weighted_mean
from spikepool.forecasting.power_law import PowerLaw, fit_power_law
from spikepool.forecasting.score_scale import EDGE
from spikepool.forecasting.spectrum import fit_spectrum
from spikepool.forecasting.target_power import PilotDesign, design_pilot, fit_target_power
from spikepool.forecasting.width import band_variance
from spikepool.kit.arrays import FloatArray
from spikepool.kit.progress import Progress

# Weight of the power law at the pilot; half of it is left at the largest size that is forecast by default.
_POWER_LAW_WEIGHT = 0.25


@dataclass(frozen=True)
class _Draw:
    """One fit: shares of the target's variance; link, power law and shift of the level (none for regression)."""

    power: FloatArray
    link: Link | None = None
    law: PowerLaw | None = None
    shift: float = 0.0

    def probit(self, r2: FloatArray, chance: float) -> FloatArray:
        """Probit of the accuracy at R², with the pilot's own level; not below that of the largest class."""
        assert self.link is not None
        return np.asarray(np.maximum(_probit(self.link(r2)) + self.shift, _probit(np.array(chance))))


@dataclass(frozen=True)
class LearningCurve:
    """Fitted curve; the first draw is the pilot as it is, the others are reweightings of its rows."""

    pilot: Pilot
    design: PilotDesign
    draws: tuple[_Draw, ...]

    @property
    def classification(self) -> bool:
        """Whether scores are accuracies (else R²)."""
        return self.pilot.shares is not None

    def mse(self, n: ArrayLike) -> FloatArray:
        """Error of ridge at its best penalty in units of var(y), (len(n), draws)."""
        sizes = np.atleast_1d(np.asarray(n, dtype=np.float64))
        known = equivalents(self.design.spectrum, self.design.bands, sizes, self.design.penalties)
        shares = np.array([draw.power for draw in self.draws])
        return np.asarray((known.mse @ shares.T).min(axis=1) * (1 + 1 / sizes[:, None]))

    def transformed(self, n: ArrayLike) -> FloatArray:
        """Probit z (classification) or −ln(MSE/var(y)) (regression) of each draw, (len(n), draws): larger is better."""
        sizes = np.atleast_1d(np.asarray(n, dtype=np.float64))
        mse = self.mse(sizes)
        if not self.classification:
            return -np.log(mse)
        omega = _POWER_LAW_WEIGHT / (1 + (sizes / (ASKED[-1] * self.pilot.rows)) ** 2)
        assert self.pilot.shares is not None
        chance = float(self.pilot.shares.max())
        z = np.empty_like(mse)
        for j, draw in enumerate(self.draws):
            assert draw.law is not None
            z[:, j] = (1 - omega) * draw.probit(1 - mse[:, j], chance) + omega * _probit(draw.law.accuracy(sizes))
        return z

    @property
    def rows(self) -> float:
        """Rows of the pilot."""
        return float(self.pilot.rows)

    def draw(self, n: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
        """Curves (count, len(n)) of transformed scores that might be the true one: the band's, each at one quantile."""
        centre, _, high = self.band(n, 0.9)
        return np.asarray(centre + rng.standard_normal((count, 1)) * (high - centre) / ndtri(0.95))

    def to_score(self, transformed: FloatArray) -> FloatArray:
        """Accuracy or R² from the transformed scale."""
        return np.asarray(ndtr(transformed) if self.classification else 1 - np.exp(-transformed))

    def band(self, n: ArrayLike, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Centre, lower and upper end on the transformed scale."""
        sizes = np.atleast_1d(np.asarray(n, dtype=np.float64))
        together = self.transformed(np.append(sizes, self.pilot.rows))
        z, own = together[:-1], together[-1]
        variance = band_variance(own, z, self.pilot.level_variance, self.pilot.rows, self.classification)
        half = float(ndtri((1 + level) / 2)) * np.sqrt(variance)
        return z[:, 0], z[:, 0] - half, z[:, 0] + half

    def required(self, target: float, level: float) -> tuple[float | None, float | None, float | None]:
        """Rows at which the upper end, the centre and the lower end of the band reach the target; None if never."""
        sizes = np.maximum(self.pilot.rows * MULTIPLES, 4.0)
        goal = float(ndtri(target)) if self.classification else -float(np.log(1 - target))
        centre, low, high = self.band(sizes, level)
        first, best, last = (crossing(sizes, curve, goal) for curve in (high, centre, low))
        return first, best, last

    @property
    def limit(self) -> float:
        """Score that the curve approaches: its largest among the sizes at which a target is looked for."""
        fitted = LearningCurve(self.pilot, self.design, self.draws[:1])
        return float(self.to_score(fitted.transformed(np.maximum(self.pilot.rows * MULTIPLES, 4.0)).max()))


def fit_curve(
    pilot: Pilot, rng: np.random.Generator, progress: Progress | None = None, reweightings: int = REWEIGHTINGS
) -> LearningCurve:
    """Fit the curve to a pilot and to reweightings of its rows."""
    spectrum = fit_spectrum(pilot.eigenvalues, pilot.rows, pilot.dimension, pilot.row_norm)
    design = design_pilot(pilot, spectrum)
    own = equivalents(spectrum, design.bands, pilot.rows, design.penalties).mse * (1 + 1 / pilot.rows)
    draws = []
    for number in range(reweightings + 1):
        weights = np.ones(pilot.rows) if number == 0 else rng.exponential(size=pilot.rows)
        draws.append(_fit_draw(pilot, design, own, weights))
        if progress is not None:
            progress.advance()
    return LearningCurve(pilot, design, tuple(draws))


def _fit_draw(pilot: Pilot, design: PilotDesign, own: FloatArray, weights: FloatArray) -> _Draw:
    """Everything that depends on the rows' weights; `own` holds the equivalents at the pilot's size, by penalty."""
    power = fit_target_power(pilot, design, weights)
    if pilot.shares is None:
        return _Draw(power)
    link = fit_link(pilot, weights, 1 - float(power[-1]) / float(power.sum()))
    expected = _probit(link(1 - (own @ power).min(keepdims=True)))[0]
    edge = 0.5 / pilot.rows  # none or all correct among n0 rows does not mean an accuracy of 0 or 1
    measured = np.clip(weighted_mean(pilot.sizes[0].chosen_likely, weights), edge, 1 - edge)
    shift = float(_probit(np.asarray(measured)) - expected)
    return _Draw(power, link, fit_power_law(pilot, weights), shift)


def _probit(accuracy: FloatArray) -> FloatArray:
    return np.asarray(ndtri(np.clip(accuracy, EDGE, 1 - EDGE)))
