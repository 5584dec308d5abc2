"""Forecasts from tokens with a pooling that learns from labels, against the same estimator fitted to more rows.

The truth at n rows is the accuracy of LearnedPoolingClassifier fitted to n rows and tested on others, averaged over
draws. Beside the forecast from tokens (the pooling fitted in folds, `forecast(pooling=)`) stands the one from features
that one fit to the whole pilot has pooled, labels seen, as a careless caller would make it.

    python benchmarks/forecast_pooling.py                                          # data drawn from SequenceModel
    python benchmarks/forecast_pooling.py --tokens X.npy --mask m.npy --labels y.npy --groupings 2,5 --pilots 300,600
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

import spikepool as sp

MULTIPLES = (2, 4)
TESTED = 1500
# Setting of the model: signal in the first half of the positions, so that a learned pooling pays.
SETTING = {"d": 60, "V": 180, "mu": 0.5}
T, SIGNAL = 10, 4


def drawn(rows: int, seed: int) -> tuple[np.ndarray, None, np.ndarray]:
    """Tokens (rows, T, d) and labels from the model."""
    model = sp.SequenceModel(N=rows, R=sp.prefix_correlation(T=T, L=SIGNAL), **SETTING)
    sample = model.sample(rng=seed)
    return sample.table.T[sample.tokens], None, (sample.latent[:, 0] > 0).astype(int)


def true_accuracy(X: np.ndarray, mask: np.ndarray | None, y: np.ndarray, n: int, draws: int, seed: int) -> float:
    """Mean accuracy of the classifier on n rows, tested on others."""
    found, rng = [], np.random.default_rng([seed, n])
    for _ in range(draws):
        order = rng.permutation(len(y))
        train, test = order[:n], order[n : n + TESTED]
        fitted = sp.LearnedPoolingClassifier().fit(X[train], y[train], **masked(mask, train))
        found.append(float((fitted.predict(X[test], **masked(mask, test)) == y[test]).mean()))
    return float(np.mean(found))


def masked(mask: np.ndarray | None, rows: np.ndarray) -> dict[str, np.ndarray]:
    return {} if mask is None else {"mask": mask[rows]}


def compare(name: str, X: np.ndarray, mask: np.ndarray | None, y: np.ndarray, pilot: int, options: argparse.Namespace):
    """One line of the table: truth, both forecasts, coverage."""
    asked = [pilot * k for k in MULTIPLES]
    truth = np.array([true_accuracy(X, mask, y, n, options.truth_draws, 1) for n in (pilot, *asked)])
    folds, careless, covered = [], [], []
    for seed in range(options.draws):
        rows = np.random.default_rng([seed, pilot]).permutation(len(y))[:pilot]
        pooling = sp.LearnedPoolingClassifier()
        f = sp.forecast(X[rows], y[rows], n=[pilot, *asked], pooling=pooling, random_state=seed, **masked(mask, rows))
        features = pooling.fit(X[rows], y[rows], **masked(mask, rows)).transform(X[rows], **masked(mask, rows))
        g = sp.forecast(features, y[rows], n=[pilot, *asked], random_state=seed)
        folds.append(f.accuracy)
        careless.append(g.accuracy)
        covered.append((f.interval[:, 0] <= truth) & (truth <= f.interval[:, 1]))
    cells = [
        f"{t:.3f} | {np.mean(f):.3f} | {np.mean(c):.3f}"
        for t, f, c in zip(truth, np.transpose(folds), np.transpose(careless), strict=True)
    ]
    print(
        f"| {name} | {pilot} | {' | '.join(cells)} | {np.mean(np.array(covered)[:, 1:]):.2f} ({options.draws}) |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=Path, help="npy (n, T, d); data from the model without it")
    parser.add_argument("--mask", type=Path)
    parser.add_argument("--labels", type=Path)
    parser.add_argument("--groupings", default="2,5", help="numbers of classes that the labels are put into")
    parser.add_argument("--pilots", default="300")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--truth-draws", type=int, default=4)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    heads = " | ".join(f"truth {k}x | forecast | labels seen" for k in (1, *MULTIPLES))
    print(f"| data | pilot | {heads} | coverage of 90 % (draws) |\n{'| --- ' * 12}|")
    for pilot in map(int, options.pilots.split(",")):
        if options.tokens is None:
            compare("model", *drawn(8_000, 0), pilot, options)
            continue
        X = np.load(options.tokens, mmap_mode="r")
        mask = None if options.mask is None else np.load(options.mask)
        classes, y = np.unique(np.load(options.labels, allow_pickle=True), return_inverse=True)
        for parts in map(int, options.groupings.split(",")):
            grouped = np.random.default_rng(7).permutation(len(classes)) * parts // len(classes)
            compare(f"{options.labels.stem} in {parts}", X, mask, grouped[y], pilot, options)


if __name__ == "__main__":
    main()
