"""Files that people upload: checked, read by the safe loaders in a worker process, turned into a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spikepool.errors import InvalidInputError
from spikepool.explorer.figures import Figure
from spikepool.explorer.jobs import Report

KINDS: dict[str, tuple[str, ...]] = {
    "features": (".npy", ".csv"),
    "table": (".npy", ".safetensors", ".gguf", ".parquet", ".csv"),
}
MAX_VOCABULARY = 10_000_000


class UploadError(InvalidInputError):
    """An upload is not of a kind that can be analysed."""


def check_upload(arguments: Mapping[str, str]) -> dict[str, Any]:
    """Kind, file ending and options of an upload, from the request's arguments."""
    kind = arguments.get("kind", "")
    if kind not in KINDS:
        raise UploadError("kind must be 'features' or 'table'", kind)
    name = arguments.get("name", "").lower()
    ending = next((e for e in KINDS[kind] if name.endswith(e)), None)
    if ending is None:
        raise UploadError(f"the file must be one of {', '.join(KINDS[kind])}", name[-40:])
    text = arguments.get("V", "")
    if text and not (text.isascii() and text.isdigit() and len(text) <= 8 and 2 <= int(text) <= MAX_VOCABULARY):
        raise UploadError(f"V must be a whole number from 2 to {MAX_VOCABULARY:,}", text)
    return {"kind": kind, "ending": ending, "V": int(text) if text else None}


def upload_task(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    raise UploadError("analysis is not available yet")


@dataclass(frozen=True)
class Shown:
    title: str
    verdict: str
    figure: Figure
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def present(result: dict[str, Any], theme: str) -> Shown:
    raise NotImplementedError
