"""One draw at sizes whose table is not worth drawing, or could not be held: top eigenpair, time and peak memory.

    python benchmarks/speed/large.py [--size 128k 1M] [--scale 1.0]

``128k``: V = 128,000, d = 4,096, N = 1,000,000, T = 64, beside the time of drawing the table's 524 million numbers
alone (one thread, in blocks that are thrown away). ``1M``: V = 1,000,000, d = 16,384, the same tokens; the table
would take 131 GB. The gathered array of the plain way would hold N·T·d numbers. The prediction is printed beside the
simulation. Each size runs in a process of its own, so that its peak memory is its own: the same draw three times, of
which the first also takes its memory from the system; the median counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import spikepool as sp

RESULTS = Path(__file__).parents[1] / "results" / "large.json"
SIZES = {"128k": {"V": 128_000, "d": 4096}, "1M": {"V": 1_000_000, "d": 16_384}}
T = 64


def one(size: str, scale: float) -> dict[str, object]:
    """Simulate one draw as a user does, and predict it."""
    d, V = round(SIZES[size]["d"] * scale), 2 * round(SIZES[size]["V"] * scale / 2)
    w = sp.causal_weights(T)
    model = sp.SequenceModel(d=d, V=V, N=round(1_000_000 * scale), R=sp.markov_correlation(T, 0.9), mu=0.6)
    prediction = model.predict(w)
    spent = []
    for _ in range(3):
        start = time.perf_counter()
        result = model.simulate(w, trials=1, k=1, rng=0)
        spent.append(time.perf_counter() - start)
    return {
        "d": model.d,
        "V": model.V,
        "N": model.N,
        "T": T,
        "mu": model.mu,
        "correlation": "markov 0.9",
        "weights": "causal",
        "table_drawn": result.table_drawn,
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "first_seconds": spent[0],
        "seconds": sorted(spent)[1],
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "eigenvalue": float(result.eigenvalue[0]),
        "alignment": float(result.alignment[0]),
        "predicted_eigenvalue": prediction.eigenvalue,
        "predicted_alignment": prediction.alignment,
        "table_gigabytes": model.V * model.d * 8 / 1e9,
        "gathered_gigabytes": model.N * T * model.d * 8 / 1e9,
    }


def drawing_alone(d: int, V: int) -> float:
    """Seconds for the table's numbers, without keeping or using them."""
    generator, block = np.random.default_rng(0), np.empty(1 << 20)
    start = time.perf_counter()
    for _ in range(V * d // len(block)):
        generator.standard_normal(out=block)
    return time.perf_counter() - start


def checked(report: dict[str, object]) -> None:
    """One draw scatters by about sqrt(2/d), and the bias is of order 1/d."""
    d = report["d"]
    if abs(report["eigenvalue"] / report["predicted_eigenvalue"] - 1) > 5 * np.sqrt(2 / d):
        raise SystemExit("the simulated eigenvalue is not the predicted one")
    if abs(report["alignment"] - report["predicted_alignment"]) > 5 * np.sqrt(1 / d):
        raise SystemExit("the simulated alignment is not the predicted one")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", nargs="+", choices=tuple(SIZES), default=tuple(SIZES))
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies V, d and N")
    parser.add_argument("--one", action="store_true", help="run one size here and print its report as JSON")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.size[0], arguments.scale)))
        return
    reports = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    reports = {name: reports[name] for name in SIZES if name in reports}
    for size in arguments.size:
        command = [sys.executable, __file__, "--one", "--size", size, "--scale", str(arguments.scale)]
        report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        if size == "128k":
            report["drawing_the_table_alone_seconds"] = drawing_alone(report["d"], report["V"])
        print(f"== {size}")
        for key, value in report.items():
            print(f"{key:32s} {value:.6g}" if isinstance(value, float) else f"{key:32s} {value}", flush=True)
        checked(report)
        reports[size] = report
    if arguments.scale == 1.0:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(reports, indent=1) + "\n")


if __name__ == "__main__":
    main()
