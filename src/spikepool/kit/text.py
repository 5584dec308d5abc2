"""Numbers, names and tables as text, the same in a terminal, in a notebook and on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def one_line(text: str) -> str:
    """`text` without control characters: a name in a file must not move the cursor or forge a line of a log."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plot_text(text: str) -> str:
    """`text` as a label of a picture: one line, and no mathematics."""
    return one_line(text).replace("$", r"\$")


def number(value: Any, digits: int = 4) -> str:
    """A number for a table: a dash for none, thousands separated, `digits` significant."""
    if value is None:
        return "–"
    if isinstance(value, bool) or type(value).__name__ == "bool":  # numpy's as well
        return "yes" if value else "no"
    if isinstance(value, int) or (hasattr(value, "dtype") and value.dtype.kind in "iu"):
        return f"{int(value):,}"
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits}g}"


def text_table(rows: Sequence[Sequence[str]], *, least: int = 0, left: int = 1) -> list[str]:
    """Lines of a table in columns of at least `least` characters, the first `left` of them aligned to the left."""
    widths = [max(least, *(len(row[i]) for row in rows)) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width) for i, (cell, width) in enumerate(pairs)
        ).rstrip()
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]
