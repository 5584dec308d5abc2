"""The automatic choice of pooling and layer against what an expert would try, on held-out rows.

For every set and every number of training rows: `LearnedPoolingClassifier()` ("auto") and, fitted on the same rows, the
mean, the flattened sequence, mean/last/first side by side, the last token and, where there are layers, the mean of
every layer, each by ridge; at full size also LogisticRegression on the mean, on the flattened sequence and on the best
layer's mean. The best of these baselines is chosen after the fact, in their favour. Differences are paired by row,
standard errors count rows (groups where rows belong together).

    python benchmarks/studies/choose.py --cache FOLDER --part development   # half of the sets, by a hash of the name
    python benchmarks/studies/choose.py --cache FOLDER --part held-out      # the other half
    python benchmarks/studies/choose.py --set splice --sizes 400 0          # one set; 0 is all rows
    python benchmarks/studies/choose.py --noise 200                         # labels without a signal
    python benchmarks/studies/choose.py --report                            # the tables of what has been measured

``--cache`` holds encoded texts as CORPUS-ENCODER.npz (arrays layer0, ..., mask, y); without it they are encoded from
``--texts``. Results are added to ``benchmarks/results/choose.json``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spikepool as sp
from corpora import SERIES, Sequences, digits, load_texts, series, splice
from encoders import MiniLM, SmolLM2

RESULTS = Path(__file__).resolve().parents[1] / "results" / "choose.json"
BASELINES = ("mean", "flat", "concat", "last")
SIZES = (100, 200, 400, 0)
ROWS, T = 1600, 32
# Layers of each encoder that are sets of their own, and those that are offered together.
SINGLE = {"minilm": (2, 4, 6), "smollm2": (0, 15, "final")}
LAYERED = {"minilm": tuple(range(7))}


def encoded(
    corpus: str, encoder: str, layers: tuple, cache: Path, texts: Path | None
) -> tuple[dict, np.ndarray, np.ndarray]:
    """Hidden states by layer, mask and labels of 1,600 texts, kept in the cache."""
    path = cache / f"{corpus}-{encoder}.npz"
    if not path.exists():
        sample = load_texts(corpus, texts).sample(ROWS)
        model = MiniLM() if encoder == "minilm" else SmolLM2()
        wanted = {*SINGLE[encoder], *LAYERED.get(encoder, ())}
        found = model.encode(sample.texts, T, layers=tuple(wanted))
        cache.mkdir(parents=True, exist_ok=True)
        hidden = {f"layer{k}": v for k, v in found.hidden.items()}
        np.savez(path, mask=found.mask, y=sample.labels, **hidden)
    with np.load(path) as stored:
        return {k: stored[f"layer{k}"] for k in layers}, stored["mask"], stored["y"]


def sets(cache: Path, texts: Path | None) -> dict[str, Callable[[], Sequences]]:
    """Every set by name, loaded when asked for; X is a dict where there are layers."""
    found: dict[str, Callable[[], Sequences]] = {"splice": splice, "digits": digits}
    for name in SERIES:
        found[name] = lambda name=name: series(name)

    def of(corpus: str, encoder: str, layers: tuple, name: str) -> Sequences:
        hidden, mask, y = encoded(corpus, encoder, layers, cache, texts)
        X = {k: v.astype(np.float32) for k, v in hidden.items()}
        labels = np.unique(y, return_inverse=True)[1]
        return Sequences(name, X if len(layers) > 1 else X[layers[0]], mask, labels)

    for corpus in ("banking77", "clinc150"):
        for encoder, layers in SINGLE.items():
            for layer in layers:
                name = f"{corpus}/{encoder} {layer}"
                found[name] = lambda c=corpus, e=encoder, k=layer, n=name: of(c, e, (k,), n)
        name = f"{corpus}/minilm layers"
        found[name] = lambda c=corpus, n=name: of(c, "minilm", LAYERED["minilm"], n)
    return found


def part_of(name: str) -> str:
    """Half of the sets are for development, by a hash of the name."""
    return "development" if hashlib.sha256(name.encode()).digest()[0] % 2 else "held-out"


def splits(data: Sequences, size: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows: three draws of `size` rows, or two of three quarters of all (size 0)."""
    n = len(data.labels)
    if data.groups is not None:
        share = 0.75 if size == 0 else size / n
        draw = GroupShuffleSplit(2 if size == 0 else 3, train_size=share, random_state=seed)
        yield from draw.split(data.labels, groups=data.groups)
        return
    if size == 0:
        y = data.labels if np.bincount(data.labels).min() >= 2 else None
        if y is not None:
            yield from StratifiedShuffleSplit(2, test_size=0.25, random_state=seed).split(data.labels, y)
            return
    for k in range(2 if size == 0 else 3):
        order = np.random.default_rng(seed + k).permutation(n)
        cut = size or 3 * n // 4
        yield order[:cut], order[cut : cut + 1000]


def take(X: object, rows: np.ndarray) -> object:
    """Rows of an array or of every layer."""
    return {k: v[rows] for k, v in X.items()} if isinstance(X, dict) else X[rows]


def logistic(C: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """LogisticRegression at scikit-learn's default penalty on standardised features."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)).fit(C[train], y[train]).predict(C[test])


def pooled(X: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The mean over observed tokens."""
    total = np.einsum("ntd,nt->nd", X, mask.astype(X.dtype))
    return total / np.maximum(mask.sum(axis=1, keepdims=True), 1)


def measure(data: Sequences, size: int, *, with_logistic: bool) -> dict | None:
    """Correctness of every test row under every method, and seconds."""
    y, mask = data.labels, data.mask
    hits: dict[str, list[np.ndarray]] = {}
    seconds: dict[str, float] = {}
    clusters, decisions = [], []
    layers = data.X if isinstance(data.X, dict) else {None: data.X}
    last = layers[list(layers)[-1]]
    C = {layer: pooled(X, mask) for layer, X in layers.items()} if with_logistic else {}
    flat = (last * mask[..., None]).reshape(len(last), -1) if last[0].size <= 6000 else None

    def ours(pooling: str, X: object, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        groups = None if data.groups is None else data.groups[train]
        model = sp.LearnedPoolingClassifier(pooling=pooling)
        model.fit(take(X, train), y[train], mask=mask[train], groups=groups)
        if pooling == "auto":
            decisions.append(f"{model._chosen} ({model.prediction_})")
        return model.predict(take(X, test), mask=mask[test])

    methods: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {"auto": partial(ours, "auto", data.X)}
    methods |= {name: partial(ours, name, last) for name in BASELINES}
    methods |= {f"mean @ {k}": partial(ours, "mean", X) for k, X in layers.items() if X is not last}
    for layer, features in C.items():
        name = "logistic mean" if layers[layer] is last else f"logistic mean @ {layer}"
        methods[name] = partial(logistic, features, y)
    if with_logistic and flat is not None:
        methods["logistic flat"] = partial(logistic, flat, y)
    for train, test in splits(data, size, 0):
        units = len(train) if data.groups is None else len(np.unique(data.groups[train]))
        if len(np.unique(y[train])) < 2 or units < 16:
            continue  # nothing to learn, or nothing to compare by
        for name, method in methods.items():
            start = time.process_time()
            hits.setdefault(name, []).append(method(train, test) == y[test])
            seconds[name] = seconds.get(name, 0.0) + time.process_time() - start
        clusters.append(test if data.groups is None else data.groups[test])
        fitted = len(train)
    if not hits:
        return None
    rows = np.unique(np.concatenate(clusters), return_inverse=True)[1]
    flat_hits = {name: np.concatenate(found).astype(float) for name, found in hits.items()}
    ridge = [name for name in flat_hits if name != "auto" and not name.startswith("logistic")]
    best = max(ridge, key=lambda name: flat_hits[name].mean())
    strongest = max((name for name in flat_hits if name != "auto"), key=lambda name: flat_hits[name].mean())
    auto = flat_hits["auto"]
    return {
        "n": int(size or fitted),
        "part": part_of(data.name),
        "accuracy": {name: round(float(found.mean()), 4) for name, found in flat_hits.items()},
        "seconds": {name: round(found / len(hits["auto"]), 2) for name, found in seconds.items()},
        "decisions": decisions,
        "best": best,
        "over_best": paired(auto - flat_hits[best], rows),
        "over_mean": paired(auto - flat_hits["mean"], rows),
        "strongest": strongest,
        "over_strongest": paired(auto - flat_hits[strongest], rows),
    }


def paired(difference: np.ndarray, clusters: np.ndarray) -> tuple[float, float]:
    """Mean and standard error of a paired difference; rows (or groups) that come several times count once."""
    mean = float(difference.mean())
    sums = np.bincount(clusters, difference - mean)
    units = int(clusters.max()) + 1
    return round(mean, 4), round(float(np.sqrt((sums**2).sum() * units / (units - 1)) / len(difference)), 4)


def noise(draws: int) -> dict:
    """Labels drawn at random: accuracy of auto minus that of the mean on 500 new rows."""
    lost = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        n, T, d, K = [(60, 6, 8, 2), (100, 5, 20, 3), (200, 8, 16, 2), (400, 10, 24, 5)][seed % 4]
        X, y = rng.normal(size=(n + 500, T, d)), rng.integers(0, K, n + 500)
        auto, mean = (sp.LearnedPoolingClassifier(pooling=p).fit(X[:n], y[:n]) for p in ("auto", "mean"))
        lost.append(auto.score(X[n:], y[n:]) - mean.score(X[n:], y[n:]))
    return {"draws": draws, "mean": float(np.mean(lost)), "error": float(np.std(lost) / np.sqrt(draws))}


def report(found: dict) -> str:
    """The table, a line for each set and size."""
    lines = ["| set | rows | auto | mean | best baseline | auto − best | auto − mean | seconds |", "|" + "---|" * 8]
    for key, r in found.items():
        if key == "noise":
            continue
        a = r["accuracy"]
        over, mean = (f"{100 * r[k][0]:+.1f} ± {100 * r[k][1]:.1f}" for k in ("over_best", "over_mean"))
        lines.append(
            f"| {key.rsplit(':', 1)[0]} | {r['n']} | {100 * a['auto']:.1f} | {100 * a['mean']:.1f} | "
            f"{r['best']} {100 * a[r['best']]:.1f} | {over} | {mean} | {r['seconds']['auto']:.1f} |"
        )
    for part in ("development", "held-out"):
        mine = [r for k, r in found.items() if k != "noise" and r["part"] == part]
        if mine:
            over = [r["over_best"] for r in mine]
            below = sum(g < -e for g, e in over)
            below_mean = sum(r["over_mean"][0] < -r["over_mean"][1] for r in mine)
            lines.append(
                f"\n{part}: {len(mine)} entries, {100 * np.mean([g for g, _ in over]):+.2f} points over the best "
                f"baseline on average; {below} more than one standard error below it, {below_mean} below the mean"
            )
    return "\n".join(lines)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path("cache"))
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--part", choices=("development", "held-out"))
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--noise", type=int, default=0)
    parser.add_argument("--no-logistic", action="store_true")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    found = json.loads(options.results.read_text()) if options.results.exists() else {}
    if options.noise:
        found["noise"] = noise(options.noise)
    known = sets(options.cache, options.texts)
    names = options.set or [name for name in known if options.part and part_of(name) == options.part]
    for name in () if options.report or options.noise else names:
        try:
            data = known[name]()
        except FileNotFoundError as err:
            print(f"{name} is skipped: {err}")
            continue
        for size in options.sizes:
            if size and 3 * size > 2 * len(data.labels):
                continue
            record = measure(data, size, with_logistic=size == 0 and not options.no_logistic)
            if record is None:
                continue
            found[f"{name}:{size}"] = record
            options.results.write_text(json.dumps(found, indent=1))
            print(name, record["n"], record["best"], record["over_best"], record["decisions"], flush=True)
    options.results.write_text(json.dumps(found, indent=1))
    print(report(found))


if __name__ == "__main__":
    main()
