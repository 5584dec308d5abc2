"""Rows that arrive in order, written to npy, Parquet or Zarr so that the output is complete or not there at all.

On this machine everything is written beside its target and renamed. In object storage a Parquet file is one upload, and
a Zarr array gets its metadata last; one that replaces another is written under a temporary name first. Only what
a call has written itself is ever removed.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import LEARNED_POOLING
from spikepool.data.locations import Location, locate, named_errors
from spikepool.data.targets import refuse_existing, refuse_overlap, starts_as
from spikepool.errors import InvalidInputError, require
from spikepool.kit.arrays import FloatArray
from spikepool.kit.files import making_parents, replacing_file, replacing_folder

# Chunks and row groups, in bytes: large against the latency of object storage, small against memory.
WRITTEN_BYTES = 16 * 2**20
DTYPES = ("float16", "float32", "float64")
ENDINGS = (".npy", ".parquet", ".pq", ".zarr")


@dataclass(frozen=True)
class _Table:
    """What is written: (n, width) numbers in blocks of `step` rows, and text about them."""

    blocks: Iterable[FloatArray]
    n: int
    width: int
    dtype: str
    step: int
    attributes: dict[str, str]


@dataclass(frozen=True)
class Output:
    """A checked place for (n, width) features.

    Attributes
    ----------
    path : Path or None
        On this machine.
    location : Location or None
        Anywhere else.
    kind : str
        ``"npy"``, ``"parquet"`` or ``"zarr"``.
    dtype : str
    """

    path: Path | None
    location: Location | None
    kind: str
    dtype: str

    def write(self, rows: Iterable[FloatArray], n: int, width: int, learned_pooling: str | None = None) -> None:
        """Write all the rows, which arrive in blocks.

        `learned_pooling` names a pooling that has learned from the labels of the rows. Parquet and Zarr files keep it
        (see :attr:`spikepool.data.blocks.BlockSource.learned_pooling`); npy files have no place for it.
        """
        attributes = {} if learned_pooling is None else {LEARNED_POOLING: learned_pooling}
        step = min(n, max(1, WRITTEN_BYTES // (width * np.dtype(self.dtype).itemsize)))
        blocks = (block.astype(self.dtype) for block in _reblocked(rows, step))
        table = _Table(blocks, n, width, self.dtype, step, attributes)
        if self.location is not None:
            upload = _upload_zarr if self.kind == "zarr" else _upload_parquet
            upload(self.location, table)
            return
        assert self.path is not None
        with making_parents(self.path):
            if self.kind == "zarr":
                with replacing_folder(self.path) as folder:
                    _zarr(_Folder(folder), table)
            else:
                with replacing_file(self.path) as temporary, temporary.open("wb") as file:
                    write = _npy if self.kind == "npy" else _parquet
                    write(file, table)


def check_output(out: Any, dtype: str = "float32", *, overwrite: bool = False, inputs: Iterable[Any] = ()) -> Output:
    """Where and how to write, by the ending of the name; raises before any work is done and before data are read.

    Parameters
    ----------
    out : str or Path
        Path (npy, Parquet, Zarr) or URL (Parquet, Zarr).
    dtype : str
    overwrite : bool
        Replace a file of the same format, or a Zarr array; never a Zarr group or another folder.
    inputs : iterable
        What the output is made from. An output that is one of them, or lies above or inside one, is refused.
    """
    if not isinstance(out, (str, Path)) or not str(out):
        raise InvalidInputError("the output must be a path or URL", out, "Pass 'pooled.zarr' or 'pooled.parquet'")
    if dtype not in DTYPES:
        raise InvalidInputError("dtype must be one of " + ", ".join(DTYPES), dtype, "Choose one of these")
    text = str(out)
    kind = {".npy": "npy", ".zarr": "zarr", ".parquet": "parquet", ".pq": "parquet"}.get(
        Path(text.rstrip("/")).suffix.lower()
    )
    if kind is None:
        raise InvalidInputError("the output must end in .npy, .zarr or .parquet", text, "Choose one of these")
    if kind == "npy" and "://" in text and not text.startswith("file://"):
        raise InvalidInputError("an npy file is written to a path of this machine", text, "Use .zarr or .parquet")
    refuse_overlap(out, inputs)
    if kind != "npy":
        require("zarr", "sweeps") if kind == "zarr" else require("pyarrow", "parquet")
    location = locate(text, {"use_listings_cache": False})
    if location.local is not None:
        if os.path.lexists(location.local):
            _check_present(_local_content(location.local, kind), text, kind, overwrite)
        return Output(location.local, None, kind, dtype)
    with named_errors(text, "write"):
        bucket = location.path.partition("/")[0]
        if location.shared and "/" in location.path and not location.fs.exists(bucket):
            raise FileNotFoundError("bucket")
        content = _remote_content(location, kind)
    _check_present(content, text, kind, overwrite)
    return Output(None, location, kind, dtype)


def _local_content(path: Path, kind: str) -> str:
    """What is at the target: "" (an empty folder), "same" (what is written here) or "other"."""
    if kind != "zarr":
        with path.open("rb") if path.is_file() else nullcontext() as file:
            return "same" if file is not None and starts_as(kind, file.read(8)) else "other"
    if not path.is_dir():
        return "other"
    names = sorted(item.name for item in path.iterdir())
    return _zarr_content(names, lambda: (path / "zarr.json").read_bytes())


def _remote_content(location: Location, kind: str) -> str:
    fs, path = location.fs, location.path
    if kind != "zarr":
        if not fs.exists(path):
            return ""
        return "same" if fs.isfile(path) and starts_as(kind, fs.cat_file(path, start=0, end=8)) else "other"
    listing = fs.find(path) if fs.exists(path) else []
    names = sorted({item[len(path) :].lstrip("/").partition("/")[0] for item in listing})
    return _zarr_content(names, lambda: fs.cat_file(location.child("zarr.json")))


def _zarr_content(names: list[str], metadata: Callable[[], bytes]) -> str:
    """A Zarr array and nothing else is the "same"; an empty folder is nothing; everything else is kept."""
    if not names:
        return ""
    if "zarr.json" in names:
        return "same" if set(names) <= {"zarr.json", "c"} and b'"group"' not in metadata() else "other"
    plain = all(name in (".zarray", ".zattrs") or name.replace(".", "").isdigit() for name in names)
    return "same" if ".zarray" in names and plain else "other"


def _check_present(content: str, text: str, kind: str, overwrite: bool) -> None:
    if content:
        name = {"npy": "an npy file", "parquet": "a Parquet file", "zarr": "one Zarr array"}[kind]
        refuse_existing(text, content == "same", name, overwrite)


class _Folder:
    """Writes objects as files below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str, content: bytes) -> None:
        file = self._folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _npy(file: Any, table: _Table) -> None:
    kind = np.lib.format.dtype_to_descr(np.dtype(table.dtype))
    header = {"descr": kind, "fortran_order": False, "shape": (table.n, table.width)}
    np.lib.format.write_array_header_1_0(file, header)
    for block in table.blocks:
        file.write(np.ascontiguousarray(block).data)


def _parquet(file: Any, table: _Table) -> None:
    """One column ``features`` of lists of `width` numbers."""
    pa, pq = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    kind = pa.list_(pa.from_numpy_dtype(np.dtype(table.dtype)), table.width)
    schema = pa.schema([("features", kind)], metadata=table.attributes)
    with pq.ParquetWriter(file, schema) as writer:
        for block in table.blocks:
            lists = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), table.width)
            writer.write_table(pa.table({"features": lists}, schema), row_group_size=table.step)


def _upload_parquet(location: Location, table: _Table) -> None:
    with named_errors(location.url, "write"):
        location.fs.makedirs(location.path.rpartition("/")[0], exist_ok=True)
        file = location.fs.open(location.path, "wb", autocommit=False)
    try:
        with named_errors(location.url, "write"):
            _parquet(file, table)
            file.close()
            file.commit()
    except BaseException:
        with suppress(Exception):  # the first error is the one to tell
            if not file.closed:
                file.close()
            file.discard()
        raise


def _zarr(put: Callable[[str, bytes], None], table: _Table) -> None:
    """An (n, width) Zarr array (version 3), object by object; the metadata, without which it cannot be opened, last."""
    zarr = require("zarr", "sweeps")
    files: dict[str, Any] = {}
    array = zarr.create_array(
        zarr.storage.MemoryStore(files),
        shape=(table.n, table.width),
        chunks=(table.step, table.width),
        dtype=table.dtype,
        dimension_names=["row", "feature"],
        attributes=table.attributes,
        config={"write_empty_chunks": True},
    )
    metadata = files.pop("zarr.json").to_bytes()
    start = 0
    for block in table.blocks:
        array[start : start + len(block)] = block
        start += len(block)
        for name in [name for name in files if name.startswith("c/")]:
            put(name, files.pop(name).to_bytes())
    put("zarr.json", metadata)


def _upload_zarr(location: Location, table: _Table) -> None:
    """Objects of a new array in place; of one that replaces another, under a temporary name first."""
    fs = location.fs
    old = fs.find(location.path) if fs.exists(location.path) else []
    base = f"{location.path}.{secrets.token_hex(4)}.part" if old else location.path
    written: list[str] = []

    def put(name: str, content: bytes) -> None:
        path = f"{base}/{name}"
        with named_errors(location.url, "write"):
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            written.append(path)
            fs.pipe_file(path, content)

    try:
        _zarr(put, table)
        if old:
            moved = [location.path + path[len(base) :] for path in written]
            with named_errors(location.url, "write"):
                fs.rm_file(location.child("zarr.json")) if location.child("zarr.json") in old else None
                for path, target in zip(written, moved, strict=True):  # the metadata come last again
                    fs.makedirs(target.rpartition("/")[0], exist_ok=True)
                    fs.cp_file(path, target)
                for path in set(old) - set(moved) - {location.child("zarr.json")}:
                    fs.rm_file(path)
                for path in written:
                    fs.rm_file(path)
    except BaseException:
        with suppress(Exception):  # out of reach as well: chunks without metadata cannot be opened
            for path in written:
                if fs.exists(path):
                    fs.rm_file(path)
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
