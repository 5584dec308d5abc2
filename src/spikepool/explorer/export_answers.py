"""What was found in uploaded files, to take away: the page, every number as JSON, every number as a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

COLUMNS = ("answer", "series", "index", "field", "value")
ANSWERS = ("choose", "trust", "plan")


def to_csv(record: dict[str, Any]) -> str:
    """Every value of a record in long form: ``plan, result, 2, accuracy, 0.94`` is the third accuracy of the plan."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for path, value in _leaves(record, ()):
        answer = path[0] if path[0] in ANSWERS else ""
        names = [part for part in (path[1:] if answer else path) if isinstance(part, str)]
        index = ".".join(str(part) for part in path if isinstance(part, int))
        writer.writerow((answer, ".".join(names[:-1]), index, names[-1], _cell(value)))
    return out.getvalue()


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _leaves(part, (*path, name))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _leaves(part, (*path, place))
    else:
        yield path, value


def _cell(value: Any) -> Any:
    """Nothing for null, and words that a spreadsheet would take for a formula as words."""
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return value


# what an analysis of uploaded files can be taken away as
FORMATS: dict[str, tuple[Callable[[dict[str, Any]], str], str]] = {
    "html": (lambda result: str(result["html"]), "text/html; charset=utf-8"),
    "json": (lambda result: json.dumps(result["record"], allow_nan=False, indent=1), "application/json"),
    "csv": (lambda result: to_csv(result["record"]), "text/csv; charset=utf-8"),
}
