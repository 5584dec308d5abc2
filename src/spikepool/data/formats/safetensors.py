"""safetensors, read from its specification.

Layout: 8 bytes (little-endian length n of the header), n bytes of JSON mapping each tensor to its dtype, shape and
byte range, then the bytes. The package `safetensors` (0.8) refuses every damaged file of our tests, but its NumPy side
cannot read bfloat16 (``TypeError: data type 'bfloat16' not understood``), the commonest type of real checkpoints, and
says of a file what is wrong without the tensor's name. Here the tensor is memory-mapped: only the rows in use are read.
Types that NumPy does not have (bfloat16 and the 8-bit floats of checkpoints) are converted to float32 in memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.formats import PICKLE_REMEDY, Named, Request, TensorEntry
from spikepool.data.names import choose_name, choose_tensor
from spikepool.data.paths import require_whole
from spikepool.errors import TableFormatError, UnsafeFormatError
from spikepool.kit.bounded_reading import read_file, regular_file

Decode = Callable[[NDArray[Any]], NDArray[np.float32]]


def bfloat16_to_float32(bits: NDArray[Any]) -> NDArray[np.float32]:
    """Exact value of bfloat16 bit patterns: bfloat16 is the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


@lru_cache(maxsize=4)
def eight_bit_values(kind: str) -> NDArray[np.float32]:
    """The 256 values of an 8-bit float (OCP 8-bit floating point and microscaling specifications).

    With sign s, exponent e and mantissa m, a normal number is (−1)^s 2^(e − bias) (1 + m) and a subnormal one (e = 0)
    is (−1)^s 2^(1 − bias) m. E4M3 has bias 7, no infinities, and NaN where all of e and m are ones. E5M2 has bias 15
    and the infinities and NaN of IEEE 754. E8M0 is 2^(e − 127) alone, NaN for e = 255.
    """
    code = np.arange(256)
    if kind == "F8_E8M0":
        return np.asarray(np.where(code == 255, np.nan, np.exp2(code.astype(np.float64) - 127)), dtype=np.float32)
    bits, bias = {"F8_E4M3": (3, 7), "F8_E5M2": (2, 15)}[kind]
    exponent, mantissa = (code & 127) >> bits, (code & ((1 << bits) - 1)) / (1 << bits)
    size = np.where(exponent > 0, np.exp2(exponent - bias) * (1 + mantissa), np.exp2(1.0 - bias) * mantissa)
    if kind == "F8_E4M3":
        size[(code & 127) == 127] = np.nan
    else:
        size[exponent == 31] = np.where(mantissa[exponent == 31] > 0, np.nan, np.inf)
    return np.asarray(np.where(code & 128, -size, size), dtype=np.float32)


def _look_up(kind: str, codes: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(eight_bit_values(kind)[codes], dtype=np.float32)


def decoder(kind: str) -> Decode | None:
    """What turns stored entries of a type into float32, or None where NumPy has the type."""
    if kind == "BF16":
        return bfloat16_to_float32
    return partial(_look_up, kind) if kind in ("F8_E4M3", "F8_E5M2", "F8_E8M0") else None


# The format allows 100 MB; real headers stay under 2 MB, and parsed JSON takes up to 20 times its length.
HEADER_LIMIT = 16 * 2**20
# Types of real numbers and of integers, as NumPy reads their bytes.
REAL = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "F8_E4M3": "u1", "F8_E5M2": "u1", "F8_E8M0": "u1"}
WHOLE = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4"}
WHOLE |= {"U64": "<u8", "I64": "<i8"}
# Bits of every type of the specification, those below a byte included.
BITS = {name: 8 * np.dtype(code).itemsize for name, code in (REAL | WHOLE).items()}
BITS |= {"C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
MODELS = ("model.safetensors", "model.safetensors.index.json")


def read_safetensors(path: Path, request: Request) -> Named:
    """One tensor: of a file, of a sharded model, or of the model in a folder."""
    file = _file(path)
    if file.name.endswith(".index.json"):
        name, shard = shard_of_table(file, request.column)
        if not (file.parent / shard).is_file():
            raise TableFormatError("the shard that holds the table is missing", shard, "Download it as well")
        return _tensor(file.parent / shard, name, request.role)
    return _tensor(file, request.column, request.role)


def _tensor(file: Path, tensor: str | None, role: str) -> Named:
    header, start, size = _header(file)
    shapes = {name: _checked_entry(name, entry, start, size) for name, entry in header.items()}
    usable = {name: shapes[name] for name in shapes if header[name]["dtype"] in REAL | WHOLE}
    if tensor in shapes and tensor not in usable:
        raise TableFormatError(
            f"tensor {tensor!r} holds numbers that are not read here", header[tensor]["dtype"], "Convert it to F32"
        )
    if role == "table":
        real = {name: shape for name, shape in usable.items() if header[name]["dtype"] in REAL}
        name = tensor if tensor in usable else choose_tensor(real, tensor, file.name)
    else:
        name = choose_name(list(usable), tensor, role, file.name, "tensor")
    shape = shapes[name] or (1,)  # a scalar is a vector of one number
    if 0 in shape:
        raise TableFormatError(f"tensor {name!r} holds no rows", shape, "Choose another tensor")
    kind, begin = header[name]["dtype"], start + header[name]["data_offsets"][0]
    array = np.memmap(file, dtype=(REAL | WHOLE)[kind], mode="r", offset=begin, shape=shape)
    decode = decoder(kind)
    if decode is None:
        return name, array
    require_whole(4 * math.prod(shape), file)
    return name, decode(array)


def safetensors_tensors(path: Path) -> list[TensorEntry]:
    """Every tensor of a file or of a sharded model; those of shards that are not there, with that problem."""
    file = _file(path)
    if not file.name.endswith(".index.json"):
        return _listed(file)
    weights = _weight_map(file)
    shards = {_checked_shard(shard): file.parent / shard for shard in weights.values()}
    found = {entry.name: entry for path in shards.values() if path.is_file() for entry in _listed(path)}
    entries = []
    for name, shard in weights.items():
        problem = f"it is not in {shard}" if shards[shard].is_file() else f"its shard {shard} is missing"
        entries.append(found.pop(name, TensorEntry(name, (), "missing", problem)))
    return [*entries, *found.values()]


def _listed(file: Path) -> list[TensorEntry]:
    header, start, size = _header(file)
    return [
        TensorEntry(
            name,
            _checked_entry(name, entry, start, size),
            entry["dtype"],
            "" if entry["dtype"] in REAL | WHOLE else f"type {entry['dtype']} is not read here",
        )
        for name, entry in header.items()
    ]


def _file(path: Path) -> Path:
    """The file itself, or the model in a folder."""
    if not path.is_dir():
        return path
    for name in MODELS:
        if (path / name).is_file():
            return path / name
    candidates = sorted(path.glob("*.safetensors"))
    if len(candidates) == 1:
        return candidates[0]
    if not candidates and any(p.suffix in (".bin", ".pt", ".pth", ".ckpt") for p in path.iterdir()):
        raise UnsafeFormatError(
            "the folder holds only pickled weights, which run code when loaded", path.name, PICKLE_REMEDY
        )
    raise TableFormatError(
        f"the folder {path} is neither a Zarr array nor holds one safetensors model",
        [p.name for p in candidates],
        "Pass the file itself",
    )


def shard_of_table(file: Path, tensor: str | None) -> tuple[str, str]:
    """(name of the tensor, name of the shard that holds it), from an index."""
    weights = _weight_map(file)
    # Shapes are in the shards; two dimensions are assumed here and checked when the shard is opened.
    name = choose_tensor(dict.fromkeys(weights, (0, 0)), tensor, file.name)
    return name, _checked_shard(weights[name])


def _weight_map(file: Path) -> dict[str, str]:
    """Tensor -> shard, from an index."""
    index = _parse(read_file(file, HEADER_LIMIT), file.name)
    weights = index.get("weight_map")
    if not isinstance(weights, dict) or not all(isinstance(v, str) for v in weights.values()):
        raise TableFormatError("the index has no map of tensors to files", file.name, "Pass a shard instead")
    return weights


def _checked_shard(shard: str) -> str:
    if Path(shard).name != shard or not shard.endswith(".safetensors"):
        raise TableFormatError("the index points outside its folder", shard, "Pass the shard itself")
    return shard


def _header(file: Path) -> tuple[dict[str, Any], int, int]:
    """Parsed header without its metadata, offset of the data, size of the file; parsed once for all its tensors."""
    status = regular_file(file, 2**48).stat()
    return _parsed_header(file, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=2)
def _parsed_header(file: Path, size: int, _changed: int) -> tuple[dict[str, Any], int, int]:
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
    _check_layout(header, size - 8 - length, file.name)
    return header, 8 + length, size


def _check_layout(header: dict[str, Any], size: int, file: str) -> None:
    """Raise unless the byte ranges of the tensors fill the data without holes or overlaps, as the format demands."""
    ranges: list[Any] = [entry.get("data_offsets") if isinstance(entry, dict) else None for entry in header.values()]
    if not all(isinstance(pair, list) and len(pair) == 2 and all(map(_is_count, pair)) for pair in ranges):
        return  # named when the tensor is opened or listed
    end = 0
    for begin, stop in sorted(map(tuple, ranges)):
        if begin != end:
            what = "overlap" if begin < end else "leave a hole"
            raise TableFormatError(f"tensors of {file} {what} at byte {begin} of the data", remedy="Download it again")
        end = stop
    if end < size:
        raise TableFormatError(f"{file} has {size - end:,} bytes after its last tensor", remedy="Download it again")


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
    if not isinstance(dtype, str):
        raise lie("its type is not a name", dtype)
    if not isinstance(shape, list) or not all(_is_count(n) for n in shape):
        raise lie("its shape is not a list of sizes", shape)
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_count(n) for n in offsets):
        raise lie("its byte range is not a pair of offsets", offsets)
    if len(shape) > 64:
        raise lie("it has too many dimensions", len(shape))
    begin, end = offsets
    if begin > end or end > size - start:
        raise lie(f"its byte range ends outside the file of {size} bytes", offsets)
    # a type that is not known here spoils nothing but its own tensor
    if dtype in BITS and math.prod(shape) * BITS[dtype] != 8 * (end - begin):
        raise lie(f"shape {tuple(shape)} of {dtype} does not fill its byte range", offsets)
    return tuple(shape)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**48
