"""Exports: the code is run, the data are read back, the figures are opened."""

import csv
import io
import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from spikepool.drawing import palette
from spikepool.explorer import figures
from spikepool.explorer.export import to_csv, to_json, to_python
from spikepool.explorer.export_figure import draw, figure_of
from spikepool.explorer.simulate import check_simulation, simulate_task
from spikepool.explorer.theory import solve_query

QUERIES = {
    "prefix": "",
    "markov, not centred": "corr=markov&rho=-0.35&T=6&mu=2&w=mean&centered=0&V=600",
    "matrix, custom": "corr=matrix&R=1,.5,.2;.5,1,.3;.2,.3,1&w=custom&custom=3,2,0.125&mu=2&plane=V",
    "class-centred": "table=class_centered&V=800&T=10&L=3&w=optimal",
    "no signal gets through": "corr=matrix&R=1,-1;-1,1&w=mean",
}


@pytest.fixture(params=QUERIES.values(), ids=QUERIES.keys())
def panels(request):
    return solve_query(request.param)


def run(code):
    namespace = {}
    exec(compile(code, "exported.py", "exec"), namespace)
    return namespace


@pytest.mark.slow
def test_exported_code_makes_the_numbers_of_the_page(panels, capsys):
    made = run(to_python(panels))
    prediction = panels.prediction
    for name in ("alpha", "kappa", "edge", "alignment", "mu_sample", "mu_population", "detectable"):
        assert getattr(made["prediction"], name) == getattr(prediction, name)
    assert made["prediction"].outliers == prediction.outliers
    assert made["needed"] == panels.plan.samples
    for name, curve in panels.curves.items():
        np.testing.assert_allclose(made["curves"][name], curve, atol=1e-12)
    assert f"alignment of the top component {prediction.alignment:.6g}" in capsys.readouterr().out


def test_json_holds_every_number(panels):
    data = json.loads(to_json(panels))
    chosen = data["predictions"][panels.state.w]
    assert chosen["alignment"] == panels.prediction.alignment
    assert data["state"] == panels.state.query()
    assert data["alignment_by_mu"][panels.state.w] == panels.curves[panels.state.w].tolist()
    assert np.array(data["phase"]["alignment"]).shape == panels.plane.alignment.shape
    assert data["weights"][panels.state.w] == panels.weights[panels.state.w].tolist()


def test_csv_holds_every_curve(panels):
    rows = list(csv.DictReader(io.StringIO(to_csv(panels))))
    curve = [float(r["value"]) for r in rows if (r["panel"], r["series"]) == ("alignment", panels.state.w)]
    assert curve == panels.curves[panels.state.w].tolist()
    numbers = {
        r["value_name"]: float(r["value"]) for r in rows if (r["panel"], r["series"]) == ("numbers", panels.state.w)
    }
    assert numbers["edge"] == panels.prediction.edge
    assert sum(r["panel"] == "phase" for r in rows) == panels.plane.alignment.size


@pytest.fixture(scope="module")
def simulated():
    query = solve_query("d=60&V=300&N=150&T=6&L=3&mu=1.5").state.query()
    seen = []
    result = simulate_task({"query": query, "trials": 5, "seed": 11}, lambda share, note: seen.append(share))
    return query, result, seen


def test_simulation_is_the_library_s_own(simulated):
    from spikepool.simulation.simulate import simulate_grid

    query, result, seen = simulated
    panels = solve_query(query)
    grid = simulate_grid(panels.state.model(), panels.weights, result["mu"], trials=5, k=1, rng=11)
    for i, name in enumerate(grid.names):
        np.testing.assert_allclose(result["alignment"][name], grid.alignments[i, :, :, 0].mean(axis=1), rtol=1e-10)
        spread = grid.alignments[i, :, :, 0].std(axis=1, ddof=1) / np.sqrt(5)
        np.testing.assert_allclose(result["error"][name], spread, rtol=1e-8)
    chosen = grid.names.index(panels.state.w)
    np.testing.assert_allclose(result["top"], grid.eigenvalues[chosen, 0, :, 0], rtol=1e-10)
    assert result["mu"][0] == panels.state.mu
    assert seen == sorted(seen)
    assert seen[0] == 0
    assert 0.5 < seen[-1] < 1


def test_simulated_histogram_has_unit_mass(simulated):
    query, result, _ = simulated
    edges, density = np.array(result["histogram"]["edges"]), np.array(result["histogram"]["density"])
    assert np.sum(np.diff(edges) * density) == pytest.approx(1.0)
    panels = solve_query(query)
    assert edges[-1] >= panels.state.model().spectrum(panels.weights[panels.state.w], rng=11)[-1]


def test_exported_code_repeats_the_simulation(simulated):
    query, result, _ = simulated
    made = run(to_python(solve_query(query), result))
    for name, values in result["alignment"].items():
        np.testing.assert_allclose(made["simulated"][name], values, rtol=1e-10)


def test_exports_with_a_simulation(simulated):
    query, result, _ = simulated
    panels = solve_query(query)
    assert json.loads(to_json(panels, result))["simulation"]["alignment"] == result["alignment"]
    rows = list(csv.DictReader(io.StringIO(to_csv(panels, result))))
    shown = [float(r["value"]) for r in rows if (r["panel"], r["series"]) == ("simulation", "causal")]
    assert shown == result["alignment"]["causal"]


@pytest.mark.parametrize("trials", [0, -1, 21, 2.5, True, "5", None])
def test_draws_are_checked(application, trials):
    from spikepool.errors import SizeError

    with pytest.raises(SizeError, match="draws"):
        check_simulation(solve_query("").state, trials, application.limits)


def test_large_simulations_are_refused(application):
    from spikepool.errors import SizeError

    with pytest.raises(SizeError, match="too large"):
        check_simulation(solve_query("d=4000&N=2000000").state, 1, application.limits)


@pytest.mark.slow
def test_downloads(application, simulated):
    from urllib.parse import quote

    query = simulated[0]
    state = quote(query)
    for kind, check in {
        "csv": lambda body: body.startswith(b"panel,series"),
        "json": lambda body: json.loads(body)["state"] == query,
        "py": lambda body: run(body.decode())["prediction"].alignment == solve_query(query).prediction.alignment,
        "png": lambda body: body.startswith(b"\x89PNG\r\n") and len(body) > 50_000,
        "svg": lambda body: ElementTree.fromstring(body).tag.endswith("svg"),
    }.items():
        answer = application.client.get(f"/export/spikepool.{kind}?state={state}")
        assert answer.status_code == 200, answer.data
        assert "attachment" in answer.headers["Content-Disposition"]
        assert check(answer.data), kind
    assert application.client.get(f"/export/spikepool.exe?state={state}").status_code == 404
    bad = application.client.get("/export/spikepool.csv?state=d%3Dx")
    assert bad.status_code == 400
    assert "whole number" in bad.get_json()["error"]


@pytest.mark.slow
def test_figure_is_drawn_with_the_simulation(simulated):
    query, result, _ = simulated
    panels = solve_query(query)
    assert len(draw(panels, "svg", result)) > len(draw(panels, "svg"))


def test_the_exported_figure_has_the_colours_of_every_other_figure(panels):
    legend = figure_of(panels, None).axes[1].get_legend()
    drawn = {text.get_text(): line.get_color() for text, line in zip(legend.texts, legend.legend_handles, strict=True)}
    styles = {**palette.METHODS, "custom": palette.METHODS["learned"]}
    assert drawn == {name: styles[name].color for name in panels.curves}


def test_the_page_takes_its_shades_from_the_one_palette():
    for name, style in palette.METHODS.items():
        own = "custom" if name == "learned" else name
        assert (figures.COLORS["light"][own], figures.COLORS["dark"][own]) == (style.on_light, style.on_dark)
