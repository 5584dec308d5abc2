"""Parquet and Arrow files: one column of equal-length lists, or many columns of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.arrow_sizes import check_arrow, check_parquet
from spikepool.data.sources import TableSource, checked_shape
from spikepool.errors import TableFormatError, require

# Numbers decoded at once: a batch of long rows is read in fewer of them.
_BATCH_VALUES = 1 << 22


def open_arrow(file: Path, tensor: str | None) -> TableSource:
    """The table in a Parquet or Arrow file, read batch by batch.

    `tensor` names a column of lists; without it the only column of lists of numbers is taken, else all the numeric
    columns side by side.
    """
    pyarrow = require("pyarrow", "parquet")
    with file.open("rb") as stream:
        parquet = stream.read(4) == b"PAR1"
    try:
        if parquet:
            pq = require("pyarrow.parquet", "parquet")
            content = pq.ParquetFile(file)
            schema, V = content.schema_arrow, content.metadata.num_rows
        else:
            check_arrow(pyarrow, str(file), file.name, file.stat().st_size)
            with pyarrow.ipc.open_file(pyarrow.memory_map(str(file))) as reader:
                schema = reader.schema
                V = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
    except TableFormatError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as err:
        raise TableFormatError(f"the file is damaged: {err}", file.name, "Download it again") from err
    columns, width = _choose_columns(pyarrow, schema, tensor, file)
    if parquet:
        values = check_parquet(content.metadata, columns, file.name, file.stat().st_size)
        if len(columns) == 1 and width is None and V:
            width = values // V  # lists of equal length, or the rows will say that they are not
    source = _ArrowRows((V, width or 0), ", ".join(columns[:3]), file, columns, parquet)
    if width is None:  # lists of no declared length: the first row tells
        source.shape = (V, source.first_width())
    checked_shape(source.shape, source.name)
    return source


class _ArrowRows(TableSource):
    def __init__(self, shape: tuple[int, int], name: str, file: Path, columns: list[str], parquet: bool) -> None:
        super().__init__(shape, name)
        self._file, self._columns, self._parquet = file, columns, parquet

    def first_width(self) -> int:
        """Length of the lists, from the first row."""
        for block in self._blocks(1):
            return int(block.shape[1])
        return 0

    def _batches(self, rows: int) -> Iterator[Any]:
        import pyarrow

        if self._parquet:
            import pyarrow.parquet as pq

            rows = max(1, min(rows, _BATCH_VALUES // max(1, self.shape[1])))

            yield from pq.ParquetFile(self._file).iter_batches(batch_size=rows, columns=self._columns)
            return
        with pyarrow.ipc.open_file(pyarrow.memory_map(str(self._file))) as reader:
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i).select(self._columns)
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)

    def _blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        import pyarrow

        try:
            for batch in self._batches(rows):
                yield _to_rows(batch)
        except (pyarrow.ArrowException, OSError) as err:
            raise TableFormatError(f"the file is damaged: {err}", self._file.name, "Download it again") from err


def _to_rows(batch: Any) -> NDArray[Any]:
    """A record batch as a (rows, d) array."""
    columns = [batch.column(i) for i in range(batch.num_columns)]
    if any(column.null_count for column in columns):
        raise TableFormatError("a column has missing values", batch.schema.names[:3], "Drop these rows first")
    if len(columns) == 1 and hasattr(columns[0], "flatten") and hasattr(columns[0].type, "value_type"):
        flat = columns[0].flatten()
        if flat.null_count:
            raise TableFormatError("a vector has missing values", batch.schema.names[0], "Drop these rows first")
        values = np.asarray(flat.to_numpy(zero_copy_only=False))
        lengths = np.asarray(columns[0].value_lengths().to_numpy(zero_copy_only=False))
        if len(lengths) == 0 or (lengths != lengths[0]).any():
            raise TableFormatError("the vectors have different lengths", np.unique(lengths), "Keep one length")
        return values.reshape(len(lengths), -1)
    return np.stack([np.asarray(column.to_numpy(zero_copy_only=False)) for column in columns], axis=1)


def _choose_columns(pyarrow: Any, schema: Any, tensor: str | None, file: Path) -> tuple[list[str], int | None]:
    """Columns to read and the number of coordinates, None when only the data can tell."""
    types = pyarrow.types
    list_like: tuple[Callable[[Any], bool], ...] = (types.is_list, types.is_large_list, types.is_fixed_size_list)

    def is_vector(kind: Any) -> bool:
        return any(test(kind) for test in list_like) and types.is_floating(kind.value_type)

    vectors = [field.name for field in schema if is_vector(field.type)]
    numbers = [field.name for field in schema if types.is_floating(field.type)]
    if tensor is not None and tensor not in vectors:
        raise TableFormatError(f"{file.name} has no column of vectors named so", tensor, f"It has {vectors[:12]}")
    if tensor is None and len(vectors) > 1:
        raise TableFormatError(f"{file.name} has several columns of vectors", vectors[:12], "Name one with tensor=...")
    if vectors:
        column = tensor or vectors[0]
        kind = schema.field(column).type
        return [column], int(kind.list_size) if types.is_fixed_size_list(kind) else None
    if not numbers:
        raise TableFormatError(
            f"{file.name} has no column of floating-point numbers", schema.names[:12], "Convert the vectors to float32"
        )
    return numbers, len(numbers)
