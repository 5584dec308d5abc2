"""Parquet and Arrow files: a column of equally long (nested) lists, many columns of numbers, or a column of values.

The chunks are the row groups of Parquet (of one file, or of all the files of a folder in order of name) and the
record batches of an Arrow file.

How much memory a Parquet or Arrow file asks for, from its metadata alone.

Run-length and dictionary encodings put hundreds of millions of equal numbers into a few bytes, and a compressed buffer
says how long it becomes: both are read before any data are, so that a bomb costs nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import LEARNED_POOLING, BlockSource
from spikepool.data.formats import ROLES, Format, Probe, Request, register
from spikepool.data.in_memory import as_values
from spikepool.data.locations import MOST_COLUMNS, Location, named_errors, refuse_bomb, refuse_pieces
from spikepool.data.names import USUAL_NAMES, choose_name, hidden_columns, refuse_doubled
from spikepool.errors import RaggedError, TableFormatError, require
from spikepool.kit.memory import require_memory

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


PARQUET_SUFFIXES = (".parquet", ".pq")


class _ColumnBlocks(BlockSource):
    """What Parquet and Arrow share: chunks that arrive as Arrow tables of the chosen columns."""

    location: Location
    columns: list[str]
    values: bool  # one value per row, numbers or text, instead of numbers alone

    def _table(self, k: int) -> Any:
        raise NotImplementedError

    def _load(self, start: int, stop: int) -> Any:
        return self._rows(self._table(self.borders.index(start)), start)

    def _rows(self, table: Any, start: int) -> NDArray[Any]:
        where = f"{self.location.url} from row {start} on"
        return column_values(table, where) if self.values else table_to_rows(table, where, start)

    def _start(self, first: Any, borders: list[int]) -> None:
        """Shape and type from the first row."""
        rows = self._rows(first, 0)
        shape, url = (borders[-1], *rows.shape[1:]), self.location.url
        dtype = np.dtype(object) if self.values else rows.dtype
        super().__init__(url, shape, dtype, borders, portable=self.location.shared)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_open"}  # open files do not travel


class ParquetBlocks(_ColumnBlocks):
    """Row groups of one Parquet file or of a folder of them."""

    def __init__(self, location: Location, request: Request) -> None:
        self.location = location
        self._files = _files(location)
        self._paths = list(self._files)
        self._groups: list[tuple[int, int, int]] = []  # file, row group, bytes once unpacked
        borders = [0]
        for number, (path, size) in enumerate(self._files.items()):
            file = self._file(number)
            schema = file.schema_arrow
            if number == 0:
                self.columns, self.values = choose_columns(schema, request, location.url)
                learned = (schema.metadata or {}).get(LEARNED_POOLING.encode())
                self.learned_pooling = None if learned is None else learned.decode("utf-8", "replace")[:40]
            if not set(self.columns) <= set(schema.names):
                raise TableFormatError(f"{path} lacks columns that {self._paths[0]} has", self.columns[:5])
            check_parquet(file.metadata, self.columns, path, size)
            for group in range(file.metadata.num_row_groups):
                info = file.metadata.row_group(group)
                if info.num_rows:
                    self._groups.append((number, group, decoded_bytes(info, self.columns)[1]))
                    borders.append(borders[-1] + int(info.num_rows))
        if len(borders) == 1:
            raise TableFormatError(f"{location.url} has no rows", remedy="Check the file")
        with named_errors(location.url):
            first = next(self._file(self._groups[0][0]).iter_batches(batch_size=1, columns=self.columns))
        self._start(first, borders)

    def _file(self, number: int) -> Any:
        pq = require("pyarrow.parquet", "parquet")
        kept = self.__dict__.setdefault("_open", {})
        if number not in kept:
            kept.clear()  # one open file at a time
            path = self._paths[number]
            try:
                kept[number] = pq.ParquetFile(self.location.at(path).open())
            except (require("pyarrow", "parquet").ArrowException, ValueError, EOFError) as err:
                raise TableFormatError(f"{path} is damaged: {err}", remedy="Write it again") from err
        return kept[number]

    def _table(self, k: int) -> Any:
        number, group, size = self._groups[k]
        # the group arrives packed and unpacked, and leaves as an array
        require_memory(2 * size, f"row group {group} of {self._paths[number]}", "Write it with smaller row groups")
        return self._file(number).read_row_group(group, columns=self.columns)


class ArrowBlocks(_ColumnBlocks):
    """Record batches of an Arrow IPC (Feather) file."""

    def __init__(self, location: Location, request: Request) -> None:
        self.location = location
        reader = self._reader()
        self.columns, self.values = choose_columns(reader.schema, request, location.url)
        with named_errors(location.url):
            counts = [reader.get_batch(k).num_rows for k in range(reader.num_record_batches)]
        self._batches = [k for k, rows in enumerate(counts) if rows]
        if not self._batches:
            raise TableFormatError(f"{location.url} has no rows", remedy="Check the file")
        first = reader.get_batch(self._batches[0]).select(self.columns).slice(0, 1)
        self._start(first, np.cumsum([0, *(counts[k] for k in self._batches)]).tolist())

    def _reader(self) -> Any:
        pyarrow = require("pyarrow", "parquet")
        kept = self.__dict__.setdefault("_open", {})
        if not kept:
            path = self.location.path
            try:
                if self.location.local is not None:
                    check_arrow(pyarrow, path, self.location.url, self.location.size())
                    kept[0] = pyarrow.ipc.open_file(pyarrow.memory_map(path))
                else:
                    kept[0] = pyarrow.ipc.open_file(self.location.open())
            except (pyarrow.ArrowException, OSError, EOFError) as err:
                raise TableFormatError(f"{self.location.url} is damaged: {err}", remedy="Write it again") from err
        return kept[0]

    def _table(self, k: int) -> Any:
        return self._reader().get_batch(self._batches[k]).select(self.columns)


def _files(location: Location) -> dict[str, int]:
    """The file itself, or the files of a folder in order of name; with their sizes."""
    if not location.is_folder():
        return {location.path: location.size()}
    return {path: size for path, size in location.files().items() if path.lower().endswith(PARQUET_SUFFIXES)}


def choose_columns(schema: Any, request: Request, where: str) -> tuple[list[str], bool]:
    """Columns to read, and whether they are values of any kind: lists, numbers side by side, or labels."""
    types = require("pyarrow", "parquet").types
    names = schema.names
    if request.role in ("labels", "groups", "texts"):
        plain = [field.name for field in schema if not types.is_nested(field.type)]
        if request.column is not None or any(name in plain for name in USUAL_NAMES[request.role]):
            plain = names
        return [choose_name(plain, request.column, request.role, where, "column")], True
    if request.column is not None:
        if request.column not in names:
            raise TableFormatError(f"{where} has no column named so", request.column, f"It has {names[:12]}")
        return [request.column], False
    lists = [field.name for field in schema if hasattr(field.type, "value_type") and types.is_nested(field.type)]
    if len(lists) == 1:
        return lists, False
    if lists:
        raise TableFormatError(f"{where} has several columns of lists", lists[:12], "Name one with column=")
    hidden = hidden_columns(request.role, request.exclude)
    numbers = [
        field.name
        for field in schema
        if field.name not in hidden and (types.is_integer(field.type) or types.is_floating(field.type))
    ]
    refuse_pieces(len(numbers), where, "columns", MOST_COLUMNS)
    if not numbers:
        raise TableFormatError(f"{where} has no column of numbers", names[:12], "Name one with column=")
    return numbers, False


def column_values(table: Any, where: str) -> NDArray[Any]:
    """One column of values, numbers or text."""
    column = table.column(0)
    if column.null_count:
        raise TableFormatError(f"a column of {where} has missing values", column.null_count, "Drop these rows")
    return as_values(column.to_pylist(), where).astype(object)


def table_to_rows(table: Any, where: str, start: int = 0) -> NDArray[Any]:
    """A table or batch of Arrow as an array: (rows, columns) of numbers, or (rows, *lengths) of one column of lists."""
    pyarrow = require("pyarrow", "parquet")
    columns = [_one_array(table.column(i)) for i in range(table.num_columns)]
    named = zip(columns, table.schema.names, strict=True)
    arrays = [_column_to_rows(pyarrow, values, name, where, start) for values, name in named]
    if len(arrays) == 1 and pyarrow.types.is_nested(columns[0].type):
        return arrays[0]
    return np.stack(arrays, axis=1)


def _one_array(column: Any) -> Any:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _column_to_rows(pyarrow: Any, values: Any, name: str, where: str, start: int) -> NDArray[Any]:
    """One column, lists unpacked level by level; all the lists of a level must be equally long."""
    shape = [len(values)]
    while True:
        if values.null_count:
            raise TableFormatError(
                f"column {name!r} of {where} has missing values", values.null_count, "Drop these rows"
            )
        if not pyarrow.types.is_nested(values.type):
            break
        if not hasattr(values, "value_lengths"):
            raise TableFormatError(f"column {name!r} of {where} holds records", str(values.type), "Name another column")
        lengths = np.asarray(values.value_lengths().to_numpy(zero_copy_only=False))
        different = np.flatnonzero(lengths != lengths[0])
        if different.size:
            row = start + int(different[0]) // int(np.prod(shape[1:], dtype=np.int64))
            raise RaggedError(
                f"column {name!r} of {where} has lists of different lengths: {int(lengths[0])} at first and "
                f"{int(lengths[different[0]])} in row {row}",
                remedy="Pad the lists to one length and pass a mask",
            )
        shape.append(int(lengths[0]))
        values = values.flatten()
    flat = np.asarray(values.to_numpy(zero_copy_only=False))
    if flat.dtype.kind not in "fiub":
        raise TableFormatError(f"column {name!r} of {where} does not hold numbers", str(flat.dtype), "Convert it")
    return flat.reshape(shape)


def _parquet_records(location: Location) -> Iterator[dict[str, Any]]:
    pq = require("pyarrow.parquet", "parquet")
    for path in _files(location):
        file = pq.ParquetFile(location.at(path).open())
        refuse_doubled(file.schema_arrow.names, location.name)
        for batch in file.iter_batches(batch_size=512):
            yield from batch.to_pylist()


def _recognise_parquet(probe: Probe) -> bool:
    if not probe.folder:
        return probe.head.startswith(b"PAR1")
    return bool(_files(probe.location))


def _parquet_columns(location: Location) -> list[str]:
    pq = require("pyarrow.parquet", "parquet")
    path = next(iter(_files(location)))
    try:
        return list(pq.read_schema(location.at(path).open()).names)
    except (require("pyarrow", "parquet").ArrowException, ValueError, EOFError) as err:
        raise TableFormatError(f"{path} is damaged: {err}", remedy="Write it again") from err


register(
    Format(
        "Parquet",
        PARQUET_SUFFIXES,
        ROLES,
        _recognise_parquet,
        ParquetBlocks,
        columns=_parquet_columns,
        records=_parquet_records,
        rank=2,
    )
)
register(
    Format(
        "Arrow",
        (".arrow", ".feather", ".ipc"),
        ROLES,
        lambda probe: probe.head.startswith(b"ARROW1"),
        ArrowBlocks,
    )
)
