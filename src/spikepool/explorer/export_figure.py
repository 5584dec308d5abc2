"""The page as one figure for a paper or a slide; drawn by matplotlib in a worker process."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np

from spikepool.drawing import palette, plotting
from spikepool.drawing.predictions import draw_prediction, draw_weights
from spikepool.explorer.figures import METHODS, density_ceiling, spectrum_range
from spikepool.explorer.jobs import Report
from spikepool.explorer.theory import Panels, solve_query
from spikepool.explorer.verdict import verdict

FORMATS = {"png": "image/png", "svg": "image/svg+xml"}
_DPI = 180


def figure_task(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Draw ``payload["query"]`` in ``payload["format"]``; runs in a worker process."""
    report(0.1, "drawing")
    figure = _draw(solve_query(payload["query"]), payload.get("simulated"))
    buffer = io.BytesIO()
    metadata = {"Date": None} if payload["format"] == "svg" else {}
    with plotting.theme():
        figure.savefig(buffer, format=payload["format"], dpi=_DPI, metadata=metadata)
    return {"bytes": base64.b64encode(buffer.getvalue()).decode("ascii")}


def _draw(panels: Panels, simulated: dict[str, Any] | None) -> Any:
    with plotting.theme():
        figure, axes = plotting.new_figure(2, 2, width=10, height=7.2)
        _draw_spectrum(axes[0, 0], panels, simulated)
        _draw_alignment(axes[0, 1], panels, simulated)
        _draw_phase(figure, axes[1, 0], panels)
        w = panels.state.w
        draw_weights(panels.weights[w], axes[1, 1], color=METHODS[w].color).set_title(f"Weights: {w}")
    state = panels.state
    kind = {"prefix": f"prefix L={state.L}", "markov": f"Markov ρ={state.rho:g}", "matrix": "given R"}[state.corr]
    figure.suptitle(
        f"{verdict(panels).headline}\n"
        f"d={state.d}  V={state.V}  N={state.N}  T={state.T}  {kind}  μ={state.mu:g}  weights: {state.w}  "
        f"table: {state.table.replace('_', '-')}  {'centred' if state.centered else 'not centred'}",
        fontsize=10.5,
    )
    return figure


def _draw_spectrum(ax: Any, panels: Panels, simulated: dict[str, Any] | None) -> None:
    if simulated:
        edges, density = np.asarray(simulated["histogram"]["edges"]), simulated["histogram"]["density"]
        ax.stairs(density, edges, fill=True, color=palette.HISTOGRAM, label="simulation, one draw")
    draw_prediction(panels.prediction, ax)
    right = spectrum_range(panels)
    for outlier in panels.prediction.outliers:
        if outlier.eigenvalue > right:
            ax.plot([], [], " ", label=f"({outlier.kind} outlier beyond the axis)")
    ax.set(xlim=(0, right), ylim=(0, density_ceiling(panels)), title="Spectrum")
    ax.legend(frameon=True, framealpha=0.9, edgecolor="none")


def _draw_alignment(ax: Any, panels: Panels, simulated: dict[str, Any] | None) -> None:
    for name, curve in panels.curves.items():
        style, wide = METHODS[name], 2.4 if name == panels.state.w else 1.3
        ax.plot(panels.mu, curve, color=style.color, ls=style.linestyle, lw=wide, label=name)
        if simulated:
            points, bars = simulated["alignment"][name], simulated["error"][name]
            ax.errorbar(simulated["mu"], points, bars, fmt="o", ms=4, mfc="white", color=style.color)
    ax.plot(panels.state.mu, panels.prediction.alignment, "o", color=palette.SIGNAL_COLOR, ms=7, zorder=5)
    ax.set(
        xlim=(0, panels.mu[-1]), ylim=(0, 1.03), xlabel="signal strength μ", ylabel="alignment (squared cosine)",
        title="Alignment of the top component" + (" (circles: simulated)" if simulated else ""),
    )  # fmt: skip
    ax.legend(frameon=True, framealpha=0.9, edgecolor="none")


def _draw_phase(figure: Any, ax: Any, panels: Panels) -> None:
    plane = panels.plane
    ax.grid(False)
    # lighter than plot_phase_diagram, so that every threshold is seen on it
    mesh = ax.pcolormesh(
        plane.mu, plane.sizes, plane.alignment, vmin=0, vmax=1, cmap="Blues", shading="gouraud", rasterized=True
    )
    for name, threshold in plane.thresholds.items():
        ax.plot(threshold, plane.sizes, color=METHODS[name].color, ls=METHODS[name].linestyle, lw=1.6, label=name)
    ax.plot(panels.state.mu, getattr(panels.state, plane.axis), "o", color=palette.SIGNAL_COLOR, ms=7, mec="white")
    what = "number of sequences N" if plane.axis == "N" else "vocabulary size V"
    ax.set(
        yscale="log", xlim=(0, plane.mu[-1]), ylim=(plane.sizes[0], plane.sizes[-1]), xlabel="signal strength μ",
        ylabel=what, title=f"Phase diagram, {panels.state.w} weights; lines: thresholds",
    )  # fmt: skip
    figure.colorbar(mesh, ax=ax, label="alignment (squared cosine)")
    ax.legend(frameon=True, framealpha=0.9, edgecolor="none")
