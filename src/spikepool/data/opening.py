"""The one way in: arrays, memory maps, Zarr and Dask arrays, files of every registered format, and URLs.

A part of many rows, for work whose result does not need all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spikepool.data.blocks import ArrayBlocks, BlockSource, DaskBlocks
from spikepool.data.formats import Request, recognise
from spikepool.data.in_memory import as_array, padded
from spikepool.data.locations import is_path, locate, named_errors
from spikepool.errors import InvalidInputError, ShapeError, SpikepoolError
from spikepool.kit.arrays import IntArray


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
    role: str = "rows",
    exclude: tuple[str, ...] = (),
) -> BlockSource:
    """Open anything that holds rows as a source of chunks; nothing is read yet but metadata.

    Parameters
    ----------
    data : array, tensor, data frame, memory map, Zarr array, Dask array, str or Path
        Rows along the first axis. A path or URL (``s3://``, ``gs://``, ``memory://``, whatever fsspec reaches) names
        a file of a format of :mod:`spikepool.data.formats`: npy, npz, safetensors, Parquet (or a folder of such files),
        Arrow, Zarr, CSV, TSV or JSON lines.
    name : str
        What messages call an array.
    column : str, optional
        Tensor, member of an archive, array of a Zarr group, or column of a table. By default the one with a usual name,
        the only one, or all the columns of numbers side by side.
    storage_options : mapping, optional
        For the file system of a URL: endpoint, profile, credentials. By default these come from the environment.
    role : {"rows", "table", "labels", "groups", "texts", "mask"}
        What the data are: which formats may hold them, and by which names they are found.
    exclude : tuple of str
        Columns of a table that are not features.

    Returns
    -------
    BlockSource
        Accepted wherever the array is.

    Raises
    ------
    MissingSourceError, CredentialsError
        There is nothing there, or no right to read it.
    TableFormatError, RaggedError
        It is of no known format, or its rows are not of one shape.
    """
    if isinstance(data, BlockSource):
        return data
    if is_path(data):
        location = locate(data, storage_options)
        try:
            return recognise(location, role).open(location, Request(role, column, exclude, name))
        except SpikepoolError:
            raise
        except Exception:  # what file systems and libraries raise
            with named_errors(location.url):
                raise
    if column is not None or storage_options is not None:
        raise InvalidInputError("column and storage_options belong to a path or URL", type(data).__name__, "Drop them")
    inner = getattr(data, "data", None)  # an xarray.DataArray around a Dask array
    if is_dask(data) or (hasattr(data, "to_numpy") and is_dask(inner)):
        return DaskBlocks(data if is_dask(data) else inner, name)
    if is_zarr(data):
        from spikepool.data.formats.zarr_arrays import ZarrBlocks

        return ZarrBlocks(data, name)
    array = as_array(data, name)
    if not array.shape or 0 in array.shape:
        raise ShapeError(f"{name} is empty", tuple(array.shape), "Pass at least one row")
    return ArrayBlocks(array, name)


# Neighbouring rows that are kept together: whether rows come in an order shows in neighbours.
RUN = 20


def spread_rows(n: int, most: int, rng: np.random.Generator) -> IntArray | None:
    """At most `most` of n rows, ascending: runs of neighbours, one at random in each of equally long stretches.

    None if all rows are to be taken.
    """
    if n <= most:
        return None
    runs = max(1, most // RUN)
    edges = np.linspace(0, n, runs + 1).astype(np.intp)
    room = np.maximum(np.diff(edges) - RUN, 0)
    starts = edges[:-1] + (rng.random(runs) * (room + 1)).astype(np.intp)
    return np.unique((starts[:, None] + np.arange(RUN)).clip(max=n - 1))


def take_rows(data: Any, rows: IntArray | None, name: str) -> Any:
    """The given rows of an array or of anything stored, in memory; all of them if `rows` is None."""
    if data is None:
        return None
    if is_stored(data):
        source = open_blocks(data, name=name)
        return source.whole() if rows is None else source.take(rows)
    data = padded(data, name=name)[0] if isinstance(data, (list, tuple)) else data
    array = as_array(data, name)
    return array if rows is None else array[rows]
