"""What a figure shows, as data: a baseline that no font, backend or version of matplotlib moves.

For every axes its words, scales and limits, and for every artist its kind, style and the numbers drawn: how many, and
their least, mean and greatest. A line that is missing, has another colour or other numbers changes it.
"""

import json
import re
from pathlib import Path

import numpy as np
from matplotlib import colors

BASELINES = Path(__file__).parent / "recorded" / "drawn.json"
# Simulated numbers are seeded; what is left is rounding, and a colour bar's ticks.
RELATIVE = 0.01


def numbers(values):
    """[count, least, mean, greatest] of the finite values."""
    flat = np.ravel(np.ma.filled(np.ma.asarray(values, dtype=float), np.nan))
    finite = flat[np.isfinite(flat)]
    return [len(flat), *(map(float, (finite.min(), finite.mean(), finite.max())) if len(finite) else ())]


def colour(value):
    try:
        return colors.to_hex(value, keep_alpha=False)
    except (ValueError, TypeError):
        return "many"


def words(text):
    return "" if re.fullmatch(r"_child\d+|_nolegend_", text) else text


def lines(ax):
    return [
        {
            "label": words(str(line.get_label())),
            "look": [colour(line.get_color()), str(line.get_marker()), str(line.get_linestyle())],
            "x": numbers(line.get_xdata()),
            "y": numbers(line.get_ydata()),
        }
        for line in ax.lines
    ]


def collections(ax):
    found = []
    for artist in ax.collections:
        paths = artist.get_paths()
        drawn = np.asarray(artist.get_offsets(), dtype=float)
        if len(drawn) < 2:
            drawn = np.concatenate([np.zeros((0, 2)), *(path.vertices for path in paths)])
        values = artist.get_array()
        found.append(
            {
                "kind": type(artist).__name__,
                "label": words(str(artist.get_label())),
                "x": numbers(drawn[:, 0]),
                "y": numbers(drawn[:, 1]),
                "values": [] if values is None else numbers(values),
            }
        )
    return found


def patches(ax):
    return [
        {
            "kind": type(patch).__name__,
            "look": colour(patch.get_facecolor()),
            "x": numbers(patch.get_path().transformed(patch.get_patch_transform()).vertices[:, 0]),
            "y": numbers(patch.get_path().transformed(patch.get_patch_transform()).vertices[:, 1]),
        }
        for patch in ax.patches
    ]


def signature(figure):
    """A figure as plain data, one record an axes."""
    return [
        {
            "words": [ax.get_title(), ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel()],
            "scales": [ax.get_xscale(), ax.get_yscale()],
            "limits": [*map(float, (*ax.get_xlim(), *ax.get_ylim()))],
            "texts": [text.get_text() for text in ax.texts],
            "images": [numbers(image.get_array()) for image in ax.images],
            "lines": lines(ax),
            "collections": collections(ax),
            "patches": patches(ax),
        }
        for ax in figure.axes
    ]


def differences(found, expected, path=""):
    """Where two signatures differ, in words."""
    if isinstance(expected, dict):
        keys = sorted({*found, *expected})
        return [d for key in keys for d in differences(found.get(key), expected.get(key), f"{path}.{key}")]
    if isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            return [f"{path}: {len(found)} instead of {len(expected)}"]
        pairs = enumerate(zip(found, expected, strict=True))
        return [d for place, pair in pairs for d in differences(*pair, f"{path}[{place}]")]
    if isinstance(expected, float) and isinstance(found, (int, float)):
        close = abs(found - expected) <= RELATIVE * max(abs(expected), abs(found)) + 1e-6
        return [] if close else [f"{path}: {found:g} instead of {expected:g}"]
    return [] if found == expected else [f"{path}: {found!r} instead of {expected!r}"]


def baseline(name):
    """The stored signature of a figure."""
    return json.loads(BASELINES.read_text())[name]


def store(signatures):
    """Write baselines, numbers to six digits."""

    def rounded(value):
        if isinstance(value, dict):
            return {key: rounded(part) for key, part in value.items()}
        if isinstance(value, list):
            return [rounded(part) for part in value]
        return float(f"{value:.6g}") if isinstance(value, float) else value

    records = ",\n".join(f'"{name}": {json.dumps(rounded(value))}' for name, value in sorted(signatures.items()))
    BASELINES.write_text("{\n" + records + "\n}\n")
