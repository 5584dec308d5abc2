"""Sequences needed for an alignment of .8, for everything that weights may look at: one table in one currency.

    python benchmarks/studies/sequences_needed.py

One span of L relevant tokens of T, at a uniform place. Prints N for the mean, the best weights of positions, one layer
(the gate of the own score, and softmax at its best slope), two layers, the best pooling, the best weighting of token
pairs and the Bayes limit, with the alignment that `simulate` finds at that N (not for the Bayes limit).
"""

from __future__ import annotations

import argparse

import numpy as np

import spikepool as sp
from spikepool.world.relevance import prior_moments


class Positions:
    """Weights that do not look at the tokens: the top eigenvector of E[rr']."""

    def __init__(self, model: sp.QueryModel) -> None:
        w = np.abs(np.linalg.eigh(prior_moments(model.relevance_law))[1][:, -1])
        self.w = w / w.sum()

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Give every sequence the same weights."""
        return np.broadcast_to(self.w, scores.shape).copy()


def needed(model: sp.QueryModel, field: str, target: float) -> int:
    """Smallest N at which a limit reaches the target, by bisection."""
    low, high = 20, 200
    while getattr(model.replace(N=high).limits(), field) < target:
        low, high = high, 2 * high
    while high - low > max(1, high // 200):
        middle = (low + high) // 2
        if getattr(model.replace(N=middle).limits(), field) < target:
            low = middle
        else:
            high = middle
    return high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--d", type=int, default=200)
    parser.add_argument("--T", type=int, default=100)
    parser.add_argument("--L", type=int, default=5)
    parser.add_argument("--mu", type=float, default=1.2)
    parser.add_argument("--nu", type=float, default=1.0)
    parser.add_argument("--trials", type=int, default=16)
    options = parser.parse_args()
    q = sp.QueryModel(options.d, 800, options.T, options.L, options.mu, options.nu, relevance="span")
    rows = {
        "mean": q.replace(beta=0.0),
        "positions": q.replace(kernel=Positions(q)),
        "content, one layer (gate)": q.replace(kernel="sigmoid"),
        "content, one layer (softmax)": q.replace(kernel="softmax"),
        "content, two layers": q.replace(kernel="softmax", window=options.L),
        "posterior, scaled": q.replace(kernel="posterior"),
        "best pooling": q.replace(kernel="optimal"),
    }
    for name, model in rows.items():
        N = model.required_samples(0.8)
        seen = model.replace(N=N).simulate(trials=options.trials, rng=1).alignment
        print(f"{name}: {N}, simulated {seen.mean():.3f} ± {seen.std(ddof=1) / options.trials**0.5:.3f}", flush=True)
    N = needed(q, "alignment_pairs", 0.8)
    seen = q.replace(N=N).simulate(trials=options.trials, rng=1, pairs=True).alignment
    print(f"token pairs: {N}, simulated {seen.mean():.3f} ± {seen.std(ddof=1) / options.trials**0.5:.3f}", flush=True)
    print(f"Bayes limit: {needed(q, 'alignment_bayes', 0.8)}", flush=True)


if __name__ == "__main__":
    main()
