"""Forecasts of estimators other than ridge, against their true scores at 2, 4 and 8 times the pilot and power laws.

    python benchmarks/studies/forecast_estimators.py measure --data corpora --features features --half development
    python benchmarks/studies/forecast_estimators.py table

Tasks are features (banking77 and clinc150 in MiniLM, digits, and three tables: splice junctions, daily demands of power
and tumours), an estimator and a scorer; a task belongs to the half that the hash of its name says. Truth at n rows is
the mean score of the estimator on random training sets (five, three for boosting), on rows of neither. The power laws
are fitted to the same measured points: ``c + a n^-b``, ``a n^-b``, and ``a n^-b`` through the last point.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spikepool as sp
from forecast_tasks import load_task

RESULTS = Path(__file__).parents[1] / "results" / "forecast_estimators.jsonl"
ESTIMATORS = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=100)),
    "boosting": HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=8),
    "neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(7)),
}
SCORERS = ("accuracy", "f1_macro", "neg_log_loss")
SOURCES = (
    "digits/pixels/all",
    "splice/onehot/all",
    "power demand",
    "tumours",
    "banking77/minilm/5",
    "banking77/minilm/2",
    "clinc150/minilm-table/5",
    "clinc150/minilm/20r",
)
PILOTS, MULTIPLES, TESTED = (200, 500, 1000), (2, 4, 8), 3000


def half_of(name: str) -> str:
    return "set-aside" if zlib.crc32(name.encode()) & 1 else "development"


def load(name: str, features: Path, data: Path) -> tuple[np.ndarray, np.ndarray]:
    if name == "tumours":
        x, y = load_breast_cancer(return_X_y=True)
    elif name == "power demand":  # ItalyPowerDemand of the UCR archive, which comes with aeon
        spec = importlib.util.find_spec("aeon")
        if spec is None or spec.origin is None:
            raise FileNotFoundError("ItalyPowerDemand comes with aeon; pip install aeon")
        folder = Path(spec.origin).parent / "datasets" / "data" / "ItalyPowerDemand"
        lines = [
            line.strip().split(":")
            for part in ("TRAIN", "TEST")
            for line in (folder / f"ItalyPowerDemand_{part}.ts").read_text().splitlines()
            if line and line[0] not in "@#"
        ]
        x = np.array([[float(v) for v in values.split(",")] for values, _ in lines])
        y = np.unique([label for _, label in lines], return_inverse=True)[1]
    else:
        return load_task(name, features, data)
    order = np.random.default_rng(0).permutation(len(y))
    return x[order], y[order]


class Remembered(ClassifierMixin, BaseEstimator):
    """An estimator that is fitted once to the same rows, whichever scorer asks."""

    fits: dict[int, Any] = {}  # noqa: RUF012  shared by all

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: np.ndarray, y: np.ndarray) -> Remembered:
        """Fit, or remember."""
        key = hash((X.tobytes(), y.tobytes()))
        if key not in self.fits:
            self.fits[key] = clone(self.estimator).fit(X, y)
        self.fitted_, self.classes_ = self.fits[key], self.fits[key].classes_
        last = self.fitted_[-1] if hasattr(self.fitted_, "steps") else self.fitted_
        if hasattr(last, "coef_"):
            self.coef_ = last.coef_
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predicted classes."""
        return self.fitted_.predict(X)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities of the classes."""
        return self.fitted_.predict_proba(X)


def power_laws(n: np.ndarray, score: np.ndarray, at: np.ndarray, top: float) -> np.ndarray:
    """Forecasts (laws, sizes) of ``top − c − a n^-b``, ``top − a n^-b`` and the same through the last point."""
    gap = np.maximum(top - score, 1e-4)

    def law(p: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.exp(p[0]) + np.exp(p[1]) * (x / n.max()) ** -np.exp(p[2])

    runs = [
        least_squares(
            lambda p: (law(p, n) - gap) * np.sqrt(n),
            [np.log(c * gap.min()), np.log((1 - c) * gap.min()), np.log(b)],
            bounds=([-12, -12, -4], [3, 3, 1]),
            max_nfev=200,
        )
        for c in (0.2, 0.7)
        for b in (0.3, 0.8)
    ]
    design = np.vander(np.log(n / n[-1]), 2) * np.sqrt(n)[:, None]
    slope, level = np.linalg.lstsq(design, np.log(gap) * np.sqrt(n), rcond=None)[0]
    straight = np.exp(level + slope * np.log(at / n[-1]))
    through = gap[-1] * (at / n[-1]) ** min(slope, 0.0)
    return top - np.array([law(min(runs, key=lambda r: r.cost).x, at), straight, through])


def truth_of(key: str, model: Any, x: np.ndarray, y: np.ndarray, known: dict[str, list[float]]) -> list[float]:
    """Mean scores, one for each scorer, over random training sets."""
    n = int(key.split()[-1])
    if key not in known:
        found = []
        for r in range(3 if "boosting" in key else 5):
            order = np.random.default_rng([n, r]).permutation(len(y))
            train, test = order[:n], order[n : n + TESTED]
            fitted = clone(model).fit(x[train], y[train])
            found.append([get_scorer(s)(fitted, x[test], y[test]) for s in SCORERS])
        known[key] = np.mean(found, axis=0).tolist()
    return known[key]


def measure(half: str, out: Path, features: Path, data: Path, draws: int, largest: int) -> None:
    lines = out.read_text().splitlines() if out.exists() else []
    done = {(c["task"], c["pilot"], c["seed"]) for c in map(json.loads, lines)}
    truths = out.with_suffix(".truth.json")
    known = json.loads(truths.read_text()) if truths.exists() else {}
    for pilot in PILOTS:
        for source in SOURCES:
            try:
                x, y = load(source, features, data)
            except FileNotFoundError as err:
                print(f"{source}: left out, {err}", flush=True)
                continue
            for name, model in ESTIMATORS.items():
                reach = min(len(y) - 150, largest // 2 if name == "boosting" else largest)
                at = [pilot * m for m in MULTIPLES if pilot * m <= reach]
                if not at or (name == "boosting" and len(np.unique(y)) > 10 and x.shape[1] > 100):  # hours
                    continue
                for seed in range(draws):
                    Remembered.fits.clear()
                    rows = np.random.default_rng([pilot, seed]).permutation(len(y))[:pilot]
                    for i, scoring in enumerate(SCORERS):
                        task = f"{source} {name} {scoring}"
                        if half not in (half_of(task), "both") or (task, pilot, seed) in done:
                            continue
                        truth = [truth_of(f"{source} {name} {n}", model, x, y, known)[i] for n in at]
                        truths.write_text(json.dumps(known))
                        f = sp.forecast(
                            x[rows], y[rows], n=at, estimator=Remembered(model), scoring=scoring, random_state=seed
                        )
                        points = f.measured_n[::-1].astype(float), f.measured_score[::-1]
                        laws = power_laws(*points, np.array(at, dtype=float), 0.0 if "neg" in scoring else 1.0)
                        record = {
                            "task": task,
                            "pilot": pilot,
                            "seed": seed,
                            "n": at,
                            "truth": truth,
                            "score": f.score.tolist(),
                            "interval": f.interval.tolist(),
                            "laws": laws.tolist(),
                        }
                        with out.open("a") as file:
                            file.write(json.dumps(record) + "\n")
                print(pilot, source, name, flush=True)


def table(out: Path) -> list[str]:
    cells = [json.loads(line) for line in out.read_text().splitlines()]
    lines = ["| half | part | median error | best power law | ratio | coverage | cells |", "| --- " * 7 + "|"]
    parts: list[tuple[str, Any]] = [(f"pilots of {p}", lambda c, p=p: c["pilot"] == p) for p in PILOTS]
    parts += [(s, lambda c, s=s: c["task"].endswith(s)) for s in SCORERS]
    parts += [(e, lambda c, e=e: f" {e} " in c["task"]) for e in ESTIMATORS]
    for half in ("development", "set-aside"):
        for name, belongs in [*parts, ("all", lambda c: True)]:
            mine = [c for c in cells if half_of(c["task"]) == half and belongs(c)]
            if not mine:
                continue
            truth = np.concatenate([c["truth"] for c in mine])
            own = np.median(np.abs(np.concatenate([c["score"] for c in mine]) - truth))
            laws = np.median(np.abs(np.concatenate([c["laws"] for c in mine], axis=1) - truth), axis=1).min()
            ends = np.concatenate([c["interval"] for c in mine])
            inside = np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
            lines.append(
                f"| {half} | {name} | {own:.4f} | {laws:.4f} | {own / laws:.2f} | {inside:.2f} | {len(truth)} |"
            )
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="table", choices=("measure", "table"))
    parser.add_argument("--half", choices=("development", "set-aside", "both"), default="development")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--features", type=Path, default=Path("features"))
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--largest", type=int, default=8000, help="largest training size of the truth")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "measure":
        measure(options.half, options.out, options.features, options.data, options.draws, options.largest)
    else:
        if not options.out.exists():
            raise SystemExit("needs records: run it with measure first (--data and --features for the corpora)")
        print("\n".join(table(options.out)))
