"""Pictures of learned poolings: candidates, layers, weights, calibration and confusion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from spikepool.drawing import palette
from spikepool.drawing.plotting import own_axes
from spikepool.errors import ShapeError
from spikepool.kit.arrays import FloatArray

CHOSEN, OTHER, MEAN = palette.METHODS["learned"].color, palette.MUTED, palette.INK
HEAD_COLOURS = (*(style.color for style in palette.METHODS.values()), palette.SIGNAL_COLOR, palette.BLUES[1])
HEAD_MARKERS = "osD^v*"


class CandidateLike(Protocol):
    """What is drawn of a candidate."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def label(self) -> str: ...  # noqa: D102

    @property
    def place(self) -> str: ...  # noqa: D102

    @property
    def layer(self) -> Any: ...  # noqa: D102

    @property
    def score(self) -> float: ...  # noqa: D102

    @property
    def gain(self) -> float: ...  # noqa: D102

    @property
    def error(self) -> float: ...  # noqa: D102

    @property
    def weight(self) -> float: ...  # noqa: D102


def draw_candidates(ax: Any, candidates: Sequence[CandidateLike], chosen: str, score_name: str) -> Any:
    """Gain over the mean of each candidate with one and two standard errors, those in the stack in colour."""
    ax = own_axes(ax, width=6.5, height=0.4 * len(candidates) + 1.2)
    order = list(candidates)[::-1]
    reference = candidates[0].label
    for y, c in enumerate(order):
        colour = CHOSEN if c.weight > 0 else OTHER
        if c.label != reference:
            ax.errorbar(c.gain, y, xerr=2 * c.error, color=colour, linewidth=1, capsize=2)
            ax.errorbar(c.gain, y, xerr=c.error, color=colour, linewidth=3)
        ax.plot(c.gain, y, "o", color=colour if c.label != reference or c.weight > 0 else MEAN, markersize=7)
        text = f"{c.score:.3f}" + (f"   {c.weight:.2f}" if c.weight > 0 else "")
        ax.annotate(text, (1.01, y), xycoords=("axes fraction", "data"), va="center", fontsize=9)
    ax.axvline(0.0, color=MEAN, linewidth=0.8, linestyle="--")
    ax.set_yticks(range(len(order)), [f"{c.label} (transform)" if c.label == chosen else c.label for c in order])
    ax.set_xlabel(f"gain in {score_name} over the mean (bars: one and two standard errors)")
    ax.annotate(f"{score_name}, weight", (1.01, 1.01), xycoords="axes fraction", fontsize=9)
    ax.margins(y=0.12)
    return ax


def draw_calibration(ax: Any, bins: Sequence[tuple[float, float, int]]) -> Any:
    """Accuracy against average confidence of each bin; areas of the markers are proportional to its rows."""
    ax = own_axes(ax, width=4.0, height=3.4)
    confidence, accuracy, rows = (np.array(column) for column in zip(*bins, strict=True))
    ax.plot([0, 1], [0, 1], color=MEAN, linewidth=0.8, linestyle="--")
    error = np.sqrt(np.maximum(accuracy * (1 - accuracy), 0.25 / rows) / rows)
    ax.errorbar(confidence, accuracy, yerr=error, fmt="none", color=CHOSEN, linewidth=1)
    ax.scatter(confidence, accuracy, s=12 + 150 * rows / rows.max(), color=CHOSEN)
    ax.set_xlim(0, 1.02)
    ax.set_ylim(0, 1.05)
    ax.set_xlabel("confidence (bars: one standard error; area: rows)")
    ax.set_ylabel("accuracy, rows left out")
    ax.set_title("Calibration")
    return ax


def draw_confusion(ax: Any, labels: Sequence[Any], confusion: Any) -> Any:
    """Rows by label (down) and prediction (across); shades are shares of a label."""
    from matplotlib.patches import Rectangle

    ax = own_axes(ax, width=5.0, height=4.0)
    counts = np.asarray(confusion)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = [str(label) if len(str(label)) <= 16 else f"{str(label)[:15]}…" for label in labels]
    for i, j in np.ndindex(counts.shape):
        if counts[i, j]:
            ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=CHOSEN, alpha=0.08 + 0.5 * float(share[i, j])))
            ax.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", fontsize=9)
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylim(len(names) - 0.5, -0.5)
    tilted = max(map(len, names)) > 4 and len(names) > 4
    ax.set_xticks(range(len(names)), names, rotation=30 if tilted else 0, ha="right" if tilted else "center")
    ax.set_yticks(range(len(names)), names)
    ax.set_xlabel("prediction")
    ax.set_ylabel("label")
    ax.set_title("Confusion matrix, rows left out")
    return ax


def draw_layers(ax: Any, candidates: Sequence[CandidateLike], layers: Sequence[Any], score_name: str) -> Any:
    """Score of the mean in each layer, and of the best candidate where a layer was compared in full."""
    ax = own_axes(ax, width=6.0, height=3.2)
    means = {c.layer: c.score for c in candidates if c.name == candidates[0].name}
    best: dict[Any, CandidateLike] = {}
    for c in candidates:
        if c.name != candidates[0].name and (c.layer not in best or c.score > best[c.layer].score):
            best[c.layer] = c
    place = {layer: i for i, layer in enumerate(layers)}
    ax.plot([place[k] for k in means], list(means.values()), "o-", color=MEAN, label="mean")
    ax.plot([place[k] for k in best], [c.score for c in best.values()], "D", color=CHOSEN, label="best candidate")
    for layer, c in best.items():
        ax.annotate(c.name, (place[layer], c.score), xytext=(0, 6), textcoords="offset points", ha="center", fontsize=8)
    ax.set_xticks(range(len(layers)), [str(layer) for layer in layers])
    ax.set_xlabel("layer")
    ax.set_ylabel(f"{score_name}, rows left out")
    ax.margins(0.1)
    ax.legend(fontsize=8, frameon=False)
    return ax


def draw_position_weights(ax: Any, head_weights: FloatArray, names: Sequence[str]) -> Any:
    """Weight of each position, one line a head."""
    ax = own_axes(ax, width=6.0, height=3.2)
    T = head_weights.shape[1]
    for h, (weights, name) in enumerate(zip(head_weights, names, strict=True)):
        colour = HEAD_COLOURS[h % len(HEAD_COLOURS)]
        marker = HEAD_MARKERS[h % len(HEAD_MARKERS)]
        line = {"color": colour, "marker": marker, "markersize": 3.5, "linewidth": 1.4, "label": name}
        ax.plot(np.arange(1, T + 1), weights, **line)
    if "mean" not in names:
        ax.axhline(1 / T, color=MEAN, linewidth=0.8, linestyle="--", label="equal weights")
    ax.set_xlabel("position")
    ax.set_ylabel("average weight")
    ax.set_ylim(bottom=0)
    ax.legend(fontsize=8, frameon=False)
    return ax


def draw_token_weights(ax: Any, weights: FloatArray, tokens: Sequence[Sequence[str]] | None) -> Any:
    """A few sequences, one per line, with every token on a background as dark as its weight."""
    n, T = weights.shape
    if tokens is not None and (len(tokens) != n or any(len(row) > T for row in tokens)):
        raise ShapeError(f"tokens must have {n} rows of at most {T} entries", len(tokens), "Match them to X")
    words = [[str(t + 1) for t in range(T)]] * n if tokens is None else [list(row) for row in tokens]
    longest = max(sum(len(word) + 1.5 for word in row) for row in words)
    ax = own_axes(ax, width=float(np.clip(0.105 * longest, 4.0, 16.0)), height=0.42 * n + 0.4)
    from matplotlib.colors import LinearSegmentedColormap

    ground = LinearSegmentedColormap.from_list("weight", ["white", CHOSEN])
    for y, (row, values) in enumerate(zip(words, weights, strict=True)):
        x = 0.0
        top = max(float(values[: len(row)].max()), 1e-12)
        for word, value in zip(row, values, strict=False):
            width = len(word) + 1.0
            share = float(value) / top
            ax.add_patch(_rectangle(x, y, width, ground(0.85 * share)))
            ink = "white" if share > 0.6 else palette.INK
            ax.text(x + width / 2, y, word, ha="center", va="center", family="monospace", fontsize=8, color=ink)
            x += width + 0.5
    ax.set_xlim(-0.5, longest + 0.5)
    ax.set_ylim(n - 0.4, -0.6)
    ax.set_axis_off()
    return ax


def _rectangle(x: float, y: float, width: float, colour: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y - 0.38), width, 0.76, facecolor=colour, edgecolor=palette.BARS, linewidth=0.5)
