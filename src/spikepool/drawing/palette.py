"""Every colour of the library's pictures, in print and on screen, under the name of what it means.

In the manner of the Okabe-Ito palette, distinct to colour-blind readers. Where two series share a picture they differ
in marker and line style as well, so that it can be read in greyscale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spikepool.kit import validation as check


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
