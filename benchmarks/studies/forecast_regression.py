"""Forecasts of R² from pilots of real-valued targets against the truth at 2, 4 and 8 times the rows.

The truth at n rows is the R² of ridge (penalty by generalised cross-validation) on other rows, averaged over random
training sets. Tasks: progression of diabetes and single pixels of digits (both in scikit-learn), and what a corpus
gives without labels: the logarithm of a text's length from MiniLM or static features. The width of the interval was
chosen on diabetes, the pixels, banking77, clinc150 and debian; fortunes, foldoc and verses check it.

    python benchmarks/studies/forecast_regression.py --data corpora --features features
    python benchmarks/studies/forecast_regression.py --tasks diabetes,pixel  # nothing but scikit-learn needed
"""

from __future__ import annotations

import argparse
import json
import warnings
import zlib
from pathlib import Path

import numpy as np

import spikepool as sp
from forecast import MULTIPLES
from forecast_tasks import load_corpus, load_features
from spikepool.ridge.gcv import fit_ridge

PILOTS = (100, 200, 500, 1000)
TRUTH_DRAWS = 20
LEAST_TESTED = 40
TASKS = ("diabetes", "pixel 20", "pixel 44", "length/banking77/minilm", "length/banking77/wordllama")
TASKS += ("length/clinc150/minilm", "length/clinc150/minilm-table", "length/debian/minilm")
TASKS += ("length/fortunes/minilm", "length/foldoc/wordllama", "length/verses/minilm-table")


def load(name: str, features: Path, data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features and a real target, in random order."""
    if name == "diabetes":
        from sklearn.datasets import load_diabetes

        X, y = load_diabetes(return_X_y=True)
    elif name.startswith("pixel"):
        from sklearn.datasets import load_digits

        pixels, column = load_digits().data, int(name.split()[1])
        X, y = np.delete(pixels, column, axis=1), pixels[:, column] + 0.01 * np.arange(len(pixels)) / len(pixels)
    else:
        _, corpus, encoder = name.split("/")
        X, _ = load_features(corpus, encoder, features, data)
        y = np.log([len(text) for text in load_corpus(corpus, data)[0]])
    order = np.random.default_rng(11).permutation(len(y))
    return np.asarray(X[order], dtype=float), np.asarray(y[order], dtype=float)


def true_r2(X: np.ndarray, y: np.ndarray, n: int, rng: np.random.Generator) -> float:
    """R² of ridge on n random rows, tested on others; errors and variances are averaged over draws, then divided."""
    error, variance = [], []
    for _ in range(TRUTH_DRAWS):
        order = rng.permutation(len(y))
        train, test = order[:n], order[n : n + 3000]
        found = fit_ridge(X[train], y[train][:, None]).predict(X[test])[:, 0]
        error.append(((y[test] - found) ** 2).mean())
        variance.append(y[test].var())
    return float(1 - np.mean(error) / np.mean(variance))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the corpora")
    parser.add_argument("--features", type=Path, default=Path("features"), help="folder of encoded texts")
    parser.add_argument("--tasks", default="", help="only tasks whose name contains one of these, with commas")
    parser.add_argument("--repeats", type=int, default=8, help="pilots of each size and task")
    parser.add_argument(
        "--out", type=Path, default=Path("forecast_regression.json"), help="records; a run goes on here"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    records = json.loads(options.out.read_text()) if options.out.exists() else []
    for name in TASKS:
        wanted = any(part in name for part in options.tasks.split(","))
        if not wanted or any(r["task"] == name for r in records):
            continue
        X, y = load(name, options.features, options.data)
        truth: dict[int, float] = {}
        for pilot in PILOTS:
            asked = [pilot * k for k in MULTIPLES if pilot * k <= len(y) - LEAST_TESTED]
            for n in asked:
                truth.setdefault(n, true_r2(X, y, n, np.random.default_rng(n)))
            for repeat in range(options.repeats if asked else 0):
                rng = np.random.default_rng([repeat, pilot, zlib.crc32(name.encode())])
                rows = rng.permutation(len(y))[:pilot]
                f = sp.forecast(X[rows], y[rows], n=asked, task="regression", random_state=repeat)
                right = [truth[n] for n in asked]
                records.append(
                    {
                        "task": name,
                        "pilot": pilot,
                        "n": asked,
                        "truth": right,
                        "forecast": f.score.tolist(),
                        "interval": f.interval.tolist(),
                    }
                )
        options.out.write_text(json.dumps(records))
        print(name, "done", flush=True)
    print("| task | pilots | R² at 4 times | median error | coverage of 90 % |\n| --- | --- | --- | --- | --- |")
    for name in (*dict.fromkeys(r["task"] for r in records), None, *PILOTS):
        mine = [r for r in records if name is None or name in (r["task"], r["pilot"])]
        cells = [c for r in mine for c in zip(r["truth"], r["forecast"], r["interval"], strict=True)]
        if not cells:
            continue
        covered = np.mean([low <= t <= high for t, _, (low, high) in cells])
        error = np.median([abs(t - f) for t, f, _ in cells])
        reached = [r["truth"][1] for r in mine if len(r["truth"]) > 1]
        span = f"{min(reached):.2f} to {max(reached):.2f}" if reached else "–"
        label = "all" if name is None else f"pilots of {name}" if isinstance(name, int) else name
        print(f"| {label} | {len(mine)} | {span} | {error:.3f} | {covered:.2f} ({len(cells)}) |")


if __name__ == "__main__":
    main()
