"""Rows of an npy file: a memory map on this machine, ranges of bytes elsewhere. Pickled objects are never loaded."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from spikepool.data.blocks import BlockSource, even_borders
from spikepool.data.locations import Location, named_errors
from spikepool.errors import DataSourceError, UnsafeFormatError

MAGIC = b"\x93NUMPY"
_HEADER_LIMIT = 2**16


class NpyBlocks(BlockSource):
    """A C-ordered npy file read by ranges of bytes, so that a copy of this object reads them anywhere."""

    def __init__(self, location: Location) -> None:
        self.location = location
        with named_errors(location.url):
            head = io.BytesIO(location.fs.cat_file(location.path, start=0, end=_HEADER_LIMIT))
            size = int(location.fs.info(location.path)["size"])
        try:
            version = np.lib.format.read_magic(head)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = read(head)
        except Exception as err:  # the header is literal text; numpy raises many kinds of error on a damaged one
            raise DataSourceError(f"the npy header of {location.url} is damaged: {err}") from err
        if dtype.hasobject:
            raise UnsafeFormatError(
                "the array holds pickled objects, which run code when loaded", location.url, "Save it as numbers"
            )
        self._offset = head.tell()
        if not shape or math.prod(shape) * dtype.itemsize != size - self._offset:
            raise DataSourceError(
                f"{location.url}: shape {shape} of {dtype} does not match its {size - self._offset} bytes of data",
                remedy="The file is cut short or damaged; write it again",
            )
        if fortran and len(shape) > 1:
            raise DataSourceError(
                f"{location.url} is stored column by column and has no rows to read",
                remedy="Save it again with numpy.ascontiguousarray",
            )
        super().__init__(location.url, shape, dtype, even_borders(shape), portable=location.shared)

    @property
    def adaptable(self) -> bool:
        """Any range of rows is a range of bytes."""
        return True

    def _load(self, start: int, stop: int) -> Any:
        first, last = (self._offset + row * self.row_bytes for row in (start, stop))
        raw = self.location.fs.cat_file(self.location.path, start=first, end=last)
        return np.frombuffer(raw, dtype=self.dtype).reshape(-1, *self.shape[1:])
