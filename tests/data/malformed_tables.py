"""A corpus of malformed table files, each with the error it must give.

Run as a script with a folder, it opens every file of the folder in one process whose address space may grow by one
gibibyte, and prints what happened to each as JSON. A pickle that were executed would create CANARY.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

CANARY = "executed"
ROWS, COLUMNS = 60, 40


class Trap:
    """Creates the canary when unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.mkdir, (str(self.folder / CANARY),))


def table() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)


def safetensors(header: object, data: bytes | None = None, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = table().tobytes() if data is None else data
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def entry(dtype: object = "F32", shape: object = (ROWS, COLUMNS), offsets: object = (0, 4 * ROWS * COLUMNS)) -> dict:
    fix = [list(x) if isinstance(x, tuple) else x for x in (shape, offsets)]
    return {"wte.weight": {"dtype": dtype, "shape": fix[0], "data_offsets": fix[1]}}


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=array.dtype.hasobject)
    return stream.getvalue()


def npy_with(header: str, data: bytes, version: tuple[int, int] = (1, 0)) -> bytes:
    text = header.encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(text)) + text + data


def npz(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def zip_bomb() -> bytes:
    """Two gigabytes of zeros, honestly announced, in two megabytes."""
    header = npy_with(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**20}, 512), }}", b"")
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(header) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush equal input gives equal output: pack one piece and repeat it.
    zeros = packer.compress(bytes(2**24)) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = start + zeros * (2**31 // 2**24) + packer.flush()
    name, size = b"table.npy", len(header) + 2**31
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(packed), size, len(name), 0)
    local = b"PK\x03\x04" + fields + name
    central = b"PK\x01\x02" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local) + len(packed), 0)
    return local + packed + central + end


def parquet() -> bytes:
    import pyarrow
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    vectors = pyarrow.array(list(table()), type=pyarrow.list_(pyarrow.float32()))
    pq.write_table(pyarrow.table({"vector": vectors}), stream)
    return stream.getvalue()


def flipped(data: bytes, position: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1 << bit
    return bytes(changed)


def with_value(value: float) -> np.ndarray:
    array = table()
    array[37, 5] = value
    return array


def cases(folder: Path) -> dict[str, tuple[Callable[[], bytes], str]]:
    """File name -> (content, name of the error it must give)."""
    trap = pickle.dumps(Trap(folder))
    form, unsafe, infinite = "TableFormatError", "UnsafeFormatError", "NonFiniteError"
    good, plain = safetensors(entry()), npy(table())
    objects = np.array([[Trap(folder)] * COLUMNS] * ROWS, dtype=object)
    deep = b'{"wte.weight":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': "
    size = 4 * ROWS * COLUMNS
    return {
        # truncations
        "empty.safetensors": (lambda: b"", form),
        "five-bytes.safetensors": (lambda: good[:5], form),
        "half-header.safetensors": (lambda: good[:40], form),
        "half-data.safetensors": (lambda: good[: len(good) // 2], form),
        "one-short.safetensors": (lambda: good[:-1], form),
        "half.npy": (lambda: plain[: len(plain) // 2], form),
        "magic-only.npy": (lambda: plain[:6], form),
        "half-header.npy": (lambda: plain[:30], form),
        "one-short.npy": (lambda: plain[:-1], form),
        "half.npz": (lambda: npz({"table.npy": plain})[:2000], form),
        "no-directory.npz": (lambda: npz({"table.npy": plain})[:-30], form),
        "half.parquet": (lambda: parquet()[:3000], form),
        "magic-only.parquet": (lambda: b"PAR1", form),
        # headers that ask for too much
        "huge-length.safetensors": (lambda: safetensors(entry(), length=2**63), form),
        "long-length.safetensors": (lambda: safetensors(b"{" + b" " * (17 * 2**20) + b"}"), form),
        "deep.safetensors": (lambda: safetensors(deep), form),
        "many-lists.safetensors": (lambda: safetensors(b'{"a":[' + b"[]," * 2_500_000 + b"[]]}"), form),
        "huge-header.npy": (lambda: npy_with(head + "(60, 40), }" + " " * 60_000, table().tobytes()), form),
        # lies about shapes, ranges and types
        "large-shape.safetensors": (lambda: safetensors(entry(shape=(2**40, 2**40))), form),
        "other-shape.safetensors": (lambda: safetensors(entry(shape=(ROWS + 1, COLUMNS))), form),
        "negative.safetensors": (lambda: safetensors(entry(shape=(-60, -40))), form),
        "text-shape.safetensors": (lambda: safetensors(entry(shape="60x40")), form),
        "true-shape.safetensors": (lambda: safetensors(entry(shape=(True, COLUMNS))), form),
        "backwards.safetensors": (lambda: safetensors(entry(offsets=(size, 0))), form),
        "outside.safetensors": (lambda: safetensors(entry(offsets=(size, 2 * size))), form),
        "no-offsets.safetensors": (lambda: safetensors({"wte.weight": {"dtype": "F32", "shape": [60, 40]}}), form),
        "list.safetensors": (lambda: safetensors([1, 2]), form),
        "entry-list.safetensors": (lambda: safetensors({"wte.weight": [1]}), form),
        "twice.safetensors": (lambda: safetensors(b'{"a": {}, "a": {}}'), form),
        "not-utf8.safetensors": (lambda: safetensors(b'{"\xff\xfe": 1}'), form),
        "unknown-dtype.safetensors": (lambda: safetensors(entry(dtype="F31")), form),
        "integers.safetensors": (lambda: safetensors(entry(dtype="I32")), form),
        "one-dimension.safetensors": (lambda: safetensors(entry(shape=(ROWS * COLUMNS,))), form),
        "no-rows.safetensors": (lambda: safetensors(entry(shape=(0, COLUMNS), offsets=(0, 0))), form),
        "no-tensors.safetensors": (lambda: safetensors({}), form),
        "wide.safetensors": (
            lambda: safetensors(entry(shape=(2, 200_000), offsets=(0, 1_600_000)), bytes(1_600_000)),
            "MemoryBudgetError",
        ),
        "large-shape.npy": (lambda: npy_with(head + f"({2**40}, {2**40}), }}", table().tobytes()), form),
        "negative.npy": (lambda: npy_with(head + "(-60, -40), }", table().tobytes()), form),
        "wide.npy": (lambda: npy_with(head + "(2, 200000), }", bytes(1_600_000)), "MemoryBudgetError"),
        "code-in-header.npy": (lambda: npy_with("__import__('os').mkdir('" + CANARY + "')", b""), form),
        "version-nine.npy": (lambda: npy_with(head + "(60, 40), }", table().tobytes(), (9, 0)), form),
        "integers.npy": (lambda: npy(np.ones((60, 40), dtype=np.int64)), form),
        "complex.npy": (lambda: npy(np.ones((60, 40), dtype=np.complex64)), form),
        "text.npy": (lambda: npy(np.full((60, 40), "a")), form),
        "records.npy": (lambda: npy(np.zeros((60, 40), dtype=[("a", "f4")])), form),
        "vector.npy": (lambda: npy(np.ones(600, dtype=np.float32)), "ShapeError"),
        # bit flips in headers
        "flip-length.safetensors": (lambda: flipped(good, 1, 4), form),
        "flip-brace.safetensors": (lambda: flipped(good, 8, 3), form),
        "flip-quote.safetensors": (lambda: flipped(good, 9, 0), form),
        "flip-descr.npy": (lambda: flipped(plain, 11, 1), form),
        "flip-footer.parquet": (lambda: flipped(parquet(), -6, 7), form),
        "flip-crc.npz": (lambda: _flip_data(npz({"table.npy": plain}, zipfile.ZIP_STORED)), form),
        # pickles, plain and in disguise
        "weights.bin": (lambda: trap, unsafe),
        "weights.pt": (lambda: trap, unsafe),
        "weights.pkl": (lambda: trap, unsafe),
        "torch.pth": (lambda: npz({"archive/data.pkl": trap, "archive/data/0": bytes(64)}), unsafe),
        "pickle.safetensors": (lambda: trap, unsafe),
        "pickle.npy": (lambda: trap, unsafe),
        "torch.npz": (lambda: npz({"archive/data.pkl": trap, "archive/data/0": bytes(64)}), unsafe),
        "objects.npy": (lambda: npy(objects), unsafe),
        "objects.npz": (lambda: npz({"table.npy": npy(objects)}), unsafe),
        "pickle-member.npz": (lambda: npz({"table.npy": trap}), form),
        # archives
        "bomb.npz": (zip_bomb, "MemoryBudgetError"),
        "not-arrays.npz": (lambda: npz({"readme.txt": b"hello"}), form),
        "no-members.npz": (lambda: npz({}), form),
        "lying-member.npz": (lambda: npz({"table.npy": npy_with(head + "(900, 40), }", bytes(99))}), form),
        # values and the unknown
        "nan.npy": (lambda: npy(with_value(np.nan)), infinite),
        "inf.safetensors": (lambda: safetensors(entry(), with_value(np.inf).tobytes()), infinite),
        "nan.npz": (lambda: npz({"table.npy": npy(with_value(np.nan))}), infinite),
        "overflow.npy": (lambda: npy(with_value(1).astype(np.float64) * 1e300), infinite),
        "noise.dat": (lambda: np.random.default_rng(1).bytes(4096), form),
        "page.html": (lambda: b"<!DOCTYPE html><html>404</html>", form),
        "pointer.safetensors": (lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5", form),
    }


def _flip_data(data: bytes) -> bytes:
    return flipped(data, 1000, 3)


def main(folder: Path) -> None:
    import resource

    import pyarrow.parquet  # noqa: F401  imported before the limit is set
    import scipy.optimize  # noqa: F401

    import spikepool as sp

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, used + 2**30))
    os.chdir(folder)
    outcome = {}
    for file in sorted(p for p in folder.iterdir() if p.is_file()):
        try:
            sp.TableSpectrum.from_file(file, null_draws=0, repetitions=0)
            outcome[file.name] = ["no error", ""]
        except BaseException as err:
            named = isinstance(err, sp.SpikepoolError)
            outcome[file.name] = [type(err).__name__ if named else f"not ours: {err!r}", str(err)]
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
