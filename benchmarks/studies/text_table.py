"""Choose, measured: the classifier of two versions of the package and tuned baselines, on the same rows and embeddings.

    python benchmarks/studies/text_table.py encode CACHE trec.csv.gz subj.csv.gz banking77.csv.gz ...
    python benchmarks/studies/text_table.py texts CACHE --model 0.4 trec subj banking77 clinc150 hate amcd
    python benchmarks/studies/text_table.py unseen CACHE --model 0.4 emotion cr sst5
    python benchmarks/studies/text_table.py few CACHE --model 0.4 trec subj banking77
    python benchmarks/studies/text_table.py arrays CACHE --model 0.4
    python benchmarks/studies/text_table.py arrays CACHE --model 0.4 --splits 25 "banking77 layer 6, 200 rows"
    python benchmarks/studies/text_table.py texts CACHE --model baselines trec subj banking77 clinc150 hate amcd
    python benchmarks/studies/text_table.py table --before 0.3 --after 0.4 --page docs/benchmarks/choose.md

`encode` embeds a fixed pool of each corpus once (all layers of all-MiniLM-L6-v2, half precision), so that every
version of the package sees the same numbers. `texts`: 1,500 training and 1,500 other rows, five splits. `unseen`: the
same for corpora on which nothing was ever chosen. `few`: 8 and 32 rows per class, 1,000 others, five draws. `arrays`:
splice junctions, digits, series bundled with aeon, and single layers of two corpora, with a quarter of the rows held
out and with 200 training rows, five splits. ``--model`` is the name under which the `LearnedPoolingClassifier` of the
package that Python imports is recorded, or ``baselines``: LogisticRegressionCV on standardised features, the mean of
the last layer and the mean and first token of all layers, the penalty tuned by accuracy and by log loss.

Each line of ``benchmarks/results/text_table.jsonl`` is one fit: accuracy, log loss, macro-F1 and processor seconds of
the fit, without encoding. Lines that are there are not computed again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedKFold

RESULTS = Path(__file__).parent.parent / "results" / "text_table.jsonl"
ROWS, TEST_ROWS, FEW_TEST_ROWS = 1500, 1500, 1000
POOL = {"banking77": 8000}  # texts of a corpus; 4,000 where not named
PENALTIES = np.geomspace(1e-5, 1, 6)  # of standardised features, inverse
ARRAYS = ("splice", "digits", "JapaneseVowels", "ItalyPowerDemand", "ElectricDevices")
# development sets of docs/benchmarks/choose.md that are layers of the corpora, 1,600 texts each
LAYERS = (("banking77", 6), ("banking77", 2), ("clinc150", 4))


KINDS = ("texts", "unseen", "few", "arrays")
# the order of the tables
CORPORA = (
    "trec",
    "subj",
    "banking77",
    "clinc150",
    "hate",
    "amcd",
    "emotion",
    "cr",
    "sst5",
    *ARRAYS,
    *(f"{name} layer {k}" for name, k in LAYERS),
)


def encode(cache: Path, files: list[Path]) -> None:
    """Embed the pool of each corpus: tokens (sum of lengths, layers, d), lengths and labels."""
    import spikepool as sp
    from spikepool.texts.files import read_text_table

    for file in files:
        folder = cache / file.name.split(".")[0]
        if (folder / "labels.npy").exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        source = read_text_table(str(file))
        distinct = np.unique(source.texts, return_index=True)[1]
        keep = np.random.default_rng(0).permutation(distinct)[: POOL.get(folder.name, 4000)]
        texts, labels = [source.texts[i] for i in keep], np.asarray(source.labels)[keep]
        parts, lengths = [], []
        for start in range(0, len(texts), 500):
            encoded = sp.encode(texts[start : start + 500], layers="all", dtype="float16")
            parts.append(encoded.X.transpose(0, 2, 1, 3)[encoded.mask])
            lengths.append(encoded.mask.sum(axis=1))
        np.save(folder / "tokens.npy", np.concatenate(parts))
        np.save(folder / "lengths.npy", np.concatenate(lengths))
        np.save(folder / "labels.npy", labels)
        print(folder.name, len(texts), int(np.concatenate(lengths).sum()), "tokens", flush=True)


class Corpus:
    """The embeddings of a pool on disk; rows are read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.tokens = np.load(folder / "tokens.npy", mmap_mode="r")
        self.lengths, self.labels = np.load(folder / "lengths.npy"), np.load(folder / "labels.npy")
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])

    def rows(self, rows: Any, layers: Any = None) -> tuple[dict[str, Any], Any]:
        """(n, T, d) by layer, and the mask."""
        layers = range(self.tokens.shape[1]) if layers is None else layers
        T = int(self.lengths[rows].max())
        X = {str(k): np.zeros((len(rows), T, self.tokens.shape[2]), dtype=np.float16) for k in layers}
        for place, i in enumerate(rows):
            part = np.asarray(self.tokens[self.starts[i] : self.starts[i + 1]])
            for k in layers:
                X[str(k)][place, : len(part)] = part[:, k]
        return X, np.arange(T) < self.lengths[rows][:, None]


def text_splits(corpus: Corpus, name: str, splits: int) -> Iterator[tuple[dict[str, Any], Any, Any]]:
    """Place of the record, training rows and test rows."""
    rng = np.random.default_rng(1)
    for split in range(splits):
        order = rng.permutation(len(corpus.labels))
        yield {"corpus": name, "split": split}, order[:ROWS], order[ROWS : ROWS + TEST_ROWS]


def few_splits(corpus: Corpus, name: str, splits: int) -> Iterator[tuple[dict[str, Any], Any, Any]]:
    """The same with balanced training rows."""
    for per_class in (8, 32):
        for split in range(splits):
            rng = np.random.default_rng([split, per_class])
            classes = np.unique(corpus.labels)
            drawn = [rng.choice(np.flatnonzero(corpus.labels == c), per_class, replace=False) for c in classes]
            train = rng.permutation(np.concatenate(drawn))
            others = rng.permutation(np.setdiff1d(np.arange(len(corpus.labels)), train))[:FEW_TEST_ROWS]
            yield {"corpus": name, "per_class": per_class, "split": split}, train, others


def judged(classes: Any, p: Any, truth: Any, seconds: float) -> dict[str, Any]:
    """The numbers of a record; a label that the training rows lack counts as wrong."""
    place = {label: k for k, label in enumerate(classes.tolist())}
    codes = np.array([place.get(label, -1) for label in truth.tolist()])
    own = np.where(codes >= 0, p[np.arange(len(p)), codes], 0.0)
    predicted = classes[p.argmax(axis=1)]
    hits = predicted == truth
    return {
        "accuracy": float(hits.mean()),
        "log_loss": float(-np.log(np.maximum(own, 1e-15)).mean()),
        "macro_f1": float(f1_score(truth, predicted, average="macro", labels=np.unique(truth), zero_division=0)),
        "seconds": round(seconds, 1),
        # one bit per test row, so that two versions can be compared row by row
        "hits": np.packbits(hits).tobytes().hex(),
    }


def classifier(layers: Any, mask: Any, y: Any, groups: Any = None) -> Iterator[tuple[str, Any, Any, float]]:
    """The classifier of the package; training rows come first."""
    import spikepool as sp

    n = len(y)

    def part(rows: slice) -> Any:
        return {k: X[rows] for k, X in layers.items()} if isinstance(layers, dict) else layers[rows]

    start = time.process_time()
    fitted = sp.LearnedPoolingClassifier().fit(part(slice(n)), y, mask=mask[:n], groups=groups)
    seconds = time.process_time() - start
    yield "", fitted.classes_, fitted.predict_proba(part(slice(n, None)), mask=mask[n:]), seconds


def standardised(C: Any, n: int) -> Any:
    """Features of zero mean and unit variance over the first n rows; in their row space where F > n."""
    scale = C[:n].std(axis=0)
    S = (C - C[:n].mean(axis=0)) / np.where(scale > 1e-8, scale, np.inf)
    if S.shape[1] <= n:
        return S
    values, vectors = np.linalg.eigh((S[:n] @ S[:n].T).astype(np.float64))
    keep = values > 1e-9 * values[-1]
    return (S @ S[:n].T) @ (vectors[:, keep] / np.sqrt(values[keep]))


def baselines(layers: Any, mask: Any, y: Any) -> Iterator[tuple[str, Any, Any, float]]:
    """Tuned logistic regressions: LogisticRegressionCV, written out because two scores choose from the same folds."""
    n, last = len(y), list(layers)[-1]
    share = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
    mean = {name: np.einsum("ntd,nt->nd", X, share, dtype=np.float32) for name, X in layers.items()}
    sides = np.concatenate([*mean.values(), *(X[:, 0].astype(np.float32) for X in layers.values())], axis=1)
    classes, codes = np.unique(y, return_inverse=True)
    for title, C in (("mean of the last layer", mean[last]), ("mean and first of all layers", sides)):
        start = time.process_time()
        S = standardised(C, n)
        scores = np.zeros((2, len(PENALTIES)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(S[:n], codes))
            for train, test in folds:
                for k, penalty in enumerate(PENALTIES):
                    model = LogisticRegression(C=penalty, max_iter=300, tol=1e-3).fit(S[train], codes[train])
                    p = np.full((len(test), len(classes)), 1e-15)
                    p[:, model.classes_] = model.predict_proba(S[test])
                    scores[0, k] += (p.argmax(axis=1) == codes[test]).sum()
                    scores[1, k] += np.log(np.maximum(p[np.arange(len(test)), codes[test]], 1e-15)).sum()
            seconds = time.process_time() - start
            for by, score in zip(("accuracy", "log loss"), scores, strict=True):
                start = time.process_time()
                model = LogisticRegression(C=PENALTIES[score.argmax()], max_iter=1000, tol=1e-3).fit(S[:n], codes)
                own = time.process_time() - start
                yield f"logistic, {title}, tuned by {by}", classes, model.predict_proba(S[n:]), seconds + own


def array_sets(cache: Path) -> Iterator[tuple[str, Any, Any, Any, Any]]:
    """Name, tokens, mask, labels and groups of each set."""
    import sys

    sys.path.insert(0, str(Path(__file__).parent))
    import corpora

    for name in ARRAYS:
        try:
            data = getattr(corpora, name)() if hasattr(corpora, name) else corpora.series(name)
        except FileNotFoundError as err:
            print(f"{name} is skipped: {err}", flush=True)
            continue
        yield name, data.X, data.mask, data.labels, data.groups
    for name, layer in LAYERS:
        corpus = Corpus(cache / name)
        X, mask = corpus.rows(np.arange(1600), [layer])
        yield f"{name} layer {layer}", X[str(layer)], mask, corpus.labels[:1600], None


def write(record: dict[str, Any]) -> None:
    """One line, at once."""
    with RESULTS.open("a") as stream:
        stream.write(json.dumps(record) + "\n")
    print({k: v for k, v in record.items() if k != "hits"}, flush=True)


def title(place: dict[str, Any]) -> str:
    """A row of the table."""
    rows = place.get("per_class") or 0
    more = {"few": f", {rows} per class", "arrays": ", 200 rows" if rows else ""}
    return str(place["corpus"]) + more.get(place["kind"], "")


def asked(place: dict[str, Any], names: list[str]) -> bool:
    """Whether this row, or its corpus, is among the names; all are where there is none."""
    return not names or place["corpus"] in names or title(place) in names


def run(kind: str, cache: Path, model: str, names: list[str], splits: int) -> None:
    """The fits that are missing."""
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    keys = ("kind", "corpus", "per_class", "split")
    done = {tuple(row.get(k) for k in keys) for row in lines if row["model"].split(",")[0] == model.split(",")[0]}
    own = "logistic" if model == "baselines" else model
    done |= {tuple(row.get(k) for k in keys) for row in lines if row["model"].split(",")[0] == own}
    if kind == "arrays":
        for name, X, mask, labels, groups in array_sets(cache):
            for rows, cut in ((200, 200 / len(labels)), (0, 0.75)):
                draw: Any = ShuffleSplit(splits, train_size=cut, random_state=0)
                if groups is not None:
                    draw = GroupShuffleSplit(splits, train_size=cut, random_state=0)
                for split, (train, test) in enumerate(draw.split(labels, groups=groups)):
                    place = {"kind": kind, "corpus": name, "per_class": rows, "split": split}
                    if tuple(place.get(k) for k in keys) in done or not asked(place, names):
                        continue
                    # rows of groups come in their order, which is that of the classes in a long series
                    test = np.random.default_rng(split).permutation(test)[:1000] if groups is not None else test[:1000]
                    order = np.concatenate([train, test])
                    given = (X[order], mask[order], labels[train], None if groups is None else groups[train])
                    for _, classes, p, seconds in classifier(*given):
                        numbers = judged(classes, p, labels[test], seconds)
                        write(place | {"model": model} | numbers)
        return
    for name in dict.fromkeys(name.split(",")[0] for name in names):
        corpus = Corpus(cache / name)
        for place, train, test in (few_splits if kind == "few" else text_splits)(corpus, name, splits):
            place = {"kind": kind} | place
            if tuple(place.get(k) for k in keys) in done or not asked(place, names):
                continue
            layers, mask = corpus.rows(np.concatenate([train, test]))
            fit = baselines if model == "baselines" else classifier
            for title, classes, p, seconds in fit(layers, mask, corpus.labels[train]):
                write(place | {"model": title or model} | judged(classes, p, corpus.labels[test], seconds))


def hits(record: dict[str, Any], n: int) -> Any:
    """Which test rows were right."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(record["hits"]), dtype=np.uint8))[:n].astype(float)


def difference(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[tuple[float, float]] | None:
    """Change of accuracy, log loss and macro-F1 on common splits, with standard errors: over rows, then over splits."""
    old, new = ({row["split"]: row for row in rows} for rows in (before, after))
    both = sorted(old.keys() & new.keys())
    if not both:
        return None
    pairs = [hits(new[k], TEST_ROWS) - hits(old[k], TEST_ROWS) for k in both]
    error = np.sqrt(sum(float((d**2).sum()) for d in pairs)) / sum(map(len, pairs))
    changes = []
    for key in ("accuracy", "log_loss", "macro_f1"):
        each = [new[k][key] - old[k][key] for k in both]
        over_splits = float(np.std(each, ddof=1) / np.sqrt(len(each))) if len(each) > 1 else float("nan")
        changes.append((float(np.mean(each)), float(error) if key == "accuracy" else over_splits))
    return changes


def markdown(kind: str, before: str, after: str) -> str:
    """The table of a kind of run: averages over splits, and what `after` gains over each row."""
    rows = [row for row in map(json.loads, RESULTS.read_text().splitlines()) if row["kind"] == kind]
    lines = [
        f"| {'corpus' if kind in ('texts', 'unseen') else 'rows'} | model | splits | accuracy | log loss | macro-F1 "
        f"| seconds | {after} \u2212 row: accuracy | log loss | macro-F1 |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    changes = []
    for place in sorted(
        {(row["corpus"], row.get("per_class") or 0) for row in rows}, key=lambda p: (CORPORA.index(p[0]), p[1])
    ):
        mine = [row for row in rows if (row["corpus"], row.get("per_class") or 0) == place]
        models = [*sorted({row["model"] for row in mine} - {before, after}), before, after]
        name_of_row = title(mine[0])
        latest = [row for row in mine if row["model"] == after]
        for model in models:
            part = [row for row in mine if row["model"] == model]
            if not part:
                continue
            found = None if model == after else difference(part, latest)
            change = " |  | "
            if found is not None:
                (gain, error), (loss, loss_error), (f1, f1_error) = found
                change = f"{100 * gain:+.2f} ± {100 * error:.2f} | {loss:+.3f} ± {loss_error:.3f} "
                change += f"| {100 * f1:+.1f} ± {100 * f1_error:.1f}"
                if model == before:
                    changes.append((gain, loss, f1))
            a, loss, f1, seconds = (
                np.mean([row[key] for row in part]) for key in ("accuracy", "log_loss", "macro_f1", "seconds")
            )
            name = model if model not in (before, after) else f"version {model}"
            numbers = f"{len(part)} | {100 * a:.1f} | {loss:.3f} | {100 * f1:.1f} | {seconds:.0f}"
            lines.append(f"| {name_of_row} | {name} | {numbers} | {change} |")
            name_of_row = ""
    if changes:
        gain, loss, f1 = np.mean(changes, axis=0)
        average = f"{100 * gain:+.2f} points of accuracy, {loss:+.4f} of log loss, {100 * f1:+.2f} points of macro-F1"
        lines += ["", f"Average of {after} \u2212 {before}: {average}."]
    return "\n".join(lines)


def write_page(page: Path, before: str, after: str) -> None:
    """Put the tables between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    for kind in KINDS:
        first, last = f"<!-- text_table {kind} -->\n", "\n<!-- end -->"
        start = text.index(first) + len(first)
        text = text[:start] + "\n" + markdown(kind, before, after) + "\n" + text[text.index(last, start) :]
    page.write_text(text, encoding="utf-8")


def main() -> None:
    """Encode, run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="table", choices=["encode", *KINDS, "table"])
    parser.add_argument("cache", type=Path, nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--model", default="0.4")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--before", default="0.3")
    parser.add_argument("--after", default="0.4")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--page", type=Path, help="with table: page whose tables are written")
    given = parser.parse_intermixed_args()
    if given.results:
        globals()["RESULTS"] = given.results
    if given.what == "table":
        if given.page:
            write_page(given.page, given.before, given.after)
        else:
            print("\n\n".join(markdown(kind, given.before, given.after) for kind in KINDS))
    elif given.what == "encode":
        encode(given.cache, [Path(name) for name in given.names])
    else:
        run(given.what, given.cache, given.model, given.names, given.splits)


if __name__ == "__main__":
    main()
