"""Forecasts of estimators other than ridge, against their true scores at 2, 4 and 8 times the pilot and power laws.

    python benchmarks/studies/forecast_estimators.py measure --data corpora --features features --half development
    python benchmarks/studies/forecast_estimators.py table

Tasks are features (banking77 and clinc150 in MiniLM, digits, splice, and two tables of scikit-learn), an estimator
and a scorer; a task belongs to the half that the hash of its name says. Truth at n rows is the mean score of the
estimator on three random training sets, on rows of neither.
"""

from __future__ import annotations

import argparse
import json
import warnings
import zlib
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
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
FEATURES = (
    "banking77/minilm/5",
    "banking77/minilm/2",
    "clinc150/minilm-table/5",
    "digits/pixels/all",
    "splice/onehot/all",
)
TABLES = {"cancer": load_breast_cancer, "wine": load_wine}
PILOTS, MULTIPLES, TRUTH_DRAWS, TESTED = (100, 200, 500, 1000), (2, 4, 8), 3, 1500


def half_of(name: str) -> str:
    return "set-aside" if zlib.crc32(name.encode()) & 1 else "development"


def load(name: str, features: Path, data: Path) -> tuple[np.ndarray, np.ndarray]:
    if name in TABLES:
        x, y = TABLES[name](return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        return x[order], y[order]
    return load_task(name, features, data)


def power_law(n: np.ndarray, score: np.ndarray, at: np.ndarray, top: float) -> np.ndarray:
    """``top − c − a n^-b`` fitted with weights n."""
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
    return top - law(min(runs, key=lambda r: r.cost).x, at)


def measure(half: str, out: Path, features: Path, data: Path, draws: int, largest: int) -> None:
    done = (
        {(c["task"], c["pilot"], c["seed"]) for c in map(json.loads, out.read_text().splitlines())}
        if out.exists()
        else set()
    )
    for source in (*FEATURES, *TABLES):
        try:
            x, y = load(source, features, data)
        except FileNotFoundError as err:
            print(f"{source}: left out, {err}", flush=True)
            continue
        for model_name, model in ESTIMATORS.items():
            for scoring in SCORERS:
                task = f"{source} {model_name} {scoring}"
                if half not in (half_of(task), "both"):
                    continue
                scorer = get_scorer(scoring)
                known: dict[int, float] = {}
                for pilot in PILOTS:
                    at = [pilot * m for m in MULTIPLES if pilot * m <= min(len(y) - 150, largest)]
                    missing = [s for s in range(draws) if (task, pilot, s) not in done]
                    if not at or not missing:
                        continue
                    for n in at:
                        if n not in known:
                            found = []
                            for r in range(TRUTH_DRAWS):
                                o = np.random.default_rng([n, r]).permutation(len(y))
                                fit = clone(model).fit(x[o[:n]], y[o[:n]])
                                found.append(scorer(fit, x[o[n : n + TESTED]], y[o[n : n + TESTED]]))
                            known[n] = float(np.mean(found))
                    for seed in missing:
                        rows = np.random.default_rng([pilot, seed]).permutation(len(y))[:pilot]
                        f = sp.forecast(x[rows], y[rows], n=at, estimator=model, scoring=scoring, random_state=seed)
                        top = 1.0 if scoring != "neg_log_loss" else 0.0
                        law = power_law(f.measured_n.astype(float), f.measured_score, np.array(at, dtype=float), top)
                        record = {
                            "task": task,
                            "pilot": pilot,
                            "seed": seed,
                            "n": at,
                            "truth": [known[n] for n in at],
                            "score": f.score.tolist(),
                            "interval": f.interval.tolist(),
                            "law": law.tolist(),
                        }
                        with out.open("a") as file:
                            file.write(json.dumps(record) + "\n")
                print(task, flush=True)


def table(out: Path) -> list[str]:
    cells = [json.loads(line) for line in out.read_text().splitlines()]
    lines = ["| half | score | pilot | median error | power law | ratio | coverage | cells |", "| --- " * 8 + "|"]
    for half in ("development", "set-aside"):
        for scoring in (*SCORERS, ""):
            for pilot in PILOTS:
                mine = [
                    c
                    for c in cells
                    if half_of(c["task"]) == half and c["task"].endswith(scoring) and c["pilot"] == pilot
                ]
                if not mine:
                    continue
                e, law, inside = (
                    np.concatenate(parts)
                    for parts in zip(
                        *[
                            (
                                np.abs(np.subtract(c["score"], c["truth"])),
                                np.abs(np.subtract(c["law"], c["truth"])),
                                [lo <= t <= hi for t, (lo, hi) in zip(c["truth"], c["interval"], strict=True)],
                            )
                            for c in mine
                        ],
                        strict=True,
                    )
                )
                a, b = np.median(e), np.median(law)
                lines.append(
                    f"| {half} | {scoring or 'all'} | {pilot} | {a:.4f} | {b:.4f} | {a / b:.2f} "
                    f"| {inside.mean():.2f} | {len(e)} |"
                )
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "table"))
    parser.add_argument("--half", choices=("development", "set-aside", "both"), default="development")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--features", type=Path, default=Path("features"))
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--largest", type=int, default=2000, help="largest training size of the truth")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "measure":
        measure(options.half, options.out, options.features, options.data, options.draws, options.largest)
    else:
        print("\n".join(table(options.out)))
