"""What stands beside the rows: labels, groups and texts, one value per row, whole records, and masks of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import BlockSource
from spikepool.data.formats import recognise
from spikepool.data.in_memory import as_values
from spikepool.data.locations import locate, require_whole
from spikepool.data.opening import open_blocks
from spikepool.errors import DataSourceError, ShapeError, TableFormatError

# Text values are Python objects: a few dozen bytes each, at least.
_BYTES_PER_VALUE = 64


def read_column(
    path: Any, column: str | None = None, *, role: str = "labels", rows: int | None = None, name: str | None = None
) -> NDArray[Any]:
    """One value per row of a file: numbers or text.

    Parameters
    ----------
    path : str or path-like
        File or URL of any format that holds columns: npy, npz, CSV, TSV, txt (a value per line), JSON (a list), JSON
        lines, Parquet, Arrow, Zarr, safetensors.
    column : str, optional
        Member, column or field; by default one of the usual names of `role`, or the only one.
    role : {"labels", "groups", "texts"}
        Texts are never converted to numbers.
    rows : int, optional
        How many there must be.
    name : str, optional
        What messages call them.
    """
    name = name or role
    source = open_blocks(path, name=name, column=column, role=role)
    require_whole(len(source) * max(source.row_bytes, _BYTES_PER_VALUE), f"{name} of {source.name}")
    values = source.whole()
    if values.ndim != 1:
        values = np.squeeze(values)
    if values.ndim != 1:
        raise ShapeError(f"{name} must hold one value per row", values.shape, "Save a vector")
    if values.dtype == object:
        cells = [str(v).strip() if isinstance(v, str) else v for v in values.tolist()]
        values = np.array([str(v) for v in cells]) if role == "texts" else as_values(cells, name)
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind not in "fiubU":
        raise DataSourceError(f"{name} must be numbers or text", str(values.dtype), "Convert them")
    if rows is not None and len(values) != rows:
        raise ShapeError(f"{name} has {len(values)} values for {rows} rows", remedy="Pass one value per row")
    return values


def read_records(path: Any) -> Iterator[dict[str, Any]]:
    """Records of a CSV, TSV, JSON lines, Parquet or Arrow file as dictionaries, in order and a few at a time."""
    location = locate(path)
    form = recognise(location, "labels")
    if form.records is None:
        raise TableFormatError(f"{location.url} is {form.name}, which has no records", remedy="Use CSV or Parquet")
    yield from form.records(location)


def read_mask(path: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """(n, T) mask of a file, true where a token is observed: booleans, or zeros and ones."""
    mask = open_blocks(path, name="mask", role="mask").whole()
    if mask.shape != shape[:2]:
        raise ShapeError(
            f"mask must have shape {shape[:2]}, one value per token", mask.shape, "Pass the tokens' own mask"
        )
    if mask.dtype != bool and not np.isin(np.unique(mask), (0, 1)).all():
        raise DataSourceError("mask must hold true and false, or 1 and 0", np.unique(mask)[:5], "Convert it")
    return mask.astype(bool)


def open_features(
    path: Any, column: str | None = None, *, name: str = "X", exclude: tuple[str, ...] = ()
) -> BlockSource:
    """Features (n, d) or tokens (n, T, d) of a file or anything else that holds rows."""
    source = open_blocks(path, name=name, column=column, exclude=exclude)
    if len(source.shape) not in (2, 3):
        raise ShapeError(
            f"{name} must be features (n, d) or tokens (n, T, d)", tuple(source.shape), "Save it in one of these shapes"
        )
    if source.dtype.kind not in "fiub":
        raise DataSourceError(f"{name} does not hold numbers", str(source.dtype), "Convert it to float32")
    return source
