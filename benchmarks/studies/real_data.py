"""Which pooling wins on real sequences: every fixed rule, both learned ones, the automatic choice, SpectralPooling.

Every method is fitted on three quarters of the rows and scored on the rest, four times, so that each row is scored once
by a fit that has not seen it; gains over the mean are paired, their standard errors over rows (over groups of rows
where rows are not independent). Sets of fewer than 1,500 rows are split anew until so many predictions are scored; the
score of a row is then its average, and the standard error still counts each row once. The ridge is the same for all:
standardised features, penalty by generalised cross-validation.

    python benchmarks/studies/real_data.py --texts FOLDER  # everything; FOLDER has banking77.csv.gz, ...
    python benchmarks/studies/real_data.py --case splice --case digits  # what needs no texts and no models
    python benchmarks/studies/real_data.py --texts FOLDER --corpus mine --encoder minilm
    python benchmarks/studies/real_data.py --texts FOLDER --corpus clinc150 --encoder minilm --layer 3 --rows 3000
    python benchmarks/studies/real_data.py --corpus hub:PolyAI/banking77  # with network
    python benchmarks/studies/real_data.py --method spectral --case splice  # one method anew
    python benchmarks/studies/real_data.py --report  # the table of what has been measured

Results are added to ``benchmarks/results/real_data.json``. Encoded texts are kept in ``--cache`` (half a gigabyte).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

import spikepool as sp
from corpora import SERIES, Sequences, Texts, digits, load_texts, series, splice
from encoders import MiniLM, SmolLM2, package_folder

RESULTS = Path(__file__).resolve().parents[1] / "results" / "real_data.json"
CORPORA = ("banking77", "clinc150")
# encoder -> layers that are measured
ENCODERS = {"minilm": (6,), "smollm2": (15, "final"), "minilm-table": (), "wordllama-table": (), "smollm2-table": ()}
FIXED = ("mean", "last", "first", "ramp", "max", "concat")
LEARNED = ("positions", "query")
# The rules against which a win is counted. The best of them is chosen after the fact, in their favour.
BASELINES = ("mean", "last", "first", "ramp", "concat", "max")
METHODS = (*FIXED, *LEARNED, "auto", "spectral")
T, FOLDS = 32, 4
# Predictions that enter every entry, at least.
PREDICTIONS = 1500


def encoded(corpus: Texts, encoder: str, cache: Path, asked: list[int]) -> Iterator[Sequences]:
    """The corpus in the layers asked for, or the usual ones of an encoder, from the cache when it is there."""
    stem = cache / f"{corpus.name}-{len(corpus.texts)}-{encoder}"
    if encoder.endswith("-table"):
        yield static_tokens(corpus, encoder)
        return
    layers = tuple(asked) or ENCODERS[encoder]
    paths = {layer: stem.with_name(f"{stem.name}-{layer}.npy") for layer in layers}
    mask_path = stem.with_name(f"{stem.name}-mask.npy")
    if not all(path.exists() for path in (*paths.values(), mask_path)):
        cache.mkdir(parents=True, exist_ok=True)
        model = MiniLM() if encoder == "minilm" else SmolLM2()
        result = model.encode(corpus.texts, T, layers=layers, progress=True)
        for layer, path in paths.items():
            np.save(path, result.hidden[layer])
        np.save(mask_path, result.mask)
    for layer, path in paths.items():
        yield Sequences(f"{corpus.name}/{encoder} {layer}", np.load(path), np.load(mask_path), corpus.labels)


def static_tokens(corpus: Texts, encoder: str) -> Sequences:
    """Rows of an embedding table: no context, no special tokens."""
    if encoder != "wordllama-table":
        model = MiniLM() if encoder == "minilm-table" else SmolLM2()
        table, ids = model.table, [model.static_ids(text, T) for text in corpus.texts]
    else:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        folder = package_folder("wordllama")
        table = load_file(folder / "weights" / "l2_supercat_256.safetensors")["embedding.weight"].astype(np.float32)
        tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        ids = [e.ids[:T] for e in tokenizer.encode_batch(corpus.texts, add_special_tokens=False)]
    mask = np.arange(T) < np.array([max(len(row), 1) for row in ids])[:, None]
    padded = np.array([(row + [0] * T)[:T] for row in ids])
    return Sequences(f"{corpus.name}/{encoder}", table[padded] * mask[..., None], mask, corpus.labels)


def measure(data: Sequences, wanted: tuple[str, ...] = METHODS, seed: int = 0) -> dict:
    """Scores of every row under every method, as gains over the mean with standard errors."""
    X, mask, y = data.X, data.mask, data.labels
    correct: dict[str, np.ndarray] = {}
    seconds: dict[str, float] = {}
    decisions: dict[str, list[str]] = {"auto": [], "spectral": []}
    lines = []

    repeats = -(-PREDICTIONS // len(y))

    def scored(name: str, test: np.ndarray, run: Callable[[], np.ndarray]) -> None:
        start = time.process_time()
        found = run()
        seconds[name] = seconds.get(name, 0.0) + time.process_time() - start
        correct.setdefault(name, np.zeros(len(y)))[test] += (found == y[test]) / repeats

    for train, test in splits(data, repeats, seed):
        given = {"mask": mask[train]}

        def learned(pooling: str, train=train, test=test, given=given) -> np.ndarray:
            model = sp.LearnedPoolingClassifier(pooling=pooling)
            model.fit(X[train], y[train], groups=None if data.groups is None else data.groups[train], **given)
            if pooling == "auto":
                decisions["auto"].append(model.decision_)
                lines.append(model.summary().splitlines()[-1])
            return model.predict(X[test], mask=mask[test])

        def spectral(train=train, test=test, given=given) -> np.ndarray:
            model = sp.SpectralPooling().fit(X[train], **given)
            decisions["spectral"].append(model.decision_)
            lines.append(model.summary())
            # the head of all others, on features as sequences of one token: a kept mean predicts what the mean does
            head = sp.LearnedPoolingClassifier(pooling="mean")
            head.fit(
                model.transform(X[train], **given)[:, None],
                y[train],
                groups=None if data.groups is None else data.groups[train],
            )
            return head.predict(model.transform(X[test], mask=mask[test])[:, None])

        for name in wanted:
            scored(name, test, spectral if name == "spectral" else lambda name=name: learned(name))
    record: dict = {
        "rows": len(y),
        "predictions": len(y) * repeats,
        "classes": int(y.max()) + 1,
        "T": X.shape[1],
        "d": X.shape[2],
        "decisions": {name: found for name, found in decisions.items() if found},
        "summaries": lines,
        "methods": {},
    }
    best = max((name for name in BASELINES if name in correct), key=lambda name: correct[name].mean())
    for name, hits in correct.items():
        record["methods"][name] = {
            "accuracy": float(hits.mean()),
            "gain": paired(hits - correct["mean"], data.groups),
            "over_best": paired(hits - correct[best], data.groups),
            "seconds_a_fold": seconds[name] / FOLDS / repeats,
        }
    if set(BASELINES) <= set(correct):
        record["best_fixed"] = best
    return record


def splits(data: Sequences, repeats: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows of every fold of every repeat."""
    for repeat in range(seed, seed + repeats):
        if data.groups is None:
            splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=repeat)
        else:
            splitter = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=repeat)
        yield from splitter.split(data.labels, data.labels, data.groups)


def paired(difference: np.ndarray, groups: np.ndarray | None = None) -> list[float]:
    """Mean of a difference over rows, and its standard error over rows or groups of rows."""
    n, mean = len(difference), difference.mean()
    sums = difference - mean if groups is None else np.bincount(groups, difference - mean)
    return [float(mean), float(np.sqrt((sums**2).sum() * len(sums) / (len(sums) - 1)) / n)]


def merge(old: dict, new: dict) -> dict:
    """A record with some methods measured anew."""
    if not old or "best_fixed" in new:
        return new
    for name, entry in new["methods"].items():
        if name != "mean":
            # what was compared with the best of a few rules only is not a comparison with the best of all
            old["methods"][name] = {**entry, "over_best": None}
    old["decisions"].update(new["decisions"])
    kept = [line for line in old["summaries"] if line not in new["summaries"]]
    old["summaries"] = kept + new["summaries"]
    return old


def report(known: dict) -> str:
    """The measured cases as a Markdown table, in points."""
    labelless = any("spectral" in record["decisions"] for record in known.values())
    head = "| sequences | rows | mean | best fixed rule | query | positions | **auto** | chosen | auto over the rule |"
    rule = "| --- " + "| ---: " * 2 + "| --- " + "| ---: " * 3 + "| --- | ---: |"
    lines = [head + " SpectralPooling |" * labelless, rule + " ---: |" * labelless]
    for name, record in known.items():
        methods = record["methods"]

        def points(method: str, key: str = "gain", methods=methods) -> str:
            if methods[method][key] is None:
                return ""
            gain, error = methods[method][key]
            return f"{100 * gain:+.1f} ± {100 * error:.1f}"

        chosen = ", ".join(sorted(set(record["decisions"]["auto"]), key=record["decisions"]["auto"].index))
        used = record["decisions"].get("spectral")
        spectral = "" if used is None else points("spectral") if "spectral" in used else "mean"
        best = record["best_fixed"]
        repeats = record["predictions"] // record["rows"]
        again = f" × {repeats}" if repeats > 1 else ""
        lines.append(
            f"| {name} | {record['rows']}{again} | {100 * methods['mean']['accuracy']:.1f} "
            f"| {best} {points(best) if best != 'mean' else ''} | {points('query')} | {points('positions')} "
            f"| **{points('auto')}** | {chosen} | {points('auto', 'over_best')} |" + f" {spectral} |" * labelless
        )
    return "\n".join(lines)


def cases(arguments: argparse.Namespace) -> Iterator[Sequences]:
    """What was asked for; everything by default."""
    everything = not arguments.case and not arguments.corpus
    if everything or "splice" in arguments.case:
        yield splice()
    if everything or "digits" in arguments.case:
        yield digits()
    for name in SERIES:
        if everything or name in arguments.case or "series" in arguments.case:
            yield series(name)
    for corpus in arguments.corpus or (CORPORA if everything else ()):
        texts = load_texts(corpus, arguments.texts).sample(arguments.rows)
        for encoder in arguments.encoder or ENCODERS:
            yield from encoded(texts, encoder, arguments.cache, arguments.layer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, help="folder with NAME.csv or NAME.csv.gz")
    parser.add_argument("--corpus", action="append", default=[], help="NAME in the folder, or hub:OWNER/DATASET")
    parser.add_argument("--encoder", action="append", choices=list(ENCODERS))
    parser.add_argument("--layer", action="append", default=[], type=int, help="other layers of the encoder")
    parser.add_argument("--case", action="append", default=[], choices=["splice", "digits", "series", *SERIES])
    parser.add_argument("--method", action="append", choices=list(METHODS))
    parser.add_argument("--rows", type=int, default=1600, help="texts of each corpus")
    parser.add_argument("--cache", type=Path, default=Path("encoded"), help="folder for encoded texts")
    parser.add_argument("--report", action="store_true", help="print what has been measured and stop")
    arguments = parser.parse_args()
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if arguments.report:
        print(report(known))
        return
    methods = ("mean", *(m for m in arguments.method or METHODS if m != "mean"))
    for data in cases(arguments):
        known[data.name] = merge(known.get(data.name, {}), measure(data, methods))
        print(report({data.name: known[data.name]}).splitlines()[-1], flush=True)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
