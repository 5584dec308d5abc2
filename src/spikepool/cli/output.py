"""What a command gives: JSON for programs, tables for people, a picture or a page in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spikepool.kit.pages import html_page
from spikepool.kit.results import SCHEMA_VERSION, to_json
from spikepool.kit.text import one_line

WIDTH = 180  # columns of a table that does not go to a terminal
MOST_ROWS = 2000  # lines of a table on standard output
PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html", ".htm")


def print_json(name: str, value: dict[str, Any]) -> None:
    """Indented JSON on standard output, with the name and version of its schema first.

    ``docs/howto/json-and-exit-codes.md`` lists the fields of every schema.
    """
    schema = {"schema": f"spikepool.{name}/{SCHEMA_VERSION}"}
    print(to_json(schema | value | schema))


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output: the first column to the left, the others to the right."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    # names of tensors and tokens may hold brackets, which are markup to rich, and control characters
    table = Table(title=escape(one_line(title)), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(header):
        table.add_column(escape(name), justify="left" if position == 0 else "right", overflow="fold")
    for row in rows[:MOST_ROWS]:
        table.add_row(*(escape(one_line(cell)) for cell in row))
    # a file or a pipe has no width to fit into
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)
    if len(rows) > MOST_ROWS:
        print(f"... and {len(rows) - MOST_ROWS:,} more; --json gives all of them")


def checked_out(
    out: Path | None, overwrite: bool, inputs: Sequence[str | None] = (), also: tuple[str, ...] = ()
) -> Path | None:
    """`out` if its ending names a picture, a page or one of `also` and it may be written; checked before work."""
    from spikepool.data.targets import check_target
    from spikepool.errors import InvalidInputError, require

    if out is None:
        return None
    known = (*PICTURES, PAGES[0], *also)
    if out.suffix.lower() not in (*PICTURES, *PAGES, *also):
        raise InvalidInputError(
            f"--out must end in {', '.join(known[:-1])} or {known[-1]}", str(out), "Choose one of these"
        )
    existing_folder(out)
    kinds = {**{ending: ending[1:] for ending in PICTURES}, **dict.fromkeys(PAGES, "page"), ".json": "report"}
    kind = kinds[out.suffix.lower()]
    check_target(out, kind, overwrite=overwrite, inputs=[name for name in inputs if name])
    if out.suffix.lower() not in also:
        require("matplotlib", "plot")
    return out


def checked_page(out: Path | None, overwrite: bool, inputs: Sequence[str | None]) -> None:
    """Refuse a page (.html) or numbers (.json) of a report that may not be written."""
    from spikepool.errors import InvalidInputError

    if out is not None and out.suffix.lower() not in (*PAGES, ".json"):
        raise InvalidInputError("--out must end in .html or .json (and --report)", str(out), "Choose one of these")
    checked_out(out, overwrite, inputs, (".json",))


def existing_folder(out: Path) -> None:
    """Refuse a file whose folder is not there, before the work."""
    from spikepool.errors import InvalidInputError

    if not out.absolute().parent.is_dir():
        raise InvalidInputError("--out: there is no such folder", str(out.parent), "Make it first")


def write_out(
    out: Path | None,
    title: str,
    figure: Callable[[], Any],
    body: Callable[[], str],
    *,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write the picture, or a page with the picture and the tables of `body`, and say where.

    Both are made only when wanted. With `quiet` (JSON on standard output) nothing is said.
    """
    if out is None:
        return
    from spikepool.drawing.plotting import svg_text, write_figure
    from spikepool.kit.files import write_text

    if out.suffix.lower() in PAGES:
        import html

        picture = f'<div class="picture">{svg_text(figure())}</div>'
        write_text(out, html_page(title, f"<h1>{html.escape(title)}</h1>{picture}{body()}"), overwrite=overwrite)
    else:
        write_figure(figure(), out, out.suffix[1:].lower(), overwrite=overwrite)
    if not quiet:
        print(f"{'Page' if out.suffix.lower() in PAGES else 'Picture'}: {out}")
