"""A part of many rows that keeps neighbours together, so that an order of the rows still shows."""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import IntArray


def spread_rows(n: int, most: int, rng: np.random.Generator, run: int = 20) -> IntArray | None:
    """At most `most` of n rows, ascending: runs of neighbours, one at random in each of equally long stretches.

    None if all rows are to be taken.

    Parameters
    ----------
    n, most : int
    rng : numpy.random.Generator
    run : int
        Neighbouring rows that are kept together.
    """
    if n <= most:
        return None
    runs = max(1, most // run)
    edges = np.linspace(0, n, runs + 1).astype(np.intp)
    room = np.maximum(np.diff(edges) - run, 0)
    starts = edges[:-1] + (rng.random(runs) * (room + 1)).astype(np.intp)
    return np.unique((starts[:, None] + np.arange(run)).clip(max=n - 1))
