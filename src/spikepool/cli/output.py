"""Printing: JSON for programs, tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spikepool.kit.showing import to_json


def print_json(value: Any) -> None:
    """Indented JSON on standard output."""
    print(to_json(value))


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
