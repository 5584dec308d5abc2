"""Cost of one fit of LearnedPoolingClassifier with all candidates: seconds of one core, peak memory above the input.

Two sizes: n = 1600, T = 32, d = 384 with padding and 20 classes, and n = 1500, T = 250, d = 64 without. Baseline: the
same fit with the mean alone (pooling="mean").

    OMP_NUM_THREADS=1 python benchmarks/speed/learned_cost.py
"""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from pathlib import Path

import numpy as np

import spikepool as sp
from spikepool.kit.threads import single_threaded_blas

RESULTS = Path(__file__).resolve().parents[1] / "results" / "learned_cost.json"
SIZES = ((1600, 32, 384, True), (1500, 250, 64, False))
CLASSES = 20


def sequences(n: int, T: int, d: int, *, padded: bool, dtype: type) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Correlated features of unequal variance, labels in a few of the tokens; padded: lengths from 5 to T."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, n)
    mix = rng.normal(size=(d, d)) * np.geomspace(3, 0.1, d)
    X = rng.normal(size=(n, T, d)) @ mix.T / np.sqrt(d)
    X[:, ::4] += 0.3 * rng.normal(size=(CLASSES, d))[y][:, None]
    if not padded:
        return X.astype(dtype), None, y
    mask = np.arange(T) < rng.integers(5, T + 1, size=n)[:, None]
    return (X * mask[..., None]).astype(dtype), mask, y


def seconds(X: np.ndarray, mask: np.ndarray | None, y: np.ndarray, pooling: str) -> float:
    """Processor time of one fit."""
    start = time.process_time()
    sp.LearnedPoolingClassifier(pooling=pooling).fit(X, y, mask=mask)
    return time.process_time() - start


def main() -> None:
    """Measure and write."""
    record: dict = {}
    if hasattr(os, "sched_setaffinity"):  # two threads that share a core would be counted twice
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for n, T, d, padded in SIZES:
        entry: dict = {}
        with single_threaded_blas():
            X, mask, y = sequences(n, T, d, padded=padded, dtype=np.float32)
            entry["seconds"] = {pooling: round(seconds(X, mask, y, pooling), 2) for pooling in ("auto", "mean")}
            entry["memory_over_input"] = {}
            for dtype in (np.float32, np.float16):
                X, mask, y = sequences(n, T, d, padded=padded, dtype=dtype)
                tracemalloc.start()
                sp.LearnedPoolingClassifier().fit(X, y, mask=mask)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                entry["memory_over_input"][np.dtype(dtype).name] = round(peak / X.nbytes, 2)
        record[f"n={n} T={T} d={d}"] = entry
        print(n, T, d, entry, flush=True)
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
