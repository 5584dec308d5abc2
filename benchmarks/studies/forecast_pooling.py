"""Forecasts from tokens with a pooling that learns from labels, against accuracies on more rows.

Two truths at n rows: of a ridge on n other rows pooled by the weights that the pilot has taught (what
`forecast(pooling=)` is asked for), and of LearnedPoolingClassifier fitted to n rows, weights and all; both tested on
further rows and averaged over draws. Beside the forecast from tokens, the pooling fitted in folds, stands the one from
features that one fit to the whole pilot has pooled, labels seen, as a careless caller would make it.

    python benchmarks/studies/forecast_pooling.py  # data drawn from SequenceModel
    python benchmarks/studies/forecast_pooling.py --tokens X.npy --mask m.npy --labels y.npy --pilots 300,600
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

import spikepool as sp
from spikepool.ridge.gcv import fit_ridge

MULTIPLES = (2, 4)
TESTED = 1500
# Ridges on random subsets of the other rows that are averaged.
RIDGES = 4
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


def accuracy_of_pilot(
    pooling: sp.LearnedPoolingClassifier,
    X: np.ndarray,
    mask: np.ndarray | None,
    y: np.ndarray,
    others: np.ndarray,
    sizes: list[int],
) -> list[float]:
    """Mean accuracy of ridges on so many of the other rows, all pooled by the fitted pooling, tested on the last."""
    used = others[: sizes[-1] + TESTED]
    C, labels = np.asarray(pooling.transform(X[used], **masked(mask, used)), dtype=np.float64), y[used]
    test, found = np.arange(sizes[-1], len(used)), []
    for n in sizes:
        right = []
        for draw in range(RIDGES):
            train = np.random.default_rng([draw, n]).permutation(sizes[-1])[:n]
            fit = fit_ridge(C[train], np.where(labels[train][:, None] == np.arange(y.max() + 1), 1.0, -1.0))
            right.append(float((fit.predict(C[test]).argmax(axis=1) == labels[test]).mean()))
        found.append(float(np.mean(right)))
    return found


def masked(mask: np.ndarray | None, rows: np.ndarray) -> dict[str, np.ndarray]:
    return {} if mask is None else {"mask": mask[rows]}


def compare(name: str, X: np.ndarray, mask: np.ndarray | None, y: np.ndarray, pilot: int, options: argparse.Namespace):
    """One line of the table: both truths, both forecasts, coverage of each truth."""
    sizes = [pilot * k for k in (1, *MULTIPLES)]
    refitted = np.array([true_accuracy(X, mask, y, n, options.truth_draws, 1) for n in sizes])
    folds, careless, kept, covered = [], [], [], []
    for seed in range(options.draws):
        order = np.random.default_rng([seed, pilot]).permutation(len(y))
        rows = order[:pilot]
        pooling = sp.LearnedPoolingClassifier()
        f = sp.forecast(X[rows], y[rows], n=sizes, pooling=pooling, random_state=seed, **masked(mask, rows))
        features = pooling.fit(X[rows], y[rows], **masked(mask, rows)).transform(X[rows], **masked(mask, rows))
        careless.append(sp.forecast(features, y[rows], n=sizes, random_state=seed).accuracy)
        kept.append(accuracy_of_pilot(pooling, X, mask, y, order[pilot:], sizes))
        folds.append(f.accuracy)
        covered.append([(f.interval[:, 0] <= t) & (t <= f.interval[:, 1]) for t in (np.array(kept[-1]), refitted)])
    columns = (np.mean(kept, axis=0), np.mean(folds, axis=0), np.mean(careless, axis=0), refitted)
    cells = [" | ".join(f"{value:.3f}" for value in size) for size in zip(*columns, strict=True)]
    ends = [f"{share:.2f}" for share in np.mean(covered, axis=(0, 2))]
    print(f"| {name} | {pilot} | {' | '.join(cells)} | {' | '.join(ends)} |", flush=True)


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
    heads = " | ".join(f"{k}x: pilot's weights | forecast | labels seen | refitted" for k in (1, *MULTIPLES))
    print(f"| data | pilot | {heads} | coverage: pilot's weights | refitted |\n{'| --- ' * 16}|")
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
