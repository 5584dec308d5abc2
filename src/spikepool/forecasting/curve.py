"""The forecast curve of ridge: deterministic equivalents and a power law together, and their intervals.

Accuracies are combined on the probit scale z = Phi^{-1}(accuracy),

    z(n) = (1 − omega) [z_equivalents(n) + z_measured(n0) − z_equivalents(n0)] + omega z_power(n),
    omega = .25/(1 + (n/8n0)²),

z_measured(n0) being the leave-one-out accuracy as a smooth count: the curve keeps its shape and passes through what the
pilot itself shows. The equivalents (:mod:`spikepool.forecasting.equivalents`) give R² and a link
(:mod:`spikepool.forecasting.link`) the accuracy. The power law is e(n) = e(n0) (n/n0)^(−b), b >= 0, of the error. It
has no limit but zero, so that its weight vanishes far from the pilot.

Intervals are z ± 1.645 sd for 90 %, with

    var z(n) = (1 + b)² v + var_reweighted(rise given z(n0)) + (20/n0) rise²₊ + var_between,    rise = z(n) − z(n0).

v is the variance of the pilot's own level (:mod:`spikepool.forecasting.level`), not below the binomial one, and b the
slope of the rise in the level over reweighted rows (exponential weights: the Bayesian bootstrap): a pilot that looks
too good by chance also expects too large a rise. What the rise does beyond that over reweighted rows is its own error
of fit. The third part is there because curves depart from the form that is fitted. The last one is the variance between
the curves that are combined. A curve that still has far to rise therefore has a wide interval, and a flat one that of
its level.

The same holds for a regression with z = −ln(MSE/var(y)), without the binomial variance and the power law. There the
third part is d/n0 times as large where the rows are fewer than the features: they do not show the limit of R².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from spikepool.forecasting.equivalents import equivalents
from spikepool.forecasting.level import REWEIGHTINGS
from spikepool.forecasting.link import Link, fit_links
from spikepool.forecasting.pilot import Pilot, weighted_mean
from spikepool.forecasting.score_scale import EDGE
from spikepool.forecasting.sizes import ASKED, MULTIPLES
from spikepool.forecasting.spectrum import fit_spectrum
from spikepool.forecasting.target_power import PilotDesign, design_pilot, fit_target_power
from spikepool.kit.arrays import FloatArray
from spikepool.kit.progress import Progress

# Variance of the rise as a part of its square, times n0 (`docs/benchmarks/plan.md`).
RISE_VARIANCE = 20.0


def band_variance(
    at_pilot: FloatArray, z: FloatArray, level_variance: float, rows: int, accuracy: bool, unseen: float = 1.0
) -> FloatArray:
    """Variance of z at each size, from z (draws,) of the pilot's size and z (sizes, draws), the first draw the fit.

    `unseen` multiplies the variance of the rise.
    """
    counted = 0.0
    if accuracy:
        edge = 0.5 / rows  # none or all correct among n0 rows does not mean an accuracy of 0 or 1
        share = float(np.clip(ndtr(at_pilot[0]), edge, 1 - edge))
        counted = share * (1 - share) / rows * 2 * np.pi * np.exp(float(ndtri(share)) ** 2)
    rise, level = z - at_pilot, at_pilot[1:] - at_pilot[1:].mean()
    known = float(level @ level) / (len(level) - 1)
    # a level that hardly varies, as that of a pilot without errors, does not show how the rise follows it
    slope = rise[:, 1:] @ level / (len(level) - 1) / max(known, counted, 1e-300)
    return np.asarray(
        (1 + slope) ** 2 * max(level_variance, counted)
        + rise[:, 1:].var(axis=1, ddof=1)
        - slope**2 * known
        + unseen * RISE_VARIANCE / rows * np.maximum(rise[:, 0], 0) ** 2
    )


@dataclass(frozen=True)
class PowerLaw:
    """e(n) = error · (n/rows)^(−exponent)."""

    rows: float
    error: float
    exponent: float

    def accuracy(self, n: FloatArray) -> FloatArray:
        """1 − e(n)."""
        return np.asarray(1 - np.minimum(self.error * (np.asarray(n) / self.rows) ** -self.exponent, 1.0))


def fit_power_law(pilot: Pilot, weights: FloatArray) -> PowerLaw:
    """Least squares of ln e on ln n over the pilot's sizes with weights n, through the leave-one-out value."""
    points = []
    for size in pilot.sizes:
        w = weights * size.tested
        if w.sum() > 0:
            points.append((size.n, 1 - float(weighted_mean(size.chosen_likely, w))))
    n, error = np.array(points).T
    log_error = np.log(
        np.maximum(error, 0.5 / pilot.rows)
    )  # zero errors among n0 rows do not mean a true error of zero
    x, y = np.log(n / n[0]), log_error - log_error[0]
    spread = float(n @ x**2)
    exponent = max(-float(n @ (x * y)) / spread, 0.0) if spread > 0 else 0.0
    return PowerLaw(float(n[0]), float(np.exp(log_error[0])), exponent)


# Weight of the power law near the pilot; half of it is left at the largest size that is forecast by default.
POWER_LAW_WEIGHT = 0.25


@dataclass(frozen=True)
class _Draw:
    """One fit: shares of the target's variance; links with weights and shifts of the level, and the power law."""

    power: FloatArray
    links: tuple[tuple[float, Link, float], ...] = ()
    law: PowerLaw | None = None


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

    def parts(self, n: ArrayLike) -> list[tuple[FloatArray, FloatArray]]:
        """Weights (len(n), 1) and transformed scores (len(n), draws) of the curves that are combined."""
        sizes = np.atleast_1d(np.asarray(n, dtype=np.float64))
        mse = self.mse(sizes)
        if self.pilot.shares is None:
            return [(np.ones((len(sizes), 1)), -np.log(mse))]
        omega = POWER_LAW_WEIGHT / (1 + (sizes[:, None] / (ASKED[-1] * self.pilot.rows)) ** 2)
        chance = float(_probit(np.array(self.pilot.shares.max())))
        found = []
        for i, (weight, _, _) in enumerate(self.draws[0].links):
            z = np.empty_like(mse)
            for j, draw in enumerate(self.draws):
                _, link, shift = draw.links[min(i, len(draw.links) - 1)]
                z[:, j] = np.maximum(_probit(link(1 - mse[:, j])) + shift, chance)
            found.append(((1 - omega) * weight, z))
        laws = [draw.law.accuracy(sizes) for draw in self.draws if draw.law is not None]
        return [*found, (omega, _probit(np.stack(laws, axis=1)))]

    def transformed(self, n: ArrayLike) -> FloatArray:
        """Probit z (classification) or −ln(MSE/var(y)) (regression) of each draw, (len(n), draws): larger is better."""
        return np.asarray(sum(weight * z for weight, z in self.parts(n)))

    @property
    def rows(self) -> float:
        """Rows of the pilot."""
        return float(self.pilot.rows)

    def to_score(self, transformed: FloatArray) -> FloatArray:
        """Accuracy or R² from the transformed scale."""
        return np.asarray(ndtr(transformed) if self.classification else 1 - np.exp(-transformed))

    def band(self, n: ArrayLike, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Centre, lower and upper end on the transformed scale."""
        sizes = np.atleast_1d(np.asarray(n, dtype=np.float64))
        parts = self.parts(np.append(sizes, self.pilot.rows))
        together = np.asarray(sum(weight * z for weight, z in parts))
        z, at_pilot = together[:-1], together[-1]
        pilot = self.pilot
        variance = band_variance(at_pilot, z, pilot.level_variance, pilot.rows, self.classification, pilot.unseen)
        variance += sum(weight[:-1, 0] * (part[:-1, 0] - z[:, 0]) ** 2 for weight, part in parts)
        half = float(ndtri((1 + level) / 2)) * np.sqrt(variance)
        return z[:, 0], z[:, 0] - half, z[:, 0] + half

    def goal(self, target: float) -> float:
        """The target on the transformed scale."""
        return float(ndtri(target)) if self.classification else -float(np.log(1 - target))

    def probability(self, n: ArrayLike, goal: float) -> FloatArray:
        """Probability that the transformed score at each size is the goal or better."""
        centre, _, high = self.band(n, 0.9)
        return np.asarray(ndtr((centre - goal) / np.maximum((high - centre) / ndtri(0.95), 1e-300)))

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
    pilot_mse = equivalents(spectrum, design.bands, pilot.rows, design.penalties).mse * (1 + 1 / pilot.rows)
    draws = []
    for number in range(reweightings + 1):
        weights = np.ones(pilot.rows) if number == 0 else rng.exponential(size=pilot.rows)
        draws.append(_fit_draw(pilot, design, pilot_mse, weights))
        if progress is not None:
            progress.advance()
    return LearningCurve(pilot, design, tuple(draws))


def _fit_draw(pilot: Pilot, design: PilotDesign, pilot_mse: FloatArray, weights: FloatArray) -> _Draw:
    """Everything that depends on the rows' weights; `pilot_mse` are the equivalents at the pilot's size, by penalty."""
    power = fit_target_power(pilot, design, weights)
    if pilot.shares is None:
        return _Draw(power)
    edge = 0.5 / pilot.rows  # none or all correct among n0 rows does not mean an accuracy of 0 or 1
    measured = np.clip(weighted_mean(pilot.sizes[0].chosen_likely, weights), edge, 1 - edge)
    own = 1 - (pilot_mse @ power).min(keepdims=True)
    links = tuple(
        (share, link, float(_probit(np.asarray(measured)) - _probit(link(own))[0]))
        for share, link in fit_links(pilot, weights, 1 - float(power[-1]) / float(power.sum()))
    )
    return _Draw(power, links, fit_power_law(pilot, weights))


def _probit(accuracy: FloatArray) -> FloatArray:
    return np.asarray(ndtri(np.clip(accuracy, EDGE, 1 - EDGE)))
