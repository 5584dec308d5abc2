"""Chunks of a Zarr array, on disk or in object storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spikepool.data.blocks import BlockSource
from spikepool.data.locations import Location, in_memory, named_errors
from spikepool.errors import DataSourceError, ShapeError, UnreadableChunkError, require

# A folder with one of these is a Zarr array or group, of version 3 or 2.
METADATA = ("zarr.json", ".zarray", ".zgroup")


class ZarrBlocks(BlockSource):
    """A Zarr array; the chunks are its own, or its shards where it has them.

    Zarr reads a chunk that is not there as the fill value, and an upload that was cut off would look like rows of
    zeros. Such a chunk of floating-point numbers is therefore an error.
    """

    def __init__(self, array: Any, name: str) -> None:
        if array.ndim == 0:
            raise ShapeError(f"{name} is a single number", array.shape, "Pass an array of rows")
        step = int((getattr(array, "shards", None) or array.chunks)[0])
        n = int(array.shape[0])
        self.array = array
        store = getattr(array, "store", None)
        portable = "Memory" not in type(store).__name__ and not in_memory(_file_system(store))
        super().__init__(name, array.shape, array.dtype, [*range(0, n, max(step, 1)), n], portable=portable)

    def _load(self, start: int, stop: int) -> Any:
        rows = np.asarray(self.array[start:stop])
        if rows.dtype.kind == "f" and rows.size and _is_fill(rows, self.array.fill_value) and self._incomplete():
            raise UnreadableChunkError(
                f"rows {start} to {stop - 1} are missing from {self.name}: Zarr reads them as {self.array.fill_value}",
                remedy="Write these rows again: their writing was cut off",
            )
        return rows

    def _incomplete(self) -> bool:
        """Whether fewer chunks are stored than the array has."""
        return int(self.array.nchunks_initialized) < int(self.array.nchunks)


def _file_system(store: Any) -> Any:
    """The fsspec file system below a Zarr store, itself perhaps wrapped to be asynchronous; None for other stores."""
    fs = getattr(store, "fs", None)
    return getattr(fs, "sync_fs", fs)


def _is_fill(rows: np.ndarray[Any, Any], fill: Any) -> bool:
    value = np.asarray(0 if fill is None else fill, dtype=rows.dtype)
    first = rows.flat[0]
    same = np.isnan if np.isnan(value) else lambda x: np.equal(x, value)
    return bool(same(first)) and bool(np.all(same(rows)))


def open_zarr(location: Location, storage_options: Mapping[str, Any] | None, array: str | None = None) -> ZarrBlocks:
    """The array at a location; of a group, the one named `array` or its only one."""
    zarr = require("zarr", "sweeps")
    options = {"storage_options": dict(storage_options)} if storage_options else {}
    with named_errors(location.url):
        node = zarr.open(location.url, mode="r", **options)
    if hasattr(node, "array_keys"):
        names = sorted(node.array_keys())
        if array is None and len(names) != 1:
            raise DataSourceError(
                f"{location.url} is a Zarr group with {len(names)} arrays", names[:12], "Add the name of one to the URL"
            )
        if array is not None and array not in names:
            raise DataSourceError(f"{location.url} has no array of that name", array, f"It has {names[:12]}")
        with named_errors(location.url):
            node = node[array or names[0]]
    return ZarrBlocks(node, location.url)
