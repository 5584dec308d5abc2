"""Does attention help, in a real model? Hidden states pooled with the model's own attention, head by head.

The input of a block is pooled with the attention rows of each of its heads, of the token that is read out ([CLS] in
the encoder, the last token in the decoder) or averaged over queries, and a ridge on the standardised features
predicts the label (penalty by generalised cross-validation at the mean, the same for all heads of a layer); beside
it the mean over the same tokens and one learned query. Two numbers a head:

* accuracy over folds, minus that of the mean on the same rows. The best of many heads is best by chance too, so a head
  is also chosen on the other folds only and scored on the one left ("chosen");
* the gain in alpha/kappa over the mean: between-class over within-class variance of the pooled features, the
  former without the part that noise in the class means contributes. In the model this ratio is proportional to
  alpha/kappa.

    python benchmarks/studies/attention_heads.py --texts FOLDER  # two corpora, two models: six minutes of one core
    python benchmarks/studies/attention_heads.py --texts FOLDER --corpus banking77 --encoder minilm --rows 600

The result is written to ``src/spikepool/reproduce/recorded/attention_heads.json``, from which figure 12 is drawn.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
from scipy.linalg import solve
from sklearn.model_selection import StratifiedKFold

import spikepool as sp
from corpora import load_texts
from encoders import ENCODERS
from spikepool.kit.threads import single_threaded_blas
from spikepool.ridge.gcv import fit_ridge

RECORDED = Path(__file__).resolve().parents[2] / "src" / "spikepool" / "reproduce" / "recorded" / "attention_heads.json"
# The six blocks of the encoder; of the decoder's thirty, six from first to last.
BLOCKS = {"minilm": (0, 1, 2, 3, 4, 5), "smollm2": (0, 6, 12, 18, 24, 29)}
CLASSES, FOLDS, T = 20, 3, 32


def twenty_classes(corpus, rows: int):
    """At most `rows` texts of the corpus' most frequent classes (the first in the alphabet among equals)."""
    frequent = np.sort(np.argsort(-np.bincount(corpus.labels), kind="stable")[:CLASSES])
    keep = np.flatnonzero(np.isin(corpus.labels, frequent))
    keep = np.random.default_rng(0).permutation(keep)[:rows]
    return [corpus.texts[i] for i in keep], np.searchsorted(frequent, corpus.labels[keep])


def fold_accuracy(C, y, folds, penalties) -> np.ndarray:
    """Whether each row is classified correctly by a ridge on the other folds' standardised features."""
    Y = np.where(y[:, None] == np.arange(y.max() + 1), 1.0, -1.0)
    correct = np.zeros(len(y))
    for k in range(FOLDS):
        train, test = folds != k, folds == k
        centre, scale = C[train].mean(axis=0), np.maximum(C[train].std(axis=0), 1e-12)
        S, level = (C[train] - centre) / scale, Y[train].mean(axis=0)
        gram = S.T @ S
        gram[np.diag_indices(len(gram))] += penalties[k] * train.sum()
        beta = solve(gram, S.T @ (Y[train] - level), assume_a="pos")
        values = (C[test] - centre) / scale @ beta + level
        correct[test] = values.argmax(axis=1) == y[test]
    return correct


def gcv_penalties(C, y, folds) -> list[float]:
    """The penalty that generalised cross-validation chooses in each fold."""
    Y = np.where(y[:, None] == np.arange(y.max() + 1), 1.0, -1.0)
    return [fit_ridge(C[folds != k], Y[folds != k], standardize=True).ridge for k in range(FOLDS)]


def signal_ratio(C, y) -> float:
    """Between-class over within-class variance of standardised features, the first one unbiased."""
    S = (C - C.mean(axis=0)) / np.maximum(C.std(axis=0), 1e-12)
    counts = np.bincount(y)
    means = np.stack([S[y == c].mean(axis=0) for c in range(len(counts))])
    within = float(((S - means[y]) ** 2).sum() / (len(y) - len(counts)))
    between = float((counts[:, None] * means**2).sum() / len(y)) - within * (len(counts) - 1) / len(y)
    return between / within


def measure(texts, y, encoder: str) -> dict:
    model = ENCODERS[encoder]()
    blocks = BLOCKS[encoder]
    encoded = model.encode(texts, T, layers=blocks, attention=blocks, progress=True)
    mask = encoded.mask
    folds = np.empty(len(y), dtype=int)
    for k, (_, test) in enumerate(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(y, y)):
        folds[test] = k
    uniform = mask / mask.sum(axis=1, keepdims=True)
    result = []
    for block in blocks:
        X = encoded.hidden[block].astype(np.float64)
        mean = np.einsum("nt,ntd->nd", uniform, X)
        penalties = gcv_penalties(mean, y, folds)
        base, base_ratio = fold_accuracy(mean, y, folds, penalties), signal_ratio(mean, y)
        query = np.zeros(len(y))
        for k in range(FOLDS):
            train, test = folds != k, folds == k
            fitted = sp.LearnedPoolingClassifier(pooling="query").fit(X[train], y[train], mask=mask[train])
            query[test] = fitted.predict(X[test], mask=mask[test]) == y[test]
        record = {"block": block, "mean": float(base.mean()), "query": paired(query - base), "rows": {}}
        for kind in ("reader", "average"):
            hits, ratios, kappas = [], [], []
            for head in range(model.heads):
                weights = encoded.attention[block][kind][:, head].astype(np.float64)
                C = np.einsum("nt,ntd->nd", weights, X)
                hits.append(fold_accuracy(C, y, folds, penalties))
                ratios.append(signal_ratio(C, y) / base_ratio)
                kappas.append(float((weights**2).sum(axis=1).mean()))
            record["rows"][kind] = {
                "gain": [paired(hit - base) for hit in hits],
                "ratio": ratios,
                "kappa": kappas,
                "chosen": paired(chosen_elsewhere(np.stack(hits), folds) - base),
            }
        record["kappa_mean"] = float((uniform**2).sum(axis=1).mean())
        result.append(record)
        print(
            encoder,
            block,
            f"mean {record['mean']:.3f}",
            {k: v["chosen"] for k, v in record["rows"].items()},
            flush=True,
        )
    return {"heads": model.heads, "blocks": result}


def chosen_elsewhere(hits: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Scores of the head that is best on the other folds, fold by fold."""
    result = np.empty(hits.shape[1])
    for k in range(FOLDS):
        best = int(hits[:, folds != k].mean(axis=1).argmax())
        result[folds == k] = hits[best, folds == k]
    return result


def paired(difference: np.ndarray) -> list[float]:
    return [round(float(difference.mean()), 5), round(float(difference.std(ddof=1) / np.sqrt(len(difference))), 5)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, help="folder with NAME.csv or NAME.csv.gz")
    parser.add_argument("--corpus", action="append", help="NAME in the folder, or hub:OWNER/DATASET")
    parser.add_argument("--encoder", action="append", choices=list(ENCODERS))
    parser.add_argument("--rows", type=int, default=1000, help="texts of each corpus")
    arguments = parser.parse_args()
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {"cases": {}}
    for encoder in arguments.encoder or ENCODERS:
        for name in arguments.corpus or ("banking77", "clinc150"):
            start = time.process_time()
            texts, y = twenty_classes(load_texts(name, arguments.texts), arguments.rows)
            with single_threaded_blas():
                record = measure(texts, y, encoder)
            known["cases"][f"{name}/{encoder}"] = {
                **record,
                "texts": len(texts),
                "classes": CLASSES,
                "cpu_seconds": round(time.process_time() - start),
            }
            known["measured"] = f"{time.strftime('%Y-%m')}, numpy {np.__version__}, Python {platform.python_version()}"
            known["command"] = "python benchmarks/studies/attention_heads.py --texts FOLDER"
            RECORDED.parent.mkdir(exist_ok=True)
            RECORDED.write_text(json.dumps(known, indent=None) + "\n")


if __name__ == "__main__":
    main()
