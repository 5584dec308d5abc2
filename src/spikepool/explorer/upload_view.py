"""The analysis of an upload as it is shown: a verdict, a chart and a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.explorer.figures import COLORS, INK, MUTED, SIGNAL, Figure, axis, layout, note, packed

_SHOWN_EDGES = 4.0


@dataclass(frozen=True)
class UploadView:
    """Words, chart and table of one analysis."""

    title: str
    headline: str
    details: str
    figure: Figure
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def present(result: dict[str, Any], theme: str) -> UploadView:
    """The view of a result of :func:`spikepool.explorer.uploads.upload_task`."""
    rows, columns = result["shape"]
    figure = _spectrum(result, theme)
    count = result["outlier_count"]
    if result["kind"] == "table":
        title = f"Embedding table: {rows:,} tokens in {columns:,} dimensions"
        counts = ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in result["counts"].items())
        caption = f"Outliers, largest first ({count} in all). Counts under each null: {counts}."
        names: tuple[str, ...] = ("Eigenvalue", "In the population", "Beyond the edge (noise units)")
        keys: tuple[str, ...] = ("eigenvalue", "population_eigenvalue", "distance")
    else:
        title = f"Pooled features: {rows:,} sequences in {columns:,} dimensions"
        caption = f"Outliers, largest first ({count} in all). Alignment: 0 unrelated to the truth, 1 identical."
        names = ("Eigenvalue", "± error", "Estimated alignment", "± error", "Sequences for 0.8")
        keys = ("eigenvalue", "standard_error", "alignment", "alignment_standard_error", "required_samples")
    cells = tuple(tuple(_cell(outlier[key]) for key in keys) for outlier in result["outliers"])
    headline, _, details = result["verdict"].partition(". ")
    headline = headline if headline.endswith(".") else headline + "."
    return UploadView(title, headline, details, figure, caption if count else "No outliers.", names, cells)


def _cell(value: float | int | None) -> str:
    if value is None:
        return "never enough"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _spectrum(result: dict[str, Any], theme: str) -> Figure:
    """Histogram of the eigenvalues with the edge of the bulk and the outliers beyond it."""
    edge = result["edge"]
    edges = np.asarray(result["histogram"]["edges"])
    density = np.asarray(result["histogram"]["density"])
    values = [outlier["eigenvalue"] for outlier in result["outliers"]]
    near = [value for value in values if value <= _SHOWN_EDGES * edge]
    right = 1.25 * max([edge, *near])
    inside = density[edges[:-1] <= edge]
    top = 1.25 * float(max(np.quantile(inside, 0.97), 1e-12)) if len(inside) else 1.0
    data = [
        {
            "type": "bar", "name": "eigenvalues", "x": packed((edges[1:] + edges[:-1]) / 2), "y": packed(density),
            "width": packed(np.diff(edges)), "marker": {"color": MUTED[theme], "opacity": 0.55, "line": {"width": 0}},
            "hovertemplate": "λ %{x:.3g}: density %{y:.3g}<extra></extra>",
        },
        {
            "type": "scatter", "mode": "lines", "name": "fitted bulk", "x": packed(result["curve"][0]),
            "y": packed(result["curve"][1]), "line": {"color": COLORS[theme]["causal"], "width": 2},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter", "mode": "markers", "name": "outliers", "x": near, "y": [0.04 * top] * len(near),
            "marker": {"color": SIGNAL[theme], "size": 9, "symbol": "diamond"},
            "hovertemplate": "outlier %{x:.4g}<extra></extra>",
        },
    ]  # fmt: skip
    line = {"color": INK[theme], "width": 1.2, "dash": "dash"}
    notes = [note(f"edge {edge:.3g}", theme, x=edge, y=0.9, yref="paper", yanchor="bottom")]
    beyond = len(values) - len(near)
    if beyond:
        text = f"{beyond} more, up to {max(values):.3g} →"
        notes.append(note(text, theme, x=1, xref="paper", y=0.6, yref="paper", xanchor="right"))
    shown = layout(
        theme,
        axis(theme, "eigenvalue λ", range=[0, right]),
        axis(theme, "density", range=[0, top], nticks=5),
        shapes=[{"type": "line", "x0": edge, "x1": edge, "y0": 0, "y1": 0.9, "yref": "paper", "line": line}],
        annotations=notes,
        bargap=0,
        showlegend=True,
    )
    return {"data": data, "layout": shown}
