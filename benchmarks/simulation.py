"""Speed of the simulation engine against the vectorised reference, on the same draws.

The baseline is what one writes in numpy, for each cell: ``C = E[:, tokens] @ w``, centre, ``S = C C'/N``,
``numpy.linalg.eigh(S)``. Both sides are timed with one thread and with as many as there are cores, and each is
given the faster of the two. Random numbers are drawn beforehand on both sides.

    python benchmarks/simulation.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

import spikepool as sp
from spikepool.simulation.drawn import sample_grid
from spikepool.world.sampling import draw_sample

RESULTS = Path(__file__).parent / "results" / "simulation.json"
AGREEMENT = 1e-6
T, L = 10, 3
R = sp.prefix_correlation(T, L)
WEIGHTS = {"mean": sp.mean_weights(T), "causal": sp.causal_weights(T), "optimal": sp.optimal_weights(R)}


def reference_cell(noise, direction, signs, tokens, w, mu):
    """Top eigenvalue and its alignment the plain way; `noise` is (d, V)."""
    E = noise + mu * np.outer(direction, signs)
    C = E[:, tokens] @ w
    C -= C.mean(axis=1, keepdims=True)
    S = C @ C.T / C.shape[1]
    values, vectors = np.linalg.eigh(S)
    return values[-1], float(direction @ vectors[:, -1]) ** 2


def timed(function, repeats):
    """Median seconds and the last result."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def thread_counts():
    """One BLAS thread, and as many as there are cores."""
    return sorted({1, os.cpu_count() or 1})


def both_threadings(function, repeats):
    """Faster of one BLAS thread and all of them: (seconds, result, threads)."""
    found = []
    for threads in thread_counts():
        with threadpool_limits(threads):
            found.append((*timed(function, repeats), threads))
    return min(found, key=lambda item: item[0])


def draws(d, trials):
    model = sp.SequenceModel(d=d, V=d * 8 // 5, N=2 * d, R=R, mu=1.0)
    return [draw_sample(model, rng=seed) for seed in range(trials)]


def reference_arguments(sample):
    return np.ascontiguousarray(sample.noise.T), sample.direction, sample.signs, sample.tokens


def sweep(seeds, rounds, cells):
    """(a) 3 weights x 25 mu x `seeds` at d = 500; the reference on a spread-out sample of the cells.

    The two sides take turns, so that a slow spell of the machine meets both.
    """
    mus = np.linspace(0.0, 3.0, 25)
    samples = draws(500, seeds)
    total = len(WEIGHTS) * len(mus) * seeds
    chosen = np.array_split(np.linspace(0, total - 1, cells).astype(int), rounds)
    ours, seconds, errors = {}, [], []
    for turn in chosen:
        for threads in thread_counts():
            with threadpool_limits(threads):
                spent, results = timed(lambda: [sample_grid(sample, WEIGHTS, mus, k=1) for sample in samples], 1)
            ours.setdefault(threads, []).append(spent)
        for index in turn:
            i, j, trial = np.unravel_index(index, (len(WEIGHTS), len(mus), seeds))
            w = list(WEIGHTS.values())[i]
            work = partial(reference_cell, *reference_arguments(samples[trial]), w, mus[j])
            cell, (value, alignment), _ = both_threadings(work, 1)
            seconds.append(cell)
            found = results[trial]
            errors.append((abs(found[0][i, j, 0] / value - 1), abs(found[1][i, j, 0] - alignment)))
    reference = statistics.median(seconds) * total
    spent, threads = min((statistics.median(times), threads) for threads, times in ours.items())
    return {
        "cells": total,
        "reference_cells_timed": cells,
        "reference_seconds": reference,
        "seconds": spent,
        "threads": threads,
        "ratio": reference / spent,
        "eigenvalue_error": max(e for e, _ in errors),
        "alignment_error": max(a for _, a in errors),
    }


def single(d, name, mu, repeats, reference_repeats):
    """(b) one cell."""
    sample = draws(d, 1)[0]
    w = WEIGHTS[name]
    ours, found, threads = both_threadings(lambda: sample_grid(sample, [w], [mu], k=1), repeats)
    arguments = reference_arguments(sample)
    reference, (value, alignment), _ = both_threadings(lambda: reference_cell(*arguments, w, mu), reference_repeats)
    return {
        "d": d,
        "weights": name,
        "mu": mu,
        "detectable": sample.model.replace(mu=mu).predict(w).detectable,
        "reference_seconds": reference,
        "seconds": ours,
        "threads": threads,
        "ratio": reference / ours,
        "eigenvalue_error": float(abs(found[0].item() / value - 1)),
        "alignment_error": float(abs(found[1].item() - alignment)),
    }


# (c) each size alone, with the others chosen so that its term of N·T + V·d is the one that matters
GROWTH = {
    "N": ({"d": 100, "V": 1000, "T": 32}, (25_000, 50_000, 100_000, 200_000)),
    "T": ({"d": 100, "V": 1000, "N": 50_000}, (16, 32, 64, 128)),
    "V": ({"d": 500, "N": 2000, "T": 8}, (8_000, 16_000, 32_000, 64_000)),
    "d": ({"V": 32_000, "N": 4000, "T": 8}, (250, 500, 1000, 2000)),
}


def separated(model, w):
    """The mu whose outlier lies at twice the bulk's edge: as many Lanczos steps at every size."""

    def excess(mu):
        prediction = model.replace(mu=mu).predict(w)
        return prediction.eigenvalue / prediction.edge - 2.0

    return brentq(excess, 1e-3, 1e3)


def growth(name, repeats):
    """Time and peak memory of the top pair as one size grows, with the fitted exponents."""
    fixed, sizes = GROWTH[name]
    rows = []
    for size in sizes:
        options = {**fixed, name: size}
        length = options.pop("T")
        correlation = sp.prefix_correlation(length, 3)
        w = sp.mean_weights(length)
        model = sp.SequenceModel(R=correlation, mu=1.0, **options)
        model = model.replace(mu=separated(model, w))
        tracemalloc.start()
        sample = draw_sample(model, rng=0)
        sample_grid(sample, [w], [model.mu], k=1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        with threadpool_limits(1):
            seconds, _ = timed(lambda s=sample, v=w, m=model.mu: sample_grid(s, [v], [m], k=1), repeats)
        rows.append({"size": size, "seconds": seconds, "peak_megabytes": peak / 2**20})
    logs = np.log([row["size"] for row in rows])
    exponents = {
        key: float(np.polyfit(logs, np.log([row[key] for row in rows]), 1)[0]) for key in ("seconds", "peak_megabytes")
    }
    return {"varied": name, "fixed": fixed, "rows": rows, "exponents": exponents}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer seeds, cells and repeats; no growth table")
    quick = parser.parse_args().quick
    report = {"machine": {"cpus": os.cpu_count(), "load_average": os.getloadavg()[0]}}

    a = sweep(seeds=2 if quick else 10, rounds=2 if quick else 10, cells=8 if quick else 60)
    report["sweep"] = a
    print(f"(a) {a['cells']} cells at d=500, same draws on both sides")
    print(f"    reference {a['reference_seconds']:.1f} s (from {a['reference_cells_timed']} of the cells)")
    print(f"    spikepool {a['seconds']:.3f} s, ratio {a['ratio']:.0f}")
    print(f"    largest error: {a['eigenvalue_error']:.1e} (eigenvalue), {a['alignment_error']:.1e} (alignment)")

    print("(b) d     weights  mu    detectable  reference   spikepool   ratio   errors")
    report["single"] = []
    for d, repeats in ((500, 15), (2000, 5)):
        for name, mu in (("mean", 2.5), ("causal", 1.3), ("optimal", 2.5), ("mean", 0.3)):
            row = single(d, name, mu, repeats, 5 if d == 500 else 2)
            report["single"].append(row)
            print(
                f"    {d:<5d} {name:8s} {mu:<5.1f} {row['detectable']!s:10s}"
                f"  {row['reference_seconds'] * 1e3:7.1f} ms  {row['seconds'] * 1e3:7.2f} ms  {row['ratio']:6.1f}"
                f"   {row['eigenvalue_error']:.0e} {row['alignment_error']:.0e}"
            )
    if not quick:
        print("(c) top pair as one size grows (one thread; the others fixed): seconds, peak MB, exponents")
        report["growth"] = []
        for name in GROWTH:
            result = growth(name, 5)
            report["growth"].append(result)
            cells = "  ".join(
                f"{row['size']}: {row['seconds']:.3f} s {row['peak_megabytes']:.0f} MB" for row in result["rows"]
            )
            e = result["exponents"]
            print(f"    {name} | {cells} | time {e['seconds']:.2f}, memory {e['peak_megabytes']:.2f}")
    errors = [max(row["eigenvalue_error"], row["alignment_error"]) for row in [a, *report["single"]]]
    if max(errors) > AGREEMENT:
        raise SystemExit(f"the two sides differ by {max(errors):.1e}, more than {AGREEMENT}")
    if not quick:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
