"""Rows that arrive in order, written to Zarr or Parquet so that a store is there whole or not at all.

Zarr: chunks first, the metadata that makes them an array last; without it nothing can be opened. Parquet: one file that
appears when it is closed (a renamed file on disk, one upload in object storage). Whatever goes wrong, what was
written is removed; a process that is killed leaves at most chunks without metadata, which the next run replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.locations import Location, locate, named_errors
from spikepool.errors import InvalidInputError, require
from spikepool.kit.arrays import FloatArray

# Chunks and row groups, in bytes: large against the latency of object storage, small against memory.
WRITTEN_BYTES = 16 * 2**20
DTYPES = ("float16", "float32", "float64")


def check_output(out: Any, dtype: str, *, overwrite: bool) -> tuple[Location, Callable[..., None]]:
    """Where to write and the function that does it, by the ending of the name; raises before any work is done."""
    if not isinstance(out, (str, Path)):
        raise InvalidInputError("the output must be a path or URL", out, "Pass 'pooled.zarr' or 'pooled.parquet'")
    if dtype not in DTYPES:
        raise InvalidInputError("dtype must be one of " + ", ".join(DTYPES), dtype, "Choose one of these")
    text = str(out) if "://" in str(out) else str(Path(out).expanduser().absolute())
    location = locate(text, {"use_listings_cache": False} if "://" in text else None)
    writers = {".zarr": write_zarr, ".parquet": write_parquet, ".pq": write_parquet}
    writer = writers.get(Path(location.path).suffix.lower())
    if writer is None:
        raise InvalidInputError("the output must end in .zarr or .parquet", text, "Choose one of these")
    require("zarr", "sweeps") if writer is write_zarr else require("pyarrow", "parquet")
    with named_errors(text, "write"):
        present = location.fs.exists(location.child("zarr.json") if writer is write_zarr else location.path)
        parent = location.path.rpartition("/")[0]
        if location.shared and "://" in text and not location.fs.exists(parent.split("/")[0]):
            raise FileNotFoundError("bucket")
    if present and not overwrite:
        raise InvalidInputError("there is something at the output already", text, "Pass overwrite=True to replace it")
    return location, writer


def write_zarr(location: Location, rows: Iterable[FloatArray], n: int, width: int, dtype: str) -> None:
    """An (n, width) Zarr array (version 3)."""
    zarr = require("zarr", "sweeps")
    step = min(n, max(1, WRITTEN_BYTES // (width * np.dtype(dtype).itemsize)))
    files: dict[str, Any] = {}
    array = zarr.create_array(
        zarr.storage.MemoryStore(files),
        shape=(n, width),
        chunks=(step, width),
        dtype=dtype,
        dimension_names=["row", "feature"],
        config={"write_empty_chunks": True},
    )
    metadata = files.pop("zarr.json").to_bytes()
    with named_errors(location.url, "write"):
        if location.fs.exists(location.child("zarr.json")):
            location.fs.rm_file(location.child("zarr.json"))
    written: list[str] = []

    def put(name: str, content: bytes) -> None:
        path = location.child(name)
        with named_errors(location.url, "write"):
            location.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            written.append(path)
            location.fs.pipe_file(path, content)

    try:
        start = 0
        for block in _reblocked(rows, step):
            array[start : start + len(block)] = block.astype(dtype)
            start += len(block)
            for name in list(files):
                if name.startswith("c/"):
                    put(name, files.pop(name).to_bytes())
        put("zarr.json", metadata)
    except BaseException:
        _remove(location, written)
        raise


def write_parquet(location: Location, rows: Iterable[FloatArray], n: int, width: int, dtype: str) -> None:
    """One Parquet file with a column ``features`` of lists of `width` numbers."""
    pa, pq = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    step = min(n, max(1, WRITTEN_BYTES // (width * np.dtype(dtype).itemsize)))
    kind = pa.list_(pa.from_numpy_dtype(np.dtype(dtype)), width)
    with named_errors(location.url, "write"):
        location.fs.makedirs(location.path.rpartition("/")[0], exist_ok=True)
        file = location.fs.open(location.path, "wb", autocommit=False)
    writer = None
    try:
        with named_errors(location.url, "write"):
            writer = pq.ParquetWriter(file, pa.schema([("features", kind)]))
            for block in _reblocked(rows, step):
                flat = pa.array(block.astype(dtype).reshape(-1))
                lists = pa.FixedSizeListArray.from_arrays(flat, width)
                writer.write_table(pa.table({"features": lists}), row_group_size=step)
            writer.close()
            file.close()
            file.commit()
    except BaseException:
        with suppress(Exception):  # the first error is the one to tell
            if writer is not None:
                writer.close()
            if not file.closed:
                file.close()
            file.discard()
        raise


def _reblocked(parts: Iterable[NDArray[Any]], rows: int) -> Iterator[NDArray[Any]]:
    """The same rows in blocks of `rows`, the last one aside."""
    held: list[NDArray[Any]] = []
    count = 0
    for part in parts:
        held.append(part)
        count += len(part)
        if count >= rows:
            whole = np.concatenate(held)
            full = count - count % rows
            for start in range(0, full, rows):
                yield whole[start : start + rows]
            held, count = [whole[full:]], count - full
    if count:
        yield np.concatenate(held)


def _remove(location: Location, paths: list[str]) -> None:
    with suppress(Exception):  # out of reach as well: chunks without metadata cannot be opened
        for path in paths:
            location.fs.rm_file(path)
        if "://" not in location.url and location.fs.exists(location.path):
            location.fs.rm(location.path, recursive=True)  # the folders, empty now
