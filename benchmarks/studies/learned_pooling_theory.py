"""Learned pooling on data of the model: what part of the best alpha/kappa it reaches, with how many sequences.

Tokens of the model (d = 60, V = 100, T = 10), labels the sign of a latent; `LearnedPoolingClassifier` learns heads over
positions. Its heads pool linearly, so they have an alpha/kappa: that of one head, and of the best recombination of
four (`optimal_heads`), each over the best that any weights reach, lambda_max(R) (`optimal_weights`). The query is
judged by its accuracy: tokens of both signs look alike to it, so that in this world, where position is all
that differs, it has nothing to find.

    python benchmarks/studies/learned_pooling_theory.py  # about two minutes of one core
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import spikepool as sp

RESULTS = Path(__file__).resolve().parents[1] / "results" / "learned_pooling_theory.json"
D, V, T, TEST = 60, 100, 10, 3000
WORLDS = {
    "prefix 3": (sp.prefix_correlation(T, 3), 0),
    "spiked 5": (sp.spiked_correlation(T, 8.0, [0, 2, 4, 6, 8], normalize=True), 0),
    "markov 0.5": (sp.markov_correlation(T, 0.5), 5),
    "exchangeable": (sp.equicorrelation(T, 0.4), 5),
}


def ratio(w, R) -> float:
    alpha, kappa = sp.gains(w, R)
    return alpha / kappa


def measure(name: str, mu: float, n: int, seed: int) -> dict:
    R, position = WORLDS[name]
    sample = sp.SequenceModel(d=D, V=V, N=n + TEST, R=R, mu=mu).sample(rng=seed)
    X, y = sample.table.T[sample.tokens], sample.latent[:, position] > 0
    train, test = slice(0, n), slice(n, None)
    best = ratio(sp.optimal_weights(R), R)
    fits = {
        "one head": sp.LearnedPoolingClassifier(pooling="positions", n_heads=1),
        "four heads": sp.LearnedPoolingClassifier(pooling="positions"),
        "query": sp.LearnedPoolingClassifier(pooling="query"),
        "mean": sp.LearnedPoolingClassifier(pooling="mean"),
        "auto": sp.LearnedPoolingClassifier(),
    }
    result: dict = {"mean ratio": ratio(sp.mean_weights(T), R) / best}
    for key, model in fits.items():
        model.fit(X[train], y[train])
        result[f"{key} accuracy"] = model.score(X[test], y[test])
    result["one head ratio"] = ratio(fits["one head"].weights_, R) / best
    result["four heads ratio"] = sp.optimal_heads(fits["four heads"].head_weights_, R).ratio / best
    result["auto decision"] = fits["auto"].decision_
    pooled = np.einsum("t,ntd->nd", sp.optimal_weights(R), X)
    oracle = sp.LearnedPoolingClassifier(pooling="mean").fit(pooled[train][:, None], y[train])
    result["optimal accuracy"] = oracle.score(pooled[test][:, None], y[test])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[125, 250, 500, 1000, 2000])
    parser.add_argument("--mu", type=float, default=1.5)
    parser.add_argument("--trials", type=int, default=4)
    arguments = parser.parse_args()
    record: dict = {}
    print("part of the best alpha/kappa; accuracy of the mean, the query, four heads, auto, and the best weights")
    print(f"{'world':<13} {'n':>5} {'mean':>6} {'1 head':>7} {'4 heads':>8}")
    for name in WORLDS:
        for n in arguments.sizes:
            draws = [measure(name, arguments.mu, n, seed) for seed in range(arguments.trials)]
            means = {k: float(np.mean([d[k] for d in draws])) for k in draws[0] if k != "auto decision"}
            errors = {k: float(np.std([d[k] for d in draws], ddof=1) / np.sqrt(len(draws))) for k in means}
            decisions = [d["auto decision"] for d in draws]
            record[f"{name}, n={n}"] = {"mean": means, "error": errors, "decisions": decisions}
            accuracies = [means[f"{k} accuracy"] for k in ("mean", "query", "four heads", "auto", "optimal")]
            print(
                f"{name:<13} {n:>5} {means['mean ratio']:>6.3f} {means['one head ratio']:>7.3f} "
                f"{means['four heads ratio']:>8.3f} | " + " ".join(f"{a:.3f}" for a in accuracies),
                decisions,
                flush=True,
            )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"mu": arguments.mu, "trials": arguments.trials, "cases": record}, indent=1) + "\n")


if __name__ == "__main__":
    main()
