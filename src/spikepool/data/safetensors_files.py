"""safetensors, read from its specification.

Layout: 8 bytes (little-endian length n of the header), n bytes of JSON mapping each tensor to its dtype, shape and
byte range, then the bytes. The package `safetensors` (0.8) refuses every damaged file of our tests, but its NumPy side
cannot read bfloat16 (``TypeError: data type 'bfloat16' not understood``), the commonest type of real checkpoints, and
says of a file what is wrong without the tensor's name. Here the tensor is memory-mapped: only the rows in use are read.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.data.sources import ArraySource, TableSource
from spikepool.data.tensor_names import choose_tensor
from spikepool.errors import TableFormatError

# The format allows 100 MB; real headers stay under 2 MB, and parsed JSON takes up to 20 times its length.
HEADER_LIMIT = 16 * 2**20
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2}
SIZES |= {"I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8, "C64": 8}


def open_safetensors(file: Path, tensor: str | None) -> TableSource:
    """The table in a safetensors file, memory-mapped."""
    header, start, size = _header(file)
    shapes = {}
    for name, entry in header.items():
        shape = _checked_entry(name, entry, start, size)
        if entry["dtype"] in DTYPES:
            shapes[name] = shape
    if tensor in header and tensor not in shapes:
        raise TableFormatError(
            f"tensor {tensor!r} does not hold floating-point numbers",
            header[tensor]["dtype"],
            f"Convert it to one of {', '.join(DTYPES)}",
        )
    name = choose_tensor(shapes, tensor, file.name)
    entry = header[name]
    if 0 in shapes[name]:
        raise TableFormatError(f"tensor {name!r} is empty", shapes[name], "Choose another tensor")
    array = np.memmap(
        file, dtype=DTYPES[entry["dtype"]], mode="r", offset=start + entry["data_offsets"][0], shape=shapes[name]
    )
    return ArraySource(array, name, bfloat16=entry["dtype"] == "BF16")


def list_safetensors(file: Path) -> list[tuple[str, tuple[int, ...], str]]:
    """(name, shape, dtype) of every tensor of a file, from its checked header."""
    header, start, size = _header(file)
    return [(name, _checked_entry(name, entry, start, size), entry["dtype"]) for name, entry in header.items()]


def list_index(file: Path) -> list[tuple[str, tuple[int, ...], str]]:
    """The same for every shard of a sharded model that is there."""
    shards = sorted({_checked_shard(shard) for shard in _weight_map(file).values()})
    present = [file.parent / shard for shard in shards if (file.parent / shard).is_file()]
    return [entry for shard in present for entry in list_safetensors(shard)]


def open_index(file: Path, tensor: str | None) -> TableSource:
    """The table in a sharded model, by its ``.index.json``: only the shard that holds it is opened."""
    name, shard = shard_of_table(file, tensor)
    if not (file.parent / shard).is_file():
        raise TableFormatError("the shard that holds the table is missing", shard, "Download it as well")
    return open_safetensors(file.parent / shard, name)


def shard_of_table(file: Path, tensor: str | None) -> tuple[str, str]:
    """(name of the tensor, name of the shard that holds it), from an index."""
    weights = _weight_map(file)
    # Shapes are in the shards; two dimensions are assumed here and checked when the shard is opened.
    name = choose_tensor(dict.fromkeys(weights, (0, 0)), tensor, file.name)
    return name, _checked_shard(weights[name])


def _weight_map(file: Path) -> dict[str, str]:
    """Tensor -> shard, from an index."""
    if file.stat().st_size > HEADER_LIMIT:
        raise TableFormatError("the index is too long to be one", file.stat().st_size, "Pass a shard instead")
    index = _parse(file.read_bytes(), file.name)
    weights = index.get("weight_map")
    if not isinstance(weights, dict) or not all(isinstance(v, str) for v in weights.values()):
        raise TableFormatError("the index has no map of tensors to files", file.name, "Pass a shard instead")
    return weights


def _checked_shard(shard: str) -> str:
    if Path(shard).name != shard or not shard.endswith(".safetensors"):
        raise TableFormatError("the index points outside its folder", shard, "Pass the shard itself")
    return shard


def _header(file: Path) -> tuple[dict[str, Any], int, int]:
    """Parsed header without its metadata, offset of the data, size of the file."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > size - 8:
            raise TableFormatError("the file is shorter than its header says", (length, size), "Download it again")
        if length > HEADER_LIMIT:
            raise TableFormatError(
                f"the header is longer than {HEADER_LIMIT} bytes", length, "This is not a real model; do not use it"
            )
        header = _parse(stream.read(length), file.name)
    header.pop("__metadata__", None)
    return header, 8 + length, size


def _parse(text: bytes, file: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ValueError("a name occurs twice")
        return result

    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as err:  # JSON and UTF-8 errors are ValueErrors
        raise TableFormatError(f"the header is not valid JSON: {err}", file, "Download it again") from err
    if not isinstance(header, dict):
        raise TableFormatError("the header is not a JSON object", file, "Download it again")
    return header


def _checked_entry(name: str, entry: Any, start: int, size: int) -> tuple[int, ...]:
    """Shape of one tensor, after checking that dtype, shape and byte range agree with each other and the file."""

    def lie(what: str, value: Any) -> TableFormatError:
        return TableFormatError(f"tensor {name!r}: {what}", value, "The header is damaged; download the file again")

    if not isinstance(entry, dict):
        raise lie("its entry is not an object", entry)
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in SIZES:
        raise lie("unknown dtype", dtype)
    if not isinstance(shape, list) or not all(_is_count(n) for n in shape):
        raise lie("its shape is not a list of sizes", shape)
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_count(n) for n in offsets):
        raise lie("its byte range is not a pair of offsets", offsets)
    if len(shape) > 64:
        raise lie("it has too many dimensions", len(shape))
    begin, end = offsets
    if begin > end or end > size - start:
        raise lie(f"its byte range ends outside the file of {size} bytes", offsets)
    if math.prod(shape) * SIZES[dtype] != end - begin:
        raise lie(f"shape {tuple(shape)} of {dtype} does not fill its byte range", offsets)
    return tuple(shape)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**48
