"""Rows that are equal, and rows that belong together for several reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import FloatArray, IntArray


def row_hashes(x: FloatArray) -> NDArray[np.uint64]:
    """64-bit hashes of rows (n, ...): equal for equal rows, and for others with probability 2^-64 a pair."""
    x = np.ascontiguousarray(x, dtype=np.float64).reshape(len(x), -1)
    bits = (x + 0.0).view(np.uint64)  # + 0.0 makes −0 and 0 the same
    multipliers = np.random.default_rng(0).integers(1, 1 << 63, size=(2, x.shape[1]), dtype=np.uint64) * 2 + 1
    # products wrap modulo 2^64; mixing high bits down first, since floats that are round numbers end in zeros
    mixed = (bits ^ (bits >> np.uint64(29))) * multipliers[0]
    mixed ^= mixed >> np.uint64(32)
    return np.asarray((mixed * multipliers[1]).sum(axis=1, dtype=np.uint64))


def numbered(labels: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Numbers 0, 1, ... of labels in the order in which they first appear, and how often each does."""
    _, first, inverse, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(len(first), dtype=np.intp)
    order = np.argsort(first)
    rank[order] = np.arange(len(first))
    return rank[inverse.ravel()], counts[order]


def tie(*labels: IntArray | None) -> IntArray:
    """Clusters of rows that share an entry of any of the labels, or are linked by such rows."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    given = [label for label in labels if label is not None]
    n = len(given[0])
    if len(given) == 1:
        return given[0]
    links, offset = [], n
    for label in given:
        links.append(offset + label)
        offset += int(label.max()) + 1
    rows = np.tile(np.arange(n), len(given))
    graph = coo_array((np.ones(len(rows)), (rows, np.concatenate(links))), shape=(offset, offset))
    return np.asarray(connected_components(graph, directed=False)[1][:n], dtype=np.intp)
