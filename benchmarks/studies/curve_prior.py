"""The prior of `forecast_curve`: fitted to one half of the datasets of LCDB, reported on both halves.

    pip download lcdb==0.1.0 --no-deps && tar xzf lcdb-0.1.0.tar.gz
    python benchmarks/studies/curve_prior.py fit --lcdb lcdb-0.1.0/lcdb       # prints the constants, about ten minutes
    python benchmarks/studies/curve_prior.py table --lcdb lcdb-0.1.0/lcdb     # errors and coverage of both halves

LCDB (Mohr et al. 2022) holds learning curves of 20 learners on 246 datasets; its data are not shipped. A dataset
belongs to the half that the hash of its number says. Curves are observed up to n0 = 64 to 1024 rows with one repeat for
each of five outer seeds; the truth at 2, 4 and 8 times n0 is the mean over all repeats. The constants maximise the
predictive likelihood of these truths, with a floor for broken curves; the random walk was then set so that every cell
of n0 and horizon is covered on the same half.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares, minimize
from scipy.special import logsumexp, ndtr, ndtri

from spikepool.forecasting import curve_process
from spikepool.forecasting.process_curve import point_errors

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
FAMILIES = ("last", "pow3", "pow4", "mmf4", "wbl4", "best by fit")
EDGE, FLOOR = 1e-3, 0.002


def half_of(dataset: int) -> str:
    return "set-aside" if zlib.crc32(str(dataset).encode()) & 1 else "development"


def load_curves(folder: Path, seed: int = 0) -> list[dict]:
    """One curve for each dataset and learner: half-octaves x, five repeats, and the mean over all repeats."""
    columns = ["openmlid", "learner", "size_train", "outer_seed", "inner_seed", "score_test"]
    frame = pd.read_csv(folder / "database-accuracy.csv", usecols=columns)
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
        n = wide.index.values[good].astype(float)
        curves.append(
            {
                "half": half_of(int(dataset)),
                "kind": KIND_OF[learner],
                "n": n,
                "x": np.round(2 * np.log2(n)) / 2,
                "scores": scores[good],
                "full": full[good],
            }
        )
    return curves


def observed(curves: list[dict]) -> list[tuple]:
    """(kind, x0, sizes, transformed scores, variances, truths by horizon, raw scores)."""
    found = []
    for c in curves:
        for x0 in STARTS:
            use = c["x"] <= x0
            truths = {h: float(c["full"][c["x"] == x0 + h][0]) for h in HORIZONS if (c["x"] == x0 + h).any()}
            if use.sum() < 4 or c["x"][use][-1] != x0 or not truths:
                continue
            mean = np.nanmean(c["scores"][use], axis=1)
            z = ndtri(np.clip(mean, EDGE, 1 - EDGE))
            slope = np.sqrt(2 * np.pi) * np.exp(z**2 / 2)
            variance = (point_errors(c["n"][use], c["scores"][use]) * slope) ** 2 + 1e-8
            found.append((c["kind"], x0, c["n"][use], z, variance, truths, mean))
    return found


def predict(n: np.ndarray, z: np.ndarray, variance: np.ndarray) -> list[curve_process.CurvePosterior]:
    """Posteriors at the horizons of curves with the same sizes, one after the other."""
    return [
        curve_process.posterior(n, zi, np.diag(vi), n[-1] * 2.0 ** np.array(HORIZONS))
        for zi, vi in zip(z, variance, strict=True)
    ]


def set_constants(theta: np.ndarray) -> None:
    curve_process.DAMPING, curve_process.MEMORY, curve_process.RISE = np.exp(theta[0]), np.exp(theta[1]), theta[2]
    curve_process.SCALE_WEIGHTS = tuple(np.exp(theta[3:] - logsumexp(theta[3:])))


def objective(theta: np.ndarray, cases: list[tuple]) -> float:
    """Minus the mean log density of the truths under the posterior mixtures."""
    set_constants(theta)
    total = []
    for _, _, n, z, variance, truths, _ in cases:
        found = predict(n, z[None], variance[None])[0]
        spread = np.diagonal(found.covariance, axis1=1, axis2=2)
        for h, truth in truths.items():
            j = HORIZONS.index(h)
            t = ndtri(np.clip(truth, EDGE, 1 - EDGE))
            log = -0.5 * (t - found.mean[:, j]) ** 2 / spread[:, j] - 0.5 * np.log(2 * np.pi * spread[:, j])
            total.append(np.logaddexp(logsumexp(log, b=found.weights), np.log(FLOOR)))
    return -float(np.mean(total))


def fit(curves: list[dict], count: int) -> None:
    cases = observed([c for c in curves if c["half"] == "development"])
    cases = [cases[i] for i in np.random.default_rng(1).permutation(len(cases))[:count]]
    start = np.concatenate([np.log([0.2, 0.15]), [1.3], np.log(curve_process.SCALE_WEIGHTS)])
    curve_process.ROUGH = 0.0
    best = minimize(objective, start, args=(cases,), method="L-BFGS-B", options={"maxiter": 30, "maxfun": 500})
    set_constants(best.x)
    print(f"log density {-best.fun:.3f}; DAMPING {curve_process.DAMPING:.3f}, MEMORY {curve_process.MEMORY:.3f}")
    print(f"RISE {curve_process.RISE:.3f}, SCALE_WEIGHTS {np.round(curve_process.SCALE_WEIGHTS, 3).tolist()}")


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


def table(curves: list[dict], count: int) -> None:
    for half in ("development", "set-aside"):
        cases = observed([c for c in curves if c["half"] == half])
        cases = [cases[i] for i in np.random.default_rng(2).permutation(len(cases))[:count]]
        rows = []
        for kind, x0, n, z, variance, truths, mean in cases:
            found = predict(n, z[None], variance[None])[0]
            median, low, high = (ndtr(found.quantile(q)) for q in (0.5, 0.05, 0.95))
            others = families(n, mean, n[-1] * 2.0 ** np.array(HORIZONS))
            for h, truth in truths.items():
                j = HORIZONS.index(h)
                errors = np.abs(np.append(median[j], others[:, j]) - truth)
                rows.append((kind, x0, h, low[j] <= truth <= high[j], *errors))
        print(f"\n## {half}: {len(cases)} curves\n\n| learners | 2x | 4x | 8x |\n| --- | --- | --- | --- |")
        for kind in (*KINDS, None):
            cells = []
            for h in HORIZONS:
                mine = np.array([r[3:] for r in rows if kind in (r[0], None) and r[2] == h], dtype=float)
                own, best = np.median(mine[:, 1]), np.median(mine[:, 2:], axis=0).min()
                cells.append(f"{100 * own:.2f} / {100 * best:.2f} = {own / best:.2f}, {mine[:, 0].mean():.2f}")
            print(f"| {kind or 'all'} | " + " | ".join(cells) + " |")
        print("\n| n0 | 2x | 4x | 8x |\n| --- | --- | --- | --- |")
        for x0 in STARTS:
            inside = [[r[3] for r in rows if r[1] == x0 and r[2] == h] for h in HORIZONS]
            print(f"| {2**x0} | " + " | ".join(f"{np.mean(i):.2f}" for i in inside) + " |")
    print("\nmedian error in points: process / best family = ratio, coverage of 90 %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("fit", "table"))
    parser.add_argument("--lcdb", type=Path, required=True, help="folder with database-accuracy.csv")
    parser.add_argument("--count", type=int, default=1500, help="observed curves that are used")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    (fit if options.what == "fit" else table)(load_curves(options.lcdb), options.count)
