r"""How wide the intervals of a forecast are.

Accuracy, on the probit scale z with the pilot at n0 rows:

    var z(n) = [v_tested + v_trained]/phi(z(n0))² + var_reweighted(z(n) − z(n0)) + (10/n0) (z(n) − z(n0))²₊

The pilot's own level is uncertain as its rows are few, as tested and as trained ones
(:mod:`spikepool.forecasting.level_error`); the rise from there is uncertain as the fit to these rows is (reweighted
rows: the Bayesian bootstrap) and by a part of itself, because curves depart from the form that is fitted: a fifth of
the rise from 200 rows, a tenth from 1000, whose own sizes show more of the form. A curve that still has far to rise
therefore has a wide interval, and one that is flat has that of its level.

The same holds for a regression with z = −ln(MSE/var(y)), whose level has the jackknife's variance without a density,
times a factor for residuals with heavy tails.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from spikepool.forecasting.level_error import LevelError
from spikepool.kit.arrays import FloatArray

# Variance of the rise as a part of its square, times n0. By likelihood .057, .017 and .017 of the square from 200, 500
# and 1000 rows. With one part for all sizes, .03, the intervals held .98 of tasks they had not been chosen on at 1000
# rows. Less than the whole training variance would fit as well on average (.5 by likelihood), but clinc150 with its
# many small classes is then covered in .8 at 200 rows.
RISE_VARIANCE = 10.0


def band_variance(own: FloatArray, z: FloatArray, level: LevelError, rows: int, accuracy: bool) -> FloatArray:
    """Variance of z at each size, from z (draws,) of the pilot's size and z (sizes, draws), the first draw the fit."""
    variance = (level.tested + level.trained) * level.tails
    if accuracy:
        edge = 0.5 / rows  # none or all correct among n0 rows does not mean an accuracy of 0 or 1
        share = float(np.clip(ndtr(own[0]), edge, 1 - edge))
        density = float(np.exp(-(ndtri(share) ** 2) / 2) / np.sqrt(2 * np.pi))
        variance = (max(level.tested, share * (1 - share) / rows) + level.trained) / density**2
    rise = z - own
    return np.asarray(
        variance + rise[:, 1:].var(axis=1, ddof=1) + RISE_VARIANCE / rows * np.maximum(rise[:, 0], 0) ** 2
    )
