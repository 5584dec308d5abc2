"""Embedding tables from files, hub ids and arrays: rows of real numbers, read in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.data.formats import Request, TensorEntry
from spikepool.data.hub import download
from spikepool.data.in_memory import as_array
from spikepool.data.paths import existing_path, is_path
from spikepool.data.reading import FORMATS, format_of, read_named
from spikepool.errors import InvalidInputError, MemoryBudgetError, NonFiniteError, ShapeError, TableFormatError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray

# Widths the analysis accepts. The covariance takes 8 d² bytes: 2 GiB at the first limit. A file smaller than its
# own covariance is accepted only up to the second, where that is 128 MiB, so that no small file can ask for
# more than a gigabyte.
WIDEST = 16384
WIDEST_SHORT = 4096
HUB_PREFIXES = ("hub:", "hf://")


# Bytes of a block of rows as float64: enough for BLAS to run at full speed, small beside the covariance.
BLOCK_BYTES = 2**24


@dataclass(frozen=True, eq=False)
class Table:
    """A table of real numbers whose rows are tokens.

    Attributes
    ----------
    array : array of shape (V, d)
        In memory, a memory map, or a sparse matrix.
    name : str
        Of the tensor or the file.
    """

    array: Any
    name: str = "E"

    @property
    def shape(self) -> tuple[int, int]:
        """(V, d)."""
        V, d = self.array.shape
        return int(V), int(d)

    def blocks(self) -> Iterator[FloatArray]:
        """Consecutive (b, d) blocks of rows: fresh float64 arrays, checked to be finite."""
        V, d = self.shape
        step = block_rows(d)
        for start in range(0, V, step):
            rows = self.array[start : start + step]
            block = np.array(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
            # The sum is finite unless an entry is not, or the sum itself overflows; only then look at all entries.
            if not np.isfinite(block.sum()) and not np.isfinite(block).all():
                row, column = np.argwhere(~np.isfinite(block))[0]
                raise NonFiniteError(
                    f"{self.name} contains NaN or infinities, first at row {start + row}, column {column}",
                    float(block[row, column]),
                    "Drop or repair these rows, then save the table again",
                )
            yield block


def block_rows(d: int) -> int:
    """Rows of a block of about ``BLOCK_BYTES``."""
    return max(64, BLOCK_BYTES // (8 * max(d, 1)))


def open_table(path: Any, tensor: str | None = None, *, transpose: bool = False) -> Table:
    """The embedding table in a file; npy files and safetensors are memory-mapped.

    Parameters
    ----------
    path : str or path-like
        A file of a format of :func:`spikepool.data.reading.read_array`, a safetensors index or a folder that holds one,
        or a Hugging Face model id (``"hub:openai-community/gpt2"``, or ``"owner/name"`` when no such path exists).
    tensor : str, optional
        Name of the tensor, or of the column; by default the input embedding is found by its usual names.
    transpose : bool
        Exchange rows and columns: for a table stored with tokens as columns.

    Raises
    ------
    UnsafeFormatError
        The file is a pickle.
    TableFormatError
        The file is damaged, of an unknown format, or holds no such tensor.
    """
    if tensor is not None and not isinstance(tensor, str):
        raise InvalidInputError("tensor must be the name of a tensor", tensor, "Pass a string")
    name, array = read_named(table_path(path), Request("table", tensor))
    if array.dtype.kind != "f":
        raise TableFormatError(f"{name} does not hold floating-point numbers", str(array.dtype), "Save it as float32")
    _check_shape(array.shape, name)
    return _check_width(Table(array.T if check.flag(transpose, "transpose") else array, name))


def as_table(table: Any) -> Table:
    """A table in memory, a memory map or a file."""
    if isinstance(table, Table):
        return table
    if is_path(table):
        return open_table(table)
    if np.ma.isMaskedArray(table):
        raise InvalidInputError("E has masked entries", type(table).__name__, "Fill or drop them first")
    sparse = hasattr(table, "toarray")  # made dense block by block
    array = table if sparse else as_array(table, "E")
    if array.dtype.kind not in "fiu":
        raise InvalidInputError("E must hold real numbers", str(array.dtype), "Convert it to float32 first")
    _check_shape(array.shape, "E")
    return _check_width(Table(array))


def list_tensors(path: Any) -> list[TensorEntry]:
    """Every tensor of a file, in the order of the file; formats that hold one table list its columns as one.

    Parameters
    ----------
    path : str or path-like
        As for :func:`open_table`.
    """
    place = existing_path(table_path(path))
    form = format_of(place)
    if form.tensors is not None:
        return form.tensors(place)
    name, array = read_named(place, Request("table"))
    return [TensorEntry(name, array.shape, str(array.dtype))]


def table_path(path: Any) -> Path:
    """Where the table is: a path, or a model id, which is downloaded."""
    if not is_path(path):
        raise InvalidInputError("path must be a file name", path, "Pass a string or a Path")
    text = str(path)
    named = next((text.removeprefix(prefix) for prefix in HUB_PREFIXES if text.startswith(prefix)), None)
    if named is None and _looks_like_model_id(text) and not Path(text).exists():
        named = text
    return existing_path(path) if named is None else download(named)


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    """A table has two dimensions, with at least two rows and columns."""
    if len(shape) != 2:
        raise ShapeError(f"{name} must have 2 dimensions (tokens, coordinates)", shape, "Choose another tensor")
    if min(shape) < 2:
        raise ShapeError(f"{name} needs at least 2 rows and 2 columns", shape, "Choose another tensor")


def _check_width(source: Table) -> Table:
    """`source`, if it is narrow enough for its covariance to fit in memory."""
    V, d = source.shape
    if d > (WIDEST if d <= V else WIDEST_SHORT):
        raise MemoryBudgetError(
            f"{source.name} has {d} columns; its covariance would take {8 * d * d / 2**30:.2g} GiB",
            (V, d),
            "Rows must be tokens: transpose the table if they are not, or project it on fewer columns",
        )
    return source


def _looks_like_model_id(text: str) -> bool:
    """True for ``owner/name`` without a suffix that a file of ours would have."""
    owner, slash, name = text.partition("/")
    plain = bool(slash and owner and name) and "/" not in name and "\\" not in text and not text.startswith(".")
    known = (*FORMATS, ".json", ".bin", ".pt", ".pth", ".pkl", ".ckpt")
    return plain and Path(name).suffix.lower() not in known
