"""Whole records of a table, one after the other: what a program that adds a column to a file needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spikepool.data.formats import recognise
from spikepool.data.locations import locate
from spikepool.errors import TableFormatError


def read_records(path: Any) -> Iterator[dict[str, Any]]:
    """Records of a CSV, TSV, JSON lines, Parquet or Arrow file as dictionaries, in order and a few at a time."""
    location = locate(path, None)
    form = recognise(location, "labels")
    if form.records is None:
        raise TableFormatError(f"{location.url} is {form.name}, which has no records", remedy="Use CSV or Parquet")
    yield from form.records(location)
