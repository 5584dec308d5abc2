"""npy and npz, without pickles: arrays of objects are refused before anything is read.

An npy file is memory-mapped. A member of an npz archive is decompressed as a stream, block by block, so that a
zip bomb costs neither memory nor, thanks to the limit on its ratio, time.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.sources import ArraySource, TableSource, checked_shape
from spikepool.data.tensor_names import PICKLE_REMEDY, choose_tensor
from spikepool.errors import TableFormatError, UnsafeFormatError

# Deflate reaches 1000:1 on zeros; numbers that carry information never come near this.
RATIO_LIMIT = 100
HEADER_LIMIT = 2**16
Header = tuple[tuple[int, ...], bool, "np.dtype[Any]", int]


def open_npy(file: Path, tensor: str | None) -> TableSource:
    """The array in an npy file, memory-mapped."""
    if tensor is not None:
        raise TableFormatError("an npy file holds one array without a name", tensor, "Leave tensor out")
    with file.open("rb") as stream:
        shape, fortran, dtype, offset = _npy_header(stream, file.name, file.stat().st_size)
    checked_shape(shape, file.name)
    array = np.memmap(file, dtype=dtype, mode="r", offset=offset, shape=shape, order="F" if fortran else "C")
    return ArraySource(array, file.name)


def list_npy(file: Path) -> list[tuple[str, tuple[int, ...], str]]:
    """(name, shape, dtype) of the array in an npy file."""
    with file.open("rb") as stream:
        shape, _, dtype, _ = _npy_header(stream, file.name, file.stat().st_size)
    return [(file.name, shape, str(dtype))]


def list_npz(file: Path) -> list[tuple[str, tuple[int, ...], str]]:
    """(name, shape, dtype) of every array in an npz archive."""
    return [(name, header[0], str(header[2])) for name, header in _npz_headers(file).items()]


def _npz_headers(file: Path) -> dict[str, Header]:
    """Checked header of every member of an archive."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = {info.filename: info for info in archive.infolist()}
            if len(members) != len(archive.infolist()):
                raise TableFormatError("a name occurs twice in the archive", file.name, "Save it again")
            headers: dict[str, Header] = {}
            for filename, info in members.items():
                if not filename.endswith(".npy"):
                    raise TableFormatError("the archive is not an npz file", filename, "Use numpy.savez")
                _check_ratio(info)
                with archive.open(info) as stream:
                    headers[filename[:-4]] = _npy_header(stream, filename, info.file_size)
    except _DAMAGED as err:
        raise TableFormatError(f"the archive is damaged: {err}", file.name, "Download it again") from err
    return headers


def open_npz(file: Path, tensor: str | None) -> TableSource:
    """One member of an npz archive, read as a stream."""
    headers = _npz_headers(file)
    name = choose_tensor({key: header[0] for key, header in headers.items()}, tensor, file.name)
    shape, fortran, dtype, offset = headers[name]
    checked_shape(shape, name)
    if fortran:
        raise TableFormatError(
            f"member {name!r} is stored column by column and cannot be streamed by rows",
            remedy="Save it again with numpy.ascontiguousarray",
        )
    return _NpzMember(file, name, shape, dtype, offset)


class _NpzMember(TableSource):
    """Rows of a C-ordered array inside a zip archive, decompressed as they are asked for."""

    def __init__(self, file: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> None:
        super().__init__((shape[0], shape[1]), name)
        self._file, self._dtype, self._offset = file, dtype, offset

    def _blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        V, d = self.shape
        try:
            with zipfile.ZipFile(self._file) as archive, archive.open(self.name + ".npy") as stream:
                stream.read(self._offset)
                for start in range(0, V, rows):
                    count = min(rows, V - start)
                    data = stream.read(count * d * self._dtype.itemsize)
                    if len(data) != count * d * self._dtype.itemsize:
                        raise TableFormatError("the archive ends early", self.name, "Download it again")
                    yield np.frombuffer(data, dtype=self._dtype).reshape(count, d)
        except _DAMAGED as err:
            raise TableFormatError(f"the archive is damaged: {err}", self.name, "Download it again") from err


# What zipfile and zlib raise on damaged archives; encrypted members are RuntimeErrors, odd methods NotImplemented.
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, UnicodeDecodeError)


def _check_ratio(info: zipfile.ZipInfo) -> None:
    if info.file_size > RATIO_LIMIT * max(info.compress_size, 1) and info.file_size > 2**20:
        raise TableFormatError(
            f"member {info.filename!r} expands {info.file_size // max(info.compress_size, 1)} times: a zip bomb",
            info.file_size,
            "Do not use this file",
        )


def _npy_header(stream: IO[bytes], name: str, size: int) -> Header:
    """(shape, Fortran order, dtype, offset of the data) after checking them against `size` bytes in all."""
    head = io.BytesIO(stream.read(HEADER_LIMIT))
    try:
        version = np.lib.format.read_magic(head)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, dtype = read(head)
    except Exception as err:  # the header is literal text; numpy raises many kinds of error on a damaged one
        raise TableFormatError(f"the npy header is damaged: {err}", name, "Download the file again") from err
    if dtype.hasobject:
        raise UnsafeFormatError("the array holds pickled objects, which run code when loaded", name, PICKLE_REMEDY)
    if dtype.kind != "f" or dtype.itemsize not in (2, 4, 8):
        raise TableFormatError(
            f"{name} does not hold floating-point numbers", str(dtype), "Save it as float16, float32 or float64"
        )
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != size - head.tell():
        raise TableFormatError(
            f"{name}: shape {shape} of {dtype} does not match the {size - head.tell()} bytes of data",
            remedy="The file is truncated or damaged; download it again",
        )
    return shape, fortran, dtype, head.tell()
