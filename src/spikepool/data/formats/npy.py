"""npy files, read by ranges of bytes here and in object storage. Pickled objects are never loaded.

npz archives, decompressed as a stream, so that a zip bomb costs neither memory nor time.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import ArrayBlocks, BlockSource, SequentialBlocks, even_borders
from spikepool.data.formats import PICKLE_REMEDY, ROLES, Format, Probe, Request, TensorEntry, register
from spikepool.data.locations import Location, refuse_bomb, refuse_pieces, require_whole
from spikepool.data.names import choose_name, choose_tensor
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


# What zipfile and zlib raise on damaged archives; encrypted members are RuntimeErrors, odd methods NotImplemented.
DAMAGED = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, UnicodeDecodeError,
)  # fmt: skip
MOST_MEMBERS = 10_000


class NpzBlocks(SequentialBlocks):
    """Rows of a C-ordered array inside an archive, decompressed as they are asked for."""

    def __init__(self, location: Location, member: str, header: Header) -> None:
        shape, _, dtype, self._offset = header
        self.location, self._member = location, member
        super().__init__(member, shape, dtype, even_borders(shape), portable=location.shared)

    def passes(self) -> Callable[[int], NDArray[Any]]:
        """A new stream of the member."""
        stream = zipfile.ZipFile(self.location.open()).open(self._member + ".npy")  # noqa: SIM115
        stream.read(self._offset)

        def read(count: int) -> NDArray[Any]:
            data = stream.read(count * self.row_bytes)
            return np.frombuffer(data, dtype=self.dtype).reshape(-1, *self.shape[1:])

        return read


def _headers(location: Location) -> dict[str, Header]:
    """Checked header of every member of an archive."""
    try:
        with zipfile.ZipFile(location.open()) as archive:
            infos = archive.infolist()
            refuse_pieces(len(infos), location.name, "members", MOST_MEMBERS)
            names = [info.filename for info in infos]
            if any(name.lower().endswith((".pkl", ".pickle")) for name in names):
                raise UnsafeFormatError(
                    "the archive holds a pickle (a torch checkpoint), which runs code when loaded",
                    location.name,
                    PICKLE_REMEDY,
                )
            if len(set(names)) != len(names):
                raise TableFormatError("a name occurs twice in the archive", location.name, "Save it again")
            headers: dict[str, Header] = {}
            for info in infos:
                if not info.filename.endswith(".npy"):
                    raise TableFormatError("the archive is not an npz file", info.filename, "Use numpy.savez")
                refuse_bomb(info.file_size, info.compress_size, f"member {info.filename!r} of {location.name}")
                with archive.open(info) as stream:
                    headers[info.filename[:-4]] = read_header(stream, info.filename, info.file_size)
    except DAMAGED as err:
        raise TableFormatError(f"the archive is damaged: {err}", location.name, "Save it again") from err
    if not headers:
        raise TableFormatError("the archive holds no arrays", location.name, "Use numpy.savez")
    return headers


def _open_archive(location: Location, request: Request) -> BlockSource:
    headers = _headers(location)
    if request.role == "table":
        real = {key: header[0] for key, header in headers.items() if header[2].kind == "f"}
        listed = real or {key: header[0] for key, header in headers.items()}
        name = request.column if request.column in headers else choose_tensor(listed, request.column, location.name)
    else:
        name = choose_name(list(headers), request.column, request.role, location.name, "array of the archive")
    shape, fortran, dtype, offset = headers[name]
    require_rows(shape, name)
    if not fortran:
        return NpzBlocks(location, name, headers[name])
    require_whole(2 * math.prod(shape) * dtype.itemsize, name)
    try:
        with zipfile.ZipFile(location.open()) as archive, archive.open(name + ".npy") as stream:
            stream.read(offset)
            values = np.frombuffer(stream.read(math.prod(shape) * dtype.itemsize), dtype=dtype)
            return ArrayBlocks(values.reshape(shape[::-1]).T, name)
    except (*DAMAGED, ValueError) as err:
        raise TableFormatError(f"the archive is damaged: {err}", location.name, "Save it again") from err


def _archive_tensors(location: Location) -> list[TensorEntry]:
    return [TensorEntry(name, header[0], str(header[2])) for name, header in _headers(location).items()]


def _recognise(probe: Probe) -> bool:
    return probe.head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


register(Format("npz", (".npz",), ROLES, _recognise, _open_archive, _archive_tensors))
