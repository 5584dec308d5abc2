"""One draw at V = 128,000, d = 4,096, N = 1,000,000, T = 64: top eigenpair, alignment, time and peak memory.

The gathered array of the plain way would hold N·T·d numbers, a terabyte in single precision. The prediction is
printed beside the simulation.

    python benchmarks/large.py [--scale 1.0]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np

import spikepool as sp
from spikepool.simulation.drawn import sample_grid
from spikepool.world.sampling import draw_sample

RESULTS = Path(__file__).parent / "results" / "large.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies V, d and N")
    scale = parser.parse_args().scale
    T = 64
    R = sp.markov_correlation(T, 0.9)
    w = sp.causal_weights(T)
    model = sp.SequenceModel(
        d=round(4096 * scale), V=2 * round(64_000 * scale), N=round(1_000_000 * scale), R=R, mu=0.6
    )
    prediction = model.predict(w)
    start = time.perf_counter()
    sample = draw_sample(model, rng=0, dtype=np.float32)
    drawn = time.perf_counter()
    values, alignments = sample_grid(sample, [w], [model.mu], k=1)
    done = time.perf_counter()
    report = {
        "d": model.d,
        "V": model.V,
        "N": model.N,
        "T": T,
        "mu": model.mu,
        "correlation": "markov 0.9",
        "weights": "causal",
        "dtype": "float32",
        "cpus": os.cpu_count(),
        "draw_seconds": drawn - start,
        "top_pair_seconds": done - drawn,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "eigenvalue": float(values.item()),
        "alignment": float(alignments.item()),
        "predicted_eigenvalue": prediction.eigenvalue,
        "predicted_alignment": prediction.alignment,
        "gathered_gigabytes": model.N * T * model.d * 4 / 1e9,
    }
    for key, value in report.items():
        print(f"{key:22s} {value:.6g}" if isinstance(value, float) else f"{key:22s} {value}")
    # d = 4096: one draw scatters by about sqrt(2/d) and the bias is of order 1/d
    if abs(report["eigenvalue"] / prediction.eigenvalue - 1) > 5 * np.sqrt(2 / model.d):
        raise SystemExit("the simulated eigenvalue is not the predicted one")
    if abs(report["alignment"] - prediction.alignment) > 5 * np.sqrt(1 / model.d):
        raise SystemExit("the simulated alignment is not the predicted one")
    if scale == 1.0:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
