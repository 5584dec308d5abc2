r"""The inverse power law of the error through the pilot's own value: e(n) = e(n0) (n/n0)^(−b), b >= 0.

Two parameters, one of them measured at n0: the most stable of the usual extrapolations, and the one that adds to the
equivalents near the pilot. It has no limit but zero, so its weight must vanish far from the pilot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spikepool.forecasting.pilot import Pilot, weighted_mean
from spikepool.kit.arrays import FloatArray


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
