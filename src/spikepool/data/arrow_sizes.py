"""How much memory a Parquet or Arrow file asks for, from its metadata alone.

Run-length and dictionary encodings put hundreds of millions of equal numbers into a few bytes, and a compressed buffer
says how long it becomes: both are read before any data are, so that a bomb costs nothing.
"""

from __future__ import annotations

import struct
from typing import Any

from spikepool.data.budget import refuse_bomb
from spikepool.errors import TableFormatError

# Arrow's flatbuffer schema: header types of a message, and bytes of the structs in a record batch.
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_BUFFER_BYTES = 16


def decoded_bytes(group: Any, columns: list[str]) -> tuple[int, int]:
    """Values of `columns` in a row group of Parquet, and their bytes once decoded."""
    chunks = [group.column(j) for j in range(group.num_columns)]
    wanted = set(columns)
    chosen = [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in wanted]
    sizes = {"FLOAT": 4, "INT32": 4, "BOOLEAN": 1}
    wide = sum(chunk.num_values * sizes.get(chunk.physical_type, 8) for chunk in chosen)
    return sum(chunk.num_values for chunk in chosen), max(wide, group.total_byte_size)


def check_parquet(metadata: Any, columns: list[str], name: str, size: int) -> int:
    """Raise unless the values of `columns`, once decoded, are in proportion to `size` bytes of file; their number."""
    counted = [decoded_bytes(metadata.row_group(i), columns) for i in range(metadata.num_row_groups)]
    refuse_bomb(sum(wide for _, wide in counted), size, name)
    return sum(values for values, _ in counted)


def check_arrow(pyarrow: Any, path: str, name: str, size: int) -> None:
    """Raise unless the buffers of a local Arrow file, once decompressed, are in proportion to its `size`."""
    total = 0
    with pyarrow.memory_map(path) as mapped:
        # after eight bytes of magic the file format is the stream format, up to the footer
        mapped.seek(8)
        for message in pyarrow.ipc.MessageReader.open_stream(mapped):
            if message.body is not None:
                total += _decompressed(message.metadata.to_pybytes(), message.body)
                refuse_bomb(total, size, name)


def _decompressed(metadata: bytes, body: Any) -> int:
    """Bytes of the buffers of one message: as they are, or as each announces in its first eight bytes."""
    try:
        root = _Flat(metadata, struct.unpack_from("<I", metadata, 0)[0])
        kind, batch = root.byte(1), root.table(2)
        if kind == _DICTIONARY_BATCH and batch is not None:
            batch = batch.table(1)
        if kind not in (_DICTIONARY_BATCH, _RECORD_BATCH) or batch is None or batch.table(3) is None:
            return int(body.size)
        total = 0
        start, count = batch.vector(2)
        for i in range(count):
            offset, length = struct.unpack_from("<qq", metadata, start + i * _BUFFER_BYTES)
            if not 0 <= offset <= offset + length <= body.size:
                raise TableFormatError("a buffer of the Arrow file lies outside of it", offset, "Download it again")
            if length >= 8:
                (announced,) = struct.unpack("<q", body.slice(offset, 8).to_pybytes())
                total += length if announced < 0 else announced  # −1: kept as it is
        return total
    except (struct.error, IndexError) as err:
        raise TableFormatError(f"the file is damaged: {err}", remedy="Download it again") from err


class _Flat:
    """A table of a flatbuffer: field i is found through the table's vtable, absent when its entry is zero."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._vtable = at - struct.unpack_from("<i", data, at)[0]
        if self._vtable < 0:
            raise IndexError("a table of the metadata begins before them")
        self._size = struct.unpack_from("<H", data, self._vtable)[0]

    def _field(self, i: int) -> int | None:
        entry = 4 + 2 * i
        if entry >= self._size:
            return None
        offset = struct.unpack_from("<H", self._data, self._vtable + entry)[0]
        return self._at + offset if offset else None

    def byte(self, i: int) -> int:
        at = self._field(i)
        return 0 if at is None else self._data[at]

    def _pointer(self, i: int) -> int | None:
        at = self._field(i)
        return None if at is None else at + int(struct.unpack_from("<I", self._data, at)[0])

    def table(self, i: int) -> _Flat | None:
        at = self._pointer(i)
        return None if at is None else _Flat(self._data, at)

    def vector(self, i: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are."""
        at = self._pointer(i)
        return (0, 0) if at is None else (at + 4, int(struct.unpack_from("<I", self._data, at)[0]))
