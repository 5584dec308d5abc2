"""Every colour of the library's pictures, in print and on screen, under the name of what it means.

In the manner of the Okabe-Ito palette, distinct to colour-blind readers. Where two series share a picture they differ
in marker and line style as well, so that it can be read in greyscale.

Pictures on a dark page: an SVG whose colours follow the reader's scheme.

Each colour of the palette has a counterpart for a dark ground, and greys are turned over. Every other colour is left as
it is: it comes from a colour map, where it stands for a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spikepool.kit import validation as check

# What matplotlib writes for text and for paper, in SVG.
SVG_INK, SVG_PAPER = "#000000", "#ffffff"


@dataclass(frozen=True)
class MethodStyle:
    """Colour, marker and line style of a pooling method; `label` is its name in legends.

    `on_light` and `on_dark` are the shades of its hue for a screen: a thin line keeps a contrast of 4.5 to 1 with a
    light or a dark page, which `color` gives up for greys that differ in print.
    """

    label: str
    color: str
    marker: str
    linestyle: str | tuple[int, tuple[float, ...]]
    on_light: str
    on_dark: str


# the greys differ as well: causal darkest, then optimal, learned, mean
METHODS = {
    "mean": MethodStyle("mean", "#E68A00", "o", "--", "#C24E00", "#F08A4B"),
    "causal": MethodStyle("causal", "#00427F", "s", "-.", "#0072B2", "#5DB4EA"),
    "optimal": MethodStyle("optimal", "#008C66", "^", "-", "#00795A", "#3CC69C"),
    "learned": MethodStyle("learned", "#B65FA5", "D", (0, (1, 1)), "#94407A", "#DF92C4"),
}


def method_style(method: str) -> MethodStyle:
    """Style of a pooling method, or an error naming the known ones."""
    check.choice(method, "method", tuple(METHODS))
    return METHODS[method]


INK = "#222222"
MUTED = "#8A8A8A"
NOTE = "#47515A"  # text inside a picture
GRID = "#E6E6E6"
HISTOGRAM, HISTOGRAM_RIM = "#C9D3DD", "#9DAAB7"
SHADE, SHADE_WARM = "#EEF1F4", "#F4F1EC"  # regions behind curves
BARS = "#D9DEE3"
BLUES = ("#9BC4DE", "#4F98C4", "#0072B2", "#003B5C")  # an ordered series, light to dark
CLASS_TINTS = ("#BBD7EA", "#F3C9AE")  # the two classes of tokens

SIGNAL_COLOR = "#B00020"
MEAN_OUTLIER_COLOR = "#5B3A8E"
# colour and line of an outlier by what it is made of
OUTLIERS: dict[str, tuple[str, Any]] = {
    "signal": (SIGNAL_COLOR, "-"),
    "classes": ("#A0527A", (0, (3, 1))),
    "mean": (MEAN_OUTLIER_COLOR, "-."),
    "usage": ("#7A6000", (0, (4, 1, 1, 1, 1, 1))),
    "noise": ("#4D6A6A", (0, (1, 1))),
    "query": ("#00427F", "--"),
    "key": ("#008C66", (0, (5, 2, 1, 2))),
    "sequence": ("#8A5A00", (0, (2, 2))),
}

# measured points, a forecast curve, a target
MEASURED, FORECAST, TARGET = "#000000", "#4C78A8", "#D62728"

# the spectrum of an embedding table
TABLE_BULK, TABLE_OUTLIER, TABLE_EDGE, TABLE_LAW = "#4C78A8", "#D62728", "#2CA02C", "#000000"


def series_style(name: str, place: int) -> dict[str, Any]:
    """Colour, marker and line of a weighting: its own where it is known, else the next of the palette."""
    style = METHODS.get(name, tuple(METHODS.values())[place % len(METHODS)])
    return {"color": style.color, "marker": style.marker, "linestyle": style.linestyle}


@dataclass(frozen=True)
class Screen:
    """Colours of a page and of the charts on it; the explorer's style sheet uses the same."""

    ground: str
    surface: str
    ink: str
    muted: str
    grid: str
    signal: str
    heat: tuple[tuple[float, str], ...]  # share of the alignment's range, colour


SCREENS = {
    "light": Screen(
        ground="#F4F6F8",
        surface="#FFFFFF",
        ink="#1B2430",
        muted="#5A6675",
        grid="#E4E8ED",
        signal="#B3143A",
        heat=((0.0, "#F3F5F8"), (0.001, "#DCE8F3"), (0.5, "#6FA8D6"), (1.0, "#08477F")),
    ),
    "dark": Screen(
        ground="#0F151C",
        surface="#18202A",
        ink="#E7ECF2",
        muted="#9AA7B6",
        grid="#2B3542",
        signal="#FF7C93",
        heat=((0.0, "#141B24"), (0.001, "#1B3147"), (0.5, "#2F78B4"), (1.0, "#B9E3FF")),
    ),
}

# What a colour of the pictures becomes on a dark page. Lines keep a contrast of 3 to 1 with its surface; an ordered
# series keeps its order, from near the ground to far from it.
ON_DARK: dict[str, str] = {
    **{style.color: style.on_dark for style in METHODS.values()},
    INK: SCREENS["dark"].ink,
    MUTED: SCREENS["dark"].muted,
    NOTE: "#B9C4D0",
    GRID: SCREENS["dark"].grid,
    HISTOGRAM: "#46566A",
    HISTOGRAM_RIM: "#6B7C90",
    SHADE: "#222C38",
    SHADE_WARM: "#2E2A24",
    BARS: "#3A4654",
    **dict(zip(BLUES, ("#27506B", "#3D80AB", "#5DB4EA", "#B9E3FF"), strict=True)),
    **dict(zip(CLASS_TINTS, ("#254A66", "#6B3F26"), strict=True)),
    SIGNAL_COLOR: SCREENS["dark"].signal,
    MEAN_OUTLIER_COLOR: "#B79BE8",
    OUTLIERS["classes"][0]: "#E29ABF",
    OUTLIERS["usage"][0]: "#E0BE4A",
    OUTLIERS["noise"][0]: "#9CC5C5",
    OUTLIERS["sequence"][0]: "#D9A34A",
    FORECAST: "#7FB2E5",
    TARGET: "#FF7B72",
    TABLE_EDGE: "#5FD068",
}


SURFACE = SCREENS["dark"].surface
_GREY_SPAN = (0x18, 0xEC)  # greys of a dark page: what was white, what was black
_COLOUR = re.compile(r"(?P<property>fill|stroke): (?P<colour>#[0-9a-f]{6})\b")
_STYLE = re.compile(r'<(?P<tag>\w+)(?P<before>[^<>]*?) style="(?P<style>[^"]*)"')


def dark_colour(colour: str) -> str | None:
    """The counterpart on a dark ground of a colour ``#rrggbb``; None for one that keeps its meaning by staying."""
    known = ON_DARK.get(colour.upper())
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
    ink = follow(SVG_INK, dark_colour(SVG_INK) or "")
    body = _recoloured(svg, follow)
    values = "; ".join(f"--on-{colour[1:]}: {dark}" for colour, dark in sorted(used.items()))
    style = f"<style>@media screen and (prefers-color-scheme: dark) {{ svg.themed {{ {values} }} }}</style>"
    return re.sub(r"^<svg([^>]*)>", rf'<svg class="themed" style="fill: {ink}"\1>{style}', body, count=1)


def _recoloured(svg: str, replace: Callable[[str, str], str]) -> str:
    def style(match: re.Match[str]) -> str:
        tag = match["tag"]
        text = _COLOUR.sub(lambda part: _property(part, tag, replace), match["style"])
        return f'<{tag}{match["before"]} style="{text}"'

    return _STYLE.sub(style, svg)


def _property(match: re.Match[str], tag: str, replace: Callable[[str, str], str]) -> str:
    colour = match["colour"]
    dark = dark_colour(colour)
    # white lines and white text stand on something coloured; white areas are paper
    on_colour = colour == SVG_PAPER and (match["property"] == "stroke" or tag == "g")
    if dark is None or on_colour:
        return match[0]
    return f"{match['property']}: {replace(colour, dark)}"
