"""The page as one figure for a paper or a slide; drawn by matplotlib in a worker process."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np

from spikepool.drawing.palette import HISTOGRAM
from spikepool.errors import require
from spikepool.explorer.figures import METHODS, MUTED, SIGNAL, density_ceiling, spectrum_range
from spikepool.explorer.jobs import Report
from spikepool.explorer.theory import Panels, solve_query
from spikepool.explorer.verdict import verdict

FORMATS = {"png": "image/png", "svg": "image/svg+xml"}
_MUTED = MUTED["light"]
_DPI = 180


def figure_task(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Draw ``payload["query"]`` in ``payload["format"]``; runs in a worker process."""
    matplotlib = require("matplotlib", "explore")
    report(0.1, "drawing")
    panels = solve_query(payload["query"])
    rc = {
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "spikepool",
        "legend.framealpha": 0.9,
        "legend.edgecolor": "none",
    }
    with matplotlib.rc_context(rc):
        figure = _draw(panels, payload.get("simulated"))
        buffer = io.BytesIO()
        metadata = {"Date": None} if payload["format"] == "svg" else {}
        figure.savefig(buffer, format=payload["format"], dpi=_DPI, metadata=metadata)
    return {"bytes": base64.b64encode(buffer.getvalue()).decode("ascii")}


def _draw(panels: Panels, simulated: dict[str, Any] | None) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7.2), layout="constrained")
    axes = figure.subplots(2, 2)
    _draw_spectrum(axes[0, 0], panels, simulated)
    _draw_alignment(axes[0, 1], panels, simulated)
    _draw_phase(figure, axes[1, 0], panels)
    _draw_weights(axes[1, 1], panels)
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
    right, top = spectrum_range(panels), density_ceiling(panels)
    color = METHODS[panels.state.w].color
    if simulated:
        edges = np.asarray(simulated["histogram"]["edges"])
        ax.stairs(simulated["histogram"]["density"], edges, fill=True, color=HISTOGRAM, label="simulation, one draw")
    ax.plot(panels.density_x, panels.density_y, color=color, label="bulk density")
    ax.fill_between(panels.density_x, panels.density_y, color=color, alpha=0.15, lw=0)
    ax.axvline(panels.prediction.edge, color=_MUTED, ls="--", lw=1, label=f"edge {panels.prediction.edge:.3g}")
    for outlier in panels.prediction.outliers:
        tint = SIGNAL["light"] if outlier.kind == "signal" else _MUTED
        label = f"{outlier.kind} outlier {outlier.eigenvalue:.3g}"
        if outlier.eigenvalue <= right:
            ax.plot([outlier.eigenvalue] * 2, [0, 0.6 * top], color=tint, marker="o", markevery=[1], label=label)
        else:
            ax.plot([], [], color=tint, marker=">", label=f"{label} (beyond the axis)")
    ax.set(xlim=(0, right), ylim=(0, top), xlabel="eigenvalue of S", ylabel="density", title="Spectrum")
    ax.legend(fontsize=8)


def _draw_alignment(ax: Any, panels: Panels, simulated: dict[str, Any] | None) -> None:
    for name, curve in panels.curves.items():
        wide = 2.4 if name == panels.state.w else 1.3
        ax.plot(panels.mu, curve, color=METHODS[name].color, ls=METHODS[name].linestyle, lw=wide, label=name)
    for name in panels.curves if simulated else ():
        assert simulated is not None
        points, bars = simulated["alignment"][name], simulated["error"][name]
        ax.errorbar(simulated["mu"], points, bars, fmt="o", ms=4, mfc="white", color=METHODS[name].color)
    ax.plot(panels.state.mu, panels.prediction.alignment, "o", color=SIGNAL["light"], ms=7, zorder=5, clip_on=False)
    ax.set(
        xlim=(0, panels.mu[-1]), ylim=(0, 1.03), xlabel="signal strength μ", ylabel="alignment (squared cosine)",
        title="Alignment of the top component" + (" (circles: simulated)" if simulated else ""),
    )  # fmt: skip
    ax.legend(fontsize=8)


def _draw_phase(figure: Any, ax: Any, panels: Panels) -> None:
    plane = panels.plane
    mesh = ax.pcolormesh(
        plane.mu, plane.sizes, plane.alignment, vmin=0, vmax=1, cmap="Blues", shading="gouraud", rasterized=True
    )
    for name, threshold in plane.thresholds.items():
        ax.plot(threshold, plane.sizes, color=METHODS[name].color, ls=METHODS[name].linestyle, lw=1.6, label=name)
    ax.plot(panels.state.mu, getattr(panels.state, plane.axis), "o", color=SIGNAL["light"], ms=7, mec="white")
    what = "number of sequences N" if plane.axis == "N" else "vocabulary size V"
    ax.set(
        yscale="log", xlim=(0, plane.mu[-1]), ylim=(plane.sizes[0], plane.sizes[-1]), xlabel="signal strength μ",
        ylabel=what, title=f"Phase diagram, {panels.state.w} weights; lines: thresholds",
    )  # fmt: skip
    figure.colorbar(mesh, ax=ax, label="alignment (squared cosine)")
    ax.legend(fontsize=8)


def _draw_weights(ax: Any, panels: Panels) -> None:
    w = panels.weights[panels.state.w]
    ax.bar(np.arange(1, len(w) + 1), w, color=METHODS[panels.state.w].color, width=0.8)
    ax.axhline(0, color=_MUTED, lw=0.8)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="position t", ylabel="weight", title=f"Weights: {panels.state.w}")
