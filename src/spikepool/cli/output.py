"""Printing: JSON for programs, tables for people."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any


def plain(value: Any) -> Any:
    """`value` with numpy types made Python's, and numbers that JSON lacks (NaN and infinities) made null.

    A field is thus a number or null, never a string: a program that reads it needs one test. What null says depends on
    the field, and is written in ``docs/howto/use-the-command-line.md``.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_json(value: Any) -> None:
    """Indented JSON on standard output."""
    print(json.dumps(plain(value), indent=2, allow_nan=False))


def number(value: float | None, digits: int = 4) -> str:
    """A number for a table: a dash for none, thousands separated, `digits` significant."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits}g}"


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output: the first column to the left, the others to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(header):
        table.add_column(name, justify="left" if position == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
