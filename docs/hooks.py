"""Formulas as MathML, made when the site is built: they render without scripts and without a network."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$\n]+?)\$(?!\d)", re.DOTALL)
_PLACE = re.compile(r"formula-place-(\d+)-end")

# Formulas of the page being rendered. Markdown takes a line that begins with <math> for a block of HTML, so it sees
# a plain word instead, which is exchanged afterwards.
_formulas: list[str] = []


def _keep(match: re.Match[str]) -> str:
    display, inline = match.groups()
    markup = " ".join(convert((display or inline).strip(), display="block" if display else "inline").split())
    _formulas.append(f'<span class="formula">{markup}</span>' if display else markup)
    return f"formula-place-{len(_formulas) - 1}-end"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace $...$ and $$...$$ outside code by place holders."""
    parts = _CODE.split(markdown)
    return "".join(part if index % 2 else _FORMULA.sub(_keep, part) for index, part in enumerate(parts))


def on_page_content(html: str, **_: Any) -> str:
    """Put the formulas in their places."""
    return _PLACE.sub(lambda match: _formulas[int(match.group(1))], html)
