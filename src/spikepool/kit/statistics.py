"""Statistics that several packages need: errors of means, and estimates that were selected for being large."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def standard_error(values: ArrayLike, axis: int = 0) -> Any:
    """Standard error of the mean over `axis`; zero of a single draw, which says nothing about its scatter."""
    array = np.asarray(values, dtype=np.float64)
    count = array.shape[axis]
    if count < 2:
        return np.zeros_like(array.mean(axis=axis))
    return array.std(axis=axis, ddof=1) / np.sqrt(count)


# Standard deviations from the middle of a normal law to the ends of its central 90 %.
NORMAL_90 = 1.6448536269514722
# Probability of what chance alone does below which something is not taken for chance.
SIGNIFICANCE = 0.01


def unselected(value: float, cut: float, deviation: float, level: float = 0.5) -> float:
    """Mean m of a normal law at which a draw, known to exceed `cut`, exceeds `value` with probability `level`.

    ``P(X >= value | X >= cut) = Phi((m − value)/sd) / Phi((m − cut)/sd) = level``. What is reported because it lies
    beyond a cut is partly luck: the more, the closer it lies. Level 1/2 gives the estimate that is as often too
    high as too low among the reported ones; .05 and .95 the ends of a 90 % interval. Far from the cut they are
    `value` and ``value ± 1.645 sd``; next to it they fall without limit, which is cut off at eight deviations.
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    def log_probability(m: float) -> float:
        return float(log_ndtr((m - value) / deviation) - log_ndtr((m - cut) / deviation)) - math.log(level)

    low, high = value - 8 * deviation, value + 4 * deviation
    if log_probability(low) >= 0:
        return low
    return float(brentq(log_probability, low, high, xtol=1e-12 * deviation + 1e-300))
