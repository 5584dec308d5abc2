"""The page as one figure for a paper or a slide, drawn by matplotlib."""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np

from spikepool.drawing import palette, plotting
from spikepool.drawing.predictions import draw_prediction, draw_weights
from spikepool.explorer.figures import METHODS, density_ceiling, spectrum_range
from spikepool.explorer.state import FAMILIES
from spikepool.explorer.theory import Panels
from spikepool.explorer.verdict import verdict

_ONE_AT_A_TIME = threading.Lock()  # the settings of matplotlib belong to the whole process


def draw(panels: Panels, format: str, simulated: dict[str, Any] | None = None) -> bytes:
    """The page as a file of `format`, "png" or "svg"."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if format == "svg" else {}
    with _ONE_AT_A_TIME, plotting.theme():
        figure_of(panels, simulated).savefig(buffer, format=format, dpi=180, metadata=metadata)
    return buffer.getvalue()


def figure_of(panels: Panels, simulated: dict[str, Any] | None) -> Any:
    """The four panels as a matplotlib figure."""
    with plotting.theme():
        figure, axes = plotting.new_figure(2, 2, width=10, height=7.2)
        _draw_spectrum(axes[0, 0], panels, simulated)
        _draw_alignment(axes[0, 1], panels, simulated)
        _draw_phase(figure, axes[1, 0], panels)
        w = panels.state.w
        draw_weights(panels.weights[w], axes[1, 1], color=METHODS[w].color).set_title(f"Weights: {w}")
    state = panels.state
    family = FAMILIES.get(state.corr)
    kind = "given R"
    if family is not None:
        kind = f"{family.label} {family.symbol}={getattr(state, family.parameter):g}"
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
