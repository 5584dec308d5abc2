"""Pictures on a dark page: an SVG whose colours follow the reader's scheme.

Each colour of the palette has a counterpart for a dark ground, and greys are turned over. Every other colour is left as
it is: it comes from a colour map, where it stands for a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from spikepool.drawing import palette

SURFACE = palette.SCREENS["dark"].surface
_GREY_SPAN = (0x18, 0xEC)  # greys of a dark page: what was white, what was black
_COLOUR = re.compile(r"(?P<property>fill|stroke): (?P<colour>#[0-9a-f]{6})\b")
_STYLE = re.compile(r'<(?P<tag>\w+)(?P<before>[^<>]*?) style="(?P<style>[^"]*)"')


def dark_colour(colour: str) -> str | None:
    """The counterpart on a dark ground of a colour ``#rrggbb``; None for one that keeps its meaning by staying."""
    known = palette.ON_DARK.get(colour.upper())
    if known is not None:
        return known
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    if not red == green == blue:
        return None
    low, high = _GREY_SPAN
    return SURFACE if red == 255 else "#" + 3 * f"{round(high - red / 255 * (high - low)):02X}"


def themed(svg: str) -> str:
    """`svg`, an ``<svg>`` element, with colours that follow ``prefers-color-scheme``."""
    used: dict[str, str] = {}

    def follow(colour: str, dark: str) -> str:
        used[colour] = dark
        return f"var(--on-{colour[1:]}, {colour})"

    # text in black has no colour attribute: it takes that of the element
    ink = follow(palette.SVG_INK, dark_colour(palette.SVG_INK) or "")
    body = _recoloured(svg, follow)
    values = "; ".join(f"--on-{colour[1:]}: {dark}" for colour, dark in sorted(used.items()))
    style = f"<style>@media screen and (prefers-color-scheme: dark) {{ svg.themed {{ {values} }} }}</style>"
    return re.sub(r"^<svg([^>]*)>", rf'<svg class="themed" style="fill: {ink}"\1>{style}', body, count=1)


def _recoloured(svg: str, replace: Callable[[str, str], str]) -> str:
    def style(found: re.Match[str]) -> str:
        tag = found["tag"]
        text = _COLOUR.sub(lambda part: _property(part, tag, replace), found["style"])
        return f'<{tag}{found["before"]} style="{text}"'

    return _STYLE.sub(style, svg)


def _property(found: re.Match[str], tag: str, replace: Callable[[str, str], str]) -> str:
    colour = found["colour"]
    dark = dark_colour(colour)
    # white lines and white text stand on something coloured; white areas are paper
    on_colour = colour == palette.SVG_PAPER and (found["property"] == "stroke" or tag == "g")
    if dark is None or on_colour:
        return found[0]
    return f"{found['property']}: {replace(colour, dark)}"
