"""Pictures on a dark page: every colour has a counterpart, numbers keep their colour, and nothing else changes."""

import re

import pytest

pytest.importorskip("matplotlib", reason="the plot extra is not installed")

from spikepool.drawing import palette
from spikepool.drawing.palette import SURFACE, dark_colour, themed
from spikepool.drawing.plotting import new_figure, svg_text


def luminance(colour):
    """Relative luminance as the accessibility guidelines define it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


LINES = {
    **{name: style.color for name, style in palette.METHODS.items()},
    **{kind: colour for kind, (colour, _) in palette.OUTLIERS.items()},
    "ink": palette.INK,
    "muted": palette.MUTED,
    "note": palette.NOTE,
    "forecast": palette.FORECAST,
    "target": palette.TARGET,
    "edge": palette.TABLE_EDGE,
    "black": "#000000",
}


@pytest.mark.parametrize("name", LINES)
def test_lines_are_seen_on_a_dark_page(name):
    assert contrast(dark_colour(LINES[name]), SURFACE) >= 3


def test_paper_becomes_the_surface_and_greys_turn_over():
    assert dark_colour("#ffffff") == SURFACE
    greys = [dark_colour(f"#{v:02x}{v:02x}{v:02x}") for v in (0, 64, 128, 200)]
    assert [luminance(c) for c in greys] == sorted((luminance(c) for c in greys), reverse=True)
    shades = [luminance(dark_colour(colour)) for colour in palette.BLUES]
    assert shades == sorted(shades), "an ordered series leaves the ground in the same order"


def test_a_colour_that_stands_for_a_number_stays():
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    for name in ("viridis", "RdBu"):
        for value in (0.03, 0.4, 0.77, 0.99):
            assert dark_colour(to_hex(colormaps[name](value))) is None


@pytest.fixture(scope="module")
def svg():
    figure, axes = new_figure()
    ax = axes[0, 0]
    ax.plot([0, 1], [0, 1], color=palette.METHODS["mean"].color, label="line")
    ax.scatter([0.2, 0.8], [0.5, 0.5], c=[0.1, 0.9], cmap="viridis", vmin=0, vmax=1, edgecolors="white")
    ax.text(0.5, 0.5, "white on a colour", color="white")
    ax.legend()
    return svg_text(figure)


def test_a_themed_picture_is_the_same_picture_in_light(svg):
    page = themed(svg)
    plain = re.sub(r"var\(--on-[0-9a-f]{6}, (#[0-9a-f]{6})\)", r"\1", page)
    plain = re.sub(r"<style>@media screen.*?</style>", "", plain)
    assert plain.replace('<svg class="themed" style="fill: #000000"', "<svg", 1) == svg
    names = set(re.findall(r"var\((--on-[0-9a-f]{6})", page))
    defined = set(re.findall(r"(--on-[0-9a-f]{6}):", page))
    assert names == defined >= {"--on-000000", "--on-ffffff", f"--on-{palette.METHODS['mean'].color[1:].lower()}"}


def test_white_text_and_rims_keep_their_colour(svg):
    page = themed(svg)
    assert "fill: #ffffff" in page
    assert "stroke: #ffffff" in page
