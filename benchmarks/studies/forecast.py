"""Forecasts from pilots of 200, 500 and 1000 rows against the accuracy at 2, 4 and 8 times as many, and power laws.

The truth at n rows is the accuracy of ridge (penalty by generalised cross-validation) on other rows, averaged over
random training sets of n rows. Baselines, all fitted to the same measured points (leave-one-out at the pilot's size and
training sets at fractions of it): the two-parameter law e = a n^-b, the three-parameter law e = c + a n^-b, and the
three-parameter law through the pilot's own value. Rows required are asked for the true accuracy at 2 and 4 times the
pilot, where the true curve rises by a point or more up to there.

    python benchmarks/studies/forecast.py --data corpora --features features  # everything, about an hour on a core
    python benchmarks/studies/forecast.py --half development --repeats 1  # a part
    python benchmarks/studies/forecast.py --tasks digits --repeats 2  # a quick look, no corpora needed
    python benchmarks/studies/forecast.py --model  # data drawn from SequenceModel
    python benchmarks/studies/forecast.py --speed

`corpora` holds banking77.csv.gz, clinc150.csv.gz and splice.csv.gz (columns text or sequence, and label); `features` is
where encoded texts are kept. Measured truth is kept in benchmarks/results/forecast_truth.json and used again; records
of pilots are kept in the file --out, where a run that was broken off goes on. Tables are printed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
import zlib
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

import spikepool as sp
from forecast_tasks import load_task, tasks
from spikepool.forecasting.curve_reading import required_rows
from spikepool.ridge.gcv import fit_ridge

RESULTS = Path(__file__).parents[1] / "results"
PARTS = ("development", "held-out", "confirmation", "regrouped", "fresh", "set-aside", "second", "elsewhere")
PILOTS, MULTIPLES = (200, 500, 1000), (2, 4, 8)
LAWS = ("two parameters", "three parameters", "three, through the pilot")
# Training sets averaged for the truth, by rows; rows tested on; rows that must remain to test on.
TRUTH_DRAWS = ((500, 16), (2000, 10), (10**9, 5))
TESTED, LEAST_TESTED = 5000, 400
LEAST_RISE = 0.01
# Settings of the model that are neither chance nor certainty.
MODEL_RANGE = (0.6, 0.97)


def true_accuracy(X: np.ndarray, y: np.ndarray, n: int, rng: np.random.Generator) -> float:
    """Mean accuracy of ridge on n random rows, tested on others."""
    found = []
    for _ in range(next(draws for limit, draws in TRUTH_DRAWS if n <= limit)):
        order = rng.permutation(len(y))
        train, test = order[:n], order[n : n + TESTED]
        fit = fit_ridge(X[train], np.where(y[train][:, None] == np.arange(y.max() + 1), 1.0, -1.0))
        found.append(float((fit.predict(X[test]).argmax(axis=1) == y[test]).mean()))
    return float(np.mean(found))


def power_laws(n: np.ndarray, accuracy: np.ndarray, asked: np.ndarray) -> list[np.ndarray]:
    """Accuracies of the three laws at the rows asked for, fitted with weights n."""
    error, weight, last = np.maximum(1 - accuracy, 1e-4), np.sqrt(n / n.max()), n.max()
    design = np.column_stack([np.ones(len(n)), np.log(n)])
    level, slope = np.linalg.lstsq(design * weight[:, None], np.log(error) * weight, rcond=None)[0]
    two = np.exp(level + min(slope, 0) * np.log(asked))

    def three(p: np.ndarray, x: np.ndarray) -> np.ndarray:
        return p[2] + np.exp(p[0]) * (x / last) ** -p[1]

    def through(p: np.ndarray, x: np.ndarray) -> np.ndarray:
        return p[1] + (error[0] - p[1]) * (x / n[0]) ** -p[0]

    starts3 = [[np.log(max(0.7 * error.min(), 1e-3)), b, 0.3 * error.min()] for b in (0.2, 0.5, 1.0)]
    starts2 = [[b, 0.3 * error[0]] for b in (0.2, 0.7)]
    fits = []
    for law, starts, bounds in (
        (three, starts3, ([-12, 0, 0], [1, 3, 1])),
        (through, starts2, ([0, 0], [3, max(error[0], 1e-3)])),
    ):
        runs = [
            least_squares(lambda p, law=law: (law(p, n) - error) * weight, s, bounds=bounds, max_nfev=300)
            for s in starts
        ]
        fits.append(law(min(runs, key=lambda run: run.cost).x, asked))
    return [np.clip(1 - e, 0, 1) for e in (two, *fits)]


def measure_task(name: str, half: str, truth: dict, repeats: int, features: Path, data: Path) -> list[dict]:
    X, y = load_task(name, features, data)
    known = truth.setdefault(name, {})
    records = []
    for pilot in PILOTS:
        asked = [pilot * k for k in (1, *MULTIPLES) if pilot * k <= len(y) - LEAST_TESTED]
        if len(asked) < 2:
            continue
        for n in asked:
            if str(n) not in known:
                known[str(n)] = true_accuracy(X, y, n, np.random.default_rng([n, zlib.crc32(name.encode())]))
        right = [known[str(n)] for n in asked]
        for repeat in range(repeats):
            rng = np.random.default_rng([repeat, pilot, zlib.crc32(name.encode())])
            rows = rng.permutation(len(y))[:pilot]
            start = time.process_time()
            f = sp.forecast(X[rows], y[rows], n=asked, task="classification", random_state=repeat)
            seconds = time.process_time() - start
            laws = power_laws(f.measured_n.astype(float), f.measured_score, np.array(asked, dtype=float))
            required = [
                {"true": n, "found": required_rows(f.curve, f.curve.goal(goal), f.pilot_rows)}
                for n, goal in zip(asked[1:3], right[1:3], strict=False)
                if goal - right[0] >= LEAST_RISE and goal < 1
            ]
            records.append(
                {
                    "task": name,
                    "half": half,
                    "pilot": pilot,
                    "repeat": repeat,
                    "classes": f.classes,
                    "n": asked,
                    "truth": right,
                    "forecast": f.accuracy.tolist(),
                    "interval": f.interval.tolist(),
                    "laws": [law.tolist() for law in laws],
                    "required": required,
                    "limit": f.limit,
                    "self_check": [f.self_check.score_error, f.self_check.r2_error],
                    "ok": f.self_check.ok,
                    "seconds": seconds,
                }
            )
    return records


def table(records: list[dict]) -> list[str]:
    """Median (90th percentile) of the absolute error in points, coverage, and rows required, by pilot and multiple."""
    lines = [
        "| pilot | rows | forecast | " + " | ".join(LAWS) + " | ratio to the best law | coverage of 90 % |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for pilot in PILOTS:
        for multiple in MULTIPLES:
            own, laws, covered = [], [], []
            for r in records:
                if r["pilot"] == pilot and pilot * multiple in r["n"]:
                    i = r["n"].index(pilot * multiple)
                    own.append(100 * abs(r["forecast"][i] - r["truth"][i]))
                    laws.append([100 * abs(law[i] - r["truth"][i]) for law in r["laws"]])
                    covered.append(r["interval"][i][0] <= r["truth"][i] <= r["interval"][i][1])
            if not own:
                continue
            best = float(np.median(laws, axis=0).min())
            cells = [f"{np.median(e):.1f} ({np.percentile(e, 90):.1f})" for e in (own, *np.array(laws).T)]
            ends = f"{np.median(own) / best:.2f} | {np.mean(covered):.2f}"
            lines.append(f"| {pilot} | {multiple}x | {' | '.join(cells)} | {ends} |")
    lines += [
        "",
        "| pilot | cells | coverage | rows stated | of these within a factor of 2 | 80 % range covers | cases |",
    ]
    lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
    for pilot in (*PILOTS, None):
        mine = [r for r in records if pilot in (r["pilot"], None)]
        covered = [
            low <= t <= high for r in mine for t, (low, high) in list(zip(r["truth"], r["interval"], strict=True))[1:]
        ]
        close, inside = [], []
        for case in (case for r in mine for case in r["required"]):
            low, best, high = (np.inf if x is None else x for x in case["found"])
            close += [0.5 <= best / case["true"] <= 2] if np.isfinite(best) else []
            inside.append(low <= case["true"] <= high)
        if covered:
            shares = (len(close) / max(len(inside), 1), np.mean(close or np.nan), np.mean(inside or np.nan))
            ends = " | ".join(f"{share:.2f}" for share in shares)
            lines.append(f"| {pilot or 'all'} | {len(covered)} | {np.mean(covered):.2f} | {ends} | {len(inside)} |")
    return lines


def compare_with_model(settings: int = 30, pilot: int = 500, n: int = 2000) -> list[float]:
    """Forecasts from pilots drawn from SequenceModel against its theory at more rows, at the best ridge."""
    rng, gaps = np.random.default_rng(0), []
    print("| d | V | T | L | mu | weights | forecast | interval | theory |\n" + "| --- " * 9 + "|")
    while len(gaps) < settings:
        T = int(rng.choice([6, 10, 16]))
        L, d = int(rng.integers(2, T)), int(rng.choice([60, 120, 240]))
        V, mu = 2 * int(rng.uniform(1, 3) * d), float(rng.uniform(0.3, 2.0))
        named = str(rng.choice(["mean", "causal"]))
        w = sp.mean_weights(T) if named == "mean" else sp.causal_weights(T)
        model = sp.SequenceModel(d=d, V=V, N=pilot, R=sp.prefix_correlation(T=T, L=L), mu=mu)
        theory = sp.optimal_ridge(model, w, n_train=n).accuracy
        if not MODEL_RANGE[0] < theory < MODEL_RANGE[1]:
            continue
        sample = model.sample(rng=len(gaps))
        f = sp.forecast(sample.pooled(w).T, sample.latent[:, 0], n=[n])
        gaps.append(float(f.accuracy[0]) - theory)
        low, high = f.interval[0]
        print(
            f"| {d} | {V} | {T} | {L} | {mu:.2f} | {named} | {f.accuracy[0]:.3f} | {low:.3f} to {high:.3f} "
            f"| {theory:.3f} |",
            flush=True,
        )
    return gaps


def measure_speed() -> None:
    """Seconds for 1000 rows of 384 features in 20 classes, of processor time."""
    rng = np.random.default_rng(0)
    y = np.arange(1000) % 20
    X = rng.standard_normal((1000, 384)) * np.arange(1, 385) ** -0.5 + 0.3 * rng.standard_normal((20, 384))[y]
    start, clock = time.process_time(), time.perf_counter()
    sp.forecast(X, y, target=0.9)
    print(
        f"1000 x 384, 20 classes: {time.process_time() - start:.2f} s of processor time, "
        f"{time.perf_counter() - clock:.2f} s by the clock"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the corpora")
    parser.add_argument("--features", type=Path, default=Path("features"), help="folder of encoded texts")
    parser.add_argument("--half", choices=PARTS)
    parser.add_argument("--tasks", help="only tasks whose name contains this")
    parser.add_argument("--repeats", type=int, default=3, help="pilots of each size and task")
    parser.add_argument("--out", type=Path, default=Path("forecast_records.json"), help="one record a pilot")
    parser.add_argument("--model", action="store_true", help="data drawn from SequenceModel instead")
    parser.add_argument("--speed", action="store_true", help="time one forecast instead")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if options.model:
        gaps = np.abs(compare_with_model())
        print(f"\nmedian |forecast − theory| over {len(gaps)} settings: {np.median(gaps):.4f}")
        return
    if options.speed:
        measure_speed()
        return
    truth_file = RESULTS / "forecast_truth.json"
    truth = json.loads(truth_file.read_text()) if truth_file.exists() else {}
    done = {r["task"]: 1 for r in json.loads(options.out.read_text())} if options.out.exists() else {}
    records = json.loads(options.out.read_text()) if options.out.exists() else []
    for name, half in tasks().items():
        if name in done or options.half not in (half, None) or (options.tasks and options.tasks not in name):
            continue
        try:
            found = measure_task(name, half, truth, options.repeats, options.features, options.data)
        except FileNotFoundError as err:
            print(f"{name}: left out, {err}", flush=True)
            continue
        records += found
        print(f"{name}: {len(found)} pilots, {np.mean([r['seconds'] for r in found]):.2f} s each", flush=True)
        truth_file.write_text(json.dumps(truth))
        options.out.write_text(json.dumps(records))
    report = []
    for half in PARTS:
        mine = [r for r in records if r["half"] == half]
        if mine:
            report += [f"## {half}: {len({r['task'] for r in mine})} tasks, {len(mine)} pilots", "", *table(mine), ""]
    print("\n" + "\n".join(report))


if __name__ == "__main__":
    main()
