"""Opening a table file by its content, never by trust.

The format is recognised from the first bytes. Formats that run code when read (pickles: .bin, .pt, .pkl, ...) are
refused; every other reader here parses plain data with each length checked against the size of the file.
"""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spikepool.data.locations import is_url
from spikepool.data.sources import TableSource, checked_width
from spikepool.data.tensor_names import PICKLE_REMEDY
from spikepool.errors import InvalidInputError, TableFormatError, UnsafeFormatError
from spikepool.kit import validation as check

PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".dill")
ZARR_METADATA = ("zarr.json", ".zarray", ".zgroup")
FILE_SUFFIXES = (".safetensors", ".npy", ".npz", ".gguf", ".parquet", ".arrow", ".feather", ".json", *PICKLE_SUFFIXES)
KNOWN = "safetensors, npy, npz, GGUF, Parquet or Arrow"

# Formats known by their first bytes. An npz archive is looked into, as one may hold pickles.
MAGIC: dict[bytes, str] = {
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"GGUF": "gguf",
    b"PAR1": "arrow",
    b"ARROW1": "arrow",
}
# format -> ``(file, tensor) -> TableSource``, or where in this room it is: a reader is imported when it is needed
READERS: dict[str, str | Callable[[Path, str | None], TableSource]] = {
    "npy": "numpy_files.open_npy",
    "npz": "numpy_files.open_npz",
    "gguf": "gguf_files.open_gguf",
    "arrow": "arrow_files.open_arrow",
    "index": "safetensors_files.open_index",
    "safetensors": "safetensors_files.open_safetensors",
}


def open_table(path: Any, tensor: str | None = None, *, transpose: bool = False) -> TableSource:
    """The embedding table in a file, as a stream of rows; nothing is read yet but the header.

    Parameters
    ----------
    path : str or path-like
        A file (safetensors, npy, npz, GGUF, Parquet, Arrow), a safetensors index or a folder that holds one, a
        Hugging Face model id (``"hf://openai-community/gpt2"``, or ``"owner/name"`` when no such path exists), a Zarr
        array, or the URL (``s3://``, ...) of an npy, Zarr, Parquet or Arrow file.
    tensor : str, optional
        Name of the tensor, or of the column; by default the input embedding is found by its usual names.
    transpose : bool
        Exchange rows and columns: for a table stored with tokens as columns.

    Returns
    -------
    TableSource

    Raises
    ------
    UnsafeFormatError
        The file is a pickle.
    TableFormatError
        The file is damaged, of an unknown format, or holds no such tensor.
    """
    if tensor is not None and not isinstance(tensor, str):
        raise InvalidInputError("tensor must be the name of a tensor", tensor, "Pass a string")
    if (is_url(path) and not str(path).startswith("hf://")) or _is_zarr_folder(path):
        from spikepool.data.chunked_table import open_chunked_table

        source = open_chunked_table(path, tensor)
    else:
        source = _open_file(locate_file(path), tensor)
    return checked_width(source.transposed() if check.flag(transpose, "transpose") else source)


def _is_zarr_folder(path: Any) -> bool:
    """Whether the path is a Zarr array or group on this machine."""
    return isinstance(path, (str, Path)) and any((Path(path) / name).is_file() for name in ZARR_METADATA)


def locate_file(path: Any) -> Path:
    """The file behind a path, a folder with one model, or a model id, which is downloaded."""
    try:
        text = str(path)
        file = Path(path)
    except TypeError as err:
        raise InvalidInputError("path must be a file name", path, "Pass a string or a Path") from err
    if text.startswith("hf://") or (not file.exists() and _looks_like_model_id(text)):
        from spikepool.data.hub import download

        file = download(text.removeprefix("hf://"))
    if file.is_dir():
        file = _table_in_folder(file)
    if not file.is_file():
        raise TableFormatError("there is no such file", text, "Check the path")
    return file


def _open_file(file: Path, tensor: str | None) -> TableSource:
    reader = READERS[recognise(file)]
    if isinstance(reader, str):
        module, name = reader.split(".")
        reader = getattr(importlib.import_module(f"spikepool.data.{module}"), name)
    return reader(file, tensor)


def recognise(file: Path) -> str:
    """Format of a file from its first bytes: npy, npz, gguf, arrow (Parquet too), index or safetensors."""
    try:
        with file.open("rb") as stream:
            head = stream.read(16)
        size = file.stat().st_size
    except OSError as err:
        raise TableFormatError(f"cannot read the file: {err.strerror}", file.name, "Check its permissions") from err
    if file.suffix.lower() in PICKLE_SUFFIXES:
        raise UnsafeFormatError(
            f"files ending in {file.suffix} are pickles, which run code when loaded", file.name, PICKLE_REMEDY
        )
    kind = next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)
    if kind == "npz":
        _refuse_pickled_archive(file)
    if kind is not None:
        return kind
    if file.name.endswith(".index.json"):
        return "index"
    # safetensors has no magic number: 8 bytes of header length, then JSON.
    if head[8:9] == b"{" or file.suffix.lower() == ".safetensors":
        if head[:1] == b"\x80" and head[8:9] != b"{":
            raise UnsafeFormatError(
                "the file is a pickle under another name; pickles run code when loaded", file.name, PICKLE_REMEDY
            )
        return "safetensors"
    if len(head) > 1 and head[0] == 0x80 and head[1] <= 5:
        raise UnsafeFormatError("the file is a pickle, which runs code when loaded", file.name, PICKLE_REMEDY)
    raise TableFormatError(f"unknown format ({size} bytes starting with {head[:8]!r})", file.name, f"Use {KNOWN}")


def _refuse_pickled_archive(file: Path) -> None:
    """A torch checkpoint is a zip archive with a pickle inside."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeDecodeError) as err:
        raise TableFormatError(f"the archive is damaged: {err}", file.name, "Download it again") from err
    if any(name.lower().endswith((".pkl", ".pickle")) for name in names):
        raise UnsafeFormatError(
            "the archive holds a pickle (a torch checkpoint), which runs code when loaded", file.name, PICKLE_REMEDY
        )


def _looks_like_model_id(text: str) -> bool:
    """True for ``owner/name`` without a suffix that a file of ours would have."""
    owner, slash, name = text.partition("/")
    plain = bool(slash and owner and name) and "/" not in name and "\\" not in text and not text.startswith(".")
    return plain and Path(name).suffix.lower() not in FILE_SUFFIXES


def _table_in_folder(folder: Path) -> Path:
    for name in ("model.safetensors", "model.safetensors.index.json"):
        if (folder / name).is_file():
            return folder / name
    found = sorted(folder.glob("*.safetensors"))
    if len(found) == 1:
        return found[0]
    if not found and any(p.suffix in PICKLE_SUFFIXES for p in folder.iterdir()):
        raise UnsafeFormatError(
            "the folder holds only pickled weights, which run code when loaded", folder.name, PICKLE_REMEDY
        )
    raise TableFormatError(
        "the folder does not hold one safetensors model", [p.name for p in found], "Pass the file itself"
    )
