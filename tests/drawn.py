"""What a figure shows, as data: a baseline that no font, backend or version of matplotlib moves.

For every axes its words, scales and limits, and for every artist its kind, style and the numbers drawn: how many, and
their least, mean and greatest, as shares of the axes. A line that is missing, has another colour or lies elsewhere
changes it; numbers that another draw of a simulation gives do not.
"""

import json
import re
from pathlib import Path

import numpy as np
from matplotlib import colors

BASELINES = Path(__file__).parent / "recorded" / "drawn.json"
TOLERANCE = 0.04  # of the width or height of the axes: what other draws move, and the eye would not see


def numbers(values, limits=(0.0, 1.0), scale="linear"):
    """[count, least, mean, greatest] of the finite values, as shares of the way between the limits."""
    flat = np.ravel(np.ma.filled(np.ma.asarray(values, dtype=float), np.nan))
    low, high = limits
    if scale == "log":
        flat, low, high = np.log(np.where(flat > 0, flat, np.nan)), np.log(low), np.log(high)
    shares = (flat[np.isfinite(flat)] - low) / (high - low)
    shares = np.clip(shares, -1, 2)  # beyond the picture it does not matter how far
    return [len(flat), *(map(float, (shares.min(), shares.mean(), shares.max())) if len(shares) else ())]


def places(ax, x, y):
    """The numbers of an artist along both axes."""
    return {
        "x": numbers(x, ax.get_xlim(), ax.get_xscale()),
        "y": numbers(y, ax.get_ylim(), ax.get_yscale()),
    }


def colour(value):
    try:
        return colors.to_hex(value, keep_alpha=False)
    except (ValueError, TypeError):
        return "many"


def words(text):
    """Words without their digits, which another draw may change, and without the names that matplotlib makes up."""
    return "" if re.fullmatch(r"_child\d+|_nolegend_", text) else re.sub(r"[\d.,−-]+", "#", text)


def lines(ax):
    return [
        {
            "label": words(str(line.get_label())),
            "look": [colour(line.get_color()), str(line.get_marker()), str(line.get_linestyle())],
            **places(ax, line.get_xdata(), line.get_ydata()),
        }
        for line in ax.lines
    ]


def collections(ax):
    found = []
    for artist in ax.collections:
        drawn = np.asarray(artist.get_offsets(), dtype=float)
        if len(drawn) < 2:
            drawn = np.concatenate([np.zeros((0, 2)), *(path.vertices for path in artist.get_paths())])
        values = artist.get_array()
        found.append(
            {
                "kind": type(artist).__name__,
                "label": words(str(artist.get_label())),
                "values": [] if values is None else numbers(values, artist.get_clim()),
                **places(ax, drawn[:, 0], drawn[:, 1]),
            }
        )
    return found


def patches(ax):
    found = []
    for patch in ax.patches:
        corners = patch.get_path().transformed(patch.get_patch_transform()).vertices
        found.append({"kind": type(patch).__name__, "look": colour(patch.get_facecolor())} | places(ax, *corners.T))
    return found


def signature(figure):
    """A figure as plain data, one record an axes."""
    found = []
    for ax in figure.axes:
        found.append(
            {
                "words": [*map(words, (ax.get_title(), ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel()))],
                "scales": [ax.get_xscale(), ax.get_yscale()],
                "limits": [*map(float, (*ax.get_xlim(), *ax.get_ylim()))],
                "texts": [words(text.get_text()) for text in ax.texts],
                "images": [numbers(image.get_array(), image.get_clim()) for image in ax.images],
                "lines": lines(ax),
                "collections": collections(ax),
                "patches": patches(ax),
            }
        )
    return found


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
        # shares of an axes; limits are numbers of their own, and may be large
        close = abs(found - expected) <= TOLERANCE * max(1.0, abs(expected))
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
