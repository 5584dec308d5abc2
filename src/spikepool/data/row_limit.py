"""A part of many rows, for work whose result does not need all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from spikepool.data.in_memory import as_array, padded
from spikepool.data.opening import is_stored, open_blocks
from spikepool.kit.arrays import IntArray

# Neighbouring rows that are kept together: whether rows come in an order shows in neighbours.
RUN = 20


def spread_rows(n: int, most: int, rng: np.random.Generator) -> IntArray | None:
    """At most `most` of n rows, ascending: runs of neighbours, one at random in each of equally long stretches.

    None if all rows are to be taken.
    """
    if n <= most:
        return None
    runs = max(1, most // RUN)
    edges = np.linspace(0, n, runs + 1).astype(np.intp)
    room = np.maximum(np.diff(edges) - RUN, 0)
    starts = edges[:-1] + (rng.random(runs) * (room + 1)).astype(np.intp)
    return np.unique((starts[:, None] + np.arange(RUN)).clip(max=n - 1))


def take_rows(data: Any, rows: IntArray | None, name: str) -> Any:
    """The given rows of an array or of anything stored, in memory; all of them if `rows` is None."""
    if data is None:
        return None
    if is_stored(data):
        source = open_blocks(data, name=name)
        return source.whole() if rows is None else source.take(rows)
    data = padded(data, name=name)[0] if isinstance(data, (list, tuple)) else data
    array = as_array(data, name)
    return array if rows is None else array[rows]
