"""GGUF, read from its specification; the `gguf` package is asked only to dequantise.

The package's reader makes several objects for every element of the header, so that a file of a hundred megabytes can
ask for tens of gigabytes. Here the metadata are skipped without being stored, and each length is checked first.
"""

from __future__ import annotations

import math
import mmap
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import ArrayBlocks, BlockSource, even_borders
from spikepool.data.formats import Format, Request, TensorEntry, register
from spikepool.data.formats.safetensors import bfloat16_to_float32
from spikepool.data.locations import Location
from spikepool.data.names import choose_tensor
from spikepool.errors import ShapeError, TableFormatError, require

# GGUF metadata types: fixed sizes in bytes; 8 is a string, 9 an array.
FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, UINT32 = 8, 9, 4
# ggml tensor types kept as plain numbers; the others are quantised.
PLAIN = {0: "<f4", 1: "<f2", 28: "<f8", 30: "<u2", 24: "<i1", 25: "<i2", 26: "<i4", 27: "<i8"}
BFLOAT16 = 30
TYPE_NAMES = {0: "F32", 1: "F16", 28: "F64", 30: "BF16", 24: "I8", 25: "I16", 26: "I32", 27: "I64"}
TYPE_NAMES |= {2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K"}
TYPE_NAMES |= {14: "Q6_K", 15: "Q8_K"}
INTEGERS = (24, 25, 26, 27)
MOST_ENTRIES = 10**6
# Strings are passed over one by one, at about a million a second; the largest vocabularies have a quarter of a million.
MOST_STRINGS = 2**21


def _open(location: Location, request: Request) -> BlockSource:
    """The table in a GGUF file, memory-mapped; quantised tensors are dequantised block by block."""
    file = _file(location)
    tensors, data_start, size = _header(file)
    real = {name: info[0] for name, info in tensors.items() if info[1] not in INTEGERS}
    name = request.column if request.column in tensors else choose_tensor(real, request.column, file.name)
    shape, kind, offset = tensors[name]
    if not shape or 0 in shape:
        raise TableFormatError(f"tensor {name!r} holds no numbers", shape, "Choose another tensor")
    begin = data_start + offset
    if kind in PLAIN:
        dtype = np.dtype(PLAIN[kind])
        _check_range(name, begin, math.prod(shape) * dtype.itemsize, size)
        array = np.memmap(file, dtype=dtype, mode="r", offset=begin, shape=shape)
        return ArrayBlocks(array, name, decode=bfloat16_to_float32 if kind == BFLOAT16 else None)
    if len(shape) != 2:
        raise ShapeError(f"the quantised tensor {name!r} must have 2 dimensions", shape, "Choose another tensor")
    return _quantised(file, name, (shape[0], shape[1]), kind, begin, size)


def _tensors(location: Location) -> list[TensorEntry]:
    return [
        TensorEntry(name, info[0], TYPE_NAMES.get(info[1], f"quantised ({info[1]})"))
        for name, info in _header(_file(location))[0].items()
    ]


def _file(location: Location) -> Path:
    if location.local is None:
        raise TableFormatError("GGUF files are read from this machine", location.url, "Download the file first")
    return location.local


def _quantised(file: Path, name: str, shape: tuple[int, int], kind: int, begin: int, size: int) -> BlockSource:
    gguf = require("gguf", "gguf")
    try:
        quantisation = gguf.GGMLQuantizationType(kind)
        per_block, block_bytes = gguf.GGML_QUANT_SIZES[quantisation]
    except (ValueError, KeyError) as err:
        raise TableFormatError(f"tensor {name!r} has an unknown type", kind, "Convert it to F16") from err
    if shape[1] % per_block:
        raise TableFormatError(
            f"tensor {name!r}: rows of {shape[1]} are not whole blocks of {per_block}", remedy="Download it again"
        )
    row_bytes = shape[1] // per_block * block_bytes
    _check_range(name, begin, shape[0] * row_bytes, size)
    packed = np.memmap(file, dtype=np.uint8, mode="r", offset=begin, shape=(shape[0], row_bytes))
    return _Quantised(packed, shape, name, quantisation)


class _Quantised(BlockSource):
    """Rows of a quantised tensor."""

    def __init__(self, packed: NDArray[np.uint8], shape: tuple[int, int], name: str, kind: Any) -> None:
        super().__init__(name, shape, np.float32, even_borders(shape))
        self._packed, self._kind = packed, kind

    @property
    def adaptable(self) -> bool:
        """Every row is packed by itself."""
        return True

    def _load(self, start: int, stop: int) -> Any:
        gguf = require("gguf", "gguf")
        try:
            return gguf.dequantize(np.asarray(self._packed[start:stop]), self._kind)
        except NotImplementedError as err:
            raise TableFormatError(
                f"the gguf package cannot dequantise tensor {self.name!r}", self._kind.name, "Convert it to F16"
            ) from err


def _check_range(name: str, begin: int, length: int, size: int) -> None:
    if begin + length > size:
        raise TableFormatError(
            f"tensor {name!r} ends outside the file of {size} bytes", begin + length, "Download the file again"
        )


class _Cursor:
    """Position in the header; every read is checked against the end of the file."""

    def __init__(self, data: mmap.mmap, size: int) -> None:
        self.data, self.size, self.at = data, size, 0

    def skip(self, count: int) -> int:
        """Move on by `count` bytes and return where they began."""
        begin = self.at
        if count > self.size - begin:
            raise TableFormatError("the GGUF header ends outside the file", self.size, "Download the file again")
        self.at = begin + count
        return begin

    def number(self, code: str) -> int:
        """A little-endian integer of struct code `code`."""
        (value,) = struct.unpack_from("<" + code, self.data, self.skip(struct.calcsize("<" + code)))
        return int(value)

    def text(self) -> str:
        """A short string: a key or a tensor name."""
        length = self.number("Q")
        if length > 2**16:
            raise TableFormatError("a name in the GGUF header is too long", length, "Download the file again")
        begin = self.skip(length)
        return self.data[begin : begin + length].decode("utf-8", errors="replace")

    def skip_value(self, kind: int) -> None:
        """Pass over a metadata value without keeping it."""
        if kind in FIXED:
            self.skip(FIXED[kind])
        elif kind == STRING:
            self.skip(self.number("Q"))
        elif kind == ARRAY:
            self._skip_array()
        else:
            raise TableFormatError("unknown metadata type in the GGUF header", kind, "Download the file again")

    def _skip_array(self) -> None:
        element, length = self.number("I"), self.number("Q")
        if element in FIXED:
            self.skip(FIXED[element] * length)
        elif element == STRING:
            if length > MOST_STRINGS:
                raise TableFormatError("an array of the GGUF header is too long", length, "Download the file again")
            for _ in range(length):
                self.skip(self.number("Q"))
        else:
            raise TableFormatError("unknown array type in the GGUF header", element, "Download the file again")


def gguf_tokens(file: Path) -> list[str] | None:
    """Names of the tokens that the file carries (``tokenizer.ggml.tokens``), or None."""
    size = file.stat().st_size
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        cursor = _Cursor(data, size)
        cursor.skip(8)
        cursor.number("Q")
        for _ in range(min(cursor.number("Q"), MOST_ENTRIES)):
            key, kind = cursor.text(), cursor.number("I")
            if key != "tokenizer.ggml.tokens" or kind != ARRAY:
                cursor.skip_value(kind)
                continue
            element, length = cursor.number("I"), cursor.number("Q")
            if element != STRING or length > MOST_STRINGS:
                return None
            return [cursor.text() for _ in range(length)]
    return None


def _header(file: Path) -> tuple[dict[str, tuple[tuple[int, ...], int, int]], int, int]:
    """Tensors as name -> (shape, type, offset), offset of the data, size of the file."""
    state = file.stat()
    return _read_header(file, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=4)  # passing over the names of a vocabulary takes longer than most tensors
def _read_header(file: Path, size: int, _changed: int) -> tuple[dict[str, tuple[tuple[int, ...], int, int]], int, int]:
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        cursor = _Cursor(data, size)
        cursor.skip(4)
        version = cursor.number("I")
        if version not in (2, 3):
            raise TableFormatError("unsupported version of GGUF", version, "Convert it with a current llama.cpp")
        n_tensors, n_values = cursor.number("Q"), cursor.number("Q")
        if max(n_tensors, n_values) > MOST_ENTRIES:
            raise TableFormatError("the GGUF header announces too many entries", (n_tensors, n_values), "Do not use it")
        alignment = 32
        for _ in range(n_values):
            key, kind = cursor.text(), cursor.number("I")
            if key == "general.alignment" and kind == UINT32:
                alignment = cursor.number("I")
            else:
                cursor.skip_value(kind)
        tensors: dict[str, tuple[tuple[int, ...], int, int]] = {}
        for _ in range(n_tensors):
            name, n_dims = cursor.text(), cursor.number("I")
            if n_dims > 4 or name in tensors:
                raise TableFormatError("a tensor of the GGUF header is malformed", name, "Download the file again")
            # The fastest-varying dimension comes first in GGUF.
            shape = tuple(cursor.number("Q") for _ in range(n_dims))[::-1]
            tensors[name] = (shape, cursor.number("I"), cursor.number("Q"))
        if alignment == 0 or alignment & (alignment - 1):
            raise TableFormatError("the alignment of a GGUF file is a power of two", alignment, "Download it again")
        return tensors, -(-cursor.at // alignment) * alignment, size


register(Format("GGUF", (".gguf",), ("table",), lambda probe: probe.head.startswith(b"GGUF"), _open, _tensors))
