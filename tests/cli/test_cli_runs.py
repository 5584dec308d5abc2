"""Commands that run for a while: sweep and reproduce, locally and on a real Dask cluster."""

import json
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
pytest.importorskip("typer")
pytest.importorskip("zarr")
pytest.importorskip("distributed")

import spikepool as sp  # noqa: E402
from drawn import baseline, differences, signature  # noqa: E402
from spikepool.reproduce import FIGURES  # noqa: E402

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


def spikepool(*arguments, timeout=300):
    """Run the command line in a separate process, on one thread."""
    return subprocess.run(
        [sys.executable, "-m", "spikepool.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )


def test_sweep_runs_a_specification_and_resumes(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)
    arguments = ("sweep", tmp_path / "spec.toml", "--store", tmp_path / "a.zarr", "--workers", 0)
    done = spikepool(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    R = sp.prefix_correlation(10, 3)
    model = sp.SequenceModel(d=40, V=64, N=80, R=R, mu=2.0)
    predicted = answer["data_vars"]["predicted_alignment"]["data"]
    assert predicted[1][1] == model.predict(sp.causal_weights(10)).alignment
    again = spikepool(*arguments, "--out", tmp_path / "sweep.html")
    assert again.returncode == 0
    assert "<svg" in (tmp_path / "sweep.html").read_text()
    assert "simulated" in again.stdout
    assert "Stored in" in again.stdout
    (tmp_path / "spec.toml").write_text(SPEC.replace("seed = 1", "seed = 2"))
    other = spikepool(*arguments)
    assert other.returncode in (1, 2)
    assert "seed" in other.stderr
    assert len(other.stderr.strip().splitlines()) == 1


def test_reproduce_writes_a_report(tmp_path):
    done = spikepool("reproduce", 1, "--out", tmp_path / "report", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert [figure["number"] for figure in summary["figures"]] == [1]
    assert all(figure["verdict"] == "agrees" for figure in summary["figures"])
    assert (tmp_path / "report" / "index.html").is_file()


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and two workers as processes of their own, on loopback; gives the scheduler's address."""
    address = f"tcp://127.0.0.1:{_free_port()}"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    log = (tmp_path / "cluster.log").open("w")

    def start(*arguments):
        command = [sys.executable, "-m", "dask", *arguments]
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=tmp_path)

    port = address.rsplit(":", 1)[1]
    processes = [start("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")]
    for _ in range(2):
        processes.append(start("worker", address, "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"))
    try:
        _wait_for_workers(address, 2)
        yield address
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(timeout=30)
        log.close()


def _wait_for_workers(address, count):
    from distributed import Client

    deadline = time.monotonic() + 90
    while True:
        try:
            with Client(address, timeout=5) as client:
                client.wait_for_workers(count, timeout=60)
                return
        except OSError:
            if time.monotonic() > deadline:
                raise


@pytest.mark.slow
def test_figure_4_on_a_cluster_equals_the_local_run(tmp_path, cluster):
    local = spikepool("reproduce", 4, "--out", tmp_path / "local")
    remote = spikepool("reproduce", 4, "--out", tmp_path / "remote", "--scheduler", cluster)
    assert local.returncode == 0, local.stderr
    assert remote.returncode == 0, remote.stderr
    data = []
    for name in ("local", "remote"):
        with xr.open_dataset(tmp_path / name / "data" / "figure-04-alignment.nc", engine="scipy") as ds:
            data.append(ds.load())
    assert data[0].identical(data[1])
    assert np.isfinite(data[0]["simulated"].values).all()
    checks = {check.name: check for check in FIGURES[4].judge(data[0])}
    assert checks["closed form, prefix model"].passed
    assert checks["closed form, spiked model"].passed
    assert checks["published curve, spiked model"].passed
    assert not checks["published curve, prefix model"].passed
    figure = FIGURES[4].picture(data[0])
    assert differences(signature(figure), baseline("alignment")) == []
    assert [len(ax.lines) > 6 for ax in figure.axes] == [True, True]
