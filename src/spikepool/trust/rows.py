"""Rows with their spectrum, and the user's groups."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from spikepool.data.description import Description
from spikepool.data.labels import group_array
from spikepool.errors import InvalidInputError
from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.equal_rows import numbered

if TYPE_CHECKING:
    from spikepool.trust.sample import Sample


# Squares of squares of larger features, and of the inverse of smaller ones, overflow.
LARGEST_FEATURE = 1e70


class Rows(Protocol):
    """Rows with their spectrum, in memory or streamed; see :class:`spikepool.trust.memory_rows.MemoryRows`."""

    n: int
    d: int
    rank: int
    mean: FloatArray
    values: FloatArray
    vectors: FloatArray
    norms: FloatArray
    description: Description

    def scores(self, count: int) -> FloatArray: ...  # noqa: D102
    def sample(self, units: IntArray, grouped: bool, rng: np.random.Generator) -> Sample: ...  # noqa: D102


def spanned(rows: Rows) -> Rows:
    """The same rows as ones of the dimensions that they span: repeated and constant columns add none."""
    found = copy.copy(rows)
    found.d, found.values, found.vectors = rows.rank, rows.values[: rows.rank], rows.vectors[: rows.rank]
    return found


def group_numbers(groups: ArrayLike | Any, n: int) -> IntArray:
    """Groups as numbers 0, 1, ... of shape (n,); at least eight of them, so that they can be halved and resampled."""
    numbers, _ = numbered(group_array(groups, n))
    if numbers.max() < 7:
        raise InvalidInputError(
            "groups must be at least 8", int(numbers.max()) + 1, "With fewer, nothing can be said about new groups"
        )
    return numbers
