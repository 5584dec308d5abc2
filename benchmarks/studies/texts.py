"""From texts to labels: what people do today against ``spikepool fit``, on rows that were left out.

    python benchmarks/studies/texts.py banking77.csv.gz clinc150.csv.gz [--rows 1600]

Each file has a column of texts and one of labels. For every corpus, in one run: LogisticRegression on mean-pooled
embeddings of the last layer, the same on the layer that is best by cross-validation, and LearnedPoolingClassifier on
all layers; accuracy, log loss and expected calibration error on the held-out rows, seconds of the fit (the encoding is
shared and timed once), lines of code.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spikepool as sp
from spikepool.texts.files import read_text_table


def pooled(X: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return (X.astype(np.float32) * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)


def calibration_error(probabilities: np.ndarray, correct: np.ndarray, bins: int = 15) -> float:
    """Mean distance between the probability of the predicted class and how often it is right, in equal bins."""
    top = probabilities.max(axis=1)
    place = np.minimum((top * bins).astype(int), bins - 1)
    sums = np.bincount(place, top - correct, minlength=bins)
    return float(np.abs(sums).sum() / len(top))


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

    def line(name: str, classes: np.ndarray, probabilities: np.ndarray, seconds: float, lines: int) -> None:
        correct = classes[probabilities.argmax(axis=1)] == labels[test]
        error = correct.std() / np.sqrt(held_out)
        loss = log_loss(labels[test], probabilities, labels=classes)
        print(
            f"  {name:45s} {100 * correct.mean():5.1f} ± {100 * error:.1f}   log loss {loss:.3f}   calibration error "
            f"{calibration_error(probabilities, correct):.3f}   {seconds:6.1f} s   {lines} lines"
        )

    last = next(reversed(means))
    start = time.perf_counter()
    fitted = model().fit(means[last][train], labels[train])
    seconds = time.perf_counter() - start
    found = fitted.predict_proba(means[last][test])
    line("LogisticRegression, mean of the last layer", fitted.classes_, found, seconds, 5)
    start = time.perf_counter()
    scores = {name: cross_val_score(model(), X[train], labels[train], cv=3).mean() for name, X in means.items()}
    best = max(scores, key=scores.get)
    fitted = model().fit(means[best][train], labels[train])
    seconds = time.perf_counter() - start
    line(f"the same, best layer ({best})", fitted.classes_, fitted.predict_proba(means[best][test]), seconds, 9)
    start = time.perf_counter()
    ours = sp.LearnedPoolingClassifier().fit({k: X[train] for k, X in layers.items()}, labels[train], mask=mask[train])
    seconds = time.perf_counter() - start
    found = ours.predict_proba({k: X[test] for k, X in layers.items()}, mask=mask[test])
    line(f"spikepool ({ours.prediction_}, {ours.decision_} @ {ours.layer_})", ours.classes_, found, seconds, 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--rows", type=int, default=1600)
    parser.add_argument("--held-out", type=int, default=1000)
    options = parser.parse_args()
    if not options.files:
        raise SystemExit("needs files with a column of texts and one of labels, such as banking77.csv.gz; pass them")
    for file in options.files:
        measure(file, options.rows, options.held_out)
