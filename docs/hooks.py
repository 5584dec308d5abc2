"""Formulas as MathML, made when the site is built: they render without scripts and without a network."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
_DISPLAY = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_INLINE = re.compile(r"(?<![\\$])\$([^$\n]+?)\$(?!\d)")


def _markup(text: str) -> str:
    text = _DISPLAY.sub(lambda m: f'<div class="formula">{_mathml(m.group(1), "block")}</div>', text)
    return _INLINE.sub(lambda m: _mathml(m.group(1), "inline"), text)


def _mathml(latex: str, display: str) -> str:
    # one line, so that Markdown does not take a line of the formula for markup
    return " ".join(convert(latex.strip(), display=display).split())


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace $...$ and $$...$$ outside code by MathML."""
    parts = _CODE.split(markdown)
    return "".join(part if index % 2 else _markup(part) for index, part in enumerate(parts))
