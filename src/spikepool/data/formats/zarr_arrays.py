"""Zarr arrays: a folder with one array, or with a group of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.formats import Named, Request, TensorEntry
from spikepool.data.names import choose_name
from spikepool.data.paths import named_errors, require_whole
from spikepool.errors import DataSourceError, TableFormatError, require

# A folder with one of these is a Zarr array or group, of version 3 or 2.
METADATA = ("zarr.json", ".zarray", ".zgroup")


def read_zarr(path: Path, request: Request) -> Named:
    """The array in the folder; of a group, the one that is named or its only one."""
    node = _node(path)
    if hasattr(node, "array_keys"):
        names = sorted(node.array_keys())
        node = node[choose_name(names, request.column, request.role, str(path), "array")]
    elif request.column is not None:
        raise TableFormatError(f"{path} is one array without a name", request.column, "Leave the name out")
    if node.ndim == 0 or 0 in node.shape:
        raise TableFormatError(f"{path} holds no rows", node.shape, "Pass an array of rows")
    require_whole(math.prod(node.shape) * int(np.dtype(node.dtype).itemsize), path)
    with named_errors(path):
        values = np.asarray(node[...])
    _refuse_missing_rows(node, values, path)
    return path.name, values


def zarr_tensors(path: Path) -> list[TensorEntry]:
    """The array, or every array of a group."""
    node = _node(path)
    if not hasattr(node, "array_keys"):
        return [TensorEntry(path.name, tuple(node.shape), str(node.dtype))]
    return [TensorEntry(name, tuple(node[name].shape), str(node[name].dtype)) for name in sorted(node.array_keys())]


def _node(path: Path) -> Any:
    zarr = require("zarr", "sweeps")
    with named_errors(path):
        return zarr.open(str(path), mode="r")


def _refuse_missing_rows(array: Any, values: NDArray[Any], path: Path) -> None:
    """Raise if rows of floating-point numbers were never written: Zarr reads them as the fill value."""
    if values.dtype.kind != "f" or int(array.nchunks_initialized) >= int(array.nchunks):
        return
    fill = np.asarray(array.fill_value or 0, dtype=values.dtype)
    step = int((getattr(array, "shards", None) or array.chunks)[0])
    for start in range(0, len(values), step):
        rows = values[start : start + step]
        if np.isnan(rows).all() if np.isnan(fill) else (rows == fill).all():
            raise DataSourceError(
                f"rows {start} to {start + len(rows) - 1} are missing from {path}: Zarr reads them as {fill}",
                remedy="Write these rows again",
            )
