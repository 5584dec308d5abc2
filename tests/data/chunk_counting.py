"""Rows whose chunks count how often they are loaded, as Dask and as Zarr arrays."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np


def counting_dask(array, rows, counter, *, split=None):
    """A Dask array of `array` with chunks of `rows` rows; loading one is counted under its first row.

    `split` cuts the second axis as well; the parts are counted apart.
    """
    import dask.array as da
    from dask import delayed

    def load(start, stop, left, right):
        counter[(start, left)] += 1
        return array[start:stop, left:right]

    width = array.shape[1]
    columns = [0, width] if split is None else [*range(0, width, split), width]
    starts = [*range(0, len(array), rows), len(array)]
    blocks = []
    for start, stop in pairwise(starts):
        line = []
        for left, right in pairwise(columns):
            shape = (stop - start, right - left, *array.shape[2:])
            part = delayed(load, pure=False)(start, stop, left, right)
            line.append(da.from_delayed(part, shape=shape, dtype=array.dtype))
        blocks.append(da.concatenate(line, axis=1))
    return da.concatenate(blocks)


def counting_zarr(array, rows, counter, monkeypatch):
    """A Zarr array of `array`; every chunk that is decoded from its store is counted under its key."""
    import zarr

    class Counting(zarr.storage.MemoryStore):
        async def get(self, key, prototype, byte_range=None):
            if "/c/" in f"/{key}":
                counter[key] += 1
            return await super().get(key, prototype, byte_range)

    stored = zarr.create_array(Counting(), shape=array.shape, chunks=(rows, *array.shape[1:]), dtype=array.dtype)
    stored[:] = array
    counter.clear()
    return stored


def once_each(counter, chunks):
    """Whether each of `chunks` chunks was loaded exactly once."""
    return isinstance(counter, Counter) and len(counter) == chunks and set(counter.values()) == {1}


def sequences(n=600, T=6, d=10, V=50, seed=0):
    """Ids (n, T), their table, dense tokens and a mask without empty rows; half of the positions share a sign."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(V, d))
    table[0::2, 0] += 2.0
    table[1::2, 0] -= 2.0
    signs = rng.integers(0, 2, size=(n, T))
    signs[:, : T // 2] = signs[:, :1]
    ids = 2 * rng.integers(0, V // 2, size=(n, T)) + signs
    mask = np.arange(T) < rng.integers(1, T + 1, size=(n, 1))
    return ids, table, table[ids], mask
