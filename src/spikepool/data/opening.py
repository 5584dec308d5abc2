"""Open rows and what stands beside them: arrays, memory maps, Zarr and Dask arrays, registered formats, and URLs.

Rows are sources of blocks, of which a part can be taken. Labels, groups and texts have one value per row; masks one per
token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import ArrayBlocks, BlockSource, DaskBlocks
from spikepool.data.formats import Request, recognise
from spikepool.data.in_memory import as_array, as_values, is_path, padded
from spikepool.data.locations import locate, named_errors, require_whole
from spikepool.errors import DataSourceError, InvalidInputError, ShapeError, SpikepoolError, TableFormatError
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
