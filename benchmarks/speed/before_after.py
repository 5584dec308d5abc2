"""Speed of predictions, slider moves, sweeps and simulations, of this checkout and of an earlier commit in one run.

    python benchmarks/speed/before_after.py [--commit 292e838] [--rounds 15]

The commit is checked out in a temporary folder. Each side has a separate process; they take turns task by task, so
that other work on the machine disturbs both alike. The numbers of both must agree to 1e-9. Times are processor seconds
of the calling process (the least of the rounds) and, beside them, the least time on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "benchmarks" / "results" / "before_after.json"

# Runs in each process: reads the name of a task and a number per line, answers with its times and numbers.
WORKER = r"""
import json, sys, tempfile, time
import numpy as np, xarray, zarr
import spikepool as sp
from spikepool.explorer.state import parse_query
from spikepool.explorer.theory import solve
from spikepool.explorer.verdict import verdict

R = sp.prefix_correlation(10, 3)
model, w = sp.SequenceModel(d=500, V=800, N=1000, R=R, mu=2.5), sp.causal_weights(10)
small = model.replace(d=60, V=100, N=120)
query = sp.QueryModel(d=40, N=160, T=8, L=2, mu=2.0, nu=1.2)
MUS = [0.5, 1.0, 1.5, 2.0]
folder = tempfile.TemporaryDirectory()

def predict(i):
    return [model.replace(mu=1 + i / 100).predict(w).alignment]

def direct(i):
    return [model.replace(mu=mu).predict(w).alignment for mu in MUS]

def sweep(i):
    return sp.sweep(model, {"causal": w}, mu=MUS, trials=0, progress=False).predicted_alignment.values.ravel().tolist()

def sweep_store(i):
    ds = sp.sweep(model, {"causal": w}, mu=MUS, trials=0, store=f"{folder.name}/{i}.zarr", workers=0, progress=False)
    return ds.predicted_alignment.values.ravel().tolist()

def sweep_trials(i):
    ds = sp.sweep(small, ["mean", "causal"], mu=MUS, trials=5, workers=0, progress=False)
    return ds.alignment_mean.values.ravel().tolist()

def sweep_trials_store(i):
    options = {"store": f"{folder.name}/t{i}.zarr", "workers": 0, "progress": False}
    return sp.sweep(small, ["mean", "causal"], mu=MUS, trials=5, **options).alignment_mean.values.ravel().tolist()

def sweep_query(i):
    return sp.sweep(query, beta=[0.2, 0.8], L=[1, 2], trials=3, progress=False).alignment_mean.values.ravel().tolist()

def slider(i):
    panels = solve(parse_query(f"mu={0.5 + i / 1000}"))
    return [panels.prediction.alignment, float(panels.plane.alignment.sum()), float(len(verdict(panels).headline) > 0)]

def simulate(i):
    return model.simulate(w, trials=5, rng=0).alignment.tolist()

for line in sys.stdin:
    name, number = line.split()
    task, clock, cpu = globals()[name], time.perf_counter(), time.process_time()
    values = task(int(number))
    times = [time.process_time() - cpu, time.perf_counter() - clock]
    print(json.dumps([times, values]), flush=True)
"""
TASKS = {
    "predict": "one prediction",
    "slider": "a slider move: theory, phase diagram, verdict",
    "direct": "four predictions",
    "sweep": "sweep of four predictions",
    "sweep_store": "the same with a store",
    "sweep_trials": "sweep of 2 weights, 4 mu, 5 trials at d = 60",
    "sweep_trials_store": "the same with a store",
    "sweep_query": "sweep of a query model, 4 combinations, 3 trials",
    "simulate": "simulate, 5 trials at d = 500",
}


def start(source: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def ask(worker: subprocess.Popen[str], task: str, number: int) -> tuple[list[float], list[float]]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{task} {number}\n")
    worker.stdin.flush()
    times, values = json.loads(worker.stdout.readline())
    return times, values


def measure(before: Path, rounds: int) -> list[dict[str, object]]:
    """Least times of both sides over the rounds, after one round to warm up."""
    workers = {"before": start(before), "after": start(REPOSITORY / "src")}
    rows = []
    try:
        for task, text in TASKS.items():
            times: dict[str, list[list[float]]] = {"before": [], "after": []}
            for number in range(rounds + 1):
                answers = {}
                for side in ("before", "after") if number % 2 else ("after", "before"):
                    spent, answers[side] = ask(workers[side], task, number)
                    times[side].append(spent)
                for old, new in zip(answers["before"], answers["after"], strict=True):
                    assert abs(old - new) <= 1e-9 * max(1, abs(old)), (task, old, new)
            least = {side: [min(column) for column in zip(*values[1:], strict=True)] for side, values in times.items()}
            row = {"task": task, "what": text}
            for i, kind in enumerate(("cpu", "wall")):
                row |= {f"{kind}_{side}": 1e3 * least[side][i] for side in times}
            rows.append(row)
            print(
                f"{text:52s} {row['cpu_before']:8.2f} -> {row['cpu_after']:7.2f} ms of processor time, "
                f"{row['wall_before']:8.2f} -> {row['wall_after']:7.2f} ms on the clock",
                flush=True,
            )
    finally:
        for worker in workers.values():
            worker.kill()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default="292e838", help="what to compare with; the last one of version 0.3")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    git = ["git", "-C", str(REPOSITORY), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "before"
        made = subprocess.run([*git, "add", "--quiet", "--detach", str(checkout), arguments.commit], check=False)
        if made.returncode:
            raise SystemExit(f"needs the commit {arguments.commit} of this repository")
        try:
            rows = measure(checkout / "src", arguments.rounds)
        finally:
            subprocess.run([*git, "remove", "--force", str(checkout)], check=True)
    result = {"commit": arguments.commit, "rounds": arguments.rounds, "rows": rows}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
