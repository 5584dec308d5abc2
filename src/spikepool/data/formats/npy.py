"""npy files, read by ranges of bytes here and in object storage. Pickled objects are never loaded."""

from __future__ import annotations

import io
import math
from typing import IO, Any

import numpy as np

from spikepool.data.blocks import ArrayBlocks, BlockSource, even_borders
from spikepool.data.formats import PICKLE_REMEDY, ROLES, Format, Request, TensorEntry, register
from spikepool.data.locations import Location
from spikepool.errors import TableFormatError, UnsafeFormatError

HEADER_LIMIT = 2**16
Header = tuple[tuple[int, ...], bool, "np.dtype[Any]", int]


class NpyBlocks(BlockSource):
    """A C-ordered npy file read by ranges of bytes, so that a copy of this object reads them anywhere."""

    def __init__(self, location: Location, header: Header) -> None:
        shape, _, dtype, self._offset = header
        self.location = location
        super().__init__(location.url, shape, dtype, even_borders(shape), portable=location.shared)

    @property
    def adaptable(self) -> bool:
        """Any range of rows is a range of bytes."""
        return True

    def _load(self, start: int, stop: int) -> Any:
        first, last = (self._offset + row * self.row_bytes for row in (start, stop))
        return np.frombuffer(self.location.read(first, last), dtype=self.dtype).reshape(-1, *self.shape[1:])


def read_header(stream: IO[bytes], name: str, size: int) -> Header:
    """(shape, Fortran order, dtype, offset of the data) after checking them against `size` bytes in all."""
    head = io.BytesIO(stream.read(HEADER_LIMIT))
    npy: Any = np.lib.format
    try:
        version = npy.read_magic(head)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran, dtype = read(head)
    except Exception as err:  # the header is literal text; numpy raises many kinds of error on a damaged one
        raise TableFormatError(f"{name}: the npy header is damaged: {err}", remedy="Save the file again") from err
    if dtype.hasobject:
        raise UnsafeFormatError("the array holds pickled objects, which run code when loaded", name, PICKLE_REMEDY)
    if dtype.kind not in "fiubUS":
        raise TableFormatError(f"{name} does not hold numbers", str(dtype), "Save it as float32")
    data = size - head.tell()
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != data:
        raise TableFormatError(
            f"{name}: shape {shape} of {dtype} does not match its {data} bytes of data",
            remedy="The file is cut short or damaged; save it again",
        )
    return shape, bool(fortran and len(shape) > 1), dtype, head.tell()


def require_rows(shape: tuple[int, ...], name: str) -> None:
    """Raise for an array that has no rows."""
    if not shape or 0 in shape:
        raise TableFormatError(f"{name} holds no rows", shape, "Save an array of rows")


def _header(location: Location) -> Header:
    return read_header(io.BytesIO(location.read(0, HEADER_LIMIT)), location.name, location.size())


def _open(location: Location, request: Request) -> BlockSource:
    if request.column is not None:
        raise TableFormatError("an npy file holds one array without a name", request.column, "Leave the name out")
    shape, fortran, dtype, offset = header = _header(location)
    require_rows(shape, location.name)
    if not fortran:
        return NpyBlocks(location, header)
    if location.local is None:
        raise TableFormatError(
            f"{location.url} is stored column by column and has no rows to read",
            remedy="Save it again with numpy.ascontiguousarray",
        )
    return ArrayBlocks(np.memmap(location.path, dtype, "r", offset, shape, order="F"), location.url)


def _tensors(location: Location) -> list[TensorEntry]:
    shape, _, dtype, _ = _header(location)
    return [TensorEntry(location.name, shape, str(dtype))]


register(Format("npy", (".npy",), ROLES, lambda probe: probe.head.startswith(b"\x93NUMPY"), _open, _tensors))
