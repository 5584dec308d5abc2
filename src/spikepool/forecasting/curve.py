"""The forecast curve: equivalents and power law together, with the spread over reweighted rows.

Accuracies are combined on the probit scale z = Phi^{-1}(accuracy),

    z(n) = (1 − omega) [z_equivalents(n) + z_measured(n0) − z_equivalents(n0)] + omega z_power(n),
    omega = .25/(1 + (n/8n0)²),

z_measured(n0) being the leave-one-out accuracy as a smooth count: the curve keeps its shape and passes through what
the pilot itself shows. Intervals are z ± 1.645 sd for 90 %, see :mod:`spikepool.forecasting.curve`; part of sd
comes from reweightings of the pilot's rows (exponential weights: the Bayesian bootstrap). For regression the same is
done with ln(MSE/var(y)), without level and power law.

How wide the intervals of a forecast are.

Accuracy, on the probit scale z with the pilot at n0 rows:

    var z(n) = (1 + b)² v + var_reweighted(rise given z(n0)) + (10/n0) rise²₊,        rise = z(n) − z(n0),

with v the variance of the pilot's own level (:mod:`spikepool.forecasting.leave_out`), not below the binomial one, and
b the slope of the rise in the level over reweighted rows (the Bayesian bootstrap): a pilot that looks too good by
chance also expects too large a rise. What the rise does beyond that over reweighted rows is its own error of fit. The
last part is there because curves depart from the form that is fitted: by a fifth of the rise from 200 rows, a tenth
from 1000, whose own sizes show more of the form. A curve that still has far to rise therefore has a wide interval, and
one that is flat has that of its level.

The same holds for a regression with z = −ln(MSE/var(y)), without the binomial variance.

The inverse power law of the error through the pilot's own value: e(n) = e(n0) (n/n0)^(−b), b >= 0.

Two parameters, one of them measured at n0: the most stable of the usual extrapolations, and the one that adds to the
equivalents near the pilot. It has no limit but zero, so its weight must vanish far from the pilot.

From R² to accuracy.

Two classes with frequencies pi, 1 − pi: the fitted value of a row is normal around R²(y − ȳ) with variance
var(y) R²(1 − R²), so that

    accuracy = pi Phi((ȳ + 2R²(1 − pi))/sd) + (1 − pi) Phi(−(ȳ − 2R² pi)/sd),    ȳ = 2 pi − 1,

which :mod:`spikepool.forecasting.curve` moves to the pilot's own level. K > 2 classes: the right class wins K − 1
comparisons of unit normals with the margin s,

    accuracy = G_K(exp(a + b ln sqrt(R²/(1 − R²)))),     G_K(s) = ∫ phi(z) Phi(z + s)^(K−1) dz,

K being the effective number of classes 1/sum pi², a and b fitted to the pilot's own sizes with a prior on b. Gaussian
classes of one shape with centres at equal distances have a = ln(K)/2 and b = 1 in the limit of many rows: fitted
indicators then lie around R² times the true ones with the variance R²(1 − R²)/K for each class. With few rows, or with
labels that err, they start beside that line; their link is the line from the pilot's point to the point of the theory
at the limit of R². Rows of real classes are easy or hard for good, and b is smaller. Which of the two the pilot is
shows in the norms of its rows about their class means.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from spikepool.forecasting.leave_out import REWEIGHTINGS
from spikepool.forecasting.pilot import LEAST_R2, Pilot, explained, weighted_mean
from spikepool.forecasting.score_scale import ASKED, EDGE, MULTIPLES
from spikepool.forecasting.spectrum import PilotDesign, design_pilot, equivalents, fit_spectrum, fit_target_power
from spikepool.kit.arrays import FloatArray
from spikepool.kit.progress import Progress

# Variance of the rise as a part of its square, times n0. By likelihood 0, .03 and .02 of the square from 200, 500 and
# 1000 rows of the development corpora; one part for all sizes, .015, is likelier there, but covers .5 of fifty classes
# of four rows each (.83 with this one).
RISE_VARIANCE = 10.0


def band_variance(at_pilot: FloatArray, z: FloatArray, level_variance: float, rows: int, accuracy: bool) -> FloatArray:
    """Variance of z at each size, from z (draws,) of the pilot's size and z (sizes, draws), the first draw the fit."""
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
        + RISE_VARIANCE / rows * np.maximum(rise[:, 0], 0) ** 2
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


# More than two classes: prior slope b of the log margin against ln sqrt(R²/(1 − R²)).
_SLOPE = 0.75
# Weight of that prior, over the pilot's rows.
_SLOPE_WEIGHT = 20.0
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


class Link(Protocol):
    """Accuracy as a function of R²."""

    def __call__(self, r2: FloatArray) -> FloatArray:
        """Accuracy, not below the frequency of the largest class."""


def winning_probability(margin: FloatArray, classes: int) -> FloatArray:
    """G_K(s), the probability that N(s, 1) exceeds K − 1 independent standard normals."""
    s = np.asarray(margin, dtype=np.float64)
    return np.asarray(ndtr(_NODES + s[..., None]) ** (classes - 1) @ (_WEIGHTS / _WEIGHTS.sum()))


@cache
def _margins(classes: int) -> tuple[FloatArray, FloatArray]:
    margin = np.linspace(0.0, 12.0, 600)
    return winning_probability(margin, classes), margin


def margin_of(accuracy: FloatArray, classes: int) -> FloatArray:
    """Inverse of :func:`winning_probability`, by a table; 0 at or below 1/K."""
    table, margin = _margins(classes)
    return np.asarray(np.interp(accuracy, table, margin))


@dataclass(frozen=True)
class TwoClassLink:
    """Gaussian scores of two classes."""

    share: float

    def __call__(self, r2: FloatArray) -> FloatArray:
        """Accuracy at R²."""
        return np.asarray(np.maximum(gaussian_accuracy(r2, self.share), max(self.share, 1 - self.share)))


def gaussian_accuracy(r2: FloatArray, share: float) -> FloatArray:
    """Accuracy of two classes, the second with frequency `share`, when scores are Gaussian."""
    r = np.clip(r2, 1e-6, 1 - 1e-6)
    sd = np.sqrt(4 * share * (1 - share) * r * (1 - r))
    level = 2 * share - 1
    return np.asarray(
        share * ndtr((level + 2 * r * (1 - share)) / sd) + (1 - share) * ndtr(-(level - 2 * r * share) / sd)
    )


@dataclass(frozen=True)
class ManyClassLink:
    """K-class probit (K the effective number of classes) whose log margin is linear in ln sqrt(R²/(1 − R²))."""

    classes: int
    largest_share: float
    level: float
    slope: float

    def __call__(self, r2: FloatArray) -> FloatArray:
        """Accuracy at R²."""
        margin = np.exp(self.level + self.slope * _log_ratio(r2))
        return np.asarray(np.maximum(winning_probability(margin, self.classes), self.largest_share))


def fit_link(pilot: Pilot, weights: FloatArray, limit: float) -> Link:
    """The link that the pilot's sizes show, for rows with the given weights; `limit` is that of R².

    A size n has the weight n², as larger ones are nearer to what is forecast.
    """
    assert pilot.shares is not None
    seen = []
    for size in pilot.sizes:
        w = weights * size.tested
        if w.sum() > 0:
            r2 = float(explained(pilot, size.chosen_excess, w))
            seen.append((size.n / pilot.rows, r2, float(weighted_mean(size.chosen_likely, w))))
    learned = np.array([point for point in seen if point[1] > LEAST_R2]).reshape(-1, 3)
    fraction, r2s, accuracy = learned.T
    # none or all correct among n rows is not evidence of an infinite margin
    accuracy = np.clip(accuracy, 0.5 / pilot.rows, 1 - 0.5 / pilot.rows)
    weight = fraction**2
    weight = weight / max(float(weight.sum()), 1e-300)
    if pilot.classes == 2:
        return TwoClassLink(float(pilot.shares[1]))
    classes = max(2, round(1 / float(pilot.shares @ pilot.shares)))
    slope, level = _SLOPE, 0.5 * float(np.log(classes))
    if len(r2s):
        x, y = _log_ratio(r2s), np.log(np.maximum(margin_of(accuracy, classes), 0.02))
        centre, height = float(weight @ x), float(weight @ y)
        end = max(float(_log_ratio(np.array(limit))), float(x.max()))
        if pilot.gaussian and end > centre:
            slope = (end + level - height) / (end - centre)
        else:
            prior = _SLOPE_WEIGHT / pilot.rows
            spread = weight @ (x - centre) ** 2
            slope = (prior * slope + float(weight @ ((x - centre) * (y - height)))) / (prior + float(spread))
        slope = max(slope, 0.0)
        level = height - slope * centre
    return ManyClassLink(classes, float(pilot.shares.max()), level, slope)


def _log_ratio(r2: FloatArray) -> FloatArray:
    r = np.clip(r2, 1e-4, 1 - 1e-4)
    return np.asarray(0.5 * np.log(r / (1 - r)))


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

    def to_score(self, transformed: FloatArray) -> FloatArray:
        """Accuracy or R² from the transformed scale."""
        return np.asarray(ndtr(transformed) if self.classification else 1 - np.exp(-transformed))

    def band(self, n: ArrayLike, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Centre, lower and upper end on the transformed scale."""
        sizes = np.atleast_1d(np.asarray(n, dtype=np.float64))
        together = self.transformed(np.append(sizes, self.pilot.rows))
        z, at_pilot = together[:-1], together[-1]
        variance = band_variance(at_pilot, z, self.pilot.level_variance, self.pilot.rows, self.classification)
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
    """Everything that depends on the rows' weights; `own` holds the equivalents at the pilot's size, by penalty."""
    power = fit_target_power(pilot, design, weights)
    if pilot.shares is None:
        return _Draw(power)
    link = fit_link(pilot, weights, 1 - float(power[-1]) / float(power.sum()))
    expected = _probit(link(1 - (pilot_mse @ power).min(keepdims=True)))[0]
    edge = 0.5 / pilot.rows  # none or all correct among n0 rows does not mean an accuracy of 0 or 1
    measured = np.clip(weighted_mean(pilot.sizes[0].chosen_likely, weights), edge, 1 - edge)
    shift = float(_probit(np.asarray(measured)) - expected)
    return _Draw(power, link, fit_power_law(pilot, weights), shift)


def _probit(accuracy: FloatArray) -> FloatArray:
    return np.asarray(ndtri(np.clip(accuracy, EDGE, 1 - EDGE)))
