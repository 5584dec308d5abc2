"""A table in chunks: Dask and Zarr arrays, and files behind a URL, read along their own borders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import BlockSource
from spikepool.data.opening import open_blocks
from spikepool.data.sources import TableSource, checked_shape, checked_width
from spikepool.errors import InvalidInputError


class ChunkedTable(TableSource):
    """A (V, d) table whose rows come from a :class:`BlockSource`; a pass reads each chunk once."""

    def __init__(self, source: BlockSource) -> None:
        if source.dtype.kind not in "fiu":
            raise InvalidInputError(f"{source.name} must hold real numbers", str(source.dtype), "Convert it to float32")
        super().__init__(checked_shape(source.shape, source.name), source.name)
        self.source = source

    def _blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        for _, chunk in self.source.chunks():
            for start in range(0, len(chunk), rows):
                yield np.asarray(chunk[start : start + rows])


def open_chunked_table(table: Any, column: str | None = None) -> TableSource:
    """A stored table (Dask or Zarr array, URL) as a source."""
    return checked_width(ChunkedTable(open_blocks(table, name="E", column=column)))
