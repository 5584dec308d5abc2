"""What is on the page, to take away: data as CSV and JSON, and Python code that makes the same numbers."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

from spikepool import __version__
from spikepool.explorer.state import FAMILIES, PARAMETERS, State
from spikepool.explorer.theory import Panels
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
