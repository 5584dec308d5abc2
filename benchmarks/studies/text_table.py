"""Texts to labels: ``TextClassifier`` against four tuned logistic regressions on the same encoder.

    python benchmarks/studies/text_table.py trec.csv.gz subj.csv.gz --splits 5
    python benchmarks/studies/text_table.py banking77.csv.gz clinc150.csv.gz

Each file has a column of texts and one of labels. 1,500 training rows and 1,500 others, all layers of all-MiniLM-L6-v2.
Baselines are LogisticRegressionCV on standardised features: the mean of the last layer, that of the best layer by
cross-validation, the first token of the last layer, and mean and first token of all layers side by side. Each line of
``benchmarks/results/text_table.jsonl`` is one fit: accuracy, log loss, calibration error (15 bins) and processor
seconds of the fit without encoding. ``--effort screened full`` adds the full comparison, ``--table`` prints what is
recorded.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegressionCV

import spikepool as sp
from spikepool.pooling.learned_report import evaluate
from spikepool.texts.files import read_text_table

RESULTS = Path(__file__).parent.parent / "results" / "text_table.jsonl"
ROWS, TEST_ROWS = 1500, 1500
PENALTIES = np.geomspace(1e-5, 1, 6)  # of standardised features, inverse


def standardised(C: Any, n: int) -> Any:
    """Features of zero mean and unit variance over the first n rows; in their row space where F > n."""
    scale = C[:n].std(axis=0)
    S = (C - C[:n].mean(axis=0)) / np.where(scale > 1e-8, scale, np.inf)
    if S.shape[1] <= n:
        return S
    values, vectors = np.linalg.eigh((S[:n] @ S[:n].T).astype(np.float64))
    keep = values > 1e-9 * values[-1]
    return (S @ S[:n].T) @ (vectors[:, keep] / np.sqrt(values[keep]))


def logistic(C: Any, y: Any, n: int) -> tuple[Any, Any, float]:
    """Classes, probabilities of the rows from n on, and the cross-validated accuracy of tuned logistic regression."""
    S = standardised(C, n)
    options = {"Cs": PENALTIES, "cv": 3, "max_iter": 300, "tol": 1e-3, "l1_ratios": (0.0,), "scoring": "accuracy"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegressionCV(use_legacy_attributes=False, **options).fit(S[:n], y)
    return model.classes_, model.predict_proba(S[n:]), float(np.max(np.mean(model.scores_, axis=0)))


BASELINES = (
    "logistic, mean of the last layer",
    "logistic, mean of the best layer",
    "logistic, first token of the last layer",
    "logistic, mean and first token of all layers",
)


def runs(encoded: Any, order: Any, y: Any, missing: list[str]) -> Any:
    """Name, classes, probabilities and seconds of the missing models; the training rows come first in `order`."""
    n, mask = len(y), encoded.mask[order]
    layers = {name: X[order] for name, X in encoded.by_layer().items()}
    if set(BASELINES) & set(missing):
        yield from baselines(layers, mask, y)
    for model in [name for name in missing if name not in BASELINES]:
        kind = model.removeprefix("TextClassifier, ")
        start = time.process_time()
        train = {name: X[:n] for name, X in layers.items()}
        fitted = sp.LearnedPoolingClassifier(effort=kind).fit(train, y, mask=mask[:n])
        seconds = time.process_time() - start
        p = fitted.predict_proba({name: X[n:] for name, X in layers.items()}, mask=mask[n:])
        yield model, fitted.classes_, p, seconds


def baselines(layers: dict[str, Any], mask: Any, y: Any) -> Any:
    """The same of the four tuned logistic regressions."""
    n, names = len(y), list(layers)
    share = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
    mean = {name: np.einsum("ntd,nt->nd", X, share, dtype=np.float32) for name, X in layers.items()}
    first = {name: X[:, 0].astype(np.float32) for name, X in layers.items()}
    last, start = names[-1], time.process_time()
    found = {}
    for name in names:
        found[name] = (*logistic(mean[name], y, n), time.process_time() - start)
        start = time.process_time()
    yield BASELINES[0], *found[last][:2], found[last][3]
    best = max(names, key=lambda name: found[name][2])
    yield BASELINES[1], *found[best][:2], sum(one[3] for one in found.values())
    sides = np.concatenate([*mean.values(), *first.values()], axis=1)
    for title, C in ((BASELINES[2], first[last]), (BASELINES[3], sides)):
        start = time.process_time()
        yield title, *logistic(C, y, n)[:2], time.process_time() - start


def table() -> None:
    """Averages over splits, and the paired difference to the strongest baseline of each corpus."""
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        models = dict.fromkeys(row["model"] for row in rows if row["corpus"] == corpus)
        by_model = {m: [r for r in rows if (r["corpus"], r["model"]) == (corpus, m)] for m in models}
        for model, part in by_model.items():
            numbers = [
                np.mean([row[key] for row in part]) for key in ("accuracy", "log_loss", "calibration", "seconds")
            ]
            error = np.mean([row["error"] for row in part]) / np.sqrt(len(part))
            print(
                f"| {corpus} ({len(part)} splits) | {model} | {100 * numbers[0]:.1f} ± {100 * error:.1f} | "
                f"{numbers[1]:.3f} | {numbers[2]:.3f} | {numbers[3]:.0f} |"
            )


def main() -> None:
    """Run the splits that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--effort", nargs="+", default=["screened"])
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    done = {(row["corpus"], row["split"], row["model"]) for row in map(json.loads, lines)}
    models = [*BASELINES, *(f"TextClassifier, {kind}" for kind in given.effort)]
    for file in given.files:
        corpus = file.name.split(".")[0]
        source = read_text_table(str(file))
        keep = np.unique(source.texts, return_index=True)[1]
        rng = np.random.default_rng(0)
        keep = rng.permutation(keep)[: 2 * (ROWS + TEST_ROWS)]
        texts, labels = [source.texts[i] for i in keep], np.asarray(source.labels)[keep]
        encoded = None
        for split in range(given.splits):
            order = rng.permutation(len(texts))[: ROWS + TEST_ROWS]
            missing = [model for model in models if (corpus, split, model) not in done]
            if not missing:
                continue
            encoded = encoded or sp.encode(texts, layers="all", dtype="float16")
            y, truth = labels[order[:ROWS]], labels[order[ROWS:]]
            for model, classes, p, seconds in runs(encoded, order, y, missing):
                result = evaluate(classes, p, truth)
                record = {
                    "corpus": corpus,
                    "split": split,
                    "model": model,
                    "accuracy": result.accuracy,
                    "error": float(np.sqrt(result.accuracy * (1 - result.accuracy) / TEST_ROWS)),
                    "log_loss": result.log_loss,
                    "calibration": result.calibration_error,
                    "seconds": round(seconds, 1),
                }
                with RESULTS.open("a") as stream:
                    stream.write(json.dumps(record) + "\n")
                print(record, flush=True)
    if given.table or given.files:
        table()


if __name__ == "__main__":
    main()
