"""Panels as plotly figures, written as plain dictionaries: building and checking figure objects would take longer
than the theory itself.
"""

from __future__ import annotations

import base64
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.drawing.palette import SCREENS, method_style
from spikepool.explorer.theory import Panels
from spikepool.explorer.verdict import NAMES

Figure = dict[str, Any]

THEMES = ("light", "dark")
# Weights set by hand are drawn as learned ones are elsewhere; dashes differ too, for readers who do not see the hues.
METHODS = {name: method_style("learned" if name == "custom" else name) for name in NAMES}
COLORS = {
    "light": {name: style.on_light for name, style in METHODS.items()},
    "dark": {name: style.on_dark for name, style in METHODS.items()},
}
DASHES = {"mean": "dash", "causal": "dashdot", "optimal": "solid", "custom": "dot"}
INK = {theme: screen.ink for theme, screen in SCREENS.items()}
MUTED = {theme: screen.muted for theme, screen in SCREENS.items()}
GRID = {theme: screen.grid for theme, screen in SCREENS.items()}
SIGNAL = {theme: screen.signal for theme, screen in SCREENS.items()}
SURFACE = {theme: screen.surface for theme, screen in SCREENS.items()}
HEAT = {theme: [list(stop) for stop in screen.heat] for theme, screen in SCREENS.items()}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def packed(values: ArrayLike) -> dict[str, Any]:
    """An array as plotly's typed-array record: a third of the size of a list of numbers, and no parsing."""
    array = np.ascontiguousarray(values, dtype="<f8")
    record: dict[str, Any] = {"dtype": "f8", "bdata": base64.b64encode(array.tobytes()).decode("ascii")}
    if array.ndim > 1:
        record["shape"] = ", ".join(map(str, array.shape))
    return record


def listed(values: ArrayLike) -> list[float | None]:
    """An array as a list, for charts that are patched: the page compares them by identity. NaN becomes null."""
    return [value if value == value else None for value in np.asarray(values, dtype=np.float64).tolist()]


def axis(theme: str, title: str, **more: Any) -> dict[str, Any]:
    """An axis in the colours of `theme`."""
    return {
        "title": {"text": title, "font": {"size": 12.5, "color": MUTED[theme]}, "standoff": 8},
        "tickfont": {"size": 11.5, "color": MUTED[theme]},
        "gridcolor": GRID[theme],
        "linecolor": MUTED[theme],
        "showline": True,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": MUTED[theme],
        "automargin": True,
        "fixedrange": True,
        **more,
    }


def layout(theme: str, x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A layout in the colours of `theme`, without zooming: on a phone that would trap the scrolling finger."""
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": INK[theme]},
        "margin": {"l": 48, "r": 14, "t": 30, "b": 44},
        "hovermode": "closest",
        "dragmode": False,
        "hoverlabel": {"bgcolor": SURFACE[theme], "font": {"color": INK[theme], "family": FONT}},
        "legend": {
            "orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom",
            "font": {"size": 11.5}, "itemclick": False, "itemdoubleclick": False,
        },
        "xaxis": x,
        "yaxis": y,
        **more,
    }  # fmt: skip


def note(text: str, theme: str, **where: Any) -> dict[str, Any]:
    """A text in the chart."""
    base = {"text": text, "showarrow": False, "font": {"size": 11.5, "color": INK[theme]}, "bgcolor": SURFACE[theme]}
    return {**base, "borderpad": 2, **where}


def spectrum_range(panels: Panels, far: float = 5.0) -> float:
    """Right end of the spectrum's axis; an outlier beyond `far` edges is an arrow, so that the bulk keeps its width."""
    edge = panels.prediction.edge
    near = [o.eigenvalue for o in panels.prediction.outliers if o.eigenvalue <= far * edge]
    return 1.3 * max([edge * 1.1, *near])


def density_ceiling(panels: Panels) -> float:
    """Top of the density's axis; a density that diverges at a hard edge is cut there."""
    y = np.sort(panels.density_y)
    return 1.2 * float(min(y[-1], 2.5 * y[int(0.8 * len(y))]))


def spectrum(panels: Panels, theme: str, simulated: dict[str, Any] | None = None) -> Figure:
    """Bulk density, its edge, and the outliers beyond it."""
    state, prediction = panels.state, panels.prediction
    color = COLORS[theme][state.w]
    right, top = spectrum_range(panels), density_ceiling(panels)
    edge = prediction.edge
    data: list[dict[str, Any]] = []
    if simulated:
        edges = np.asarray(simulated["histogram"]["edges"])
        data.append(
            {
                "type": "bar", "name": "simulation", "x": packed((edges[1:] + edges[:-1]) / 2),
                "y": packed(simulated["histogram"]["density"]), "width": packed(np.diff(edges)),
                "marker": {"color": MUTED[theme], "opacity": 0.38, "line": {"width": 0}},
                "hovertemplate": "λ %{x:.3g}: %{y:.3g}<extra>simulation</extra>",
            }
        )  # fmt: skip
    low, high = prediction.bulk.support()
    data.append(
        {
            "type": "scatter", "mode": "lines", "name": "bulk: noise only",
            "x": packed(np.concatenate([[low], panels.density_x, [high]])),
            "y": packed(np.concatenate([panels.density_y[:1] if low <= 0 else [0.0], panels.density_y, [0.0]])),
            "line": {"color": color, "width": 2}, "fill": "tozeroy", "fillcolor": color + "2E",
            "hovertemplate": "λ %{x:.3g}: density %{y:.3g}<extra></extra>",
        }
    )  # fmt: skip
    shapes = [
        {"type": "line", "x0": edge, "x1": edge, "y0": 0, "y1": 0.8, "yref": "paper",
         "line": {"color": MUTED[theme], "width": 1.2, "dash": "dash"}}
    ]  # fmt: skip
    notes = [note(f"edge {edge:.3g}", theme, x=edge, y=0.82, yref="paper", yanchor="bottom")]
    for rank, outlier in enumerate(prediction.outliers):
        tint = SIGNAL[theme] if outlier.kind == "signal" else MUTED[theme]
        text = f"{outlier.kind} {outlier.eigenvalue:.3g}"
        height = 0.62 - 0.16 * rank
        font = {"size": 12.5, "color": tint}
        if outlier.eigenvalue > right:
            notes.append(
                note(f"{text} →", theme, x=1, xref="paper", y=height, yref="paper", xanchor="right", font=font)
            )
            continue
        data.append(
            {
                "type": "scatter", "mode": "lines+markers", "showlegend": False, "name": outlier.kind,
                "x": [outlier.eigenvalue] * 2, "y": [0, top * height], "line": {"color": tint, "width": 2.4},
                "marker": {"color": tint, "size": [0, 9], "symbol": "circle"},
                "hovertemplate": f"{text}, alignment {outlier.alignment:.3f}<extra></extra>",
            }
        )  # fmt: skip
        notes.append(note(text, theme, x=outlier.eigenvalue, y=top * height, yanchor="bottom", yshift=7, font=font))
    if panels.atom > 0:
        notes.append(
            note(f"{panels.atom:.0%} exactly at 0", theme, x=0, y=0.98, yref="paper", xanchor="left", yanchor="top")
        )
    if simulated:
        tops = [value for value in simulated["top"] if value <= right]
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": "simulated top eigenvalues", "x": tops,
                "y": [0.0] * len(tops), "cliponaxis": False, "showlegend": False,
                "marker": {"symbol": "line-ns", "size": 13, "line": {"width": 1.4, "color": INK[theme]}},
                "hovertemplate": "top eigenvalue %{x:.3g}<extra>simulation</extra>",
            }
        )  # fmt: skip
    shown = layout(
        theme,
        axis(theme, "eigenvalue λ of the pooled covariance S", range=[-0.015 * right, right]),
        axis(theme, "density", range=[0, top], nticks=5),
        shapes=shapes,
        annotations=notes,
        bargap=0,
        showlegend=True,
    )
    return {"data": data, "layout": shown}


def alignment(panels: Panels, theme: str, simulated: dict[str, Any] | None = None) -> Figure:
    """Alignment of the top component with the signal against mu, for every weighting."""
    data: list[dict[str, Any]] = []
    for name, curve in panels.curves.items():
        chosen = name == panels.state.w
        data.append(
            {
                "type": "scatter", "mode": "lines", "name": name, "x": listed(panels.mu), "y": listed(curve),
                "line": {"color": COLORS[theme][name], "width": 3.4 if chosen else 1.7, "dash": DASHES[name]},
                "opacity": 1.0 if chosen else 0.85,
                "hovertemplate": f"{NAMES[name]}<br>μ %{{x:.2f}}: alignment %{{y:.3f}}<extra></extra>",
            }
        )  # fmt: skip
    for name in panels.curves if simulated else ():
        assert simulated is not None
        tint = COLORS[theme][name]
        chosen = name == panels.state.w
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": f"{name}, simulated", "x": simulated["mu"],
                "y": simulated["alignment"][name], "showlegend": False,
                "error_y": {"type": "data", "array": simulated["error"][name], "color": tint, "thickness": 1.2},
                "marker": {"color": SURFACE[theme], "size": 8 if chosen else 6, "line": {"color": tint, "width": 1.6}},
                "hovertemplate": "μ %{x:.2f}: %{y:.3f} ± %{error_y.array:.3f}"
                f"<extra>{name}, simulated</extra>",
            }
        )  # fmt: skip
    shown = layout(
        theme,
        axis(theme, "signal strength μ", range=[0, float(panels.mu[-1])]),
        axis(theme, "alignment (squared cosine)", range=[0, 1.03], dtick=0.25),
        shapes=alignment_marks(panels, theme),
        showlegend=True,
    )
    return {"data": data, "layout": shown}


def _dot(x: float, y: float, color: str, theme: str) -> dict[str, Any]:
    """A marker as a shape: moving a shape redraws nothing else, moving a point redraws the whole chart."""
    size = {"x0": -6, "x1": 6, "y0": -6, "y1": 6, "xsizemode": "pixel", "ysizemode": "pixel"}
    line = {"color": SURFACE[theme], "width": 2}
    return {"type": "circle", "name": "present", "xanchor": x, "yanchor": y, "fillcolor": color, "line": line, **size}


def alignment_marks(panels: Panels, theme: str) -> list[dict[str, Any]]:
    """The parts of the alignment chart that move with mu."""
    mu, line = panels.state.mu, {"color": MUTED[theme], "width": 1, "dash": "dot"}
    cursor = {"type": "line", "x0": mu, "x1": mu, "y0": 0, "y1": 1, "yref": "paper", "line": line, "layer": "below"}
    return [cursor, _dot(mu, panels.prediction.alignment, COLORS[theme][panels.state.w], theme)]


def phase_marks(panels: Panels, theme: str) -> list[dict[str, Any]]:
    """The part of the phase diagram that moves with mu: annotations, because plotly flattens circles on a log axis."""
    size = panels.state.N if panels.plane.axis == "N" else panels.state.V
    where = {"x": panels.state.mu, "y": math.log10(size), "showarrow": False, "text": "●"}
    return [
        {**where, "name": "rim", "font": {"size": 25, "color": SURFACE[theme]}},
        {**where, "name": "present", "font": {"size": 19, "color": SIGNAL[theme]}},
    ]


def still_key(panels: Panels, theme: str, simulated: dict[str, Any] | None) -> str:
    """What the alignment chart and the phase diagram depend on besides mu: while it stays, only their marks move."""
    fixed = replace(panels.state, mu=0.0).query()
    return f"{fixed}|{float(panels.mu[-1])}|{theme}|{simulated['seed'] if simulated else ''}"


def phase(panels: Panels, theme: str) -> Figure:
    """Where the chosen weights find the signal, in the plane of mu and a size, with every weighting's threshold."""
    plane, state = panels.plane, panels.state
    data: list[dict[str, Any]] = [
        {
            "type": "heatmap", "x": listed(plane.mu), "y": listed(plane.sizes),
            "z": np.round(plane.alignment, 4).tolist(), "zmin": 0, "zmax": 1, "colorscale": HEAT[theme],
            "colorbar": {
                "title": {"text": "alignment (cos²)", "side": "right", "font": {"size": 11.5, "color": MUTED[theme]}},
                "thickness": 10, "outlinewidth": 0, "tickfont": {"size": 11, "color": MUTED[theme]},
                "tickvals": [0, 0.5, 1], "len": 1,
            },
            "hovertemplate": f"μ %{{x:.2f}}, {plane.axis} %{{y:.3s}}: alignment %{{z:.3f}}<extra></extra>",
        }
    ]  # fmt: skip
    for name, threshold in plane.thresholds.items():
        data.append(
            {
                "type": "scatter", "mode": "lines", "name": name, "x": listed(threshold), "y": listed(plane.sizes),
                "line": {
                    "color": COLORS[theme][name], "width": 3 if name == state.w else 1.6, "dash": DASHES[name],
                },
                "hovertemplate": f"threshold of {NAMES[name]}: μ %{{x:.3f}}<extra></extra>",
            }
        )  # fmt: skip
    what = "sequences N" if plane.axis == "N" else "vocabulary V"
    bounds = [float(np.log10(plane.sizes[0])), float(np.log10(plane.sizes[-1]))]
    shown = layout(
        theme,
        axis(theme, "signal strength μ", range=[0, float(plane.mu[-1])]),
        axis(theme, what, type="log", range=bounds, dtick=1),
        annotations=phase_marks(panels, theme),
        showlegend=True,
    )
    return {"data": data, "layout": shown}
