"""Results for people and programs: numbers as text, tables, plain values for JSON, HTML.

Nothing here knows what the numbers mean. Every result derives from :class:`Result`, so that the same number looks the
same in a terminal, in a notebook and on a page.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

from spikepool.kit.arrays import FloatArray
from spikepool.kit.statistics import standard_error

# One look for tables in notebooks and pages. Colours are left to the surroundings, so that both themes work.
_TABLE = "border-collapse:collapse;margin:0.4em 0;font-variant-numeric:tabular-nums"
_CELL = "padding:0.15em 0.8em;border:0;border-bottom:1px solid rgba(128,128,128,.3)"
# Longer cells are sentences or lists, which are read from the left.
_LONG_CELL = 40

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="spikepool">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1c1e21; --page: #ffffff; --muted: #5f6670; --line: #d8dce2; --card: #f6f7f9;
  --accent: #0b5cad; }}
@media screen and (prefers-color-scheme: dark) {{
  :root {{ --ink: #e7e9ec; --page: #15171a; --muted: #a2a9b3; --line: #363b42; --card: #1e2126; --accent: #7ab8f5; }}
}}
body {{ margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 58rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.6rem; line-height: 1.25; margin: 0 0 .3rem; }}
h2 {{ font-size: 1.25rem; margin: 2.2rem 0 .4rem; }}
p {{ margin: .5rem 0; }}
.muted {{ color: var(--muted); }}
.verdict {{ font-size: 1.08rem; font-weight: 600; }}
.next {{ border-left: 3px solid var(--accent); padding: .1rem 0 .1rem .8rem; }}
.picture {{ background: #ffffff; border: 1px solid var(--line); border-radius: 6px; padding: .6rem; margin: .8rem 0;
  overflow-x: auto; }}
.picture svg {{ display: block; width: 100%; min-width: 34rem; height: auto; }}
.scroll {{ overflow-x: auto; }}
pre {{ background: var(--card); padding: .7rem; border-radius: 6px; font-size: .85rem;
  overflow-x: auto; overflow-wrap: normal; }}
code {{ font: .92em ui-monospace, monospace; overflow-wrap: anywhere; }}
details {{ margin: .6rem 0; }}
footer {{ margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .6rem; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


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


def html_table(header: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> str:
    """An HTML table: the first column and long cells to the left, the others to the right; all are escaped.

    Cells that are not text are written by :func:`number`. Styles are inline: a notebook has no style sheet of ours.
    """

    def cell(value: Any, tag: str, position: int) -> str:
        text = value if isinstance(value, str) else number(value)
        long = len(text) > _LONG_CELL
        side, wrap = "left" if position == 0 or long else "right", "anywhere" if long else "break-word"
        whole = ";white-space:nowrap" if position == 0 and not (long or header) else ""  # names of facts
        return f'<{tag} style="{_CELL};text-align:{side};overflow-wrap:{wrap}{whole}">{html.escape(text)}</{tag}>'

    def line(values: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(cell(value, tag, i) for i, value in enumerate(values)) + "</tr>"

    head = f"<thead>{line(header, 'th')}</thead>" if header else ""
    body = "".join(line(row, "td") for row in rows)
    above = f"<p><strong>{html.escape(title)}</strong></p>" if title else ""
    return (
        f'{above}<div class="scroll" style="overflow-x:auto">'
        f'<table style="{_TABLE}">{head}<tbody>{body}</tbody></table></div>'
    )


def text_table(rows: Sequence[Sequence[str]], *, least: int = 0, left: int = 1) -> list[str]:
    """Lines of a table in columns of at least `least` characters, the first `left` of them aligned to the left."""
    widths = [max(least, *(len(row[i]) for row in rows)) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width) for i, (cell, width) in enumerate(pairs)
        ).rstrip()
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]


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


def mean_table(eigenvalues: FloatArray, alignments: FloatArray) -> Table:
    """A table of (trials, k) eigenpairs: means over trials with their standard errors."""

    def both(values: FloatArray) -> str:
        mean = f"{values.mean():.4g}"
        return mean if len(values) < 2 else f"{mean} ± {standard_error(values):.1g}"

    rows = [(str(i + 1), both(eigenvalues[:, i]), both(alignments[:, i])) for i in range(eigenvalues.shape[1])]
    return f"{len(alignments)} draws", ("component", "eigenvalue", "alignment"), rows


def html_text(text: str) -> str:
    """Printed text as HTML that keeps its lines."""
    return f"<pre>{html.escape(text)}</pre>"


def html_page(title: str, body: str) -> str:
    """One self-contained page: nothing is fetched, both themes, narrow and wide screens."""
    return PAGE.format(title=html.escape(title), body=body)
