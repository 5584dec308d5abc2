"""One door for everything that holds rows: arrays, memory maps, Zarr and Dask arrays, files and URLs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.data.blocks import ArrayBlocks, BlockSource, DaskBlocks
from spikepool.data.locations import Location, is_path, locate, named_errors
from spikepool.errors import DataSourceError, InvalidInputError, MissingSourceError, ShapeError

READABLE = "npy, Zarr, Parquet or Arrow"


def is_dask(value: Any) -> bool:
    """Whether `value` is a Dask array, without importing Dask."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "chunks")


def is_zarr(value: Any) -> bool:
    """Whether `value` is a Zarr array, without importing Zarr."""
    return type(value).__module__.split(".")[0] == "zarr" and hasattr(value, "chunks")


def is_stored(value: Any) -> bool:
    """Whether the rows of `value` are read when they are asked for: path, URL, memory map, Zarr or Dask array."""
    return is_path(value) or isinstance(value, (BlockSource, np.memmap)) or is_dask(value) or is_zarr(value)


def open_blocks(
    data: Any,
    *,
    name: str = "X",
    column: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> BlockSource:
    """Open anything that holds rows as a source of chunks; nothing is read yet but metadata.

    Parameters
    ----------
    data : array, memory map, Zarr array, Dask array, str or Path
        Rows along the first axis. A path or URL (``s3://``, ``gs://``, ``memory://``, whatever fsspec reaches) names
        an npy file, a Zarr array (or a group with one array), a Parquet file or a folder of them, or an Arrow file.
    name : str
        What messages call an array.
    column : str, optional
        Column of a Parquet or Arrow file, or array of a Zarr group. By default the only column of lists, else all
        the columns of numbers side by side.
    storage_options : mapping, optional
        For the file system of a URL: endpoint, profile, credentials. By default these come from the environment.

    Returns
    -------
    BlockSource
        Accepted wherever the array is.

    Raises
    ------
    MissingSourceError, CredentialsError
        There is nothing there, or no right to read it.
    DataSourceError, RaggedError
        It is of no known format, or its rows are not of one shape.
    """
    if isinstance(data, BlockSource):
        return data
    if is_path(data):
        return _open_location(_absolute(data, storage_options), column, storage_options)
    if column is not None or storage_options is not None:
        raise InvalidInputError("column and storage_options belong to a path or URL", type(data).__name__, "Drop them")
    if is_dask(data):
        return DaskBlocks(data, name)
    if is_zarr(data):
        from spikepool.data.zarr_blocks import ZarrBlocks

        return ZarrBlocks(data, name)
    if hasattr(data, "to_numpy"):  # a data frame, or an xarray.DataArray around any of the above
        inner = getattr(data, "data", None)
        if is_dask(inner):
            return DaskBlocks(inner, name)
        data = data.to_numpy()
    array = data if hasattr(data, "shape") and hasattr(data, "dtype") else _from_sequence(data, name)
    if array.ndim == 0 or 0 in array.shape:
        raise ShapeError(f"{name} is empty", tuple(array.shape), "Pass at least one row")
    return ArrayBlocks(array, name)


def _from_sequence(data: Any, name: str) -> Any:
    try:
        return np.asarray(data)
    except ValueError as err:
        raise ShapeError(f"{name} must have rows of equal length", data, "Pad them") from err


def _absolute(where: str | Path, storage_options: Mapping[str, Any] | None) -> Location:
    text = str(where)
    if "://" not in text:
        text = str(Path(text).expanduser().absolute())
    return locate(text, storage_options)


def _open_location(location: Location, column: str | None, storage_options: Mapping[str, Any] | None) -> BlockSource:
    from spikepool.data.column_blocks import ARROW_SUFFIXES, PARQUET_SUFFIXES, ArrowBlocks, ParquetBlocks
    from spikepool.data.npy_blocks import MAGIC, NpyBlocks
    from spikepool.data.zarr_blocks import METADATA, open_zarr

    with named_errors(location.url):
        if any(location.fs.exists(location.child(name)) for name in METADATA):
            return open_zarr(location, storage_options, column)
        info = location.fs.info(location.path)  # names what is missing: credentials, bucket or object
        folder = info["type"] == "directory"
        head = b"" if folder else location.fs.cat_file(location.path, start=0, end=8)
    if folder:
        if any(path.lower().endswith(PARQUET_SUFFIXES) for path in location.fs.find(location.path)):
            return ParquetBlocks(location, column)
        raise MissingSourceError(
            f"the folder {location.url} is neither a Zarr array nor holds Parquet files", remedy=f"Use {READABLE}"
        )
    if head.startswith(MAGIC):
        if column is not None:
            raise DataSourceError("an npy file holds one array without a name", column, "Leave column out")
        return NpyBlocks(location)
    if head.startswith(b"PAR1"):
        return ParquetBlocks(location, column)
    if head.startswith(b"ARROW1"):
        return ArrowBlocks(location, column)
    known = location.path.lower().endswith((".npy", *PARQUET_SUFFIXES, *ARROW_SUFFIXES))
    problem = "is damaged: its first bytes are" if known else "is of no format read here; its first bytes are"
    raise DataSourceError(f"{location.url} {problem}", head, f"Use {READABLE}")
