"""Embedding tables and other weights, from files, hub ids and arrays: rows of real numbers, in blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spikepool.data.blocks import ArrayBlocks, BlockSource
from spikepool.data.formats import TensorEntry, recognise, suffixes
from spikepool.data.locations import Location, is_path, is_url, locate
from spikepool.data.opening import open_blocks
from spikepool.errors import InvalidInputError, MemoryBudgetError, ShapeError, TableFormatError
from spikepool.kit import validation as check
from spikepool.kit.memory import require_memory

# Widths the analysis accepts. The covariance takes 8 d² bytes: 2 GiB at the first limit. A file smaller than its
# own covariance is accepted only up to the second, where that is 128 MiB, so that no small file can ask for
# more than a gigabyte.
WIDEST = 16384
WIDEST_SHORT = 4096
HUB_PREFIXES = ("hub:", "hf://")


def open_table(path: Any, tensor: str | None = None, *, transpose: bool = False) -> BlockSource:
    """The embedding table in a file, as a source of rows; nothing is read yet but the header.

    Parameters
    ----------
    path : str or path-like
        A file of any format of :mod:`spikepool.data.formats`, a safetensors index or a folder that holds one, a
        Hugging Face model id (``"hub:openai-community/gpt2"``, or ``"owner/name"`` when no such path exists), or a URL
        (``s3://``, ...).
    tensor : str, optional
        Name of the tensor, or of the column; by default the input embedding is found by its usual names.
    transpose : bool
        Exchange rows and columns: for a table stored with tokens as columns.

    Returns
    -------
    BlockSource

    Raises
    ------
    UnsafeFormatError
        The file is a pickle.
    TableFormatError
        The file is damaged, of an unknown format, or holds no such tensor.
    """
    if tensor is not None and not isinstance(tensor, str):
        raise InvalidInputError("tensor must be the name of a tensor", tensor, "Pass a string")
    place = locate_table(path)
    source = open_blocks(place.url, name="E", column=tensor, role="table")
    if source.name == place.url:
        source.name = place.name
    if source.dtype.kind != "f":
        raise TableFormatError(
            f"{source.name} does not hold floating-point numbers", str(source.dtype), "Save it as float32"
        )
    _check_shape(source.shape, source.name)
    return _check_width(transposed(source) if check.flag(transpose, "transpose") else source)


def as_table(table: Any) -> BlockSource:
    """A table in memory or stored, as a source of its rows."""
    if is_path(table):
        return open_table(table)
    if np.ma.isMaskedArray(table):
        raise InvalidInputError("E has masked entries", type(table).__name__, "Fill or drop them first")
    sparse = hasattr(table, "toarray")  # made dense block by block
    source = ArrayBlocks(table, "E") if sparse else open_blocks(table, name="E")
    if source.dtype.kind not in "fiu":
        raise InvalidInputError("E must hold real numbers", str(source.dtype), "Convert it to float32 first")
    _check_shape(source.shape, source.name)
    return _check_width(source)


def list_tensors(path: Any) -> list[TensorEntry]:
    """Every tensor of a file, in the order of the file; formats that hold one table list its columns as one.

    Parameters
    ----------
    path : str or path-like
        As for :func:`open_table`.
    """
    place = locate_table(path)
    form = recognise(place, "table")
    if form.tensors is not None:
        return form.tensors(place)
    source = open_blocks(place.url, role="table")
    columns = getattr(source, "columns", None) or [place.name]
    return [TensorEntry(", ".join(columns[:3]), source.shape, str(source.dtype))]


def locate_table(path: Any) -> Location:
    """Where the table is: a path, a URL, or a model id, which is downloaded."""
    if not is_path(path):
        raise InvalidInputError("path must be a file name", path, "Pass a string or a Path")
    text = str(path)
    named = next((text.removeprefix(prefix) for prefix in HUB_PREFIXES if text.startswith(prefix)), None)
    if named is None and not is_url(text) and not Path(text).exists() and _looks_like_model_id(text):
        named = text
    if named is not None:
        from spikepool.data.hub import download

        return locate(download(named))
    return locate(path)


def transposed(source: BlockSource) -> BlockSource:
    """The same table with rows and columns exchanged: an array in place, anything else in memory as float32."""
    if isinstance(source, ArrayBlocks):
        return ArrayBlocks(source.array.T, source.name, decode=source.decode)
    V, d = source.shape
    require_memory(4 * V * d, f"transposing {source.name} of shape {source.shape}", "Save it transposed")
    table = np.empty((d, V), dtype=np.float32)
    start = 0
    for block in source.blocks():
        table[:, start : start + len(block)] = block.T
        start += len(block)
    return ArrayBlocks(table, source.name)


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    """A table has two dimensions, with at least two rows and columns."""
    if len(shape) != 2:
        raise ShapeError(f"{name} must have 2 dimensions (tokens, coordinates)", shape, "Choose another tensor")
    if min(shape) < 2:
        raise ShapeError(f"{name} needs at least 2 rows and 2 columns", shape, "Choose another tensor")


def _check_width(source: BlockSource) -> BlockSource:
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
    known = (*suffixes(("table", "rows", "labels")), ".json", ".bin", ".pt", ".pth", ".pkl", ".ckpt")
    return plain and Path(name).suffix.lower() not in known
