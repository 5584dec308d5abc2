"""p-values of the top eigenvalue under noise alone, from d = 100 to 2000, and the power of two tests.

    python benchmarks/studies/detection.py [--draws 400] [--sizes 100 200 400 1000 2000]

Prints, for each size, the Kolmogorov-Smirnov p-value of the p-values and the share below .05 and .01; then the power of
the top eigenvalue and of the trace by formula and by simulation, below and above the transition.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.stats import kstest

import spikepool as sp


def null_draws(sizes: list[int], draws: int) -> None:
    w = sp.mean_weights(10)
    print("    d  KS p-value  below .05  below .01  seconds")
    for d in sizes:
        model = sp.SequenceModel(d=d, V=2 * round(0.8 * d), N=2 * d, R=np.eye(10), mu=0.0, table="class_centered")
        start = time.perf_counter()
        p = model.predict(w).p_value(model.simulate(w, trials=draws, k=1, rng=1).eigenvalues[:, 0])
        print(
            f"{d:5d}  {kstest(p, 'uniform').pvalue:10.3f}  {np.mean(p < 0.05):9.3f}  {np.mean(p < 0.01):9.3f}"
            f"  {time.perf_counter() - start:7.1f}"
        )


def power(draws: int) -> None:
    T = 20
    w = sp.mean_weights(T)
    base = sp.SequenceModel(d=250, V=400, N=500, R=sp.prefix_correlation(T, 4), mu=1.0, table="class_centered")
    threshold = base.predict(w).mu_sample
    null = traces(base.replace(mu=0.0), w, draws, 0)
    critical = null.mean() + 1.6449 * null.std(ddof=1)
    print("mu/threshold  top: formula  drawn   trace: formula  drawn   AUC of the trace")
    for factor in (0.5, 0.7, 0.9, 1.1, 1.3, 1.6, 2.0):
        model = base.replace(mu=factor * threshold)
        found = model.detection_power(w)
        top = np.mean(model.simulate(w, trials=draws, k=1, rng=2).eigenvalues[:, 0] > found.critical)
        trace = traces(model, w, draws, 1)
        auc = np.mean(trace[:, None] > null)
        mark = "" if found.validity.ok else "   (near the transition)"
        print(
            f"{factor:12.1f}  {found.top:12.3f}  {top:5.3f}  {found.trace:15.3f}  {np.mean(trace > critical):5.3f}"
            f"  {auc:17.3f}{mark}"
        )


def traces(model: sp.SequenceModel, w: np.ndarray, count: int, seed: int) -> np.ndarray:
    found = []
    for trial in range(count):
        C = model.sample(rng=np.random.SeedSequence(seed, spawn_key=(trial,))).pooled(w)
        found.append(np.sum((C - C.mean(axis=1, keepdims=True)) ** 2) / model.N)
    return np.array(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 200, 400, 1000, 2000])
    options = parser.parse_args()
    null_draws(options.sizes, options.draws)
    power(options.draws)
