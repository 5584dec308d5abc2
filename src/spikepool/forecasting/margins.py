"""What margins tell beyond right or wrong: a steadier accuracy.

The margin of a tested row is the fitted value of its class less the largest of the others. Counting the positive ones
is the usual accuracy; a smooth count is steadier, because rows near the boundary do not jump:

    accuracy ≈ mean of 2 Phi(m/h) − Phi(m/(sqrt(2) h)),      h = .3 sd(m),

whose bias is of fourth order in h, whatever the distribution of m.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from spikepool.kit.arrays import FloatArray, IntArray

# Width of the smoothing. Against the truth at the pilot's size it lowers the root mean square error of the accuracy by
# 6 % on average over 18 groups of development tasks and raises it in none; .4 gains 7 %, and loses 9 % in one.
_WIDTH = 0.3


def margins(f: FloatArray, labels: IntArray) -> FloatArray:
    """Fitted value of the own class less the largest of the others, by row."""
    rows = np.arange(len(labels))
    others = f.copy()
    others[rows, labels] = -np.inf
    return np.asarray(f[rows, labels] - others.max(axis=1))


def likely_right(margin: FloatArray, spread: float | None = None) -> FloatArray:
    """Smooth count: about 1 for right rows, about 0 for wrong ones; may leave [0, 1] by a tenth near the boundary.

    `spread` is the standard deviation that the width is taken of, that of `margin` if not given.
    """
    width = _WIDTH * max(float(margin.std()) if spread is None else spread, 1e-300)
    scaled = margin / width
    return np.asarray(2 * ndtr(scaled) - ndtr(scaled / np.sqrt(2)))
