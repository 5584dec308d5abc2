"""JSON files that are one list of values, or an object of such lists: labels, groups and texts."""

from __future__ import annotations

import json

import numpy as np

from spikepool.data.blocks import ArrayBlocks, BlockSource
from spikepool.data.formats import Format, Probe, Request, register
from spikepool.data.labels import as_values
from spikepool.data.locations import Location
from spikepool.data.names import choose_name
from spikepool.errors import TableFormatError

LARGEST = 2**28  # bytes: JSON takes many times its length in memory


def _open(location: Location, request: Request) -> BlockSource:
    if location.size() > LARGEST:
        raise TableFormatError("the JSON file is too large", location.size(), "Use JSON lines, npy or Parquet")
    try:
        found = json.loads(location.read().decode("utf-8-sig"))
    except (ValueError, RecursionError) as err:
        raise TableFormatError(f"{location.name} is not a JSON list ({err})", remedy="Write a list of labels") from err
    if isinstance(found, dict):
        found = found[choose_name(list(found), request.column, request.role, location.name, "list")]
    elif request.column is not None:
        raise TableFormatError("a JSON list has no columns", request.column, "Leave the name out")
    values = as_values(found, location.name)
    return ArrayBlocks(np.asarray(values), location.url)


def _recognise(probe: Probe) -> bool:
    start = probe.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return not probe.folder and (start.startswith(b"[") or (probe.suffix == ".json" and start.startswith(b"{")))


register(Format("JSON", (".json",), ("labels",), _recognise, _open, rank=7))
