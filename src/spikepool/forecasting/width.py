r"""How wide the intervals of a forecast are.

Accuracy, on the probit scale z with the pilot at n0 rows:

    var z(n) = (1 + b)² v + var_reweighted(rise given z(n0)) + (10/n0) rise²₊,        rise = z(n) − z(n0),

with v the variance of the pilot's own level (:mod:`spikepool.forecasting.level_error`), not below the binomial one, and
b the slope of the rise in the level over reweighted rows (the Bayesian bootstrap): a pilot that looks too good by
chance also expects too large a rise. What the rise does beyond that over reweighted rows is its own error of fit. The
last part is there because curves depart from the form that is fitted: by a fifth of the rise from 200 rows, a tenth
from 1000, whose own sizes show more of the form. A curve that still has far to rise therefore has a wide interval, and
one that is flat has that of its level.

The same holds for a regression with z = −ln(MSE/var(y)), without the binomial variance.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from spikepool.kit.arrays import FloatArray

# Variance of the rise as a part of its square, times n0. By likelihood 0, .03 and .02 of the square from 200, 500 and
# 1000 rows of the development corpora; one part for all sizes, .015, is likelier there, but covers .5 of fifty classes
# of four rows each (.83 with this one).
RISE_VARIANCE = 10.0


def band_variance(own: FloatArray, z: FloatArray, level_variance: float, rows: int, accuracy: bool) -> FloatArray:
    """Variance of z at each size, from z (draws,) of the pilot's size and z (sizes, draws), the first draw the fit."""
    counted = 0.0
    if accuracy:
        edge = 0.5 / rows  # none or all correct among n0 rows does not mean an accuracy of 0 or 1
        share = float(np.clip(ndtr(own[0]), edge, 1 - edge))
        counted = share * (1 - share) / rows * 2 * np.pi * np.exp(float(ndtri(share)) ** 2)
    rise, level = z - own, own[1:] - own[1:].mean()
    known = float(level @ level) / (len(level) - 1)
    # a level that hardly varies, as that of a pilot without errors, does not show how the rise follows it
    slope = rise[:, 1:] @ level / (len(level) - 1) / max(known, counted, 1e-300)
    return np.asarray(
        (1 + slope) ** 2 * max(level_variance, counted)
        + rise[:, 1:].var(axis=1, ddof=1)
        - slope**2 * known
        + RISE_VARIANCE / rows * np.maximum(rise[:, 0], 0) ** 2
    )
