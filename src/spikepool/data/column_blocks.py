"""Rows of Parquet and Arrow files: a column of equally long (nested) lists, or many columns of numbers.

The chunks are the row groups of Parquet (of one file, or of all the files of a folder in order of name) and the
record batches of an Arrow file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.arrow_sizes import check_arrow, check_parquet, decoded_bytes
from spikepool.data.blocks import BlockSource
from spikepool.data.locations import Location, named_errors
from spikepool.errors import DataSourceError, MissingSourceError, RaggedError, require
from spikepool.kit.memory import require_memory

PARQUET_SUFFIXES = (".parquet", ".pq")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")


class _ColumnBlocks(BlockSource):
    """What Parquet and Arrow share: chunks that arrive as Arrow tables of the chosen columns."""

    location: Location
    columns: list[str]

    def _table(self, k: int) -> Any:
        raise NotImplementedError

    def _load(self, start: int, stop: int) -> Any:
        return table_to_rows(self._table(self.borders.index(start)), f"{self.name} from row {start} on", start)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_open"}  # open files do not travel


class ParquetBlocks(_ColumnBlocks):
    """Row groups of one Parquet file or of a folder of them."""

    def __init__(self, location: Location, column: str | None) -> None:
        self.location = location
        self._paths = _files(location, PARQUET_SUFFIXES)
        self._groups: list[tuple[int, int, int]] = []  # file, row group, bytes once unpacked
        borders, schema = [0], None
        for number, path in enumerate(self._paths):
            file = self._file(number)
            if schema is None:
                schema = file.schema_arrow
                self.columns = choose_columns(schema, column, location.url)
            check_parquet(file.metadata, self.columns, path, int(location.fs.info(path)["size"]))
            for group in range(file.metadata.num_row_groups):
                info = file.metadata.row_group(group)
                if info.num_rows:
                    self._groups.append((number, group, decoded_bytes(info, self.columns)[1]))
                    borders.append(borders[-1] + int(info.num_rows))
            if any(name not in file.schema_arrow.names for name in self.columns):
                raise DataSourceError(f"{path} lacks columns that {self._paths[0]} has", self.columns[:5])
        if len(borders) == 1:
            raise DataSourceError(f"{location.url} has no rows", remedy="Check the file")
        batch = next(self._file(self._groups[0][0]).iter_batches(batch_size=1, columns=self.columns))
        first = table_to_rows(batch, location.url, 0)
        super().__init__(location.url, (borders[-1], *first.shape[1:]), first.dtype, borders, portable=location.shared)

    def _file(self, number: int) -> Any:
        pq = require("pyarrow.parquet", "parquet")
        kept = self.__dict__.setdefault("_open", {})
        if number not in kept:
            kept.clear()  # one open file at a time
            with named_errors(self._paths[number]):
                kept[number] = pq.ParquetFile(self.location.fs.open(self._paths[number], "rb"))
        return kept[number]

    def _table(self, k: int) -> Any:
        number, group, size = self._groups[k]
        # the group arrives packed and unpacked, and leaves as an array
        require_memory(2 * size, f"row group {group} of {self._paths[number]}", "Write it with smaller row groups")
        return self._file(number).read_row_group(group, columns=self.columns)


class ArrowBlocks(_ColumnBlocks):
    """Record batches of an Arrow IPC (Feather) file."""

    def __init__(self, location: Location, column: str | None) -> None:
        self.location = location
        reader = self._reader()
        self.columns = choose_columns(reader.schema, column, location.url)
        with named_errors(location.url):
            counts = [reader.get_batch(k).num_rows for k in range(reader.num_record_batches)]
        self._batches = [k for k, rows in enumerate(counts) if rows]
        if not self._batches:
            raise DataSourceError(f"{location.url} has no rows", remedy="Check the file")
        first = table_to_rows(reader.get_batch(self._batches[0]).select(self.columns).slice(0, 1), location.url, 0)
        borders = np.cumsum([0, *(counts[k] for k in self._batches)]).tolist()
        super().__init__(location.url, (borders[-1], *first.shape[1:]), first.dtype, borders, portable=location.shared)

    def _reader(self) -> Any:
        pyarrow = require("pyarrow", "parquet")
        kept = self.__dict__.setdefault("_open", {})
        if not kept:
            with named_errors(self.location.url):
                local = getattr(self.location.fs, "protocol", "") in ("file", ("file", "local"))
                if local:
                    size = int(self.location.fs.info(self.location.path)["size"])
                    check_arrow(pyarrow, self.location.path, self.location.url, size)
                source = pyarrow.memory_map(self.location.path) if local else self.location.fs.open(self.location.path)
                kept[0] = pyarrow.ipc.open_file(source)
        return kept[0]

    def _table(self, k: int) -> Any:
        return self._reader().get_batch(self._batches[k]).select(self.columns)


def _files(location: Location, suffixes: Sequence[str]) -> list[str]:
    """The file itself, or the files of a folder in order of name."""
    with named_errors(location.url):
        if not location.fs.isdir(location.path):
            location.fs.info(location.path)
            return [location.path]
        names = [path for path in location.fs.find(location.path) if path.lower().endswith(tuple(suffixes))]
    if not names:
        raise MissingSourceError(f"the folder {location.url} holds no file ending in {' or '.join(suffixes)}")
    return sorted(names)


def choose_columns(schema: Any, column: str | None, where: str) -> list[str]:
    """The column asked for, or the only column of lists, or all columns of numbers."""
    types = require("pyarrow", "parquet").types
    if column is not None:
        if column not in schema.names:
            raise DataSourceError(f"{where} has no such column", column, f"It has {schema.names[:12]}")
        return [column]
    lists = [field.name for field in schema if hasattr(field.type, "value_type") and types.is_nested(field.type)]
    if len(lists) == 1:
        return lists
    if lists:
        raise DataSourceError(f"{where} has several columns of lists", lists[:12], "Name one with column=")
    numbers = [field.name for field in schema if types.is_integer(field.type) or types.is_floating(field.type)]
    if not numbers:
        raise DataSourceError(f"{where} has no column of numbers", schema.names[:12], "Name one with column=")
    return numbers


def table_to_rows(table: Any, where: str, start: int = 0) -> NDArray[Any]:
    """A table or batch of Arrow as an array: (rows, columns) of numbers, or (rows, *lengths) of one column of lists."""
    pyarrow = require("pyarrow", "parquet")
    columns = [_one_array(table.column(i)) for i in range(table.num_columns)]
    arrays = [_column_to_rows(pyarrow, values, table.schema.names[i], where, start) for i, values in enumerate(columns)]
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
            raise DataSourceError(
                f"column {name!r} of {where} has missing values", values.null_count, "Drop these rows"
            )
        if not pyarrow.types.is_nested(values.type):
            break
        if not hasattr(values, "value_lengths"):
            raise DataSourceError(f"column {name!r} of {where} holds records", str(values.type), "Name another column")
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
        raise DataSourceError(f"column {name!r} of {where} does not hold numbers", str(flat.dtype), "Convert it")
    return flat.reshape(shape)
