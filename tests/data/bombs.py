"""Files under a megabyte that ask for far more: made by their writers, or byte by byte where these refuse to."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROWS = {"few": 2, "many": 3000}


def bombs(folder: Path) -> Iterator[Path]:
    """Every file of the corpus, written as it is asked for."""
    for make in (parquet_bombs, arrow_bombs, npz_bombs, npy_bombs, gguf_bombs, safetensors_bombs):
        yield from make(folder)


def _lists(count: int, width: int, kind: str):
    import pyarrow as pa

    zeros = pa.array(
        np.zeros(count * width, dtype={"float": np.float32, "double": np.float64, "half": np.float16}[kind])
    )
    return pa.ListArray.from_arrays(pa.array(np.arange(count + 1) * width, type=pa.int32()), zeros)


def parquet_bombs(folder: Path) -> Iterator[Path]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for compression in ("none", "snappy", "gzip", "zstd"):
        for name, rows, width in (("few", 2, 9_000_000), ("many", 9_000, 2_000)):
            file = folder / f"{compression}-{name}.parquet"
            pq.write_table(pa.table({"e": _lists(rows, width, "float")}), file, compression=compression)
            yield file
    file = folder / "groups.parquet"  # many small groups, each harmless
    with pq.ParquetWriter(file, pa.schema([("e", pa.list_(pa.float32()))])) as writer:
        for _ in range(20):
            writer.write_table(pa.table({"e": _lists(1000, 1000, "float")}))
    yield file
    file = folder / "columns.parquet"
    column = pa.array(np.zeros(500_000))
    pq.write_table(pa.table({f"c{i}": column for i in range(20)}), file, compression="zstd")
    yield file
    file = folder / "fixed.parquet"
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(18_000_000, dtype=np.float32)), 9_000_000)
    pq.write_table(pa.table({"e": values}), file, compression="zstd")
    yield file
    file = folder / "ragged.parquet"
    offsets = pa.array([0, 1, 18_000_000], type=pa.int32())
    ragged = pa.ListArray.from_arrays(offsets, pa.array(np.zeros(18_000_000, dtype=np.float32)))
    pq.write_table(pa.table({"e": ragged}), file, compression="zstd")
    yield file


def arrow_bombs(folder: Path) -> Iterator[Path]:
    import pyarrow as pa

    for compression in ("zstd", "lz4"):
        for name, rows, width in (("few", 2, 9_000_000), ("many", 9_000, 2_000)):
            table = pa.table({"e": _lists(rows, width, "float")})
            file = folder / f"{compression}-{name}.arrow"
            options = pa.ipc.IpcWriteOptions(compression=compression)
            with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
                writer.write_table(table)
            yield file
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    # text beside a small column of vectors
    words = pa.array(["x" * 70_000_000, "y"])
    table = pa.table({"e": _lists(2, 4, "float"), "words": words})
    file = folder / "beside.arrow"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    yield file
    # a dictionary
    table = pa.table({"e": _lists(2, 4, "float"), "words": words.dictionary_encode()})
    file = folder / "dictionary.arrow"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    yield file
    file = folder / "batches.arrow"
    table = pa.table({"e": _lists(1000, 1000, "float")})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        for _ in range(20):
            writer.write_table(table)
    yield file


def npz_bombs(folder: Path) -> Iterator[Path]:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (8_000, 1000)})
    for method, name in (
        (zipfile.ZIP_DEFLATED, "deflate"),
        (zipfile.ZIP_BZIP2, "bzip2"),
        (zipfile.ZIP_LZMA, "lzma"),
    ):
        file = folder / f"{name}.npz"
        with zipfile.ZipFile(file, "w", method) as archive, archive.open("e.npy", "w", force_zip64=True) as member:
            member.write(header.getvalue())
            for _ in range(8):
                member.write(bytes(8_000_000))
        yield file
    file = folder / "members.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for i in range(4000):
            archive.writestr(f"{i}.npy", b"\x93NUMPY\x01\x00\x76\x00")
    yield file
    # a central directory that lies about the size
    file = folder / "liar.npz"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("e.npy", header.getvalue() + bytes(1000))
    raw = bytearray(file.read_bytes())
    at = raw.rfind(b"PK\x01\x02")
    raw[at + 24 : at + 28] = struct.pack("<I", 64_000_128)
    file.write_bytes(bytes(raw))
    yield file


def npy_bombs(folder: Path) -> Iterator[Path]:
    shapes = {"huge": (10**9, 10**6), "negative": (-1, 10), "deep": (2,) * 40, "zero": (10**15, 0)}
    for name, shape in shapes.items():
        file = folder / f"{name}.npy"
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": shape})
        file.write_bytes(head.getvalue() + bytes(800))
        yield file
    file = folder / "header.npy"
    file.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"(" * 900_000)
    yield file


def gguf_bombs(folder: Path) -> Iterator[Path]:
    def value(key: bytes, kind: int, payload: bytes) -> bytes:
        return struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + payload

    def write(name: str, tensors: int, values: int, body: bytes) -> Path:
        file = folder / f"{name}.gguf"
        file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, tensors, values) + body)
        return file

    strings = struct.pack("<IQ", 8, 100_000) + bytes(8 * 100_000)
    yield write("strings", 0, 1, value(b"t", 9, strings))
    yield write("announced", 0, 1, value(b"t", 9, struct.pack("<IQ", 8, 2**24) + bytes(800_000)))
    yield write("entries", 2**60, 2**60, bytes(900_000))
    yield write("keys", 0, 70_000, value(b"", 0, b"\x00") * 69_000)
    yield write("long", 0, 1, value(b"t", 8, struct.pack("<Q", 2**62)))
    yield write("array", 0, 1, value(b"t", 9, struct.pack("<IQ", 10, 2**61)))
    tensor = struct.pack("<Q", 1) + b"e" + struct.pack("<IQQIQ", 2, 2**31, 2**31, 0, 0)
    yield write("tensor", 1, 0, tensor + bytes(1000))
    tensor = struct.pack("<Q", 1) + b"e" + struct.pack("<IQQIQ", 2, 32, 2**40, 8, 0)
    yield write("quantised", 1, 0, tensor + bytes(1000))


def safetensors_bombs(folder: Path) -> Iterator[Path]:
    def write(name: str, header: bytes, length: int | None = None) -> Path:
        file = folder / f"{name}.safetensors"
        file.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + bytes(64))
        return file

    yield write("length", b"{}", 2**60)
    yield write("nested", b'{"a":' * 100_000)
    one = {"dtype": "F32", "shape": [2**31, 2**31], "data_offsets": [0, 2**64 - 4]}
    yield write("shape", json.dumps({"e": one}).encode())
    many = {str(i): {"dtype": "F32", "shape": [0, 2], "data_offsets": [0, 0]} for i in range(12_000)}
    yield write("names", json.dumps(many).encode())
