"""A corpus of hostile files, and a script that puts each of them through every door in one process per door.

    python hostile.py FOLDER DOOR      # prints a line of JSON for each file: outcome, seconds, growth of peak memory

With 256 MB of memory available every file must be refused by a named error, or read, within 512 MB above the import and
10 seconds of processor time.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import struct
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

ROWS = 60


def small(width: int = 8) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, width)).astype(np.float32)


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=array.dtype.hasobject)
    return stream.getvalue()


def npy_head(shape: object, descr: str = "<f8") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def deflated(head: bytes, size: int, window: int) -> bytes:
    """`head` and then `size` zeros, compressed; after a full flush equal input gives equal output."""
    packer = zlib.compressobj(9, zlib.DEFLATED, window)
    start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(bytes(2**24)) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + piece * (size // 2**24) + packer.flush()


def npz_bomb(shape: tuple[int, ...]) -> Callable[[Path], None]:
    """An archive whose member is honestly announced."""

    def write(path: Path) -> None:
        head = npy_head(shape)
        zeros = 8 * int(np.prod(shape)) // 2**24 * 2**24
        packed, name, size = deflated(head, zeros, -15), b"X.npy", len(head) + zeros
        fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(packed), size, len(name), 0)
        local = b"PK\x03\x04" + fields + name
        central = b"PK\x01\x02" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
        end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local) + len(packed), 0)
        path.write_bytes(local + packed + central + end)

    return write


def zarr_array(metadata: dict, chunks: dict[str, bytes]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.mkdir()
        (path / "zarr.json").write_text(json.dumps(metadata))
        for name, content in chunks.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)

    return write


def zarr_metadata(shape: list, chunk: list, codecs: list, dtype: str = "float64") -> dict:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, *codecs],
        "attributes": {},
    }


GZIP = {"name": "gzip", "configuration": {"level": 9}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}


def zeros_gz(size: int) -> bytes:
    return deflated(b"", size, 31)


def zstd_header(size: int) -> bytes:
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", size) + bytes(40)


def safetensors(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def parquet(columns: int, rows: int, value: float = 0.0) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        column = pa.array(np.full(rows, value))
        pq.write_table(pa.table({f"c{i}": column for i in range(columns)}), path)

    return write


def lists(rows: int, width: int, compression: str = "zstd") -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        zeros = pa.array(np.zeros(rows * width, dtype=np.float32))
        values = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * width, type=pa.int32()), zeros)
        pq.write_table(pa.table({"X": values}), path, compression=compression)

    return write


def raw(content: bytes | Callable[[], bytes]) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content()) and None


def text(content: str) -> Callable[[Path], None]:
    return raw(content.encode())


def corpus() -> dict[str, Callable[[Path], None]]:
    """Name of a file or folder -> how it is written."""
    good = npy(small())
    trap = b"\x80\x04cos\nsystem\n(S'touch executed'\ntR."
    many = "\n".join(",".join(map(str, [*row, i // 4])) for i, row in enumerate(np.tile(small(), (330, 1)).round(3)))
    cases = {
        # arrays and archives
        "bomb.npz": npz_bomb((2**18, 1024)),
        "labels-bomb.npz": npz_bomb((2**28,)),
        "tokens-bomb.npz": npz_bomb((2**16, 64, 64)),
        "bomb-under-another-name.npy": npz_bomb((2**19, 512)),
        "members.npz": lambda p: _members(p, 12_000),
        "huge.npy": raw(npy_head((10**9, 10**6)) + bytes(800)),
        "negative.npy": raw(npy_head((-1, 10)) + bytes(800)),
        "wrap.npy": raw(npy_head((2**33, 2**33)) + bytes(800)),
        "zero.npy": raw(npy_head((10**15, 0))),
        "deep.npy": raw(npy_head((2,) * 40) + bytes(800)),
        "scalar.npy": raw(npy(np.float64(3))),
        "cut.npy": raw(good[:-7]),
        "long.npy": raw(good + bytes(7)),
        "header.npy": raw(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"(" * 900_000),
        "objects.npy": raw(npy(np.array([{}, []], dtype=object))),
        "records.npy": raw(npy(np.zeros(50, dtype=[("a", "f4")]))),
        "complex.npy": raw(npy(np.ones((50, 8), dtype=complex))),
        "dates.npy": raw(npy(np.zeros((50, 8), dtype="M8[s]"))),
        "nan.npy": raw(npy(np.full((50, 8), np.nan))),
        "inf.npy": raw(npy(np.full((50, 8), np.inf))),
        "large-values.npy": raw(npy(np.full((50, 8), 1e308) * np.sign(small()[:50].astype(float)))),
        "equal-rows.npy": raw(npy(np.ones((50, 8)))),
        "one-row.npy": raw(npy(np.ones((1, 8)))),
        "text.npy": raw(npy(np.array(["a", "b"]))),
        "pickle.npy": raw(trap),
        "pickle.npz": lambda p: _members(p, 1, "data.pkl", trap),
        "weights.pt": raw(trap),
        "weights.bin": raw(b""),
        # Zarr
        "tiny-chunks.zarr": zarr_array(zarr_metadata([10**9, 4], [1, 1], []), {}),
        "huge-shape.zarr": zarr_array(zarr_metadata([10**12, 10**6], [10**6, 10**3], []), {}),
        "gzip-honest.zarr": zarr_array(
            zarr_metadata([500_000, 1000], [500_000, 1000], [GZIP]), {"c/0/0": zeros_gz(4_000_000_000)}
        ),
        # Zarr decodes a chunk whole, however long it is: the error has a name, the memory no bound
        "gzip-liar.zarr": zarr_array(zarr_metadata([50, 8], [50, 8], [GZIP]), {"c/0/0": zeros_gz(2**26)}),
        "zstd-liar.zarr": zarr_array(zarr_metadata([50, 8], [50, 8], [ZSTD]), {"c/0/0": zstd_header(2**40)}),
        "missing-chunk.zarr": zarr_array(zarr_metadata([50, 8], [50, 8], []), {}),
        "short-chunk.zarr": zarr_array(zarr_metadata([50, 8], [50, 8], []), {"c/0/0": bytes(8)}),
        "unknown-codec.zarr": zarr_array(
            zarr_metadata([50, 8], [50, 8], [{"name": "quantum", "configuration": {}}]), {"c/0/0": bytes(8)}
        ),
        "negative.zarr": zarr_array(zarr_metadata([-5, 8], [5, 8], []), {}),
        "zero-chunk.zarr": zarr_array(zarr_metadata([50, 8], [0, 8], []), {}),
        "text-shape.zarr": zarr_array(zarr_metadata(["a"], ["b"], []), {}),
        "no-json.zarr": zarr_array({}, {"zarr.json": b"{"}),
        "deep-json.zarr": zarr_array({}, {"zarr.json": b"[" * 100_000}),
        "group.zarr": zarr_array({"zarr_format": 3, "node_type": "group", "attributes": {}}, {}),
        # Parquet
        "few-rows.parquet": lists(2, 40_000_000),
        "many-rows.parquet": lists(60_000, 2000),
        "snappy.parquet": lists(60_000, 2000, "snappy"),
        "gzip.parquet": lists(60_000, 2000, "gzip"),
        "columns.parquet": parquet(12_000, 50),
        "long-column.parquet": parquet(4, 10_000_000),
        "cut.parquet": lambda p: _cut(p, lists(50, 8)),
        "footer.parquet": raw(b"PAR1" + bytes(100) + struct.pack("<I", 2**31 - 1) + b"PAR1"),
        "magic.parquet": raw(b"PAR1"),
        # checkpoints
        "length.safetensors": raw(struct.pack("<Q", 2**60) + b"{}"),
        "nested.safetensors": raw(safetensors(b'{"a":' * 100_000)),
        "shape.safetensors": raw(safetensors({"X": {"dtype": "F32", "shape": [2**31, 2**31], "data_offsets": [0, 4]}})),
        "names.safetensors": raw(
            lambda: safetensors(
                {str(i): {"dtype": "F32", "shape": [0, 2], "data_offsets": [0, 0]} for i in range(50_000)}
            )
        ),
        "overlap.safetensors": raw(
            safetensors(
                {n: {"dtype": "F32", "shape": [8, 8], "data_offsets": [0, 256]} for n in "ab"}, bytes(256)
            )
        ),
        "escape.safetensors": raw(
            safetensors({"\x1b[2J\n": {"dtype": "F32", "shape": [8, 8], "data_offsets": [0, 256]}}, bytes(256))
        ),
        "packed.safetensors": raw(
            safetensors({"X": {"dtype": "F4", "shape": [50, 8], "data_offsets": [0, 200]}}, bytes(200))
        ),
        "strange.safetensors": raw(
            safetensors({"X": {"dtype": "Q17", "shape": [50, 8], "data_offsets": [0, 200]}}, bytes(200))
        ),
        "not-there.index.json": text(json.dumps({"weight_map": {"wte.weight": "a.safetensors"}})),
        "outside.index.json": text(json.dumps({"weight_map": {"wte.weight": "../../etc/passwd"}})),
        # tables of text
        "bomb.csv.gz": raw(lambda: deflated(b"1,2\n" * 100_000, 2**28, 31)),
        "cut.csv.gz": raw(lambda: gzip.compress(b"1,2,3,4\n" * 1000)[:-30]),
        "one-line.csv": raw(lambda: b"1," * 20_000_000 + b"1\n"),
        "wide.csv": text(",".join(["1"] * 30_000) + "\n"),
        "quote.csv": raw(lambda: b'a,b\n1,"' + b"x" * 30_000_000),
        "ragged.csv": text("a,b\n1,2\n3\n"),
        "words.csv": text("question,answer\nwhy,because\n"),
        "nan.csv": text("a,b,c,d\n" + "nan,1,2,3\n" * 50),
        "utf16.csv": raw("a,b\n1,2\n".encode("utf-16")),
        "nul.csv": raw(b"a,b\n1,\0\n"),
        "many-classes.csv": text(many),
        "one-text.csv": text("text,label\nhello,a\n"),
        "empty-texts.csv": text("text,label\n" + ",a\n,b\n" * 20),
        "one-label.csv": text("text,label\n" + "".join(f"word {k},a\n" for k in range(40))),
        "unlabelled.csv": text("text,label\n" + "".join(f"word {k},\n" for k in range(40))),
        "long-text.csv": raw(lambda: b"text,label\n" + b"word " * 4_000_000 + b",a\nshort,b\n"),
        "latin1-text.csv": raw("text,label\ncaf\xe9,x\n".encode("latin-1")),
        "nul-text.csv": raw(b"text,label\na\0b,c\n"),
        "twice.csv": text("text,text,label\na,b,c\n"),
        "nested-text.jsonl": text('{"text": {"a": 1}, "label": "b"}\n' * 3),
        "deep-text.jsonl": text("[" * 100_000),
        "deep.json": raw(b"[" * 1_000_000),
        "nested.json": text(json.dumps([[1, 2], [3]])),
        "object.json": text('{"y": {"a": 1}}'),
        "deep.jsonl": raw(b'{"a":' * 200_000),
        "lists.jsonl": text('{"X": [1, 2]}\n{"X": [1]}\n'),
        "list.jsonl": text('{"a": 1}\n3\n'),
        # anything else
        "empty": raw(b""),
        "noise.dat": raw(np.random.default_rng(1).bytes(4096)),
        "page.html": text("<!DOCTYPE html><html>404</html>"),
        "pointer.safetensors": text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5"),
        "pipe": lambda p: os.mkfifo(p),
        "folder": lambda p: p.mkdir(),
        "loop": lambda p: p.symlink_to(p),
        "device": lambda p: p.symlink_to("/dev/zero"),
    }  # fmt: skip
    return cases


def _members(path: Path, count: int, name: str = "{}.npy", content: bytes = b"\x93NUMPY\x01\x00\x76\x00") -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(count):
            archive.writestr(name.format(i), content)


def _cut(path: Path, write: Callable[[Path], None]) -> None:
    write(path)
    path.write_bytes(path.read_bytes()[:-20])


def command(*arguments: object) -> Callable[[Path], None]:
    """A door of the command line; PATH stands for the file."""

    def run(path: Path) -> None:
        from spikepool.cli import main

        try:
            main([str(path) if a == "PATH" else str(a) for a in arguments])
        except SystemExit as leave:
            if leave.code not in (0, None):
                raise Refused(f"exit {leave.code}: {sys.stderr.getvalue()}") from None  # type: ignore[attr-defined]
        finally:
            sys.stderr.seek(0)
            sys.stderr.truncate()

    return run


class Refused(Exception):
    """A command ended with one of its documented exit codes."""


def doors(folder: Path) -> dict[str, Callable[[Path], None]]:
    np.save(folder / "rows.npy", small())
    np.save(folder / "y.npy", np.arange(ROWS) % 2)
    return {
        "diagnose": command("diagnose", "PATH"),
        "forecast": command("forecast", "PATH", "--labels", folder / "y.npy"),
        "report": command("report", "PATH", "--out", folder / "r.json"),
        "spectrum": command("spectrum", "PATH"),
        "tensors": command("spectrum", "PATH", "--list"),
        "labels": command("forecast", folder / "rows.npy", "--labels", "PATH"),
        "diagnose texts": command("diagnose", "PATH", "--text-column", "text"),
        "forecast texts": command("forecast", "PATH", "--text-column", "text", "--label-column", "label"),
    }


def peak() -> int:
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


def measure(folder: Path) -> Iterator[tuple[str, str, str, float, int]]:
    import pyarrow.parquet  # noqa: F401  imported before memory is measured
    import scipy.optimize  # noqa: F401
    import zarr  # noqa: F401

    import spikepool as sp
    from spikepool.answers import report  # noqa: F401
    from spikepool.cli import application  # noqa: F401
    from spikepool.data.formats import records
    from spikepool.kit import memory
    from spikepool.tables import TableSpectrum  # noqa: F401

    memory.available_bytes = records.available_bytes = lambda: 256 * 2**20  # a small machine
    sys.stderr = io.StringIO()
    for door, enter in doors(folder).items():
        for path in sorted(p for p in Path(folder, "corpus").iterdir()):
            Path("/proc/self/clear_refs").write_text("5")  # the peak of this file alone
            start, before = time.process_time(), peak()
            try:
                enter(path)
                outcome = "read"
            except (sp.SpikepoolError, Refused) as err:
                outcome = f"refused: {err}"
            except BaseException as err:
                outcome = f"raw {type(err).__name__}: {err}"
            yield door, path.name, outcome, time.process_time() - start, peak() - before


if __name__ == "__main__":
    sys.stdout, answer = io.StringIO(), sys.stdout
    for line in measure(Path(sys.argv[1])):
        print(json.dumps(line), file=answer, flush=True)
