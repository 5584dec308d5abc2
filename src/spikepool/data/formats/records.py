"""Tables as text: CSV and TSV with or without a header, and JSON lines; plain or compressed with gzip.

Columns of numbers are features, side by side; a field of JSON lines may hold lists. Other columns are labels, groups or
texts, by name. Columns named like labels, and row numbers, are never features.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.formats import Named, Request
from spikepool.data.names import USUAL_NAMES, choose_name, hidden_columns, refuse_doubled
from spikepool.data.paths import named_errors, require_whole
from spikepool.errors import RaggedError, TableFormatError
from spikepool.kit.memory import available_bytes

# Rows by which columns of numbers are told from others.
_SAMPLED = 100
_LONGEST_LINE = 1 << 22
_GZIP = b"\x1f\x8b"
# Values of any kind are Python objects of a few dozen bytes.
_BYTES_PER_VALUE = 64
# Encoding of text files that do not start with a byte order mark.
ENCODING: ContextVar[str] = ContextVar("encoding", default="utf-8-sig")

Record = list[Any]
# path -> (names of the columns, or None in a table without a header; records)
Reader = Callable[[Path], tuple[list[str] | None, Iterator[Record]]]


def read_csv(path: Path, request: Request) -> Named:
    """Features or values of a CSV, TSV or txt file."""
    return path.name, _Columns(path, csv_records, request).read()


def read_json_lines(path: Path, request: Request) -> Named:
    """Features, tokens or values of JSON lines."""
    return path.name, _Columns(path, json_records, request).read()


def csv_columns(path: Path) -> list[str]:
    """Names of the columns; empty in a table without a header."""
    return list(csv_records(path)[0] or [])


def json_columns(path: Path) -> list[str]:
    """Keys of the first object."""
    return list(json_records(path)[0] or [])


class _Columns:
    """Chosen columns of a table that is read record by record."""

    def __init__(self, path: Path, reader: Reader, request: Request) -> None:
        self._path, self._file, self._values = path, path.name, request.values
        self._names, self._rows = reader(path)
        self._sample = list(islice(self._rows, _SAMPLED))
        if not self._sample:
            raise TableFormatError(f"{path} has no rows, or more columns in its header", remedy="Check the file")
        self._width = len(self._names if self._names is not None else self._sample[0])
        self._columns = [self._value_column(request)] if self._values else self._features(request)

    def read(self) -> NDArray[Any]:
        """All rows of the chosen columns."""
        parts, start, rows = [], 0, self._sample
        held, most = 0, available_bytes()
        while rows:
            parts.append(self._convert(rows, start))
            start += len(rows)
            held += parts[-1].nbytes + _BYTES_PER_VALUE * len(rows) * self._values
            if most is not None and 2 * held > most:  # the parts, and the whole
                require_whole(2 * held, self._path)
            rows = list(islice(self._rows, 1000))
        try:
            return np.concatenate(parts)
        except ValueError as err:
            raise RaggedError(f"{self._file} has lists of different lengths", remedy="Pad them to one length") from err

    def _features(self, request: Request) -> list[int]:
        names, sample = self._names, self._sample
        if request.column is not None:
            return [self._place(choose_name(names or [], request.column, request.role, self._file, "column"))]
        lists = [i for i in range(self._width) if isinstance(sample[0][i], list)]
        if len(lists) == 1:
            return lists
        if lists:
            shown = [names[i] for i in lists][:12] if names else None
            raise TableFormatError(f"{self._file} has several columns of lists", shown, "Name one with column=")
        numeric = [i for i in range(self._width) if all(_is_number(row[i]) for row in sample if i < len(row))]
        hidden = hidden_columns(request.role, request.exclude)
        features = [i for i in numeric if names is None or names[i] not in hidden]
        if not features:
            raise TableFormatError(
                f"{self._file} is not a table of numbers: it has no column of them",
                (names or sample[0])[:12],
                "Pass features, or name the column of texts if it holds texts",
            )
        return features

    def _value_column(self, request: Request) -> int:
        names, first = self._names, self._sample[0]
        if names is None:
            if self._width != 1 or request.column is not None:
                raise TableFormatError(
                    f"{self._file}: which column of the table holds the {request.role}? It has no header",
                    first[:12],
                    "Add a line of column names",
                )
            return 0
        text = [name for name, cell in zip(names, first, strict=False) if not isinstance(cell, (list, dict))]
        return self._place(choose_name(text, request.column, request.role, self._file, "column of the table"))

    def _place(self, name: str) -> int:
        """Number of the column of this name, if there is one only."""
        names = list(self._names or [])
        refuse_doubled([other for other in names if other == name], self._file)
        return names.index(name)

    def _convert(self, rows: list[Record], start: int) -> NDArray[Any]:
        if self._values:
            return np.array([row[self._columns[0]] for row in rows] + [None], dtype=object)[:-1]
        try:
            if len(self._columns) == 1 and isinstance(rows[0][self._columns[0]], list):
                return np.array([row[self._columns[0]] for row in rows], dtype=np.float64)
            cells = (float(row[i]) for row in rows for i in self._columns)
            return np.fromiter(cells, np.float64, len(rows) * len(self._columns)).reshape(len(rows), -1)
        except (ValueError, TypeError) as err:
            row, cell = self._first_bad(rows)
            kind = RaggedError if isinstance(cell, list) else TableFormatError
            raise kind(
                f"{self._file}: row {start + row} has a value that is not a number ({err})",
                cell,
                "Repair or drop this row",
            ) from err

    def _first_bad(self, rows: list[Record]) -> tuple[int, Any]:
        for k, row in enumerate(rows):
            for i in self._columns:
                if not _is_number(row[i]):
                    return k, row[i]
        return 0, rows[0][self._columns[0]]


def _is_number(cell: Any) -> bool:
    if isinstance(cell, bool) or cell is None:
        return False
    try:
        float(cell)
    except (ValueError, TypeError):
        return False
    return True


def _lines(path: Path) -> Iterator[str]:
    """Lines of a text file, decompressed."""
    with named_errors(path), path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        stream: Any = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if packed else raw
        encoding = ENCODING.get()
        text: Any = stream
        try:
            if stream.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                encoding = "utf-16"
            text = io.TextIOWrapper(stream, encoding=encoding, newline="")
            while line := text.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE:
                    raise TableFormatError(f"{path.name} has a line that is too long", len(line), "Use npy or Parquet")
                if "\0" in line:
                    raise TableFormatError(f"{path.name} has NUL characters", line[:40], "Save it as a text file")
                yield line
        except UnicodeError as err:
            name = encoding.removesuffix("-sig").upper()
            raise TableFormatError(
                f"{path.name} is not {name}: {err}",
                remedy="Name its encoding, such as --encoding cp1252, or save it as UTF-8",
            ) from err
        except (EOFError, zlib.error, gzip.BadGzipFile) as err:
            raise TableFormatError(f"{path.name} is damaged: {err}", remedy="Compress the original again") from err
        finally:
            if text is not stream:
                text.detach()


def csv_records(path: Path) -> tuple[list[str] | None, Iterator[Record]]:
    """Names of the columns, or None without a header, and the records."""
    csv.field_size_limit(max(csv.field_size_limit(), 4 * _LONGEST_LINE))  # a whole document may be a cell
    rows = _checked(csv.reader(_lines(path), delimiter=_delimiter(path)), path)
    first = next((row for row in rows if row), None)
    if first is None:
        raise TableFormatError(f"{path.name} is empty: it must hold one value per row", remedy="Check the file")
    header = [cell.strip() for cell in first]
    if all(_is_number(cell) for cell in header) or (len(header) == 1 and not _names_something(header[0])):
        # no header: numbers, or a single column of values
        return None, _of_width(_chain(first, rows), len(first), path)
    return header, _of_width(rows, len(header), path)


def _names_something(cell: str) -> bool:
    return any(cell in names for names in USUAL_NAMES.values())


def _chain(first: Record, rows: Iterator[Record]) -> Iterator[Record]:
    yield first
    yield from rows


def _checked(rows: Iterator[Record], path: Path) -> Iterator[Record]:
    """Rows of cells; a blank line is a row without cells, but at the end it is nothing."""
    blank = 0
    try:
        for row in rows:
            if row:
                yield from ([] for _ in range(blank))
                yield row
            blank = 0 if row else blank + 1
    except csv.Error as err:
        raise TableFormatError(f"{path.name} is not a table of comma-separated values: {err}") from err


def _of_width(rows: Iterator[Record], width: int, path: Path) -> Iterator[Record]:
    for k, row in enumerate(rows):
        if not row and width == 1:
            row = [""]  # in a table of one column a blank line is an empty cell
        if len(row) != width:
            problem = "short" if len(row) < width else "long"
            raise RaggedError(
                f"{path.name}: row {k} is too {problem}: it has {len(row)} cells, not {width}", row[:5], "Repair it"
            )
        yield row


def _delimiter(path: Path) -> str:
    """Tabs, semicolons or commas: what the first line has most of; a file of lines has none."""
    if Path(path.name.lower().removesuffix(".gz")).suffix == ".txt":
        return "\0"
    first = next(_lines(path), "")
    counts = {mark: first.count(mark) for mark in (",", "\t", ";")}
    return max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else ","


def has_surrogates(text: str) -> bool:
    """Whether `text` holds half of a surrogate pair: JSON can spell it, UTF-8 and tokenizers cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def json_objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of the lines, with all their keys; each has at least those of the first."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        refuse_doubled([name for name, _ in pairs], path.name)
        return dict(pairs)

    names: list[str] | None = None
    for number, line in enumerate(_lines(path)):
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=unique)
        except TableFormatError:
            raise
        except (ValueError, RecursionError) as err:
            raise TableFormatError(f"{path.name}: line {number + 1} is not JSON ({err})") from err
        if not isinstance(record, dict):
            raise TableFormatError(f"{path.name}: line {number + 1} is not an object", record)
        cell = next((value for value in record.values() if isinstance(value, str) and has_surrogates(value)), None)
        if cell is not None:
            raise TableFormatError(
                f"{path.name}: line {number + 1} has half a surrogate pair, which is not text",
                ascii(cell[:40]),
                "Repair it",
            )
        names = list(record) if names is None else names
        missing = [name for name in names if name not in record]
        if missing:
            raise RaggedError(f"{path.name}: line {number + 1} lacks {missing[:3]}", list(record)[:8], "Repair it")
        yield record


def json_records(path: Path) -> tuple[list[str] | None, Iterator[Record]]:
    """Keys of the first object, and the values of all."""
    rows = json_objects(path)
    first = next(rows, None)
    if first is None:
        raise TableFormatError(f"{path.name} is empty: it must hold one value per row", remedy="Check the file")
    names = list(first)

    def records() -> Iterator[Record]:
        yield list(first.values())
        for record in rows:
            yield [record[name] for name in names]

    return names, records()


def csv_objects(path: Path) -> Iterator[dict[str, Any]]:
    """Records with the names of their columns; a column without a name has its number."""
    names, rows = csv_records(path)
    refuse_doubled([name for name in names or [] if name], path.name)
    for row in rows:
        listed = names or [""] * len(row)
        yield dict(zip([name or f"column_{i}" for i, name in enumerate(listed)], row, strict=True))
