"""Commands that run for a while: sweep and reproduce, locally and on a real Dask cluster."""

import json

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
pytest.importorskip("typer")
pytest.importorskip("zarr")
pytest.importorskip("distributed")

import spikepool as sp  # noqa: E402

SPEC = """
trials = 3
seed = 1
[model]
d = 40
V = 64
N = 80
R = { kind = "prefix", T = 10, L = 3 }
[weights]
mean = "mean"
causal = "causal"
[sweep]
mu = [1.0, 2.0]
"""


@pytest.mark.slow
def test_sweep_runs_a_specification_and_resumes(tmp_path, run):
    (tmp_path / "spec.toml").write_text(SPEC)
    arguments = ("sweep", tmp_path / "spec.toml", "--store", tmp_path / "a.zarr", "--workers", 0)
    code, text, _ = run(*arguments, "--json")
    assert code == 0
    answer = json.loads(text)
    R = sp.prefix_correlation(10, 3)
    model = sp.SequenceModel(d=40, V=64, N=80, R=R, mu=2.0)
    predicted = answer["data_vars"]["predicted_alignment"]["data"]
    assert predicted[1][1] == model.predict(sp.causal_weights(10)).alignment
    code, text, _ = run(*arguments, "--out", tmp_path / "sweep.html")
    assert code == 0
    assert "<svg" in (tmp_path / "sweep.html").read_text()
    assert "simulated" in text
    assert "Stored in" in text
    (tmp_path / "spec.toml").write_text(SPEC.replace("seed = 1", "seed = 2"))
    code, _, error = run(*arguments)
    assert code in (1, 2)
    assert "seed" in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.slow
def test_reproduce_writes_a_report(tmp_path, run):
    code, text, _ = run("reproduce", 1, "--out", tmp_path / "report", "--json")
    assert code == 0
    summary = json.loads(text)
    assert [figure["number"] for figure in summary["figures"]] == [1]
    assert all(figure["verdict"] == "agrees" for figure in summary["figures"])
    assert (tmp_path / "report" / "index.html").is_file()


@pytest.fixture
def cluster():
    """The address of a scheduler with two workers, reached over TCP."""
    from distributed import LocalCluster

    options = {"processes": False, "protocol": "tcp://", "dashboard_address": None}
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", **options) as found:
        yield found.scheduler_address


@pytest.mark.slow
def test_figure_4_on_a_cluster_equals_the_local_run(tmp_path, run, cluster, monkeypatch):
    """With three trials; that of all trials is judged in tests/reproduce."""
    from spikepool.reproduce import fig04_alignment

    monkeypatch.setattr(fig04_alignment, "sweep", lambda *a, **options: sp.sweep(*a, **{**options, "trials": 3}))
    data = []
    for name, options in (("local", ()), ("remote", ("--scheduler", cluster))):
        run("reproduce", 4, "--out", tmp_path / name, *options)
        with xr.open_dataset(tmp_path / name / "data" / "figure-04-alignment.nc", engine="scipy") as ds:
            data.append(ds.load())
    assert data[0].identical(data[1])
    assert np.isfinite(data[0]["simulated"].values).all()
    assert len(list(tmp_path.rglob("figure-04-*.zarr"))) == 2  # where the workers wrote
