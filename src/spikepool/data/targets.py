"""What may be written: one rule for every output.

A target that exists is refused without `overwrite`, and with it replaced only if it is what the caller writes. What an
output is made from, and what encloses it or lies inside it, is never replaced.
"""

from __future__ import annotations

import csv
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from spikepool.errors import InvalidInputError

_ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")
_HEAD_BYTES = 2**16
GENERATOR = b'<meta name="generator" content="spikepool">'  # in the head of every page that is written here
_PREDICTION = re.compile("prediction_*")
MODEL_FILE, MODEL_FORMAT = "model.json", "spikepool-model"


def _has_predictions(names: Iterable[Any]) -> bool:
    return any(isinstance(name, str) and _PREDICTION.fullmatch(name) for name in names)


# By kind: what a reader calls it, and whether the first bytes of a file are of this kind.
_FILES: dict[str, tuple[str, Callable[[bytes], bool]]] = {
    "png": ("a PNG picture", lambda head: head.startswith(b"\x89PNG\r\n\x1a\n")),
    "svg": ("an SVG picture", lambda head: head.lstrip().startswith((b"<?xml", b"<svg")) and b"<svg" in head),
    "pdf": ("a PDF file", lambda head: head.startswith(b"%PDF-")),
    "page": ("a page of spikepool", lambda head: GENERATOR in head),
    "report": ("a report of spikepool", lambda head: b'"schema": "spikepool.report' in head[:200]),
    "npz": ("an npz archive", lambda head: head.startswith(b"PK\x03\x04") and b".npy" in head[:64]),
    "netcdf": ("a netCDF file", lambda head: head.startswith((b"CDF\x01", b"CDF\x02", b"\x89HDF"))),
    "onnx": ("an ONNX file of spikepool", lambda head: b"\x12\x09spikepool" in head[:16]),
    "tokenizer": ("a tokenizer", lambda head: b'"truncation"' in head[:400] and b'"version"' in head[:400]),
    "csv": (
        "a CSV file of predictions",
        lambda head: _has_predictions(next(csv.reader(head.decode("utf-8-sig", "replace").splitlines()), ())),
    ),
    "model": ("a saved model", lambda head: f'"format": "{MODEL_FORMAT}"'.encode() in head[:200]),
    "jsonl": ("a JSON-lines file of predictions", lambda head: b'"prediction' in head.partition(b"\n")[0]),
}
# Kinds that no reader takes for data: a new one may lie in a folder of inputs.
_SHOWN = ("png", "svg", "pdf", "page")


def check_target(out: Any, kind: str, *, overwrite: bool = False, inputs: Iterable[Any] = ()) -> Path:
    """Return the path of a target that may be written; raise before any work is done if it may not.

    Parameters
    ----------
    out : str or Path
        On this machine.
    kind : str
        What will be written: "png", "svg", "pdf", "page", "report", "npz", "netcdf", "onnx", "tokenizer",
        "csv", "jsonl", "model" (a folder), or "folder" (one that is never replaced).
    overwrite : bool
        Replace what is there, if it is of this kind.
    inputs : iterable
        What the output is made from.
    """
    if not str(out).strip() or "\0" in str(out):
        raise InvalidInputError("the name of the output is empty or has a NUL character", str(out), "Choose another")
    path = Path(out)
    present = os.path.lexists(path)
    refuse_overlap(out, inputs, store=present or kind not in _SHOWN)
    if present:
        name = _FILES[kind][0] if kind in _FILES else "a new folder"
        refuse_existing(out, _is_of_kind(path, kind), name, overwrite)
    return path


def refuse_existing(out: Any, same_kind: bool, name: str, overwrite: bool) -> None:
    """Raise for a target that exists, unless it is of the kind that is written and may be replaced."""
    if not same_kind:
        raise InvalidInputError(f"the output exists and is not {name}", str(out), "Choose another name")
    if not overwrite:
        raise InvalidInputError(
            "the output exists already", str(out), "Choose another name, or pass overwrite=True (--overwrite)"
        )


def _is_of_kind(path: Path, kind: str) -> bool:
    """Whether what is at `path` is what a writer of `kind` leaves there, or an empty file."""
    try:
        file = path / MODEL_FILE if kind == "model" else path
        if kind == "folder" or not stat.S_ISREG(file.stat().st_mode):
            return False
        with file.open("rb") as stream:
            return starts_as(kind, stream.read(_HEAD_BYTES))
    except (OSError, csv.Error):
        return False


def starts_as(kind: str, head: bytes) -> bool:
    """Whether a file that begins with `head` is of `kind`; an empty file holds nothing that could be lost."""
    return not head or _FILES[kind][1](head)


def refuse_overlap(out: Any, inputs: Iterable[Any], *, store: bool = True) -> None:
    """Raise if `out` is one of the places that `inputs` are read from, or a parent or a child of one.

    Links and different spellings of one place are followed. Without `store` (a picture or a page, which no reader takes
    for data) a place inside an input folder is allowed, unless that folder is a Zarr store.
    """
    target = _normal(out)
    for source in {place for value in inputs for place in _places(value)}:
        given = _normal(source)
        if not source or ("://" not in given and not os.path.lexists(given)):
            continue  # not a file of this machine
        inside = _is_below(target, given) and (store or _is_zarr(given))
        if target == given or inside or _is_below(given, target) or _same_file(target, given):
            relation = "inside" if inside else "above" if _is_below(given, target) else "the same as"
            raise InvalidInputError(
                f"the output is {relation} the input {source}",
                str(out),
                "Write to another place, so that no data are lost",
            )


def _places(value: Any, depth: int = 0) -> Iterable[str]:
    """Paths and URLs that `value` is read from, as far as it says."""
    if isinstance(value, (str, Path)):
        yield str(value)
    elif isinstance(value, np.ndarray):
        base: Any = value
        while base is not None:
            if isinstance(getattr(base, "filename", None), (str, Path)):
                yield str(base.filename)
            base = getattr(base, "base", None)
    elif isinstance(value, (list, tuple, Mapping)) and depth == 0:
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _places(part, 1)
    else:
        if hasattr(value, "location"):
            yield str(value.location.url)
        if isinstance(getattr(value, "array", None), np.ndarray) or hasattr(getattr(value, "array", None), "store"):
            yield from _places(value.array)
        store = getattr(value, "store", None)
        root = getattr(store, "root", None)
        fs = getattr(store, "fs", None)
        if root is not None:
            yield str(root)
        elif fs is not None:
            protocol = fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]
            yield f"{protocol}://{getattr(store, 'path', '')}".removeprefix("file://")


def _normal(place: Any) -> str:
    """One spelling for one place: the real path of a local file, the plain URL of another."""
    text = str(place)
    if text.startswith(("file://", "local://")):
        text = unquote(urlsplit(text).path)
    if "://" in text:
        protocol, _, rest = text.partition("://")
        parts = [part for part in rest.split("/") if part not in ("", ".")]
        protocol = {"gcs": "gs", "s3a": "s3"}.get(protocol.lower(), protocol.lower())
        return f"{protocol}://{'/'.join(parts)}"
    return os.path.realpath(os.path.expanduser(text))


def _is_below(child: str, parent: str) -> bool:
    return child != parent and child.startswith(parent.rstrip("/") + "/")


def _is_zarr(place: str) -> bool:
    return any(os.path.isfile(os.path.join(place, name)) for name in _ZARR_FILES)


def _same_file(first: str, second: str) -> bool:
    """Whether two local names are one file, such as hard links or names that differ in case only."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False
