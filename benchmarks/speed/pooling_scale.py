"""SpectralPooling on 1,000,000 sequences of 64 token ids with a 128,000 x 512 table: time and peak memory.

    python benchmarks/speed/pooling_scale.py                  # the full size
    python benchmarks/speed/pooling_scale.py --rows 20000     # a quick look, nothing stored

The first rows are fitted as a dense array as well, and both fits must agree. Memory is the peak resident size of this
process, which holds the ids (32-bit) and the table (32-bit) too; the gathered embeddings would take 131 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import spikepool as sp

RESULTS = Path(__file__).parents[1] / "results" / "pooling_scale.json"
ROWS, T, V, D, MU, SHARED = 1_000_000, 64, 128_000, 512, 1.0, 8
CHECK_ROWS = 1000
LIMIT_GIGABYTES = 4.0


def draw(n: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Token ids (n, T) and a table of two classes; the first ``SHARED`` positions of a sequence share the class."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((V, D), dtype=np.float32)
    table[0::2, 0] += MU
    table[1::2, 0] -= MU
    signs = rng.integers(0, 2, size=(n, T), dtype=np.int32)
    signs[:, :SHARED] = signs[:, :1]
    return 2 * rng.integers(0, V // 2, size=(n, T), dtype=np.int32) + signs, table


def check(ids: NDArray[np.int32], table: NDArray[np.float32]) -> None:
    """Stop unless ids and the gathered array give the same fit."""
    looked_up, dense = sp.SpectralPooling(table=table).fit(ids), sp.SpectralPooling().fit(table[ids])
    for name in ("weights_", "correlation_", "gain_interval_"):
        np.testing.assert_allclose(getattr(looked_up, name), getattr(dense, name), rtol=0, atol=1e-10)
    print(f"ids and dense array agree to 1e-10 on {len(ids)} sequences")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    n = parser.parse_args().rows
    ids, table = draw(n)
    check(ids[:CHECK_ROWS], table)
    start, start_cpu = time.perf_counter(), time.process_time()
    pooling = sp.SpectralPooling(table=table, progress=True).fit(ids)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    alpha, kappa = sp.gains(pooling.weights_, sp.prefix_correlation(T, SHARED))
    report = {
        "rows": n,
        "T": T,
        "V": V,
        "d": D,
        "dtype": "float32",
        "cpus": os.cpu_count(),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "peak_gigabytes": peak,
        "gathered_gigabytes": n * T * D * 4 / 1e9,
        "decision": pooling.decision_,
        "ratio": alpha / kappa,
        "best_ratio": float(SHARED),
    }
    print(pooling.summary())
    for key, value in report.items():
        print(f"{key:22s} {value:.6g}" if isinstance(value, float) else f"{key:22s} {value}")
    if peak > LIMIT_GIGABYTES:
        raise SystemExit(f"peak memory above {LIMIT_GIGABYTES:g} GB")
    if n == ROWS:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
