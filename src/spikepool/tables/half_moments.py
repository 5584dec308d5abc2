"""Moments of two random halves of the rows, in one pass that may be split over many machines."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import BlockSource, block_rows, checked_block
from spikepool.data.map_merge import map_merge
from spikepool.kit.arrays import BoolArray
from spikepool.tables.gram import Moments


class RowCoins:
    """A fair coin for every row number: the same whatever chunk the row comes in.

    The coins are those that `rng` would throw row by row, and are taken from it, where it can skip ahead.
    """

    def __init__(self, rng: np.random.Generator, rows: int) -> None:
        generator = rng.bit_generator
        if isinstance(generator, np.random.PCG64):
            self._state = generator.state
            generator.advance(rows)
        else:
            self._state = np.random.PCG64(int(rng.integers(1 << 63))).state

    def __call__(self, start: int, count: int) -> BoolArray:
        """Coins of the rows from `start` on."""
        generator = np.random.PCG64()
        generator.state = self._state
        generator.advance(start)
        return np.asarray(np.random.Generator(generator).random(count) < 0.5)


class HalfMoments:
    """Moments of both halves; see :func:`spikepool.data.map_merge.map_merge`."""

    def __init__(self, d: int, name: str, coins: RowCoins | None) -> None:
        self._d, self._name, self._coins = d, name, coins
        self.halves = Moments.zero(d), Moments.zero(d)

    def add(self, start: int, rows: NDArray[Any]) -> None:
        """Add a chunk whose first row is number `start`."""
        step = block_rows(self._d)
        for first in range(0, len(rows), step):
            block = checked_block(rows[first : first + step], self._d, self._name, start + first)
            if self._coins is None:
                self.halves[0].add(block)
                continue
            coins = self._coins(start + first, len(block))
            self.halves[0].add(block[coins])
            self.halves[1].add(block[~coins])

    def merged(self, other: HalfMoments) -> HalfMoments:
        """Both sums together; neither is changed."""
        result = HalfMoments(self._d, self._name, self._coins)
        for mine, one, two in zip(result.halves, self.halves, other.halves, strict=True):
            mine.merge(one)
            mine.merge(two)
        return result


def half_moments(source: BlockSource, rng: np.random.Generator, *, split: bool = True) -> tuple[Moments, Moments]:
    """Moments of two random halves of the rows of `source`; of stored tables, wherever Dask runs.

    Without `split` the first has all the rows.
    """
    V, d = source.shape
    new = partial(HalfMoments, d, source.name, RowCoins(rng, V) if split else None)
    if source.adaptable and not source.portable:  # rows in memory: chunks of one block each
        step = block_rows(d)
        source = source.with_borders([*range(0, V, step), V])
    return map_merge(new, [source], label=f"moments of {source.name}", show=False).halves
