"""Tables as text: CSV and TSV with or without a header, and JSON lines; plain or compressed with gzip.

Columns of numbers are features, side by side; a field of JSON lines may hold lists. Other columns are labels, groups or
texts, by name. Columns named like labels, and row numbers, are never features.

JSON files that are one list of values, or an object of such lists: labels, groups and texts.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import ArrayBlocks, BlockSource, SequentialBlocks, even_borders
from spikepool.data.formats import Format, Probe, Request, register
from spikepool.data.in_memory import as_values
from spikepool.data.locations import HARMLESS_BYTES, MOST_COLUMNS, RATIO_LIMIT, Location, refuse_pieces
from spikepool.data.names import USUAL_NAMES, choose_name, hidden_columns, refuse_doubled
from spikepool.errors import RaggedError, TableFormatError

ROLES = ("features", "table", "labels")
# Rows by which columns of numbers are told from others.
_SAMPLED = 100
_LONGEST_LINE = 1 << 22
_GZIP = b"\x1f\x8b"

Record = list[Any]


class RecordBlocks(SequentialBlocks):
    """Chosen columns of a table that is read record by record.

    Parameters
    ----------
    location : Location
    records : callable
        ``(location) -> (names or None, iterator of records)``; names are None in a table without a header.
    request : Request
    """

    def __init__(self, location: Location, records: Callable[[Location], Any], request: Request) -> None:
        self.location, self._records = location, records
        names, rows = records(location)
        sample = list(islice(rows, _SAMPLED))
        if not sample:
            raise TableFormatError(
                f"{location.url} has no rows, or more columns in its header", remedy="Check the file"
            )
        self._width = len(names if names is not None else sample[0])
        refuse_pieces(self._width, location.name, "columns", MOST_COLUMNS)
        self._names = names
        self._values = request.role in ("labels", "groups", "texts")
        self._columns = self._choose(sample, request)
        n = len(sample) + sum(1 for _ in rows)  # a first pass counts the rows and finds broken ones
        first = self._convert(sample[:1], 0)
        super().__init__(location.url, (n, *first.shape[1:]), first.dtype, even_borders((n, *first.shape[1:])))
        self.portable = location.shared

    def _choose(self, sample: list[Record], request: Request) -> list[int]:
        names = self._names
        if self._values:
            return [self._value_column(sample, request)]
        if request.column is not None:
            listed = names or []
            return [self._place(choose_name(listed, request.column, request.role, self.location.name, "column"))]
        numeric = [i for i in range(self._width) if all(_is_number(row[i]) for row in sample if i < len(row))]
        lists = [i for i in range(self._width) if isinstance(sample[0][i], list)]
        if len(lists) == 1:
            return lists
        if lists:
            raise TableFormatError(
                f"{self.location.name} has several columns of lists", [names[i] for i in lists][:12] if names else None
            )
        hidden = hidden_columns(request.role, request.exclude)
        features = [i for i in numeric if names is None or names[i] not in hidden]
        if not features:
            raise TableFormatError(
                f"{self.location.name} is not a table of numbers: it has no column of them",
                (names or sample[0])[:12],
                "Pass features, or name the column of texts if it holds texts",
            )
        return features

    def _value_column(self, sample: list[Record], request: Request) -> int:
        names = self._names
        if names is None:
            if self._width != 1 or request.column is not None:
                raise TableFormatError(
                    f"{self.location.name}: which column of the table holds the {request.role}? It has no header",
                    sample[0][:12],
                    "Add a line of column names",
                )
            return 0
        text = [name for name, cell in zip(names, sample[0], strict=False) if not isinstance(cell, (list, dict))]
        chosen = choose_name(text, request.column, request.role, self.location.name, "column of the table")
        return self._place(chosen)

    def _place(self, name: str) -> int:
        """Number of the column of this name, if there is one only."""
        names = list(self._names or [])
        refuse_doubled([other for other in names if other == name], self.location.name)
        return names.index(name)

    def _convert(self, rows: list[Record], start: int) -> NDArray[Any]:
        if self._values:
            return np.array([row[self._columns[0]] for row in rows] + [None], dtype=object)[:-1]
        try:
            if len(self._columns) == 1 and isinstance(rows[0][self._columns[0]], list):
                values = np.array([row[self._columns[0]] for row in rows], dtype=np.float64)
            else:
                cells = (float(row[i]) for row in rows for i in self._columns)
                values = np.fromiter(cells, np.float64, len(rows) * len(self._columns)).reshape(len(rows), -1)
        except (ValueError, TypeError) as err:
            row, cell = self._first_bad(rows)
            kind = RaggedError if isinstance(cell, list) else TableFormatError
            raise kind(
                f"{self.location.name}: row {start + row} has a value that is not a number ({err})",
                cell,
                "Repair or drop this row",
            ) from err
        return values

    def _first_bad(self, rows: list[Record]) -> tuple[int, Any]:
        for k, row in enumerate(rows):
            for i in self._columns:
                if not _is_number(row[i]):
                    return k, row[i]
        return 0, rows[0][self._columns[0]]

    def passes(self) -> Callable[[int], Any]:
        """A new pass over the records."""
        _, rows = self._records(self.location)
        at = 0

        def read(count: int) -> NDArray[Any]:
            nonlocal at
            block = self._convert(list(islice(rows, count)), at)
            at += count
            return block

        return read


def _is_number(cell: Any) -> bool:
    if isinstance(cell, bool) or cell is None:
        return False
    try:
        float(cell)
    except (ValueError, TypeError):
        return False
    return True


def _lines(location: Location) -> Iterator[str]:
    """Lines of a text file, decompressed; decompression is stopped where it would be a bomb."""
    with location.open() as raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        stream: Any = gzip.GzipFile(fileobj=raw) if packed else raw
        limit = max(HARMLESS_BYTES, RATIO_LIMIT * location.size()) if packed else None
        seen = 0
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            while line := text.readline(_LONGEST_LINE):
                seen += len(line)
                if len(line) == _LONGEST_LINE:
                    raise TableFormatError(f"{location.name} has a line that is too long", seen, "Use npy or Parquet")
                if limit is not None and seen > limit:
                    raise TableFormatError(
                        f"{location.name} would expand more than {RATIO_LIMIT} times", seen, "Do not use this file"
                    )
                yield line
        except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile) as err:
            raise TableFormatError(f"{location.name} is damaged: {err}", remedy="Save it again as UTF-8") from err
        finally:
            text.detach()


def _csv_records(location: Location) -> tuple[list[str] | None, Iterator[Record]]:
    csv.field_size_limit(max(csv.field_size_limit(), 4 * _LONGEST_LINE))  # a whole document may be a cell
    rows = _checked(csv.reader(_lines(location), delimiter=_delimiter(location)), location)
    first = next((row for row in rows if row), None)
    if first is None:
        raise TableFormatError(f"{location.name} is empty: it must hold one value per row", remedy="Check the file")
    header = [cell.strip() for cell in first]
    if all(_is_number(cell) for cell in header) or (len(header) == 1 and not _names_something(header[0])):
        # no header: numbers, or a single column of values
        return None, _of_width(_chain(first, rows), len(first), location)
    return header, _of_width(rows, len(header), location)


def _names_something(cell: str) -> bool:
    return any(cell in names for names in USUAL_NAMES.values())


def _chain(first: Record, rows: Iterator[Record]) -> Iterator[Record]:
    yield first
    yield from rows


def _checked(rows: Iterator[Record], location: Location) -> Iterator[Record]:
    """Rows of cells; a blank line is a row without cells, but at the end it is nothing."""
    blank = 0
    try:
        for row in rows:
            if row:
                yield from ([] for _ in range(blank))
                yield row
            blank = 0 if row else blank + 1
    except csv.Error as err:
        raise TableFormatError(f"{location.name} is not a table of comma-separated values: {err}") from err


def _of_width(rows: Iterator[Record], width: int, location: Location) -> Iterator[Record]:
    for k, row in enumerate(rows):
        if not row and width == 1:
            row = [""]  # in a table of one column a blank line is an empty cell
        if len(row) != width:
            problem = "short" if len(row) < width else "long"
            raise RaggedError(
                f"{location.name}: row {k} is too {problem}: it has {len(row)} cells, not {width}", row[:5], "Repair it"
            )
        yield row


def _delimiter(location: Location) -> str:
    """Tabs, semicolons or commas: what the first line has most of; a file of lines has none."""
    if location.suffix == ".txt":
        return "\0"
    first = next(_lines(location), "")
    counts = {mark: first.count(mark) for mark in (",", "\t", ";")}
    return max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else ","


def _json_objects(location: Location) -> Iterator[dict[str, Any]]:
    """The objects of the lines, with all their keys; each has at least those of the first."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        refuse_doubled([name for name, _ in pairs], location.name)
        return dict(pairs)

    names: list[str] | None = None
    for number, line in enumerate(_lines(location)):
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=unique)
        except TableFormatError:
            raise
        except (ValueError, RecursionError) as err:
            raise TableFormatError(f"{location.name}: line {number + 1} is not JSON ({err})") from err
        if not isinstance(record, dict):
            raise TableFormatError(f"{location.name}: line {number + 1} is not an object", record)
        names = list(record) if names is None else names
        missing = [name for name in names if name not in record]
        if missing:
            raise RaggedError(f"{location.name}: line {number + 1} lacks {missing[:3]}", list(record)[:8], "Repair it")
        yield record


def _json_records(location: Location) -> tuple[list[str] | None, Iterator[Record]]:
    rows = _json_objects(location)
    first = next(rows, None)
    if first is None:
        raise TableFormatError(f"{location.name} is empty: it must hold one value per row", remedy="Check the file")
    names = list(first)

    def records() -> Iterator[Record]:
        yield list(first.values())
        for record in rows:
            yield [record[name] for name in names]

    return names, records()


def _text_head(probe: Probe) -> str | None:
    """The beginning of a text file, decompressed; None for anything else."""
    head = probe.head
    if probe.folder or not head:
        return None
    try:
        if head.startswith(_GZIP):
            head = zlib.decompressobj(47).decompress(head, 4096)
        if b"\0" in head:
            return None
        return head.decode("utf-8-sig", errors="strict" if len(head) < 4 else "ignore") if _is_utf8(head) else None
    except (zlib.error, UnicodeDecodeError):
        return None


def _is_utf8(head: bytes) -> bool:
    """Whether bytes are UTF-8, up to a character that is cut off at the end."""
    try:
        head.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        return err.start >= len(head) - 3 and len(head) >= 64
    return True


def _recognise_json_lines(probe: Probe) -> bool:
    text = _text_head(probe)
    return text is not None and text.lstrip().startswith("{") and probe.suffix != ".json"


def _recognise_csv(probe: Probe) -> bool:
    text = _text_head(probe)
    return text is not None and not text.lstrip().startswith(("{", "[", "<"))


def _csv_dictionaries(location: Location) -> Iterator[dict[str, Any]]:
    """Records with the names of their columns; a column without a name has its number."""
    names, rows = _csv_records(location)
    refuse_doubled([name for name in names or [] if name], location.name)
    for row in rows:
        listed = names or [""] * len(row)
        yield dict(zip([name or f"column_{i}" for i, name in enumerate(listed)], row, strict=True))


def _register(
    name: str,
    suffixes: tuple[str, ...],
    roles: tuple[str, ...],
    recognise: Callable[[Probe], bool],
    read: Callable[[Location], Any],
    records: Callable[[Location], Iterator[dict[str, Any]]],
    rank: int,
) -> None:
    register(
        Format(
            name,
            suffixes,
            roles,
            recognise,
            lambda location, request: RecordBlocks(location, read, request),
            columns=lambda location: list(read(location)[0] or []),
            records=records,
            rank=rank,
        )
    )


_register("CSV", (".csv", ".tsv", ".txt"), ROLES, _recognise_csv, _csv_records, _csv_dictionaries, 9)
_LINES = (".jsonl", ".ndjson")
_register("JSON lines", _LINES, ("tokens", *ROLES), _recognise_json_lines, _json_records, _json_objects, 8)


LARGEST = 2**28  # bytes: JSON takes many times its length in memory


def _open(location: Location, request: Request) -> BlockSource:
    if location.size() > LARGEST:
        raise TableFormatError("the JSON file is too large", location.size(), "Use JSON lines, npy or Parquet")
    try:
        content = json.loads(location.read().decode("utf-8-sig"))
    except (ValueError, RecursionError) as err:
        raise TableFormatError(f"{location.name} is not a JSON list ({err})", remedy="Write a list of labels") from err
    if isinstance(content, dict):
        content = content[choose_name(list(content), request.column, request.role, location.name, "list")]
    elif request.column is not None:
        raise TableFormatError("a JSON list has no columns", request.column, "Leave the name out")
    values = as_values(content, location.name)
    return ArrayBlocks(np.asarray(values), location.url)


def _recognise(probe: Probe) -> bool:
    start = probe.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return not probe.folder and (start.startswith(b"[") or (probe.suffix == ".json" and start.startswith(b"{")))


register(Format("JSON", (".json",), ("labels",), _recognise, _open, rank=7))
