"""Results: one base for all of them, and their plain values for JSON."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

from spikepool.kit.pages import html_table
from spikepool.kit.text import number, text_table

# Version of all JSON outputs; raised when a field changes its meaning or goes.
SCHEMA_VERSION = 1
# Title, header and rows of a table.
Table = tuple[str, Sequence[str], Sequence[Sequence[Any]]]


class Result:
    """Base of results: text, plain values with the version of their schema, and tables for a notebook.

    A class states its tables, and what speaks against it in `validity` or in `_notes`.
    """

    _schema: ClassVar[str]

    def __init_subclass__(cls, *, schema: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if schema:
            cls._schema = f"spikepool.{schema}/{SCHEMA_VERSION}"

    def _tables(self) -> Sequence[Table]:
        return ()

    def _notes(self) -> Sequence[str]:
        validity = getattr(self, "validity", None)
        return [f"Caution: {reason}." for reason in validity.reasons] if validity is not None else []

    def _record(self) -> dict[str, Any]:
        return record(self)

    def summary(self) -> str:
        """The result as text: its tables, and what speaks against it."""
        lines: list[str] = []
        for title, header, rows in self._tables():
            cells = [[cell if isinstance(cell, str) else number(cell) for cell in row] for row in rows]
            lines += [*([title] if title else []), *text_table([header, *cells] if header else cells)]
        return "\n".join([*lines, *self._notes()])

    def __str__(self) -> str:
        return self.summary()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the name and version of their schema."""
        return {"schema": self._schema, **self._record()}

    def _repr_html_(self) -> str:
        tables = [html_table(header, rows, title=title) for title, header, rows in self._tables()]
        return "".join([*tables, *(f"<p>{html.escape(note)}</p>" for note in self._notes())])


def plain(value: Any) -> Any:
    """`value` with numpy types made Python's, and numbers that JSON lacks (NaN and infinities) made None.

    A field is thus a number or null, never a string: a program that reads it needs one test. What null says depends on
    the field, and is written in ``docs/howto/use-the-command-line.md``.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return value._record() if isinstance(value, Result) else record(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def record(result: Any, *names: str, **more: Any) -> dict[str, Any]:
    """Attributes of a result, of a dataclass all its fields by default, and `more`, as plain values."""
    names = names or tuple(field.name for field in fields(result))
    return {name: plain(value) for name, value in ({n: getattr(result, n) for n in names} | more).items()}


def to_json(value: Any) -> str:
    """`value` as indented, valid JSON."""
    return json.dumps(plain(value), indent=2, allow_nan=False)
