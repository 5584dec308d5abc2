"""Whether an output would overwrite, enclose or lie inside what it is made from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from spikepool.errors import InvalidInputError

_ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")


def refuse_overlap(out: Any, inputs: Iterable[Any], *, store: bool = True) -> None:
    """Raise if `out` is one of the places that `inputs` are read from, or a parent or a child of one.

    Links and different spellings of one place are followed. Without `store` (a picture or a page, which no reader takes
    for data) a place inside an input folder is allowed, unless that folder is a Zarr store.
    """
    target = _normal(out)
    for source in {place for value in inputs for place in _places(value)}:
        given = _normal(source)
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
