"""Mean and standard error over draws."""

from __future__ import annotations

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
