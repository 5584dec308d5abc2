"""The prior of `forecast_curve`: fitted to one half of the datasets of LCDB, reported on both halves.

    pip download lcdb==0.1.0 --no-deps && tar xzf lcdb-0.1.0.tar.gz
    python benchmarks/studies/curve_prior.py fit --lcdb lcdb-0.1.0/lcdb       # prints the constants, a few minutes
    python benchmarks/studies/curve_prior.py table --lcdb lcdb-0.1.0/lcdb     # errors and coverage of both halves

LCDB (Mohr et al. 2022) holds learning curves of 20 learners on 246 datasets; its data are not shipped. A dataset
belongs to the half that the hash of its number says. The prior knows the family of the learner
(`spikepool.forecasting.damped_slope`); `table` forecasts with it, and once more without. Curves are observed up to
n0 = 64 to 1024 rows with one repeat for each of five outer seeds; the truth at 2, 4 and 8 times n0 is the mean over all
repeats. The weights of the prior maximise the likelihood of the observed points and of these truths together
(expectation maximisation for each family; weights below .015 are dropped), for curves of accuracy and of log loss, with
a floor for broken curves; the random walk was then set so that every cell of n0 and horizon is covered on the same
half. `table` takes the same number of curves of every kind of learner, as far as there are as many.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.special import logsumexp, ndtr, ndtri

from spikepool.forecasting import damped_slope as curve_process
from spikepool.forecasting.learner_families import FAMILIES, learner_family
from spikepool.forecasting.measured_curve import point_errors
from spikepool.forecasting.score_scale import ScoreScale

KINDS = {
    "linear": (
        "SVC_linear",
        "LinearDiscriminantAnalysis",
        "LogisticRegression",
        "PassiveAggressiveClassifier",
        "Perceptron",
        "RidgeClassifier",
        "SGDClassifier",
    ),
    "kernel": ("SVC_poly", "SVC_rbf", "SVC_sigmoid"),
    "neighbours": ("KNeighborsClassifier",),
    "tree": ("DecisionTreeClassifier", "ExtraTreeClassifier"),
    "ensemble": ("ExtraTreesClassifier", "GradientBoostingClassifier", "RandomForestClassifier"),
    "MLP": ("MLPClassifier",),
    "generative": ("BernoulliNB", "MultinomialNB", "QuadraticDiscriminantAnalysis"),
}
KIND_OF = {learner: kind for kind, learners in KINDS.items() for learner in learners}
STARTS, HORIZONS = (6, 7, 8, 9, 10), (1, 2, 3)
EDGE, FLOOR = 1e-3, 0.002
SCALES, DAMPINGS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64), (0.05, 0.4)
LEAST_WEIGHT = 0.015


def half_of(dataset: int) -> str:
    return "set-aside" if zlib.crc32(str(dataset).encode()) & 1 else "development"


def load_curves(folder: Path, measure: str = "accuracy", seed: int = 0) -> list[dict]:
    """One curve for each dataset and learner: half-octaves x, five repeats, and the mean over all repeats."""
    columns = ["openmlid", "learner", "size_train", "outer_seed", "inner_seed", "score_test"]
    frame = pd.read_csv(folder / f"database-{measure}.csv", usecols=columns)
    frame["learner"] = frame.learner.astype(str).str.split(".").str[-1]
    rng, curves = np.random.default_rng(seed), []
    for (dataset, learner), group in frame.groupby(["openmlid", "learner"]):
        wide = group.pivot_table(index="size_train", columns=["outer_seed", "inner_seed"], values="score_test")
        x = 2 * np.log2(wide.index.values)
        wide = wide[np.abs(x - np.round(x)) < 0.12]
        if len(wide) < 7:
            continue
        outer = np.array(wide.columns.get_level_values(0))
        chosen = [rng.choice(np.flatnonzero(outer == o)) for o in np.unique(outer)]
        scores, full = wide.values[:, chosen], np.nanmean(wide.values, axis=1)
        good = (np.isfinite(scores).sum(axis=1) > 1) & np.isfinite(full)
        if measure == "logloss":
            good &= (full > 1e-6) & (np.nanmean(scores, axis=1) > 1e-6)
        n = wide.index.values[good].astype(float)
        curves.append(
            {
                "half": half_of(int(dataset)),
                "kind": KIND_OF[learner],
                "learner": learner.split("_")[0],
                "family": learner_family(learner.split("_")[0]),
                "scale": ScoreScale() if measure == "accuracy" else ScoreScale(0.0, np.inf, False),
                "n": n,
                "x": np.round(2 * np.log2(n)) / 2,
                "scores": scores[good],
                "full": full[good],
            }
        )
    return curves


def observed(curves: list[dict]) -> list[tuple]:
    """(kind, x0, sizes, transformed scores, variances, transformed truths by horizon, mean scores, family)."""
    found = []
    for c in curves:
        for x0 in STARTS:
            use = c["x"] <= x0
            truths = np.full(len(HORIZONS), np.nan)
            for j, h in enumerate(HORIZONS):
                if (c["x"] == x0 + h).any():
                    truths[j] = c["full"][c["x"] == x0 + h][0]
            if use.sum() < 4 or c["x"][use][-1] != x0 or np.isnan(truths).all():
                continue
            mean, scale = np.nanmean(c["scores"][use], axis=1), c["scale"]
            if np.isinf(scale.high):
                z, t = scale.to_z(mean), np.array([scale.to_z(np.array([v]))[0] for v in truths])
                slope = scale.slope(mean)
            else:
                z, t = ndtri(np.clip(mean, EDGE, 1 - EDGE)), ndtri(np.clip(truths, EDGE, 1 - EDGE))
                slope = np.sqrt(2 * np.pi) * np.exp(z**2 / 2)
            variance = (point_errors(c["n"][use], c["scores"][use]) * slope) ** 2 + 1e-8
            found.append((c["kind"], x0, c["n"][use], z, variance, t, mean, c["family"]))
    return found


def predict(case: tuple, family: str | None = None) -> curve_process.CurvePosterior:
    """Posterior at the horizons."""
    at = case[2][-1] * 2.0 ** np.array(HORIZONS)
    return curve_process.posterior(case[2], case[3], np.diag(case[4]), at, family=family)


def fit(folder: Path, count: int) -> None:
    """Weights of scales and dampings for each family, by expectation maximisation."""
    cases = []
    for measure in ("accuracy", "logloss"):
        found = observed([c for c in load_curves(folder, measure) if c["half"] == "development"])
        cases += [found[i] for i in np.random.default_rng(1).permutation(len(found))[:count]]
    grid = [(scale, damping) for damping in DAMPINGS for scale in SCALES]
    logs = np.empty((len(cases), len(grid)))
    curve_process.PRIOR = tuple((scale, damping, (1 / len(grid),) * len(FAMILIES)) for scale, damping in grid)
    for i, case in enumerate(cases):
        found = predict(case)
        with np.errstate(divide="ignore"):
            points = np.log(found.weights)  # the likelihood of the points, up to a factor of the curve
        spread = np.diagonal(found.covariance, axis1=1, axis2=2)
        density = -0.5 * (case[5] - found.mean) ** 2 / spread - 0.5 * np.log(2 * np.pi * spread)
        logs[i] = points + np.nanmean(np.logaddexp(density, np.log(FLOOR)), axis=1)
    table = np.zeros((len(grid), len(FAMILIES)))
    for j, family in enumerate(FAMILIES):
        mine, kept = logs[[case[7] == family for case in cases]], np.arange(len(grid))
        while True:
            weights = np.full(len(kept), 1 / len(kept))
            for _ in range(150):
                parts = mine[:, kept] + np.log(weights)
                weights = np.exp(parts - logsumexp(parts, axis=1, keepdims=True)).mean(axis=0) + 1e-6
                weights /= weights.sum()
            if weights.min() >= LEAST_WEIGHT:
                break
            kept = kept[weights >= LEAST_WEIGHT]
        table[kept, j] = weights
    for (scale, damping), weights in zip(grid, table, strict=True):
        if weights.any():
            print(f"({scale:.3g}, {damping}, ({', '.join(f'{w:.3f}' for w in weights)})),")


def families(n: np.ndarray, score: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Forecasts (families, horizons) of the parametric laws, each the best of two starts."""
    low, high = score.min(), score.max()
    rise = np.log(max(high - low, 0.05))
    laws = (
        (
            lambda p, x: p[0] - np.exp(p[1]) * x ** -p[2],
            ([high + 0.02, rise + 0.5 * np.log(n[0]), 0.5], [high + 0.1, 0, 0.2]),
        ),
        (
            lambda p, x: p[0] - (np.exp(p[1]) * x + np.exp(p[3])) ** -p[2],
            ([high + 0.02, 0, 0.5, 0], [high + 0.05, -1, 0.3, 2]),
        ),
        (
            lambda p, x: (p[0] * np.exp(p[1]) + p[2] * x ** p[3]) / (np.exp(p[1]) + x ** p[3]),
            ([low, np.log(n.mean()), high + 0.02, 1], [low, 0.5 * np.log(n.mean()), high + 0.05, 0.5]),
        ),
        (
            lambda p, x: p[0] - np.exp(p[1]) * np.exp(-np.exp(p[2]) * x ** p[3]),
            ([high + 0.02, rise, -3, 0.5], [high + 0.05, rise + 0.5, -2, 0.3]),
        ),
    )
    found, costs = [np.full(len(at), score[-1])], []
    for law, starts in laws:
        runs = [
            least_squares(
                lambda p, law=law: np.nan_to_num(law(p, n) - score, nan=1e3, posinf=1e3, neginf=1e3), s, max_nfev=150
            )
            for s in starts
        ]
        best = min(runs, key=lambda r: r.cost)
        found.append(np.clip(np.nan_to_num(law(best.x, at), nan=score[-1]), 0, 1))
        costs.append(best.cost)
    return np.array([*found, found[1 + int(np.argmin(costs))]])


def table(folder: Path, count: int) -> None:
    """Median error in points against that of the best family of laws, and coverage, by learner and by n0."""
    curves = load_curves(folder)
    for half in ("development", "set-aside"):
        cases, rng = observed([c for c in curves if c["half"] == half]), np.random.default_rng(2)
        order = {kind: [c for c in cases if c[0] == kind] for kind in KINDS}
        cases = [c for mine in order.values() for c in (mine[i] for i in rng.permutation(len(mine))[: count // 7])]
        rows = []
        for case in cases:
            others = families(case[2], case[6], case[2][-1] * 2.0 ** np.array(HORIZONS))
            bands = [
                [ndtr(found.quantile(q)) for q in (0.5, 0.05, 0.95)]
                for found in (predict(case, case[7]), predict(case))
            ]
            for j, h in enumerate(HORIZONS):
                if np.isfinite(case[5][j]):
                    truth = float(ndtr(case[5][j]))
                    inside = [low[j] <= truth <= high[j] for _, low, high in bands]
                    forecasts = np.append([median[j] for median, _, _ in bands], others[:, j])
                    rows.append((case[0], case[1], h, *inside, *np.abs(forecasts - truth)))
        for own, label in enumerate(("family given", "family unknown")):
            print(
                f"\n## {half}, {label}: {len(cases)} curves\n\n| learners | 2x | 4x | 8x |\n| --- | --- | --- | --- |"
            )
            for kind in (*KINDS, None):
                cells = []
                for h in HORIZONS:
                    mine = np.array([r[3:] for r in rows if kind in (r[0], None) and r[2] == h], dtype=float)
                    ours, best = np.median(mine[:, 2 + own]), np.median(mine[:, 4:], axis=0).min()
                    cells.append(f"{100 * ours:.2f} / {100 * best:.2f} = {ours / best:.2f}, {mine[:, own].mean():.2f}")
                print(f"| {kind or 'all'} | " + " | ".join(cells) + " |")
            print("\n| n0 | 2x | 4x | 8x |\n| --- | --- | --- | --- |")
            for x0 in STARTS:
                inside = [[r[3 + own] for r in rows if r[1] == x0 and r[2] == h] for h in HORIZONS]
                print(f"| {2**x0} | " + " | ".join(f"{np.mean(i):.2f}" for i in inside) + " |", flush=True)
    print("\nmedian error in points: process / best law = ratio, coverage of 90 %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="table", choices=("fit", "table"))
    parser.add_argument("--lcdb", type=Path, help="folder with database-accuracy.csv")
    parser.add_argument("--count", type=int, help="observed curves that are used; 9000, 3010 and 200 by default")
    options = parser.parse_args()
    if options.lcdb is None:
        raise SystemExit("needs the learning curves of LCDB: pip download --no-deps lcdb==0.1.0, unpack, pass --lcdb")
    warnings.simplefilter("ignore")
    run, usual = {"fit": (fit, 9000), "table": (table, 3010)}[options.what]
    run(options.lcdb, options.count or usual)
