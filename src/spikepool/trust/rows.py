"""Rows that belong together: exact copies, found by a hash of their bytes, and the user's groups."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.data.labels import group_array
from spikepool.errors import InvalidInputError
from spikepool.kit.arrays import FloatArray, IntArray

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
    lag: float
    copies: IntArray
    counts: IntArray

    def scores(self, count: int) -> FloatArray: ...  # noqa: D102
    def neighbour_distances(self, units: IntArray, rng: np.random.Generator) -> FloatArray: ...  # noqa: D102
    def sample(self, units: IntArray, grouped: bool, rng: np.random.Generator) -> Sample: ...  # noqa: D102


def spanned(rows: Rows) -> Rows:
    """The same rows as ones of the dimensions that they span: repeated and constant columns add none."""
    found = copy.copy(rows)
    found.d, found.values, found.vectors = rows.rank, rows.values[: rows.rank], rows.vectors[: rows.rank]
    return found


def row_hashes(x: FloatArray) -> NDArray[np.uint64]:
    """64-bit hashes of rows: equal for equal rows, and for others with probability 2^-64 a pair."""
    bits = np.ascontiguousarray(x + 0.0).view(np.uint64)  # + 0.0 makes −0 and 0 the same
    multipliers = np.random.default_rng(0).integers(1, 1 << 63, size=(2, x.shape[1]), dtype=np.uint64) * 2 + 1
    # products wrap modulo 2^64; mixing high bits down first, since floats that are round numbers end in zeros
    mixed = (bits ^ (bits >> np.uint64(29))) * multipliers[0]
    mixed ^= mixed >> np.uint64(32)
    return np.asarray((mixed * multipliers[1]).sum(axis=1, dtype=np.uint64))


def equal_rows(hashes: NDArray[np.uint64]) -> tuple[IntArray, IntArray]:
    """Number of the distinct row that each row is, and the multiplicities of the distinct rows."""
    return _numbered(hashes)


def _numbered(labels: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Numbers 0, 1, ... of labels in the order in which they first appear, and how often each does."""
    _, first, inverse, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(len(first), dtype=np.intp)
    order = np.argsort(first)
    rank[order] = np.arange(len(first))
    return rank[inverse.ravel()], counts[order]


def group_numbers(groups: ArrayLike | Any, n: int) -> IntArray:
    """Groups as numbers 0, 1, ... of shape (n,); at least eight of them, so that they can be halved and resampled."""
    numbers, _ = _numbered(group_array(groups, n))
    if numbers.max() < 7:
        raise InvalidInputError(
            "groups must be at least 8", int(numbers.max()) + 1, "With fewer, nothing can be said about new groups"
        )
    return numbers
