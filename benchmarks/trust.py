"""How far `diagnose` can be trusted: spans of real features against whole corpora, controls, and cost.

    python benchmarks/trust.py features --cache features       # pooled features of both corpora, once
    python benchmarks/trust.py corpora  --cache features       # subsamples against the whole corpus as truth
    python benchmarks/trust.py controls                        # noise that is no signal, 200 draws each
    python benchmarks/trust.py rows     --cache features       # copies, order, dependence, dominating rows
    python benchmarks/trust.py scale    --store rows.zarr      # a million rows from Zarr: time and peak memory
    python benchmarks/trust.py table                           # the tables of the docs, from the results

The truth of `corpora` is the span of the whole corpus (13,083 and 22,500 texts; 10,000 for SmolLM2's last layer). A
subsample is a part of it, drawn without replacement, so that at n = 4000 it agrees with the corpus more than with the
population both came from: what `diagnose` predicts is the latter. The baseline is the row bootstrap: overlap of ten
resamples with the sample.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import time
import warnings
from pathlib import Path

import numpy as np

import spikepool as sp

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
RESULTS = Path(__file__).parent / "results"
CORPORA = ("banking77", "clinc150")
STATIC = ("minilmstatic", "smolstatic", "wlstatic")
CONTEXTUAL = ("minilmctx", "smolfinal")
KS = (1, 2, 5, 10, 20, 50)
STEADY = slice(2, None)  # k >= 5
SIZES = (250, 500, 1000, 2000, 4000)
PLANNED = (1000, 2000, 4000)
RESAMPLES = 10


def texts_of(corpus: str) -> list[str]:
    with gzip.open(DATA / f"{corpus}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return [row["text"] for row in csv.DictReader(file)]


def make_features(cache: Path) -> None:
    """Mean over the tokens of each text: rows of three embedding tables, last layers of two models."""
    from encoders import MiniLM, SmolLM2
    from real_data import load_table

    cache.mkdir(parents=True, exist_ok=True)
    for corpus in CORPORA:
        texts = texts_of(corpus)
        for name, model, layer, rows in (("minilmctx", MiniLM, 6, len(texts)), ("smolfinal", SmolLM2, "final", 10_000)):
            encoded = model().encode(
                [texts[i] for i in np.random.default_rng(0).permutation(len(texts))[:rows]], layers=(layer,)
            )
            hidden, mask = encoded.hidden[layer].astype(np.float32), encoded.mask
            np.save(cache / f"{corpus}_{name}.npy", (hidden * mask[..., None]).sum(1) / mask.sum(1)[:, None])
        for name, table_name in (("minilmstatic", "minilm"), ("wlstatic", "wordllama")):
            table, tokenizer = load_table(table_name)
            ids = [tokenizer.encode(text, add_special_tokens=False).ids[:32] or [0] for text in texts]
            np.save(cache / f"{corpus}_{name}.npy", np.array([table[i].mean(0) for i in ids], np.float32))
        model = SmolLM2()
        ids = [model.tokenise(text)[:32] or [0] for text in texts]
        np.save(cache / f"{corpus}_smolstatic.npy", np.array([model.table[i].mean(0) for i in ids], np.float32))


def top(x: np.ndarray, count: int = KS[-1]) -> np.ndarray:
    """Leading components (d, count), by a route of its own."""
    x = x - x.mean(axis=0)
    if len(x) > x.shape[1]:
        return np.linalg.eigh(x.T @ x)[1][:, ::-1][:, :count]
    return np.linalg.svd(x, full_matrices=False)[2][:count].T


def overlap(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.array([np.linalg.norm(u[:, :k].T @ v[:, :k]) ** 2 / k for k in KS])


def quiet(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sp.diagnose(*args, **options)


def one_subsample(features: np.ndarray, truth: np.ndarray, n: int, seed: int) -> dict:
    rng = np.random.default_rng([n, seed])
    x = features[rng.choice(len(features), n, replace=False)].astype(float)
    u = top(x)
    resampled = np.mean([overlap(top(x[rng.integers(0, n, n)]), u) for _ in range(RESAMPLES)], axis=0)
    start = time.process_time()
    found = quiet(x, target=0.9, random_state=seed)
    seconds = time.process_time() - start
    cell = {
        "truth": overlap(u, truth).tolist(),
        "single": (np.einsum("ij,ij->j", u, truth) ** 2)[:10].tolist(),
        "bootstrap": resampled.tolist(),
        "verdict": found.verdict,
        "warnings": [w.kind for w in found.warnings],
        "seconds": seconds,
    }
    if found.spans is not None:
        cell["overlap"] = [s.overlap for s in found.spans]
        cell["interval"] = [s.interval for s in found.spans]
        cell["required"] = [s.required_samples for s in found.spans]
        cell["component"] = [(c.alignment, *c.interval, c.resolved) for c in found.components]
        cell["halves"] = list(found.self_check)
        if n == 500:
            cell["planned"] = {m: [s.overlap for s in found.expected_spans(m)] for m in PLANNED}
    return cell


def measure_corpora(cache: Path, corpora, sets, sizes, draws: int, out: Path) -> None:
    results = json.loads(out.read_text()) if out.exists() else {}
    for n in sizes:
        for corpus in corpora:
            for name in sets:
                key, path = f"{corpus} {name} {n}", cache / f"{corpus}_{name}.npy"
                if key in results or not path.exists():
                    continue
                features = np.load(path)
                truth = top(features.astype(float))
                results[key] = [one_subsample(features, truth, n, seed) for seed in range(draws)]
                out.write_text(json.dumps(results))
                print(key, *summary_row(results[key]), flush=True)


def summary_row(cells: list[dict]) -> list[str]:
    told = [c for c in cells if "overlap" in c]
    if not told:
        return ["refused"]
    truth, ours, boot = (np.array([c[name] for c in told]) for name in ("truth", "overlap", "bootstrap"))
    low, high = np.moveaxis(np.array([c["interval"] for c in told]), 2, 0)
    inside = (low <= truth) & (truth <= high)
    return [
        f"error {np.abs(ours - truth)[:, STEADY].mean():.3f}",
        f"bootstrap {np.abs(boot - truth)[:, STEADY].mean():.3f}",
        f"coverage {inside[:, STEADY].mean():.2f}",
        f"coloured {len(told)}/{len(cells)}",
        f"flagged {sum(bool(c['warnings']) for c in cells)}",
        f"{np.median([c['seconds'] for c in cells]):.1f} s",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("features", "corpora"))
    parser.add_argument("--cache", type=Path, default=ROOT / "features")
    parser.add_argument("--corpora", nargs="*", default=CORPORA)
    parser.add_argument("--sets", nargs="*", default=CONTEXTUAL + STATIC)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS / "trust_corpora.json")
    options = parser.parse_args()
    if options.what == "features":
        make_features(options.cache)
    else:
        measure_corpora(options.cache, options.corpora, options.sets, options.sizes, options.draws, options.out)


if __name__ == "__main__":
    main()
