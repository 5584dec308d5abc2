"""Measured learning curves of LCDB 1.1 on data sets that LCDB 1.0 lacks: errors and coverage of `forecast_curve`.

    git clone https://github.com/learning-curve-research/LCDB-1.1
    python benchmarks/studies/lcdb11.py LCDB-1.1/docs/data            # about ten minutes on one core
    python benchmarks/studies/lcdb11.py LCDB-1.1/docs/data --table    # the table of the recorded results

LCDB 1.1 (Yan, Mohr and Viering 2025, CC BY 4.0) holds error rates of 28 learners; its data are not shipped. The prior
of `forecast_curve` was fitted to LCDB 1.0, so that only data sets without a curve there are measured. Curves are mean
accuracies on validation rows at nine sizes, evenly spaced in log n, from 16 to 64, 256 or 1024; the truth is the
accuracy at 2, 4 and 8 times as many. Forecasts have default arguments. POW4 and MMF4, which the authors of LCDB 1.1
found best, are least squares fits to the same points, the best of four starts. Nothing is chosen on these curves.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import leastsq

import spikepool as sp

RESULTS = Path(__file__).parents[1] / "results" / "lcdb11.json"
# OpenML numbers of the data sets of LCDB 1.1 that lcdb 0.1.0 (LCDB 1.0) has no curve of.
NEW = (15, 29, 37, 50, 151, 307, 458, 469, 1063, 1462, 1478, 1480, 1497, 1501, 1510, 6332, 23381, 40499, 40923, 40927)
NEW += (40966, 40979)
KINDS = {
    "linear": ("SVM_Linear", "LDA", "LogisticRegression", "PassiveAggressive", "Perceptron", "RidgeClassifier"),
    "kernel": ("SVM_Poly", "SVM_RBF", "SVM_Sigmoid"),
    "neighbours": ("KNN", "NearestCentroid"),
    "tree": ("Decision Tree", "ExtraTree"),
    "ensemble": ("ens.ExtraTrees", "ens.RandomForest", "ens.GradientBoosting"),
    "MLP": ("MLP",),
    "generative": ("QDA", "BernoulliNB", "MultinomialNB", "ComplementNB", "GaussianNB"),
    "CatBoost": ("CatBoost",),
    "RealMLP": ("RealMLP",),
    "TabNet": ("TabNet",),
    "TabPFN": ("TabPFNv2",),
}
KINDS["linear"] += ("SGDClassifier",)
STARTS, HORIZONS, SIZES = (64, 256, 1024), (2, 4, 8), 9
VALIDATION = 1
METHODS = ("forecast", "last value", "POW4", "MMF4")


def pow4(p: np.ndarray, n: np.ndarray) -> np.ndarray:
    return p[0] - (np.exp(p[1]) * n + np.exp(p[3])) ** -p[2]


def mmf4(p: np.ndarray, n: np.ndarray) -> np.ndarray:
    return (p[0] * np.exp(p[1]) + p[2] * n ** p[3]) / (np.exp(p[1]) + n ** p[3])


def fitted(law, starts: list, n: np.ndarray, score: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Values of the best of four least squares fits, within [0, 1]."""

    def miss(p: np.ndarray) -> np.ndarray:
        left = law(p, n) - score
        return left if np.isfinite(left @ left) else np.full(len(n), 1e3)

    with np.errstate(all="ignore"):
        runs = [leastsq(miss, start, maxfev=400, full_output=True) for start in starts]
        best = min(runs, key=lambda run: float(run[2]["fvec"] @ run[2]["fvec"]))[0]
        return np.clip(np.nan_to_num(law(best, at), nan=score[-1]), 0, 1)


def laws(n: np.ndarray, score: np.ndarray, at: np.ndarray) -> list[np.ndarray]:
    low, high, middle = score.min(), score.max(), np.log(n).mean()
    powers = [(high + gain, 0.0, slope, shift) for gain in (0.01, 0.1) for slope, shift in ((0.5, 0.0), (0.2, 2.0))]
    ratios = [(low, slope * middle, high + gain, slope) for gain in (0.01, 0.1) for slope in (1.0, 0.4)]
    return [fitted(pow4, powers, n, score, at), fitted(mmf4, ratios, n, score, at)]


def curves(folder: Path, datasets: tuple[int, ...]):
    """(data set, learner, sizes, accuracies) of every curve, without those of DummyClassifier."""
    meta = json.loads((folder / "meta.json").read_text())
    anchors = np.array(meta["anchors"], dtype=float)
    for dataset in datasets:
        values = json.loads((folder / "er" / f"{dataset}.json").read_text())
        for learner, (mean, _) in zip(meta["learners"], values, strict=True):
            error = np.array([point[VALIDATION] for point in mean], dtype=float)
            if learner != "DummyClassifier":
                yield dataset, learner, anchors[: len(error)], 1 - error


def measure(folder: Path, datasets: tuple[int, ...] = NEW) -> list[dict]:
    """One record for each curve and number of observed rows."""
    kind_of = {learner: kind for kind, learners in KINDS.items() for learner in learners}
    records = []
    for dataset, learner, anchors, score in curves(folder, datasets):
        for start in STARTS:
            wanted = np.geomspace(anchors[0], start, SIZES)
            chosen = np.unique(np.abs(np.log(anchors[:, None] / wanted)).argmin(axis=0))
            at = start * np.array(HORIZONS, dtype=float)
            later = [np.flatnonzero(anchors == size) for size in at]
            truth = [float(score[i[0]]) if len(i) else np.nan for i in later]
            if not np.isfinite(score[chosen]).all() or not np.isfinite(truth).any():
                continue
            n, seen = anchors[chosen], score[chosen]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                f = sp.forecast_curve(n, seen, at=at)
            values = [f.score, np.full(len(at), seen[-1]), *laws(n, seen, at)]
            record = {"dataset": dataset, "kind": kind_of[learner], "learner": learner, "rows": start}
            record["truth"] = [None if np.isnan(t) else round(t, 4) for t in truth]
            record["values"] = np.round(values, 4).tolist()
            record["interval"] = np.round(f.interval, 4).tolist()
            records.append(record)
    return records


def table(records: list[dict]) -> list[str]:
    """Median and mean errors in points of each method, and coverage, by observed rows, horizon and kind of learner."""
    cells = [
        (r["kind"], r["rows"], m, np.abs(np.array(r["values"])[:, j] - t), low <= t <= high)
        for r in records
        for j, (m, t, (low, high)) in enumerate(zip(HORIZONS, r["truth"], r["interval"], strict=True))
        if t is not None
    ]
    lines = [f"{len(records):,} observed curves of {len({r['dataset'] for r in records})} data sets", ""]
    lines += ["| curves | horizon | " + " | ".join(METHODS) + " | coverage of 90 % | forecasts |"]
    lines += ["| --- " * (len(METHODS) + 4) + "|"]
    parts = [("all", None), *((f"{rows} rows", rows) for rows in STARTS), *((kind, kind) for kind in KINDS)]
    for label, part in parts:
        for horizon in HORIZONS:
            mine = [c for c in cells if part in (None, c[0], c[1]) and c[2] == horizon]
            if mine:
                errors = 100 * np.array([c[3] for c in mine])
                text = [f"{np.median(e):.2f} ({e.mean():.1f})" for e in errors.T]
                covered = np.mean([c[4] for c in mine])
                lines.append(f"| {label} | {horizon}x | " + " | ".join(text) + f" | {covered:.2f} | {len(mine)} |")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="docs/data of the repository, with meta.json and er/")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the recorded results only")
    options = parser.parse_args()
    if not options.table and options.folder is None:
        raise SystemExit("needs the curves: pass docs/data of LCDB 1.1, or --table")
    if not options.table:
        options.out.write_text("[\n" + ",\n".join(json.dumps(r) for r in measure(options.folder)) + "\n]\n")
    print("\n".join(table(json.loads(options.out.read_text()))))
