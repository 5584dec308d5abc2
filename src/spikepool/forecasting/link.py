"""From the explained variance R² of ridge on class indicators to its accuracy.

Two classes with frequencies pi, 1 − pi: the fitted value of a row is normal around R²(y − ȳ) with variance
var(y) R²(1 − R²), so that

    accuracy = pi Phi((ȳ + 2R²(1 − pi))/sd) + (1 − pi) Phi(−(ȳ − 2R² pi)/sd),    ȳ = 2 pi − 1.

K > 2 classes: the right class wins K − 1 comparisons of unit normals with the margin s,

    accuracy = G_K(exp(a + b ln sqrt(R²/(1 − R²)))),     G_K(s) = ∫ phi(z) Phi(z + s)^(K−1) dz,

K being the effective number of classes 1/sum pi², a and b fitted to the pilot's own sizes with a prior on b. Equally
frequent Gaussian classes of one shape with centres at equal distances have a = ln(K)/2 and b = 1 in the limit of many
rows: fitted indicators then lie around R² times the true ones with the variance R²(1 − R²)/K for each class. With few
rows, or with labels that err, they start beside that line; their link is the line from the pilot's point to the point
of the theory at the limit of R². Rows of real classes are easy or hard for good, and b is smaller. The weight of the
second link is :attr:`spikepool.forecasting.pilot.Pilot.gaussian`. Both pass through the pilot's own accuracy
(:mod:`spikepool.forecasting.curve`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from spikepool.forecasting.pilot import LEAST_R2, Pilot, explained, weighted_mean
from spikepool.kit.arrays import FloatArray

# More than two classes: prior slope b of the log margin against ln sqrt(R²/(1 − R²)).
SLOPE = 0.75
# Weight of that prior, over the pilot's rows.
SLOPE_WEIGHT = 20.0
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


def fit_links(pilot: Pilot, weights: FloatArray, limit: float) -> list[tuple[float, Link]]:
    """The links that the pilot's sizes allow, with their weights, for rows with the given weights.

    `limit` is that of R². A size n has the weight n², as larger ones are nearer to what is forecast.
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
        return [(1.0, TwoClassLink(float(pilot.shares[1])))]
    classes, largest = max(2, round(1 / float(pilot.shares @ pilot.shares))), float(pilot.shares.max())
    theory = 0.5 * float(np.log(classes))
    if not len(r2s):
        return [(1.0, ManyClassLink(classes, largest, theory, SLOPE))]
    x, y = _log_ratio(r2s), np.log(np.maximum(margin_of(accuracy, classes), 0.02))
    centre, height = float(weight @ x), float(weight @ y)
    prior, spread = SLOPE_WEIGHT / pilot.rows, float(weight @ (x - centre) ** 2)
    slopes = [(1.0, (prior * SLOPE + float(weight @ ((x - centre) * (y - height)))) / (prior + spread))]
    end = max(float(_log_ratio(np.array(limit))), float(x.max()))
    if pilot.gaussian > 0 and end > centre:
        slopes = [(1 - pilot.gaussian, slopes[0][1]), (pilot.gaussian, (end + theory - height) / (end - centre))]
    return [
        (share, ManyClassLink(classes, largest, height - max(slope, 0.0) * centre, max(slope, 0.0)))
        for share, slope in slopes
        if share > 0
    ]


def _log_ratio(r2: FloatArray) -> FloatArray:
    r = np.clip(r2, 1e-4, 1 - 1e-4)
    return np.asarray(0.5 * np.log(r / (1 - r)))
