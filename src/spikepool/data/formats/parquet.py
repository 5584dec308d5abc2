"""Parquet files: a column of equally long (nested) lists, many columns of numbers, or a column of values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.formats import Named, Request
from spikepool.data.labels import as_values
from spikepool.data.names import USUAL_NAMES, choose_name, hidden_columns, refuse_doubled
from spikepool.data.paths import named_errors, require_whole
from spikepool.errors import RaggedError, TableFormatError, require


def read_parquet(path: Path, request: Request) -> Named:
    """The chosen columns of the file."""
    file = _opened(path)
    columns, values = choose_columns(file.schema_arrow, request, path.name)
    if not file.metadata.num_rows:
        raise TableFormatError(f"{path} has no rows", remedy="Check the file")
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    require_whole(sum(_decoded_bytes(group, set(columns)) for group in groups), path)
    with named_errors(path):
        table = file.read(columns=columns)
    return path.name, column_values(table, path.name) if values else table_to_rows(table, path.name)


def parquet_columns(path: Path) -> list[str]:
    """Names of the columns."""
    return list(_opened(path).schema_arrow.names)


def parquet_records(path: Path) -> Iterator[dict[str, Any]]:
    """Records in order, a few at a time."""
    file = _opened(path)
    refuse_doubled(file.schema_arrow.names, path.name)
    with named_errors(path):
        for batch in file.iter_batches(batch_size=512):
            yield from batch.to_pylist()


def parquet_strings(path: Path, rows: int) -> list[dict[str, Any]]:
    """The first records, of columns of strings alone: a column of lists may be large in a single row."""
    file, types = _opened(path), require("pyarrow", "parquet").types
    names = [one.name for one in file.schema_arrow if types.is_string(one.type) or types.is_large_string(one.type)]
    refuse_doubled(file.schema_arrow.names, path.name)
    with named_errors(path):
        batch = next(file.iter_batches(batch_size=rows, columns=names), None) if names else None
        return [] if batch is None else list(batch.to_pylist())


def _opened(path: Path) -> Any:
    try:
        return require("pyarrow.parquet", "parquet").ParquetFile(path)
    except (require("pyarrow", "parquet").ArrowException, ValueError, EOFError, OSError) as err:
        raise TableFormatError(f"{path} is damaged: {err}", remedy="Write it again") from err


def _decoded_bytes(group: Any, columns: set[str]) -> int:
    """Bytes of the columns of a row group once decoded: run-length encodings hold many equal values in a few bytes."""
    chunks = [group.column(j) for j in range(group.num_columns)]
    sizes = {"FLOAT": 4, "INT32": 4, "BOOLEAN": 1}
    chosen = [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in columns]
    wide = sum(int(chunk.num_values) * sizes.get(chunk.physical_type, 8) for chunk in chosen)
    return max(wide, sum(int(chunk.total_uncompressed_size) for chunk in chosen))


def choose_columns(schema: Any, request: Request, where: str) -> tuple[list[str], bool]:
    """Columns to read, and whether they are values of any kind: lists, numbers side by side, or labels."""
    types = require("pyarrow", "parquet").types
    names = schema.names
    if request.values:
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
    if not numbers:
        raise TableFormatError(f"{where} has no column of numbers", names[:12], "Name one with column=")
    return numbers, False


def column_values(table: Any, where: str) -> NDArray[Any]:
    """One column of values, numbers or text."""
    column = table.column(0)
    if column.null_count:
        raise TableFormatError(f"a column of {where} has missing values", column.null_count, "Drop these rows")
    return as_values(column.to_pylist(), where).astype(object)


def table_to_rows(table: Any, where: str) -> NDArray[Any]:
    """A table of Arrow as an array: (rows, columns) of numbers, or (rows, *lengths) of one column of lists."""
    pyarrow = require("pyarrow", "parquet")
    columns = [table.column(i).combine_chunks() for i in range(table.num_columns)]
    named = zip(columns, table.schema.names, strict=True)
    arrays = [_column_to_rows(pyarrow, values, name, where) for values, name in named]
    if len(arrays) == 1 and pyarrow.types.is_nested(columns[0].type):
        return arrays[0]
    return np.stack(arrays, axis=1)


def _column_to_rows(pyarrow: Any, values: Any, name: str, where: str) -> NDArray[Any]:
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
            row = int(different[0]) // int(np.prod(shape[1:], dtype=np.int64))
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
