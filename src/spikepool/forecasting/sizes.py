"""Sizes, as multiples of the pilot, that are forecast, and where a rising curve reaches a target."""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import FloatArray

# Sizes that are forecast when none are asked for.
ASKED = (1, 2, 4, 8)
# Size up to which rows for a target are stated and planned.
FURTHEST = 64
# Sizes between which a target is looked for.
MULTIPLES = 2.0 ** np.arange(-5, 10.01, 0.125)


def crossing(sizes: FloatArray, curve: FloatArray, goal: float) -> float | None:
    """Smallest size at which a curve reaches the goal, log-linear between its points; None if it never does."""
    rising = np.maximum.accumulate(curve)
    reached = np.flatnonzero(rising >= goal)
    if len(reached) == 0:
        return None
    i = int(reached[0])
    if i == 0:
        return float(sizes[0])
    part = (goal - rising[i - 1]) / (rising[i] - rising[i - 1])
    return float(np.exp(np.log(sizes[i - 1]) + part * np.log(sizes[i] / sizes[i - 1])))
