"""What is on the page, to take away: data as CSV and JSON, and Python code that makes the same numbers.

The page as one figure for a paper or a slide; drawn by matplotlib in a worker process.

Plain HTTP beside the callbacks: downloads, and the glossary.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from typing import Any

import numpy as np
from flask import Flask, Response, jsonify, request

from spikepool import __version__
from spikepool.drawing import palette, plotting
from spikepool.drawing.predictions import draw_prediction, draw_weights
from spikepool.errors import SpikepoolError
from spikepool.explorer.figures import METHODS, density_ceiling, spectrum_range
from spikepool.explorer.glossary import to_page
from spikepool.explorer.jobs import BusyError, Report
from spikepool.explorer.services import Services
from spikepool.explorer.state import FAMILIES, PARAMETERS, State
from spikepool.explorer.theory import Panels, solve_query
from spikepool.explorer.verdict import verdict
from spikepool.world.correlation import NAMED_CORRELATIONS

CSV_COLUMNS = ("panel", "series", "x_name", "x", "y_name", "y", "value_name", "value")


def _finite(value: float) -> float | None:
    """JSON has no infinity: a threshold that is never reached becomes null."""
    return float(value) if math.isfinite(value) else None


def to_json(panels: Panels, simulated: dict[str, Any] | None = None) -> str:
    """Every number behind the page."""
    state, plane = panels.state, panels.plane
    sentence = verdict(panels)
    record = {
        "spikepool": __version__,
        "state": state.query(),
        "verdict": " ".join((sentence.headline, *sentence.details)),
        "weights": {name: w.tolist() for name, w in panels.weights.items()},
        "predictions": {name: p.to_dict() for name, p in panels.predictions.items()},
        "target": {"alignment": panels.plan.target, "sequences": panels.plan.samples, "limit": panels.plan.limit},
        "bulk": {"eigenvalue": panels.density_x.tolist(), "density": panels.density_y.tolist()},
        "alignment_by_mu": {
            "mu": panels.mu.tolist(),
            **{name: curve.tolist() for name, curve in panels.curves.items()},
        },
        "phase": {
            "mu": plane.mu.tolist(),
            plane.axis: plane.sizes.tolist(),
            "alignment": plane.alignment.tolist(),
            "thresholds": {name: [_finite(v) for v in values] for name, values in plane.thresholds.items()},
        },
        "simulation": simulated,
    }
    return json.dumps(record, allow_nan=False, ensure_ascii=False, indent=1)


def to_csv(panels: Panels, simulated: dict[str, Any] | None = None) -> str:
    """The curves in long form, one point per row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for name, w in panels.weights.items():
        writer.writerows(("weights", name, "position", t, "", "", "weight", v) for t, v in enumerate(w.tolist(), 1))
    for name, p in panels.predictions.items():
        for number in ("alpha", "kappa", "edge", "alignment", "mu_sample", "mu_population"):
            writer.writerow(("numbers", name, "", "", "", "", number, getattr(p, number)))
        writer.writerows(("outliers", name, "kind", o.kind, "", "", "eigenvalue", o.eigenvalue) for o in p.outliers)
    for x, y in zip(panels.density_x.tolist(), panels.density_y.tolist(), strict=True):
        writer.writerow(("bulk", panels.state.w, "eigenvalue", x, "", "", "density", y))
    for name, curve in panels.curves.items():
        for mu, value in zip(panels.mu.tolist(), curve.tolist(), strict=True):
            writer.writerow(("alignment", name, "mu", mu, "", "", "alignment", value))
    plane = panels.plane
    for size, row in zip(plane.sizes.tolist(), plane.alignment.tolist(), strict=True):
        for mu, value in zip(plane.mu.tolist(), row, strict=True):
            writer.writerow(("phase", panels.state.w, "mu", mu, plane.axis, size, "alignment", value))
    if simulated:
        for name, means in simulated["alignment"].items():
            for mu, mean, error in zip(simulated["mu"], means, simulated["error"][name], strict=True):
                writer.writerow(("simulation", name, "mu", mu, "standard error", error, "alignment", mean))
    return out.getvalue()


def _correlation_code(state: State) -> str:
    if state.corr in FAMILIES:
        parameter = PARAMETERS[state.corr]
        return f"sp.{NAMED_CORRELATIONS[state.corr].__name__}(T={state.T}, {parameter}={getattr(state, parameter)!r})"
    rows = "".join(f"\n        {list(row)!r}," for row in state.R)
    return f"np.array(\n    [{rows}\n    ]\n)"


def _weights_code(state: State, names: list[str]) -> str:
    code = {
        "mean": f"sp.mean_weights({state.T})",
        "causal": f"sp.causal_weights({state.T})",
        "optimal": "sp.optimal_weights(R)",
        "custom": "custom / custom.sum()",
    }
    lines = "".join(f'    "{name}": {code[name]},\n' for name in names)
    before = f"custom = np.array({list(state.custom)!r})\n" if "custom" in names else ""
    return f"{before}weights = {{\n{lines}}}"


def to_python(panels: Panels, simulated: dict[str, Any] | None = None) -> str:
    """A script that makes the numbers of the page with the library; tested by running it."""
    state = panels.state
    parts = [
        '"""Made by the spikepool explorer: the numbers of one page."""\n',
        "import numpy as np\n\nimport spikepool as sp\n",
        f"R = {_correlation_code(state)}",
        "model = sp.SequenceModel(\n"
        f"    d={state.d}, V={state.V}, N={state.N}, R=R, mu={state.mu!r}, table={state.table!r}, "
        f"centered={state.centered}\n)",
        _weights_code(state, list(panels.weights)),
        "predictions = {name: model.predict(w) for name, w in weights.items()}",
        f"prediction = predictions[{state.w!r}]",
        'print(f"alpha {prediction.alpha:.6g}  kappa {prediction.kappa:.6g}  bulk edge {prediction.edge:.6g}")',
        "for outlier in prediction.outliers:",
        '    print(f"outlier ({outlier.kind}) {outlier.eigenvalue:.6g}  alignment {outlier.alignment:.6g}")',
        'print(f"alignment of the top component {prediction.alignment:.6g}")',
        'print(f"threshold mu {prediction.mu_sample:.6g}")',
        "try:",
        f"    needed = model.required_samples(weights[{state.w!r}], alignment={panels.plan.target!r})",
        f'    print(f"sequences needed for alignment {panels.plan.target:g}: {{needed:,}}")',
        "except sp.UnreachableError as err:",
        "    needed = None",
        "    print(err)",
        "",
        "# alignment against mu, for every weighting",
        f"mu = np.linspace(0.0, {float(panels.mu[-1])!r}, {len(panels.mu)})",
        "curves = {",
        "    name: np.array([model.replace(mu=m).predict(w).alignment for m in mu]) for name, w in weights.items()",
        "}",
    ]
    if simulated:
        parts += [
            "",
            "# the simulation shown",
            "from spikepool.simulation.simulate import simulate_grid",
            "",
            f"mus = {simulated['mu']!r}",
            f"grid = simulate_grid(model, weights, mus, trials={simulated['trials']}, k=1, rng={simulated['seed']})",
            "simulated = dict(zip(grid.names, grid.alignments[..., 0].mean(axis=2).tolist()))",
            f'print(f"simulated alignment {{simulated[{state.w!r}][0]:.6g}}")',
        ]
    return "\n".join(parts) + "\n"


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


TEXTS = {
    "csv": (to_csv, "text/csv; charset=utf-8"),
    "json": (to_json, "application/json"),
    "py": (to_python, "text/x-python; charset=utf-8"),
}


def _problem(message: str, status: int) -> Response:
    response: Response = jsonify({"error": message})
    response.status_code = status
    return response


def register(server: Flask, services: Services) -> None:
    """Attach the routes to `server`."""
    base = services.settings.base_path

    @server.get(f"{base}export/spikepool.<kind>")
    def export(kind: str) -> Response:
        if kind not in TEXTS and kind not in FORMATS:
            return _problem("There is no such export.", 404)
        try:
            panels = solve_query(request.args.get("state", ""))
            simulated = services.simulation(request.args.get("job"), panels.state.query())
            if kind in TEXTS:
                write, mimetype = TEXTS[kind]
                body: str | bytes = write(panels, simulated)
            else:
                payload = {"query": panels.state.query(), "format": kind, "simulated": simulated}
                body = base64.b64decode(services.figures.run(figure_task, payload)["bytes"])
                mimetype = FORMATS[kind]
        except BusyError as err:
            return _problem(str(err), 503)
        except SpikepoolError as err:
            return _problem(str(err), 400)
        response = Response(body, content_type=mimetype)
        response.headers["Content-Disposition"] = f'attachment; filename="spikepool.{kind}"'
        return response

    @server.get(f"{base}glossary")
    def glossary() -> Response:
        return Response(to_page(), content_type="text/html; charset=utf-8")
