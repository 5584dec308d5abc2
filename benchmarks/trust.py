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
ROUND = 5


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
        ids = [model.token_ids(text, 32) or [0] for text in texts]
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
    """Subsamples of every cell in rounds of `ROUND`, so that an interrupted run has some of all; resumed by a rerun."""
    results = json.loads(out.read_text()) if out.exists() else {}
    for upto in range(ROUND, draws + ROUND, ROUND):
        for corpus in corpora:
            for name in sets:
                path = cache / f"{corpus}_{name}.npy"
                if not path.exists():
                    continue
                features = np.load(path)
                truth = top(features.astype(float))
                for n in sizes:
                    cells = results.setdefault(f"{corpus} {name} {n}", [])
                    if len(cells) >= min(upto, draws):
                        continue
                    cells += [one_subsample(features, truth, n, seed) for seed in range(len(cells), min(upto, draws))]
                    out.write_text(json.dumps(results))
                    print(corpus, name, n, len(cells), *summary_row(cells), flush=True)


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


def pooled_noise(rng, d, V, N, T, frequencies) -> np.ndarray:
    """Mean over T tokens drawn with `frequencies` from a table of isotropic noise, without any signal."""
    tokens = rng.choice(V, size=(N, T), p=frequencies / frequencies.sum())
    usage = np.zeros((N, V))
    np.add.at(usage, (np.repeat(np.arange(N), T), tokens.ravel()), 1 / T)
    return usage @ rng.standard_normal((V, d))


def frequent(V: int, count: int, share: float) -> np.ndarray:
    """The first `count` tokens together take `share` of the text."""
    f = np.ones(V)
    f[:count] = share / (1 - share) * (V - count) / count
    return f


NEGATIVE = {
    "isotropic": lambda rng, d, V, N, T: rng.standard_normal((N, d)),
    "pooled, uniform tokens": lambda rng, d, V, N, T: pooled_noise(rng, d, V, N, T, np.ones(V)),
    "Zipf 0.5": lambda rng, d, V, N, T: pooled_noise(rng, d, V, N, T, np.arange(1.0, V + 1) ** -0.5),
    "Zipf 1": lambda rng, d, V, N, T: pooled_noise(rng, d, V, N, T, np.arange(1.0, V + 1) ** -1.0),
    "Zipf 1.5": lambda rng, d, V, N, T: pooled_noise(rng, d, V, N, T, np.arange(1.0, V + 1) ** -1.5),
    "T = 1": lambda rng, d, V, N, T: pooled_noise(rng, d, V, N, 1, np.ones(V)),
    "one frequent word": lambda rng, d, V, N, T: pooled_noise(rng, d, V, N, T, frequent(V, 1, 0.1)),
    "five frequent words": lambda rng, d, V, N, T: pooled_noise(rng, d, V, N, T, frequent(V, 5, 0.1)),
    "variances 0.5 to 2": lambda rng, d, V, N, T: rng.standard_normal((N, d)) * np.sqrt(rng.uniform(0.5, 2, d)),
    "variances 0.2 to 5": lambda rng, d, V, N, T: rng.standard_normal((N, d)) * np.sqrt(rng.uniform(0.2, 5, d)),
    "log variances 0.2 to 5": lambda rng, d, V, N, T: (
        rng.standard_normal((N, d)) * np.exp(rng.uniform(np.log(0.2), np.log(5), d) / 2)
    ),
}
# d, V, N, T
CONTROL_SIZES = (
    (300, 480, 600, 10),
    (200, 800, 1000, 10),
    (100, 5000, 500, 10),
    (384, 2000, 1000, 20),
    (64, 1000, 400, 6),
)


def measure_controls(draws: int, full: bool, out: Path) -> None:
    """Verdicts on noise. "signal" is decided before anything is simulated, so that by default only that is asked."""
    from spikepool.trust.memory_rows import MemoryRows
    from spikepool.trust.regimes import read_isotropic

    results = json.loads(out.read_text()) if out.exists() else {}
    for name, make in NEGATIVE.items():
        for d, V, N, T in CONTROL_SIZES:
            key = f"{name} | d={d} V={V} N={N} T={T}"
            if key in results:
                continue
            verdicts: dict[str, int] = {}
            for seed in range(draws):
                x = make(np.random.default_rng([17, seed]), d, V, N, T)
                if full:
                    verdict = quiet(x).verdict
                else:
                    verdict = read_isotropic(MemoryRows(x), None, 1.0).verdict or "coloured or poor fit"
                verdicts[verdict] = verdicts.get(verdict, 0) + 1
            results[key] = verdicts
            out.write_text(json.dumps(results, indent=1))
            print(key, verdicts, flush=True)


def plain_rows(cache: Path, corpus: str, n: int, seed: int) -> np.ndarray:
    features = np.load(cache / f"{corpus}_minilmctx.npy")
    return features[np.random.default_rng([n, seed]).choice(len(features), n, replace=False)].astype(float)


def altered_rows(x: np.ndarray, rng) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """What may be wrong with rows: (rows, groups)."""
    n, mean = len(x), x.mean(axis=0)
    third = np.tile(x[: n // 3], (3, 1))
    series = x - mean
    for i in range(1, n):
        series[i] = 0.8 * series[i - 1] + 0.6 * series[i]
    group = np.repeat(np.arange(n // 4 + 1), 4)[:n]
    in_groups = np.sqrt(0.9) * (x - mean)[group] + np.sqrt(0.1) * (x - mean)
    large = x.copy()
    large[rng.choice(n, 3, replace=False)] += 29 * (large[:3] - mean)
    by_component = x[np.argsort((x - mean) @ top(x, 1)[:, 0])]
    return {
        "plain": (x, None),
        "exact copies x 3": (third[rng.permutation(len(third))], None),
        "near copies x 3": (
            (third + 0.05 * x.std(axis=0) * rng.standard_normal(third.shape))[rng.permutation(len(third))],
            None,
        ),
        "AR(0.8) series": (series, None),
        "sorted": (by_component, None),
        "groups of 4, not named": (in_groups, None),
        "groups of 4, named": (in_groups, group),
        "three rows x 30": (large, None),
    }


def measure_rows(cache: Path, corpus: str, draws: int, out: Path) -> None:
    """Error of the overlaps and what is flagged, for rows that are not an independent sample."""
    features = np.load(cache / f"{corpus}_minilmctx.npy").astype(float)
    truth = top(features)
    results: dict = {}
    for seed in range(draws):
        for name, (x, groups) in altered_rows(
            plain_rows(cache, corpus, 600, seed), np.random.default_rng(seed)
        ).items():
            found = quiet(x, groups=groups, random_state=seed)
            record = {"verdict": found.verdict, "flags": [w.kind for w in found.warnings], "rows": found.n_effective}
            if found.spans is not None and name != "three rows x 30":
                reached = overlap(top(x), truth)[: len(found.spans)]  # fewer groups than rows allow fewer spans
                record["error"] = (np.array([s.overlap for s in found.spans]) - reached).tolist()
            results.setdefault(name, []).append(record)
            out.write_text(json.dumps(results, indent=1))
    for name, records in results.items():
        errors = [np.mean(r["error"][2:]) for r in records if "error" in r]
        flags = sorted({flag for r in records for flag in r["flags"]})
        print(
            f"| {name} | {sum(bool(r['flags']) for r in records)}/{len(records)} {', '.join(flags)} | "
            f"{np.mean([r['rows'] for r in records]):.0f} | {np.mean(errors) if errors else np.nan:+.3f} |"
        )


def measure_scale(store: Path, n: int, d: int) -> None:
    """Diagnosis of n x d float32 rows from Zarr: seconds and peak memory of the process."""
    import resource

    import zarr

    if not store.exists():
        rng = np.random.default_rng(0)
        root = np.sqrt(1 / np.arange(1.0, d + 1)).astype(np.float32)
        array = zarr.create_array(store=str(store), shape=(n, d), chunks=(20_000, d), dtype="f4", compressors=None)
        for start in range(0, n, 20_000):
            m = min(20_000, n - start)
            scales = np.sqrt(rng.gamma(3, 1 / 3, size=(m, 1))).astype(np.float32)
            array[start : start + m] = rng.standard_normal((m, d), dtype=np.float32) * root * scales
    before, start = time.process_time(), time.perf_counter()
    found = quiet(zarr.open_array(str(store), mode="r"), target=0.9)
    print(found)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{n} x {d}: {time.process_time() - before:.0f} s of CPU, {time.perf_counter() - start:.0f} s by the clock, "
        f"peak {peak:.2f} GB"
    )


def print_tables(out: Path) -> None:
    """Markdown tables from the results of `corpora`."""
    results = json.loads(out.read_text())
    groups: dict = {}
    for key, cells in results.items():
        corpus, name, n = key.split()
        groups.setdefault((corpus, name), {})[int(n)] = cells
    print("| corpus, features | n | draws | true overlap, k = 5, 10, 20, 50 | error | bootstrap | coverage | flagged |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for (corpus, name), sizes in sorted(groups.items()):
        for n, cells in sorted(sizes.items()):
            told = [c for c in cells if "overlap" in c]
            truth, ours, boot = (np.array([c[x] for c in told])[:, STEADY] for x in ("truth", "overlap", "bootstrap"))
            low, high = np.moveaxis(np.array([c["interval"] for c in told])[:, STEADY], 2, 0)
            shown = " ".join(f"{v:.2f}" for v in truth.mean(0))
            print(
                f"| {corpus}, {name} | {n} | {len(cells)} | {shown} | {np.abs(ours - truth).mean():.3f} | "
                f"{np.abs(boot - truth).mean():.3f} | {((low <= truth) & (truth <= high)).mean():.2f} | "
                f"{sum(bool(c['warnings']) for c in cells)} |"
            )
    print(
        "\n| features | error, k = 1, 2, 5, 10, 20, 50 | bootstrap | coverage | planned from 500 to 1000, 2000, 4000 |"
    )
    print("| --- | --- | --- | --- | --- |")
    for (corpus, name), sizes in sorted(groups.items()):
        told = [c for cells in sizes.values() for c in cells if "overlap" in c]
        truth, ours, boot = (np.array([c[x] for c in told]) for x in ("truth", "overlap", "bootstrap"))
        low, high = np.moveaxis(np.array([c["interval"] for c in told]), 2, 0)
        planned = []
        for m in PLANNED:
            if m in sizes and any("planned" in c for c in sizes.get(500, [])):
                there = np.mean([c["truth"] for c in sizes[m]], axis=0)[STEADY]
                seen = np.array([c["planned"][str(m)] for c in sizes[500] if "planned" in c])[:, STEADY]
                planned.append(f"{np.abs(seen - there).mean():.3f}")
        errors = " ".join(f"{v:.3f}" for v in np.abs(ours - truth).mean(0))
        boots = " ".join(f"{v:.3f}" for v in np.abs(boot - truth).mean(0))
        inside = ((low <= truth) & (truth <= high))[:, STEADY].mean()
        print(f"| {corpus}, {name} | {errors} | {boots} | {inside:.2f} | {' '.join(planned)} |")
    single = np.array([c["component"] for cells in results.values() for c in cells if "component" in c])
    true = np.array([c["single"] for cells in results.values() for c in cells if "component" in c])
    hit = (single[..., 1] <= true) & (true <= single[..., 2])
    resolved = single[..., 3] > 0
    print(
        f"\nsingle components: coverage {hit.mean():.2f}; resolved {resolved.mean():.2f}, "
        f"of these {hit[resolved].mean():.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("features", "corpora", "controls", "rows", "scale", "table"))
    parser.add_argument("--cache", type=Path, default=ROOT / "features")
    parser.add_argument("--corpora", nargs="*", default=CORPORA)
    parser.add_argument("--sets", nargs="*", default=CONTEXTUAL + STATIC)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--store", type=Path, default=Path("rows.zarr"))
    parser.add_argument("--shape", nargs=2, type=int, default=(1_000_000, 384))
    parser.add_argument("--full", action="store_true", help="controls: simulate what is coloured as well")
    options = parser.parse_args()
    if options.what == "features":
        make_features(options.cache)
    elif options.what == "controls":
        measure_controls(options.draws or 200, options.full, options.out or RESULTS / "trust_controls.json")
    elif options.what == "rows":
        out = options.out or RESULTS / "trust_rows.json"
        measure_rows(options.cache, options.corpora[-1], options.draws or 10, out)
    elif options.what == "scale":
        measure_scale(options.store, *options.shape)
    elif options.what == "table":
        print_tables(options.out or RESULTS / "trust_corpora.json")
    else:
        out = options.out or RESULTS / "trust_corpora.json"
        measure_corpora(options.cache, options.corpora, options.sets, options.sizes, options.draws or 20, out)


if __name__ == "__main__":
    main()
