"""What may be written: one rule for every output.

A target that exists is refused without `overwrite`, and with it replaced only if it is what the caller writes. What an
output is made from, and what encloses it or lies inside it, is never replaced.
"""

from __future__ import annotations

import csv
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from spikepool.data.formats.zarr_arrays import METADATA
from spikepool.errors import InvalidInputError

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


def check_target(out: Any, kind: str, *, overwrite: bool = False, inputs: Iterable[str | Path | None] = ()) -> Path:
    """Return the path of a target that may be written; raise before any work is done if it may not.

    Parameters
    ----------
    out : str or Path
    kind : str
        What will be written: "png", "svg", "pdf", "page", "report", "npz", "netcdf", "onnx", "tokenizer",
        "csv", "jsonl" or "model" (a folder).
    overwrite : bool
        Replace what is there, if it is of this kind.
    inputs : iterable of str, Path or None
        What the output is made from; names that are no path of this machine, such as those of encoders, are ignored.
    """
    if not str(out).strip() or "\0" in str(out):
        raise InvalidInputError("the name of the output is empty or has a NUL character", str(out), "Choose another")
    path = Path(out)
    present = os.path.lexists(path)
    _refuse_overlap(path, inputs, store=present or kind not in _SHOWN)
    if present and not _is_of_kind(path, kind):
        raise InvalidInputError(f"the output exists and is not {_FILES[kind][0]}", str(out), "Choose another name")
    if present and not overwrite:
        raise InvalidInputError(
            "the output exists already", str(out), "Choose another name, or pass overwrite=True (--overwrite)"
        )
    return path


def _is_of_kind(path: Path, kind: str) -> bool:
    """Whether what is at `path` is what a writer of `kind` leaves there, or an empty file, which holds nothing."""
    try:
        file = path / MODEL_FILE if kind == "model" else path
        if not stat.S_ISREG(file.stat().st_mode):
            return False
        with file.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
        return not head or _FILES[kind][1](head)
    except (OSError, csv.Error):
        return False


def _refuse_overlap(out: Path, inputs: Iterable[str | Path | None], *, store: bool) -> None:
    """Raise if `out` is one of `inputs`, or a parent or a child of one.

    Links and different spellings of one place are followed. Without `store` (a picture or a page, which no reader takes
    for data) a place inside an input folder is allowed, unless that folder is a Zarr store.
    """
    target = _real(out)
    for source in inputs:
        if not source or not os.path.lexists(given := _real(source)):
            continue
        inside = given in target.parents and (store or _is_zarr(given))
        above = target in given.parents
        if target == given or inside or above or _same_file(target, given):
            relation = "inside" if inside else "above" if above else "the same as"
            raise InvalidInputError(
                f"the output is {relation} the input {source}",
                str(out),
                "Write to another place, so that no data are lost",
            )


def _real(place: str | Path) -> Path:
    """One spelling for one place."""
    return Path(os.path.realpath(os.path.expanduser(place)))


def _is_zarr(place: Path) -> bool:
    return any((place / name).is_file() for name in METADATA)


def _same_file(first: Path, second: Path) -> bool:
    """Whether two names are one file, such as hard links or names that differ in case only."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False
