"""The one place where features enter: checked, with their spectrum and their groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from spikepool.data.description import Description, numbered
from spikepool.data.folds import group_numbers
from spikepool.data.in_memory import as_array
from spikepool.errors import InvalidInputError, MemoryBudgetError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import IntArray
from spikepool.trust.memory_rows import MemoryRows

# Groups from which something can be said about new ones.
_FEWEST_GROUPS = 8
# Fewer dimensions have no bulk to tell components from.
_FEWEST_DIMENSIONS = 4
# The covariance and its eigenvectors are formed; beyond this dimension that is no longer a quick look.
_LARGEST_DIMENSION = 20_000


def open_rows(C: Any, groups: Any, description: Description | None = None) -> tuple[MemoryRows, IntArray | None]:
    """The rows with their spectrum, and the groups as numbers."""
    given = as_array(C, "C")
    features = check.feature_rows(given, "C")
    n, d = shape = features.shape
    if n < 4 or d < _FEWEST_DIMENSIONS:
        raise ShapeError("C must have at least 4 samples and 4 features", shape, "Pass (n_samples, d)")
    if min(n, d) > _LARGEST_DIMENSION:
        raise MemoryBudgetError(
            f"the smaller side of C must be at most {_LARGEST_DIMENSION}", shape, "Reduce the dimension first"
        )
    group = None
    if groups is not None:
        group = numbered(group_numbers(groups, n, fewest=_FEWEST_GROUPS, why="to say anything about new ones"))[0]
    check.moderate_squares(features, "C")
    rows = MemoryRows(features, group, description)
    if rows.values[0] <= _resolution(given.dtype) * max(float(np.sum(rows.mean**2)), 1e-300):
        raise InvalidInputError("all rows of C are equal", remedy="Pass features that vary between samples")
    if rows.rank < min(_FEWEST_DIMENSIONS, len(rows.description.counts) - 1):
        raise InvalidInputError(
            f"the {d} features of C span too few dimensions", rows.rank, f"Pass at least {_FEWEST_DIMENSIONS}"
        )
    return rows, group


def _resolution(dtype: np.dtype[Any]) -> float:
    """Variance below which rows are equal up to rounding, as a share of the squared mean."""
    return float((4 * np.finfo(dtype if dtype.kind == "f" else np.float64).eps) ** 2)
