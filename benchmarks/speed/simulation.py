"""Speed of the simulation engine against the vectorised reference, as a user calls it, draws included on both sides.

The baseline is what one writes in numpy: draw the table and the tokens, and for each cell ``C = E[:, tokens] @ w``,
centre, ``S = C C'/N``, ``numpy.linalg.eigh(S)``; a sweep draws once for each seed. Ours is ``simulate_grid`` or
``model.simulate`` with its default route, on which the table is not drawn. Both sides are timed with one thread and
with as many as there are cores, and each is given the faster of the two. That they agree is checked on the table
completed after a run.

    python benchmarks/speed/simulation.py [--quick] [--part sweep500 sweep2000 single growth ridge]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time
import tracemalloc
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

import spikepool as sp
from spikepool.simulation.simulate import simulate_grid
from spikepool.simulation.top_pairs import top_pairs
from spikepool.simulation.undrawn import UndrawnNoise, UndrawnSource

RESULTS = Path(__file__).parents[1] / "results" / "simulation.json"
AGREEMENT = 1e-6
T, L = 10, 3
R = sp.prefix_correlation(T, L)
WEIGHTS = {"mean": sp.mean_weights(T), "causal": sp.causal_weights(T), "optimal": sp.optimal_weights(R)}
MUS = np.linspace(0.0, 3.0, 25)
PARTS = ("sweep500", "sweep2000", "single", "growth", "ridge")


def reference_draw(model, rng):
    """Table noise (d, V), direction and tokens (N, T), the plain way."""
    noise = rng.standard_normal((model.d, model.V))
    direction = rng.standard_normal(model.d)
    signs = np.repeat(rng.choice([-1, 1], size=(model.N, T - L + 1)), [L] + [1] * (T - L), axis=1)
    tokens = 2 * rng.integers(0, model.V // 2, size=signs.shape) + (signs < 0)
    return noise, direction / np.linalg.norm(direction), tokens


def reference_cell(noise, direction, tokens, w, mu):
    """Top eigenvalue and its alignment the plain way; `noise` is (d, V)."""
    E = noise + mu * np.outer(direction, 1 - 2 * (np.arange(noise.shape[1]) % 2))
    C = E[:, tokens] @ w
    C -= C.mean(axis=1, keepdims=True)
    S = C @ C.T / C.shape[1]
    values, vectors = np.linalg.eigh(S)
    return values[-1], float(direction @ vectors[:, -1]) ** 2


def timed(function):
    """Seconds and the result."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def thread_counts():
    """One BLAS thread, and as many as there are cores."""
    return sorted({1, os.cpu_count() or 1})


class Times:
    """Seconds of a piece of work by number of threads, taken turn by turn with others."""

    def __init__(self):
        self.seconds = {}

    def take(self, function, divide=1):
        """Time it once with each number of threads, divided by how many pieces it did."""
        for threads in thread_counts():
            with threadpool_limits(threads):
                self.seconds.setdefault(threads, []).append(timed(function)[0] / divide)

    @property
    def best(self):
        """Median of the faster threading."""
        return min(statistics.median(values) for values in self.seconds.values())


def model_of(d, mu=1.0):
    return sp.SequenceModel(d=d, V=d * 8 // 5, N=2 * d, R=R, mu=mu)


def agreement(d, mus, k=1):
    """Largest error of eigenvalues and alignments of one draw, against the reference on the completed table."""
    draw = UndrawnSource(model_of(d)).draw(np.random.SeedSequence(0))
    found = [top_pairs(UndrawnNoise(draw, w), mus, k) for w in WEIGHTS.values()]
    sample = draw.sample()
    noise, errors = np.ascontiguousarray(sample.noise.T), []
    for w, (values, alignments) in zip(WEIGHTS.values(), found, strict=True):
        for j in (0, len(mus) // 2, len(mus) - 1):
            value, alignment = reference_cell(noise, sample.direction, sample.tokens, w, mus[j])
            errors.append((abs(values[j, 0] / value - 1), abs(alignments[j, 0] - alignment)))
    return float(max(e for e, _ in errors)), float(max(a for _, a in errors))


def sweep(d, seeds, rounds, cells):
    """3 weights x 25 mu x `seeds`; the reference on a spread-out sample of its cells.

    The two sides take turns, so that a slow spell of the machine meets both.
    """
    model = model_of(d)
    total = len(WEIGHTS) * len(MUS) * seeds
    ours, whole, drawing, cell = Times(), Times(), Times(), Times()
    chosen = np.array_split(np.linspace(0, total - 1, cells).astype(int), rounds)
    for turn, indices in enumerate(chosen):
        ours.take(lambda turn=turn: simulate_grid(model, WEIGHTS, MUS, trials=seeds, rng=turn))
        whole.take(lambda turn=turn: sp.sweep(model, WEIGHTS, mu=MUS, trials=seeds, seed=turn, progress=False))
        drawing.take(lambda turn=turn: reference_draw(model, np.random.default_rng(turn)))
        draw = reference_draw(model, np.random.default_rng(turn))
        for index in indices:
            i, j, _ = np.unravel_index(index, (len(WEIGHTS), len(MUS), seeds))
            w = list(WEIGHTS.values())[i]
            cell.take(lambda draw=draw, w=w, j=j: reference_cell(*draw, w, MUS[j]))
    reference = total * cell.best + seeds * drawing.best
    value_error, alignment_error = agreement(d, MUS)
    return {
        "d": d,
        "cells": total,
        "reference_cells_timed": cells,
        "reference_seconds": reference,
        "seconds": ours.best,
        "ratio": reference / ours.best,
        "sweep_seconds": whole.best,
        "sweep_ratio": reference / whole.best,
        "eigenvalue_error": value_error,
        "alignment_error": alignment_error,
    }


def single(d, name, mu, k, repeats, reference_repeats):
    """One cell; ours in one call of `repeats` trials."""
    model, w = model_of(d, mu), WEIGHTS[name]
    ours, reference = Times(), Times()

    def whole(seed):
        return reference_cell(*reference_draw(model, np.random.default_rng(seed)), w, mu)

    for turn in range(reference_repeats):
        ours.take(lambda turn=turn: model.simulate(w, trials=repeats, k=k, rng=turn), divide=repeats)
        reference.take(lambda turn=turn: whole(turn))
    return {
        "d": d,
        "weights": name,
        "mu": mu,
        "k": k,
        "detectable": model.predict(w).detectable,
        "reference_seconds": reference.best,
        "seconds": ours.best,
        "ratio": reference.best / ours.best,
    }


def separated(model, w):
    """The mu whose outlier lies at twice the bulk's edge: as many Krylov steps at every size."""

    def excess(mu):
        prediction = model.replace(mu=mu).predict(w)
        return prediction.eigenvalue / prediction.edge - 2.0

    return brentq(excess, 1e-3, 1e3)


# V and d doubled together at fixed tokens, from where N·T is 50 times V + d
GROWTH = {"N": 120_000, "T": 32, "V": (16_000, 32_000, 64_000), "d": (3_200, 6_400, 12_800)}


def growth(repeats):
    """Time and peak memory of one draw with its top pair as V and d double at fixed tokens."""
    w, rows = sp.mean_weights(GROWTH["T"]), []
    for V, d in zip(GROWTH["V"], GROWTH["d"], strict=True):
        model = sp.SequenceModel(d=d, V=V, N=GROWTH["N"], R=sp.prefix_correlation(GROWTH["T"], 3), mu=1.0)
        model = model.replace(mu=separated(model, w))
        tracemalloc.start()
        model.simulate(w, trials=1, k=1, rng=0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        with threadpool_limits(1):
            spent = [timed(lambda m=model, i=i: m.simulate(w, trials=1, k=1, rng=i))[0] for i in range(repeats)]
        ratio = model.N * model.T / (V + d)
        rows.append(
            {"V": V, "d": d, "tokens_over_V_and_d": ratio, "seconds": min(spent), "peak_megabytes": peak / 2**20}
        )
    for before, row in itertools.pairwise(rows):
        row["times_the_row_before"] = row["seconds"] / before["seconds"]
    return rows


def ridge(d, trials, drawn_trials):
    """Ridge accuracies with the table drawn and not; same sizes, one after the other."""
    model, w = model_of(d), WEIGHTS["causal"]
    ours, drawn, found, plain = Times(), Times(), [], []
    for turn in range(drawn_trials):
        ours.take(lambda turn=turn: found.append(sp.simulate_ridge(model, w, trials=trials, rng=turn)), divide=trials)
        drawn.take(lambda turn=turn: plain.append(sp.simulate_ridge(model, w, trials=1, rng=turn, table_drawn=True)))
    a, b = np.unique(np.concatenate(found)), np.unique(np.concatenate(plain))
    error = float(np.hypot(a.std(ddof=1) / np.sqrt(len(a)), b.std(ddof=1) / np.sqrt(len(b))))
    return {
        "d": d,
        "n_train": model.N,
        "drawn_seconds": drawn.best,
        "seconds": ours.best,
        "ratio": drawn.best / ours.best,
        "accuracy": float(a.mean()),
        "drawn_accuracy": float(b.mean()),
        "standard_error_of_the_difference": error,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer seeds, cells and repeats; nothing is written")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    quick, parts = arguments.quick, arguments.part
    report = {"machine": {"cpus": os.cpu_count(), "load_average": os.getloadavg()[0]}}
    errors = []

    for d, cells in ((500, 8 if quick else 60), (2000, 2 if quick else 6)):
        if f"sweep{d}" not in parts:
            continue
        a = sweep(d, seeds=2 if quick else 10, rounds=2 if quick else (10 if d == 500 else 3), cells=cells)
        report[f"sweep{d}"] = a
        errors += [a["eigenvalue_error"], a["alignment_error"]]
        print(f"sweep of {a['cells']} cells at d={d}, draws included on both sides")
        print(f"    reference {a['reference_seconds']:.1f} s (from {a['reference_cells_timed']} of the cells)")
        print(f"    spikepool {a['seconds']:.3f} s, ratio {a['ratio']:.0f}")
        print(f"    sp.sweep with its predictions {a['sweep_seconds']:.3f} s, ratio {a['sweep_ratio']:.0f}")
        print(f"    largest error: {a['eigenvalue_error']:.1e} (eigenvalue), {a['alignment_error']:.1e} (alignment)")

    if "single" in parts:
        print("one cell  d     weights  mu   k  detectable  reference   spikepool   ratio")
        report["single"] = []
        for d, repeats, turns in ((500, 10, 4), (2000, 5, 2)):
            for name, mu, k in (
                ("mean", 2.5, 1),
                ("causal", 1.3, 1),
                ("optimal", 2.5, 1),
                ("mean", 0.3, 1),
                ("mean", 2.5, 2),
            ):
                row = single(d, name, mu, k, repeats, 1 if quick else turns)
                report["single"].append(row)
                print(
                    f"          {d:<5d} {name:8s} {mu:<4.1f} {k}  {row['detectable']!s:10s}"
                    f"  {row['reference_seconds'] * 1e3:7.1f} ms  {row['seconds'] * 1e3:7.2f} ms  {row['ratio']:6.0f}",
                    flush=True,
                )

    if "growth" in parts:
        print(f"V and d doubled at fixed tokens, N={GROWTH['N']}, T={GROWTH['T']} (one thread, draws included)")
        report["growth"] = growth(2 if quick else 5)
        for row in report["growth"]:
            more = f", {row['times_the_row_before']:.2f} times" if "times_the_row_before" in row else ""
            print(
                f"    V={row['V']}, d={row['d']}, N·T = {row['tokens_over_V_and_d']:.0f} (V + d): "
                f"{row['seconds']:.3f} s, {row['peak_megabytes']:.0f} MB{more}"
            )

    if "ridge" in parts:
        row = ridge(500 if quick else 2000, 4, 2 if quick else 8)
        report["ridge"] = row
        print(f"ridge classifier at d={row['d']}, {row['n_train']} training sequences, draws included")
        print(
            f"    drawn table {row['drawn_seconds']:.2f} s, not drawn {row['seconds']:.3f} s, ratio {row['ratio']:.0f}"
        )
        print(
            f"    accuracy {row['drawn_accuracy']:.4f} and {row['accuracy']:.4f}, "
            f"standard error of the difference {row['standard_error_of_the_difference']:.4f}"
        )

    if errors and max(errors) > AGREEMENT:
        raise SystemExit(f"the two sides differ by {max(errors):.1e}, more than {AGREEMENT}")
    if not quick:
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() and set(parts) != set(PARTS) else {}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({**kept, **report}, indent=1) + "\n")


if __name__ == "__main__":
    main()
