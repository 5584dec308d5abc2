"""From texts to labels: what people do today against ``spikepool fit``, on rows that were left out.

    python benchmarks/studies/texts.py banking77.csv.gz clinc150.csv.gz [--rows 1600]

Each file has a column of texts and one of labels. For every corpus, in one run: LogisticRegression on mean-pooled
embeddings of the last layer, the same on the layer that is best by cross-validation, and LearnedPoolingClassifier on
all layers; accuracy on the held-out rows, seconds of the fit (the encoding is shared and timed once), lines of code.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spikepool as sp
from spikepool.texts.files import read_text_table


def pooled(X: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return (X.astype(np.float32) * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)


def measure(path: str, rows: int, held_out: int) -> None:
    table = read_text_table(path)
    order = np.random.default_rng(0).permutation(len(table.texts))[: rows + held_out]
    texts, labels = [table.texts[i] for i in order], table.labels[order]
    start = time.perf_counter()
    found = sp.encode(texts, layers="all", max_tokens=64, dtype="float16")
    print(f"{path}: {rows} texts, {len(np.unique(labels))} classes; encoding {time.perf_counter() - start:.0f} s")
    layers, mask = found.by_layer(), found.mask
    means = {name: pooled(X, mask) for name, X in layers.items()}
    train, test = slice(0, rows), slice(rows, None)

    def model() -> object:
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.1))

    def line(name: str, score: float, seconds: float, lines: int) -> None:
        error = np.sqrt(score * (1 - score) / held_out)
        print(f"  {name:45s} {100 * score:5.1f} ± {100 * error:.1f}   {seconds:6.1f} s   {lines} lines")

    last = next(reversed(means))
    start = time.perf_counter()
    fitted = model().fit(means[last][train], labels[train])
    line(
        "LogisticRegression, mean of the last layer",
        fitted.score(means[last][test], labels[test]),
        time.perf_counter() - start,
        5,
    )
    start = time.perf_counter()
    scores = {name: cross_val_score(model(), X[train], labels[train], cv=3).mean() for name, X in means.items()}
    best = max(scores, key=scores.get)
    fitted = model().fit(means[best][train], labels[train])
    line(
        f"the same, best layer ({best})", fitted.score(means[best][test], labels[test]), time.perf_counter() - start, 9
    )
    start = time.perf_counter()
    ours = sp.LearnedPoolingClassifier().fit({k: X[train] for k, X in layers.items()}, labels[train], mask=mask[train])
    seconds = time.perf_counter() - start
    score = float(np.mean(ours.predict({k: X[test] for k, X in layers.items()}, mask=mask[test]) == labels[test]))
    line(f"spikepool ({ours.prediction_}, {ours.decision_} @ {ours.layer_})", score, seconds, 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--rows", type=int, default=1600)
    parser.add_argument("--held-out", type=int, default=1000)
    options = parser.parse_args()
    if not options.files:
        print("skipped: name files with texts and labels")
    for file in options.files:
        measure(file, options.rows, options.held_out)
