"""Do smoothly falling variances explain outliers? With fewer rows than features the bulk alone does not tell.

Pooled noise of a finite vocabulary has unequal variances, but bounded ones: past the outliers of a signal its spectrum
ends at an edge. Variances that fall smoothly have a tail instead, in which the largest are followed by others that are
nearly as large. Two shapes of a tail are tried, powers of the rank and quantiles of a lognormal law, each with the
second moment of the eigenvalues observed. Where both have larger eigenvalues after the outliers than those observed,
the outliers stand apart.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm, t

from spikepool.kit.arrays import FloatArray
from spikepool.trust.draws import Draw
from spikepool.trust.effort import effort

# Eigenvalues after the outliers that are compared.
_FOLLOWING = 3
# Steepest fall that is tried: the exponent of the rank, or the standard deviation of the log variances.
_STEEPEST = 8.0


def falling_level(values: FloatArray, n: int, count: int) -> float:
    """p-value, one-sided, of the eigenvalues after the first `count`, if variances fall smoothly.

    Parameters
    ----------
    values : array of shape (d,)
        Eigenvalues of the covariance of `n` rows, n <= d, descending.
    n, count : int

    Notes
    -----
    The statistic is the mean log of the eigenvalues count + 1 to count + 3 over their trace. Its scatter over draws
    includes that of the fitted fall: draws whose second moment differs from the one observed are corrected by the
    slope of the statistic in the fall.
    """
    d = len(values)
    rng = np.random.default_rng(0)
    draws = [Draw(np.ones(1), n, d, rng) for _ in range(2 * effort(n, d).draws)]
    rank = np.arange(1, d + 1)
    deviates = norm.isf((rank - 0.5) / d)
    shapes = (lambda fall: rank**-fall, lambda fall: np.exp(fall * deviates))
    return max(_level(values, n, count, shape, draws) for shape in shapes)


def _level(values: FloatArray, n: int, count: int, shape: Callable[[float], FloatArray], draws: list[Draw]) -> float:
    """The same for one shape of the tail."""

    def spread(fall: float) -> float:
        """Squared coefficient of variation of the variances."""
        tau = shape(fall)
        return float(tau.var() / tau.mean() ** 2)

    def fitted(values: FloatArray) -> float:
        # that of the eigenvalues exceeds that of the variances by d/n
        wanted = float(values.var() / values.mean() ** 2) - len(values) / (n - 1)
        wanted = min(max(wanted, 0.0), spread(_STEEPEST))
        return float(brentq(lambda fall: spread(fall) - wanted, 0.0, _STEEPEST))

    def statistic(values: FloatArray) -> float:
        return float(np.log(values[count : count + _FOLLOWING] / values.mean()).mean())

    fall = fitted(values)
    drawn = [draw.eigenvalues(shape(fall)) for draw in draws]
    found = np.array([statistic(one) for one in drawn])
    steeper = np.array([statistic(draw.eigenvalues(shape(1.25 * fall))) for draw in draws])
    slope = float((steeper - found).mean()) / (0.25 * fall) if fall else 0.0
    found -= slope * (np.array([fitted(one) for one in drawn]) - fall)
    scatter = float(found.std(ddof=1)) * np.sqrt(1 + 1 / len(found))
    return float(t.cdf((statistic(values) - found.mean()) / scatter, len(found) - 1))
