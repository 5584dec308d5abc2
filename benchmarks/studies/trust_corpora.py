"""Spans of real features held against whole corpora: error, coverage and plans of `diagnose` and of the row bootstrap.

    python benchmarks/studies/trust_corpora.py features --texts FOLDER --cache features  # once
    python benchmarks/studies/trust_corpora.py measure --cache features  # subsamples; resumed by a rerun
    python benchmarks/studies/trust_corpora.py table  # the tables of the docs
    python benchmarks/studies/trust_corpora.py collections --draws 4  # parts of collections of 2,500 rows

A subsample is drawn without replacement; the truth are the components of the whole corpus (13,083 and 22,500 texts;
10,000 for SmolLM2's last layer). Of that the subsample is a part, which `population_size` says; without it the
prediction is about an unlimited population. `diagnose` is run without, and both are told: the former is, to first
order, ``1 − (1 − overlap)(1 − n/M)``; for smaller collections see `collections`. The baseline is the row bootstrap, the
overlap of ten resamples with the sample (those that `diagnose` draws itself), with and without the same factor.

Subsamples 0 to 4 of every cell come first, then 5 to 9, and so on: an interrupted run has as many of each. The curve
against the number of rows is drawn last and changes nothing else: for n other than 500 it is left out.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

import spikepool as sp
from spikepool.trust import findings
from spikepool.trust.memory_rows import MemoryRows
from spikepool.trust.planning import Curve, with_collection

RESULTS = Path(__file__).parents[1] / "results" / "trust_corpora.jsonl"
CORPORA = ("clinc150", "banking77")
CONTEXTUAL = ("minilmctx", "smolfinal")
STATIC = ("minilmstatic", "smolstatic", "wlstatic")
KS = (1, 2, 5, 10, 20, 50)
STEADY = slice(2, None)  # k >= 5
SIZES = (250, 500, 1000, 2000, 4000)
PILOT, PLANNED = 500, (1000, 2000, 4000)
ROUND = 5
SMOL_ROWS = 10_000
T = 32


def make_features(texts: Path, cache: Path, rows: int | None) -> None:
    """Mean over the tokens of each text: rows of three embedding tables, last layers of two models."""
    from corpora import load_texts
    from encoders import MiniLM, SmolLM2
    from real_data import static_tokens

    cache.mkdir(parents=True, exist_ok=True)

    def save(name: str, hidden: np.ndarray, mask: np.ndarray) -> None:
        weights = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        np.save(cache / f"{name}.npy", np.einsum("nt,ntd->nd", weights.astype(np.float32), hidden.astype(np.float32)))

    smol = SmolLM2()
    for corpus in CORPORA:
        found = load_texts(corpus, texts)
        order = np.random.default_rng(0).permutation(len(found.texts))[:SMOL_ROWS]
        if rows is not None:
            found, order = type(found)(found.name, found.texts[:rows], found.labels[:rows]), np.arange(rows)
        for name, model, layer, chosen in (
            ("minilmctx", MiniLM(), 6, found.texts),
            ("smolfinal", smol, "final", [found.texts[i] for i in order]),
        ):
            result = model.encode(chosen, T, layers=(layer,))
            save(f"{corpus}_{name}", result.hidden[layer], result.mask)
        for name, table in (("minilmstatic", "minilm-table"), ("wlstatic", "wordllama-table")):
            tokens = static_tokens(found, table)
            save(f"{corpus}_{name}", tokens.X, tokens.mask)
        ids = [smol.token_ids(text, T) or [0] for text in found.texts]
        np.save(cache / f"{corpus}_smolstatic.npy", np.array([smol.table[i].mean(axis=0) for i in ids], np.float32))
        print(corpus, len(found.texts), flush=True)


def top(x: np.ndarray, count: int = KS[-1]) -> np.ndarray:
    """Leading components (d, count), computed independently of the library."""
    x = x - x.mean(axis=0)
    if len(x) > x.shape[1]:
        return np.linalg.eigh(x.T @ x)[1][:, ::-1][:, :count]
    return np.linalg.svd(x, full_matrices=False)[2][:count].T


def overlap(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.array([np.linalg.norm(u[:, :k].T @ v[:, :k]) ** 2 / k for k in KS])


class Resamples:
    """Keeps the resamples that `diagnose` draws, so that the baseline costs nothing."""

    def __init__(self) -> None:
        self.last: np.ndarray | None = None
        plain = MemoryRows.sample

        def kept(rows, *args):
            found = plain(rows, *args)
            self.last = found.resampled
            return found

        MemoryRows.sample = kept  # type: ignore[method-assign]


def point_curve(simulated, n: int, collection: float | None = None) -> Curve:
    """In place of the curve where it is not looked at."""
    return Curve(np.array([n]), *(simulated.overlap[None] for _ in range(3)))


def one_subsample(features: np.ndarray, truth: np.ndarray, n: int, seed: int, resamples: Resamples) -> dict:
    rng = np.random.default_rng([n, seed])
    x = features[rng.choice(len(features), n, replace=False)].astype(float)
    u = top(x)
    resamples.last, start = None, time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sp.diagnose(x, target=0.9, random_state=seed)
    cell = {
        "seconds": time.process_time() - start,
        "truth": overlap(u, truth).tolist(),
        "verdict": found.verdict,
        "warnings": [w.kind for w in found.warnings],
    }
    if resamples.last is not None:
        cell["bootstrap"] = resamples.last.mean(axis=0).tolist()
    if found.spans is not None:
        share = n / len(features)
        true = np.einsum("ij,ij->j", u, truth)[: len(found.components)] ** 2
        low, high = with_collection(np.array([c.interval for c in found.components]), 1 - share).T
        inside = (low <= true) & (true <= high)
        resolved = np.array([c.resolved for c in found.components])
        cell["overlap"] = [s.overlap for s in found.spans]
        cell["interval"] = [s.interval for s in found.spans]
        # components, of these in their interval, resolved, and both
        cell["single"] = [len(true), int(inside.sum()), int(resolved.sum()), int((inside & resolved).sum())]
        if n == PILOT:
            cell["planned"] = [[s.overlap for s in found.expected_spans(m)] for m in PLANNED]
    return cell


def rounded(value):
    if isinstance(value, float):
        return round(value, 4)
    return [rounded(v) for v in value] if isinstance(value, (list, tuple)) else value


def measure(cache: Path, corpora, sets, sizes, draws: int, out: Path) -> None:
    """Append a line for each subsample that the results do not have yet."""
    done = {(c["corpus"], c["set"], c["n"], c["seed"]) for c in read(out)} if out.exists() else set()
    resamples, full_curve, truths = Resamples(), findings.curve, {}
    for first in range(0, draws, ROUND):
        for corpus in corpora:
            for name in sets:
                seeds = range(first, min(first + ROUND, draws))
                missing = [(n, s) for n in sizes for s in seeds if (corpus, name, n, s) not in done]
                if not missing:
                    continue
                features = np.load(cache / f"{corpus}_{name}.npy")
                if (corpus, name) not in truths:
                    truths[corpus, name] = top(features.astype(float))
                for n, seed in missing:
                    findings.curve = full_curve if n == PILOT else point_curve  # type: ignore[assignment]
                    cell = one_subsample(features, truths[corpus, name], n, seed, resamples)
                    record = {"corpus": corpus, "set": name, "n": n, "seed": seed, "rows": len(features), **cell}
                    with out.open("a") as file:
                        file.write(json.dumps({k: rounded(v) for k, v in record.items()}) + "\n")
                print(time.strftime("%X"), corpus, name, f"{first} to {seeds[-1]}", flush=True)


def measure_collections(cache: Path, corpora, sets, draws: int, rows: int = 2500, n: int = 900) -> None:
    """Parts of random collections of `rows` rows, with ``population_size``: error, bias and coverage over k >= 5."""
    for corpus in corpora:
        spans = []
        for name in sets:
            features = np.load(cache / f"{corpus}_{name}.npy")
            for seed in range(draws):
                rng = np.random.default_rng([n, rows, seed])
                collection = features[rng.choice(len(features), rows, replace=False)].astype(float)
                x = collection[rng.choice(rows, n, replace=False)]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = sp.diagnose(x, population_size=rows, random_state=seed)
                true = overlap(top(x), top(collection))
                spans += [(s.k, s.overlap, *s.interval, o) for s, o in zip(found.spans or (), true, strict=False)]
        k, o, low, high, true = np.array([s for s in spans if s[0] >= 5]).T
        inside = (low <= true) & (true <= high)
        last, off = k == KS[-1], o - true
        print(
            f"{corpus}: {len(k)} spans, error {np.abs(off).mean():.4f}, bias {off.mean():+.4f}, coverage "
            f"{inside.mean():.2f}; top {KS[-1]}: bias {off[last].mean():+.4f}, coverage {inside[last].mean():.2f}"
        )


def read(out: Path) -> list[dict]:
    return [json.loads(line) for line in out.read_text().splitlines()]


def spans_of(cells: list[dict], whole: bool) -> tuple[np.ndarray, ...]:
    """Truth, prediction, bootstrap, low and high, (cells, len(KS)); of the whole corpus or of a population."""
    told = [c for c in cells if "overlap" in c]
    share = np.array([c["n"] / c["rows"] for c in told])[:, None] if whole else 0.0
    low, high = np.moveaxis(np.array([c["interval"] for c in told]), 2, 0)
    predicted = (np.array([c[key] for c in told]) for key in ("overlap", "bootstrap"))
    truth = np.array([c["truth"] for c in told])
    return (truth, *(with_collection(value, 1 - share) for value in (*predicted, low, high)))


def summary(cells: list[dict], whole: bool) -> str:
    truth, ours, boot, low, high = (value[:, STEADY] for value in spans_of(cells, whole))
    inside = (low <= truth) & (truth <= high)
    return f"{np.abs(ours - truth).mean():.3f} | {np.abs(boot - truth).mean():.3f} | {inside.mean():.2f}"


def planned_errors(cells: list[dict], m: int, whole: bool) -> np.ndarray:
    """Errors (pilots, k >= 5) of plans for m rows; the truth is the mean over subsamples of m rows."""
    there = np.array([c["truth"] for c in cells if c["n"] == m])
    pilots = [c for c in cells if "planned" in c]
    plans = np.array([c["planned"][PLANNED.index(m)] for c in pilots])
    share = m / pilots[0]["rows"] if whole else 0.0
    return (with_collection(plans, 1 - share) - there.mean(axis=0))[:, STEADY]


def print_tables(out: Path) -> None:
    """Markdown tables from the results."""
    results = read(out)
    sets: dict[tuple[str, str], list[dict]] = {}
    for cell in results:
        sets.setdefault((cell["corpus"], cell["set"]), []).append(cell)
    heads, italics = "error | bootstrap | coverage", "*error* | *bootstrap* | *coverage*"
    shown = "true overlap, k = 5, 10, 20, 50"
    print(f"| corpus, features | n | draws | {shown} | {heads} | {italics} | refused | flagged |")
    print("| --- " * 12 + "|")
    for (corpus, name), cells in sorted(sets.items(), reverse=True):
        for n in sorted({c["n"] for c in cells}):
            here = [c for c in cells if c["n"] == n]
            truth = " ".join(f"{v:.2f}" for v in np.mean([c["truth"] for c in here], axis=0)[STEADY])
            refused = sum("overlap" not in c for c in here)
            flagged = sum(bool(c["warnings"]) for c in here)
            both = f"{summary(here, True)} | {summary(here, False)}"
            print(f"| {corpus}, {name} | {n} | {len(here)} | {truth} | {both} | {refused} | {flagged} |")
    print(f"\n| features | {heads} | {italics} | error, k = 1, 2, 5, 10, 20, 50 | bootstrap |")
    print("| --- " * 9 + "|")
    for (corpus, name), cells in sorted(sets.items(), reverse=True):
        truth, ours, boot, _, _ = spans_of(cells, True)
        by_k = (" ".join(f"{v:.3f}" for v in np.abs(x - truth).mean(axis=0)) for x in (ours, boot))
        print(f"| {corpus}, {name} | {summary(cells, True)} | {summary(cells, False)} | {' | '.join(by_k)} |")
    for title, chosen in (("contextual", CONTEXTUAL), ("static", STATIC)):
        for corpus in CORPORA:
            cells = [c for c in results if c["corpus"] == corpus and c["set"] in chosen]
            if cells:
                print(f"| {corpus}, {title} | {summary(cells, True)} | {summary(cells, False)} | | |")
    print("\n| plans from 500 rows | pilots | to 1000, 2000, 4000 | bias | *without population_size* |")
    print("| --- " * 5 + "|")
    everything: dict[tuple[str, bool], list[np.ndarray]] = {}
    for (corpus, name), cells in sorted(sets.items(), reverse=True):
        there = [m for m in PLANNED if any(c["n"] == m for c in cells)]
        if not there or not any("planned" in c for c in cells):
            continue
        found = {whole: [planned_errors(cells, m, whole) for m in there] for whole in (True, False)}
        for whole, errors in found.items():
            everything.setdefault((corpus, whole), []).extend(errors)
        sizes, without = (" ".join(f"{np.abs(e).mean():.3f}" for e in found[whole]) for whole in (True, False))
        bias = " ".join(f"{e.mean():+.3f}" for e in found[True])
        print(f"| {corpus}, {name} | {len(found[True][0])} | {sizes} | {bias} | {without} |")
    for (corpus, whole), errors in everything.items():
        mean = np.mean([np.abs(e).mean() for e in errors])
        print(f"\n{corpus}: plans {'with' if whole else 'without'} population_size, mean error {mean:.3f}")
    for corpus in CORPORA:
        single = [c["single"] for c in results if "single" in c and c["corpus"] == corpus]
        if single:
            total, inside, resolved, both = np.sum(single, axis=0)
            print(
                f"\n{corpus}: single components: coverage {inside / total:.2f}; resolved {resolved / total:.2f}, "
                f"of these {both / max(resolved, 1):.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="table", choices=("features", "measure", "collections", "table"))
    parser.add_argument("--texts", type=Path, help="folder of banking77.csv.gz and clinc150.csv.gz")
    parser.add_argument("--rows", type=int, help="features: of the first rows only, to try it out")
    parser.add_argument("--cache", type=Path, default=Path("features"))
    parser.add_argument("--corpora", nargs="*", default=CORPORA)
    parser.add_argument("--sets", nargs="*", default=CONTEXTUAL + STATIC)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.what == "features":
        make_features(options.texts, options.cache, options.rows)
    elif options.what == "table":
        print_tables(options.out)
    elif options.what == "collections":
        measure_collections(options.cache, options.corpora, options.sets, options.draws)
    else:
        measure(options.cache, options.corpora, options.sets, options.sizes, options.draws, options.out)


if __name__ == "__main__":
    main()
