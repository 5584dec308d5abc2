"""npy files, memory-mapped, and npz archives. Pickled objects are never loaded."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.formats import PICKLE_REMEDY, Named, Request, TensorEntry
from spikepool.data.names import choose_name, choose_tensor
from spikepool.data.paths import require_whole
from spikepool.errors import SpikepoolError, TableFormatError, UnsafeFormatError


def read_npy(path: Path, request: Request) -> Named:
    """The array of an npy file; its rows are read from the disk when they are used."""
    if request.column is not None:
        raise TableFormatError("an npy file holds one array without a name", request.column, "Leave the name out")
    with _named_damage(path.name):
        return path.name, _checked(np.lib.format.open_memmap(path, mode="r"), path.name)


def npy_tensors(path: Path) -> list[TensorEntry]:
    """The one array of the file."""
    _, array = read_npy(path, Request())
    return [TensorEntry(path.name, array.shape, str(array.dtype))]


def read_npz(path: Path, request: Request) -> Named:
    """One array of an archive."""
    tensors = {tensor.name: tensor for tensor in npz_tensors(path)}
    if request.role == "table" and request.column not in tensors:
        real = {name: tensor.shape for name, tensor in tensors.items() if tensor.dtype.startswith("float")}
        listed = real or {name: tensor.shape for name, tensor in tensors.items()}
        name = choose_tensor(listed, request.column, path.name)
    else:
        name = choose_name(list(tensors), request.column, request.role, path.name, "array of the archive")
    with _named_damage(path.name), zipfile.ZipFile(path) as archive:
        require_whole(archive.getinfo(f"{name}.npy").file_size, path)
        with archive.open(f"{name}.npy") as stream:
            return name, _checked(np.lib.format.read_array(stream, allow_pickle=False), name)


def npz_tensors(path: Path) -> list[TensorEntry]:
    """Every array of an archive, from the headers of its members."""
    npy: Any = np.lib.format
    tensors = []
    with _named_damage(path.name), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if any(name.lower().endswith((".pkl", ".pickle")) for name in names):
            raise UnsafeFormatError(
                "the archive holds a pickle (a torch checkpoint), which runs code when loaded", path.name, PICKLE_REMEDY
            )
        if not names or len(set(names)) < len(names) or not all(name.endswith(".npy") for name in names):
            raise TableFormatError("the archive is not an npz file", names[:5], "Use numpy.savez")
        for name in names:
            with archive.open(name) as stream:
                version = npy.read_magic(stream)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = read(stream)
                tensors.append(TensorEntry(name.removesuffix(".npy"), shape, str(dtype)))
    return tensors


def _checked(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.dtype.kind not in "fiubUS":
        raise TableFormatError(f"{name} does not hold numbers", str(array.dtype), "Save it as float32")
    if not array.shape or 0 in array.shape:
        raise TableFormatError(f"{name} holds no rows", array.shape, "Save an array of rows")
    return array


@contextmanager
def _named_damage(name: str) -> Iterator[None]:
    try:
        yield
    except SpikepoolError:
        raise
    # encrypted members are RuntimeErrors, odd compression methods NotImplementedErrors
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, NotImplementedError, OSError) as err:
        if "Python objects" in str(err) or "Object arrays" in str(err):
            raise UnsafeFormatError(
                "the file holds pickled objects, which run code when loaded", name, PICKLE_REMEDY
            ) from err
        raise TableFormatError(f"{name} is damaged: {err}", remedy="Save it again") from err
