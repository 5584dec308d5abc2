"""Zarr arrays, on disk or in object storage."""

from __future__ import annotations

import math
import zlib
from itertools import product
from typing import Any

import numpy as np

from spikepool.data.blocks import LEARNED_POOLING, BlockSource
from spikepool.data.formats import ROLES, Format, Probe, Request, TensorEntry, register
from spikepool.data.locations import RATIO_LIMIT, Location, in_memory, named_errors, refuse_bomb, refuse_pieces
from spikepool.data.names import choose_name
from spikepool.errors import ShapeError, TableFormatError, UnreadableChunkError, require
from spikepool.kit.files import regular_file

# A folder with one of these is a Zarr array or group, of version 3 or 2.
METADATA = ("zarr.json", ".zarray", ".zgroup")


class ZarrBlocks(BlockSource):
    """A Zarr array; the chunks are its own, or its shards where it has them.

    Zarr reads a chunk that is not there as the fill value, and an upload that was cut off would look like rows of
    zeros. Such a chunk of floating-point numbers is therefore an error.
    """

    def __init__(self, array: Any, name: str, location: Location | None = None) -> None:
        if array.ndim == 0 or 0 in array.shape:
            raise ShapeError(f"{name} holds no rows", array.shape, "Pass an array of rows")
        inner = getattr(array, "shards", None) or array.chunks
        refuse_pieces(math.prod(-(-n // c) for n, c in zip(array.shape, inner, strict=True)), name, "chunks")
        step, n = int(inner[0]), int(array.shape[0])
        self.array, self.location = array, location
        learned = getattr(array, "attrs", {}).get(LEARNED_POOLING)
        self.learned_pooling = learned[:40] if isinstance(learned, str) else None
        store = getattr(array, "store", None)
        portable = "Memory" not in type(store).__name__ and not in_memory(_file_system(store))
        super().__init__(name, array.shape, array.dtype, [*range(0, n, max(step, 1)), n], portable=portable)

    def _load(self, start: int, stop: int) -> Any:
        self._refuse_swollen_chunks(start)
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

    def _refuse_swollen_chunks(self, start: int) -> None:
        """Raise if a stored chunk of these rows would decompress to more than a chunk holds."""
        metadata = self.array.metadata
        if self.location is None or not hasattr(metadata, "encode_chunk_key") or getattr(self.array, "shards", None):
            return
        chunks = self.array.chunks
        limit = math.prod(chunks) * int(self.dtype.itemsize) + 2**16
        counts = [range(-(-n // c)) for n, c in zip(self.shape[1:], chunks[1:], strict=True)]
        for place in product(*counts):
            path = self.location.child(metadata.encode_chunk_key((start // chunks[0], *place)))
            if self.location.fs is None:
                stored = self.location.at(path)
                if stored.local is not None and stored.local.exists():
                    regular_file(stored.local, 2**48)  # Zarr would wait for a pipe
                    _check_chunk(stored, limit, self.name)


def _check_chunk(chunk: Location, limit: int, name: str) -> None:
    """Raise if a compressed chunk announces, or turns out, to hold more than `limit` bytes."""
    head = chunk.read(0, 18)
    if head.startswith(b"\x28\xb5\x2f\xfd"):  # zstd: content size in the frame header
        flag, single = head[4] >> 6, bool(head[4] & 32)
        width = {0: 1 if single else 0, 1: 2, 2: 4, 3: 8}[flag]
        at = 5 + (0 if single else 1) + (0, 1, 2, 4)[head[4] & 3]
        announced = int.from_bytes(head[at : at + width], "little") + (256 if flag == 1 else 0)
        size = announced if width else chunk.size() * RATIO_LIMIT
    elif head.startswith((b"\x1f\x8b", b"\x78")):  # gzip, zlib
        unpack, data = zlib.decompressobj(47), chunk.read()
        size = 0
        try:
            while data and size <= limit:
                size += len(unpack.decompress(data, 1 << 20))
                data = unpack.unconsumed_tail
                if unpack.eof:  # a member that follows the first
                    data, unpack = unpack.unused_data, zlib.decompressobj(47)
        except zlib.error:
            return  # the reader names it
    else:
        return
    if size > limit:
        raise TableFormatError(
            f"a chunk of {name} would expand to {size:,} bytes or more, beyond its shape", chunk.name, "Do not use it"
        )


def _file_system(store: Any) -> Any:
    """The fsspec file system below a Zarr store, itself perhaps wrapped to be asynchronous; None for other stores."""
    fs = getattr(store, "fs", None)
    return getattr(fs, "sync_fs", fs)


def _is_fill(rows: np.ndarray[Any, Any], fill: Any) -> bool:
    value = np.asarray(0 if fill is None else fill, dtype=rows.dtype)
    first = rows.flat[0]
    same = np.isnan if np.isnan(value) else lambda x: np.equal(x, value)
    return bool(same(first)) and bool(np.all(same(rows)))


def _node(location: Location) -> Any:
    zarr = require("zarr", "sweeps")
    options = {"storage_options": dict(location.options)} if location.options else {}
    with named_errors(location.url):
        return zarr.open(location.url, mode="r", **options)


def _open(location: Location, request: Request) -> ZarrBlocks:
    """The array at a location; of a group, the one that is named or its only one."""
    node = _node(location)
    place = location
    if hasattr(node, "array_keys"):
        names = sorted(node.array_keys())
        if request.column is None and request.role == "rows" and len(names) != 1:
            raise TableFormatError(
                f"{location.url} is a Zarr group with {len(names)} arrays", names[:12], "Name one with column="
            )
        name = choose_name(names, request.column, request.role, location.url, "array")
        place = location.at(location.child(name))
        with named_errors(location.url):
            node = node[name]
    elif request.column is not None:
        raise TableFormatError(f"{location.url} is one array without a name", request.column, "Leave the name out")
    decoded = math.prod(node.shape) * int(np.dtype(node.dtype).itemsize)
    if decoded > 2**26:  # a listing of a large store takes time
        refuse_bomb(decoded, sum(place.files().values()), location.url)
    return ZarrBlocks(node, location.url, place)


def _tensors(location: Location) -> list[TensorEntry]:
    node = _node(location)
    if not hasattr(node, "array_keys"):
        return [TensorEntry(location.name, tuple(node.shape), str(node.dtype))]
    return [TensorEntry(name, tuple(node[name].shape), str(node[name].dtype)) for name in sorted(node.array_keys())]


def _recognise(probe: Probe) -> bool:
    return probe.folder and any(probe.location.has(name) for name in METADATA)


register(Format("Zarr", (".zarr",), ROLES, _recognise, _open, _tensors))
