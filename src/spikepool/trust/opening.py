"""The one place where features enter: arrays, memory maps, Zarr and Dask arrays, paths; in memory or streamed."""

from __future__ import annotations

from typing import Any

import numpy as np

from spikepool.data.description import Description
from spikepool.data.in_memory import as_array
from spikepool.data.opening import is_stored, open_blocks
from spikepool.errors import DomainError, InvalidInputError, MemoryBudgetError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import IntArray
from spikepool.trust import effort
from spikepool.trust.memory_rows import MemoryRows
from spikepool.trust.rows import LARGEST_FEATURE, Rows, group_numbers
from spikepool.trust.streamed_rows import StreamedRows

# Fewer dimensions have no bulk to tell components from.
_FEWEST_DIMENSIONS = 4
# The covariance and its eigenvectors are formed; beyond this dimension that is no longer a quick look.
_LARGEST_DIMENSION = 20_000


def open_rows(
    C: Any, groups: Any, rng: np.random.Generator, description: Description | None = None
) -> tuple[Rows, IntArray | None]:
    """The rows with their spectrum, and the groups as numbers."""
    stored = is_stored(C)
    if stored:
        source = open_blocks(C, name="C")
        shape = source.shape
        if len(shape) != 2:
            raise ShapeError(f"C must have 2 dimensions, not {len(shape)}", shape, "Pool the sequences first")
        if source.dtype.kind not in "fiub":
            raise InvalidInputError("C must be real numbers", source.dtype, "Pass a numeric array")
    else:
        C = as_array(C, "C")
        features = check.finite_array(C, "C", ndim=2)
        shape = features.shape
    n, d = shape
    if n < 4 or d < _FEWEST_DIMENSIONS:
        raise ShapeError("C must have at least 4 samples and 4 features", shape, "Pass (n_samples, d)")
    if min(n, d) > _LARGEST_DIMENSION:
        raise MemoryBudgetError(
            f"the smaller side of C must be at most {_LARGEST_DIMENSION}", shape, "Reduce the dimension first"
        )
    group = None if groups is None else group_numbers(groups, n)
    rows: Rows
    if 8 * n * d > effort.STREAMED_BYTES and d <= n:
        rows = StreamedRows(source if stored else open_blocks(features, name="C"), group, rng)
    else:
        if stored:
            features = check.finite_array(source.whole(), "C")
        largest = float(np.abs(features).max())
        if largest > 0 and not 1 / LARGEST_FEATURE <= largest <= LARGEST_FEATURE:
            raise DomainError("squares of the features under- or overflow; the largest is", largest, "Rescale them")
        rows = MemoryRows(features, group, description)
    if rows.values[0] <= _resolution(source if stored else C) * max(float(np.sum(rows.mean**2)), 1e-300):
        raise InvalidInputError("all rows of C are equal", remedy="Pass features that vary between samples")
    if rows.rank < min(_FEWEST_DIMENSIONS, len(rows.description.counts) - 1):
        raise InvalidInputError(
            f"the {d} features of C span too few dimensions", rows.rank, f"Pass at least {_FEWEST_DIMENSIONS}"
        )
    return rows, group


def _resolution(given: Any) -> float:
    """Variance below which rows are equal up to rounding, as a share of the squared mean."""
    dtype = np.dtype(getattr(given, "dtype", np.float64))
    return float((4 * np.finfo(dtype if dtype.kind == "f" else np.float64).eps) ** 2)
