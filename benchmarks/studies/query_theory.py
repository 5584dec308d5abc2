"""Does the theory of a query predict what `LearnedPoolingClassifier` gains?

Part 1, generated: sequences of the query model. Test accuracy of ridge on the mean and of the mean with a learned query
(`pooling="query"`), beside the accuracies that the state evolution predicts (`QueryModel.learned`).

Part 2, real: pairs of the five large classes of the TREC questions, token embeddings of MiniLM. A query is learned for
each pair. Its scores over all tokens are fitted by two normal laws of one variance: their shares give L, their distance
nu m, and the deviation the slope beta. The gain of alpha/kappa that the model has at these numbers turns the measured
accuracy of the mean into a predicted one, Phi(Phi^-1(accuracy) sqrt(gain)); it stands beside the measured one.

    python benchmarks/studies/query_theory.py --texts trec.csv.gz   # columns text, label; part 1 alone without it
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import spearmanr
from sklearn.mixture import GaussianMixture

import spikepool as sp

RESULTS = Path(__file__).resolve().parents[1] / "results" / "query_theory.json"
# d, n, T, L, mu, nu
WORLDS = [
    (50, 500, 12, 2, 1.5, 1.5),
    (50, 1000, 12, 2, 1.0, 2.0),
    (50, 1000, 20, 1, 2.0, 2.0),
    (100, 1000, 16, 4, 0.7, 1.5),
    (100, 2000, 16, 2, 1.0, 2.0),
    (50, 1000, 12, 2, 1.5, 0.0),
]
TEST = 3000


def draw(rng: np.random.Generator, n: int, d: int, T: int, L: int, mu: float, nu: float):
    X = rng.standard_normal((n, T, d)).astype(np.float32)
    y = rng.choice([-1, 1], n)
    relevant = np.argsort(rng.random((n, T)), axis=1) < L
    X[:, :, 0] += mu * y[:, None] * relevant
    X[:, :, 1] += nu * relevant
    return X, y


def generated(seeds: int) -> list[dict]:
    records = []
    for d, n, T, L, mu, nu in WORLDS:
        scores = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            X, y = draw(rng, n, d, T, L, mu, nu)
            test = draw(rng, TEST, d, T, L, mu, nu)
            scores.append([sp.LearnedPoolingClassifier(pooling=p).fit(X, y).score(*test) for p in ("mean", "query")])
        mean, error = np.mean(scores, axis=0), np.std(scores, axis=0, ddof=1) / np.sqrt(seeds)
        learned = sp.QueryModel(d=d, N=n, T=T, L=L, mu=mu, nu=nu).learned(n)
        records.append(
            {
                **dict(zip(("d", "n", "T", "L", "mu", "nu"), (d, n, T, L, mu, nu), strict=True)),
                "mean": mean[0],
                "mean_error": error[0],
                "query": mean[1],
                "query_error": error[1],
                "predicted_mean": learned.accuracies[0],
                "predicted_query": learned.accuracies[-1],
            }
        )
        print({key: round(float(value), 3) for key, value in records[-1].items()}, flush=True)
    return records


def query_scores(model, X, mask):
    """Scores of the observed tokens under the learned query, as the classifier computes them."""
    c = X[mask] - model.token_mean_
    return c @ model.queries_[0] / np.sqrt(np.mean((c @ model.components_) ** 2, axis=1))


def estimated(h: np.ndarray, tokens: float) -> dict:
    """L, nu m and beta of the query model from the scores of all tokens."""
    fit = GaussianMixture(2, covariance_type="tied", random_state=0).fit(h[:, None])
    top = int(np.argmax(fit.means_[:, 0]))
    deviation = float(np.sqrt(fit.covariances_[0, 0]))
    share = float(fit.weights_[top])
    return {
        "L": share * tokens,
        "nu": float(np.ptp(fit.means_[:, 0])) / deviation,
        "beta": deviation,
        "share": share,
    }


def real(path: Path, n_train: int, seeds: int) -> list[dict]:
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    labels = np.array([row["label"] for row in rows])
    encoded = sp.encode([row["text"] for row in rows], encoder="minilm")
    X, mask = np.asarray(encoded.X, dtype=np.float32), np.asarray(encoded.mask, dtype=bool)
    names, counts = np.unique(labels, return_counts=True)
    large = sorted(names[np.argsort(-counts)[:5]])
    records = []
    for pair in itertools.combinations(large, 2):
        members = np.flatnonzero(np.isin(labels, pair))
        scores, numbers = [], []
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(members)
            train, test = order[:n_train], order[n_train : n_train + 1000]
            accuracy = {}
            for pooling in ("mean", "query"):
                model = sp.LearnedPoolingClassifier(pooling=pooling).fit(X[train], labels[train], mask=mask[train])
                accuracy[pooling] = model.score(X[test], labels[test], mask=mask[test])
            scores.append([accuracy["mean"], accuracy["query"]])
            tokens = float(mask[train].sum(axis=1).mean())
            numbers.append(estimated(query_scores(model, X[train], mask[train]), tokens))
        mean, query = np.mean(scores, axis=0)
        error = float(np.std(np.diff(scores, axis=1), ddof=1) / np.sqrt(seeds))
        at = {key: float(np.median([one[key] for one in numbers])) for key in numbers[0]}
        T = round(tokens)
        world = sp.QueryModel(
            d=X.shape[2], N=n_train, T=T, L=int(np.clip(round(at["L"]), 1, T)), mu=1.0, nu=at["nu"], beta=at["beta"]
        )
        gain = world.gain()
        records.append(
            {
                "pair": " / ".join(pair),
                "tokens": tokens,
                **at,
                "gain": gain,
                "mean": mean,
                "query": query,
                "difference_error": error,
                "predicted_query": float(ndtr(ndtri(min(mean, 0.9995)) * np.sqrt(gain))),
            }
        )
        shown = {key: value if isinstance(value, str) else round(float(value), 3) for key, value in records[-1].items()}
        print(shown, flush=True)
    measured = [r["query"] - r["mean"] for r in records]
    predicted = [r["predicted_query"] - r["mean"] for r in records]
    print("rank correlation of predicted and measured gain:", spearmanr(measured, predicted))
    print("mean gain measured, predicted:", np.mean(measured), np.mean(predicted))
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--n-train", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=4)
    arguments = parser.parse_args()
    record = {"generated": generated(arguments.seeds)}
    if arguments.texts is not None:
        record["real"] = real(arguments.texts, arguments.n_train, arguments.seeds)
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
