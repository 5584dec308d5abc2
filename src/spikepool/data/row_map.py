"""A function of blocks of sequences applied to all rows: at once, or lazily to Dask arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import DaskBlocks, check_aligned
from spikepool.data.map_merge import chunk_argument, load_chunk, map_chunks, shared_value
from spikepool.data.tokens import Block, TokenForm, TokenInput
from spikepool.errors import require
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory

# ((x, observed), number of the first row) -> (rows, width). A function with a true attribute ``trims`` does not need
# the positions that no row of a piece has observed.
RowFunction = Callable[[Block, int], FloatArray]


@dataclass(frozen=True, eq=False)
class ChunkFunction:
    """A function of blocks as one of stored chunks; travels to workers."""

    form: TokenForm
    function: RowFunction

    def __call__(self, start: int, rows: NDArray[Any], mask: NDArray[Any] | None = None) -> FloatArray:
        """The function on every piece of a chunk, one below the other."""
        trimmed = bool(getattr(self.function, "trims", False))
        parts = [
            self.function(piece, first + within)
            for first, block in self.form.split(start, rows, mask)
            for within, _, piece in block.pieces(trimmed=trimmed)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def map_rows(source: TokenInput, function: RowFunction, width: int, label: str, show: bool | None) -> FloatArray:
    """``function((x, observed), first_row)`` for all blocks of rows, one below the other: (n, width) in memory."""
    require_memory(
        8 * source.n * width, f"{label} of {source.n} rows as one array", "Write it to a store, or use fewer rows"
    )
    out = np.empty((source.n, width))
    for start, rows in map_chunks(ChunkFunction(source.form, function), source.sources, label=label, show=show):
        out[start : start + len(rows)] = rows
    return out


def map_rows_lazily(source: TokenInput, function: RowFunction, width: int) -> Any:
    """The same as a Dask array with the chunks of rows of the input; each is read when its rows are computed."""
    da = require("dask.array", "sweeps")
    delayed = require("dask", "sweeps").delayed
    check_aligned(source.sources)
    run = shared_value(ChunkFunction(source.form, function), "pool")
    borders = source.source.borders
    parts = [
        da.from_delayed(
            delayed(_apply, pure=False)(run, start, [chunk_argument(part, k) for part in source.sources]),
            shape=(borders[k + 1] - start, width),
            dtype=np.float64,
        )
        for k, start in enumerate(borders[:-1])
    ]
    return da.concatenate(parts)


def map_any(source: TokenInput, function: RowFunction, width: int, label: str, show: bool | None) -> Any:
    """A lazy Dask array for Dask arrays, else an array."""
    if isinstance(source.source, DaskBlocks):
        return map_rows_lazily(source, function, width)
    return map_rows(source, function, width, label, show)


def _apply(run: ChunkFunction, start: int, parts: list[Any]) -> FloatArray:
    return run(start, *map(load_chunk, parts))
