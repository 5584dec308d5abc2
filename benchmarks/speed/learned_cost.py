"""Cost of one fit of LearnedPoolingClassifier with all candidates: seconds of one core, peak memory above the input.

n = 1600 sequences of T = 32 tokens of d = 384 features, 20 classes, four inner folds. Baseline of the first claim:
the same two learned candidates, learned once on all rows, in the full dimension instead of 32 components.

    OMP_NUM_THREADS=1 python benchmarks/speed/learned_cost.py
"""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path

import numpy as np

import spikepool as sp
from spikepool.data.tokens import TokenForm, token_input
from spikepool.kit.threads import single_threaded_blas
from spikepool.pooling.learning_rows import read_learning_rows
from spikepool.pooling.selection import Learner

RESULTS = Path(__file__).resolve().parents[1] / "results" / "learned_cost.json"
N, T, D, CLASSES = 1600, 32, 384, 20


def sequences(dtype: type) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlated features of unequal variance, lengths from 5 to T, labels in a few of the tokens."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, N)
    mix = rng.normal(size=(D, D)) * np.geomspace(3, 0.1, D)
    X = rng.normal(size=(N, T, D)) @ mix.T / np.sqrt(D)
    X[:, ::4] += rng.normal(size=(CLASSES, D))[y][:, None]
    mask = np.arange(T) < rng.integers(5, T + 1, size=N)[:, None]
    return (X * mask[..., None]).astype(dtype), mask, y


def learning_seconds(X, mask, y, components: int) -> float:
    """CPU seconds of learning a query and four heads once, the reading of the tokens not counted."""
    data = read_learning_rows(token_input(X, mask, TokenForm(T, D, None)), components, None)
    Y = np.where(y[:, None] == np.arange(CLASSES), 1.0, -1.0)
    learner = Learner(4, 25, None)
    start = time.process_time()
    for name in ("query", "positions"):
        learner.learn(name, data, Y, np.arange(N))
    return time.process_time() - start


def main() -> None:
    X, mask, y = sequences(np.float32)
    with single_threaded_blas():
        start = time.process_time()
        fitted = sp.LearnedPoolingClassifier().fit(X, y, mask=mask)
        seconds = time.process_time() - start
        small, full = (learning_seconds(X, mask, y, p) for p in (32, D))
    record = {
        "size": f"n={N} T={T} d={D}, {CLASSES} classes, 4 folds, one core",
        "fit_seconds": seconds,
        "decision": fitted.decision_,
        "learning_seconds": {"32 components": small, f"{D} components": full},
        "ratio": full / small,
        "memory_over_input": {},
    }
    for dtype in (np.float64, np.float32, np.float16):
        X, mask, y = sequences(dtype)
        tracemalloc.start()
        sp.LearnedPoolingClassifier().fit(X, y, mask=mask)
        record["memory_over_input"][np.dtype(dtype).name] = tracemalloc.get_traced_memory()[1] / X.nbytes
        tracemalloc.stop()
    print(json.dumps(record, indent=1))
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
