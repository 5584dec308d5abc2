"""Tables, printed text and whole pages as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from spikepool.kit.text import number

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


def html_text(text: str) -> str:
    """Printed text as HTML that keeps its lines."""
    return f"<pre>{html.escape(text)}</pre>"


def html_page(title: str, body: str) -> str:
    """One self-contained page: nothing is fetched, both themes, narrow and wide screens."""
    return PAGE.format(title=html.escape(title), body=body)
