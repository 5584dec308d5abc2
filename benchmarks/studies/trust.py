"""Controls and cost of `diagnose`: noise without a signal, dependent rows, a million rows.

    python benchmarks/studies/trust.py controls  # noise without a signal, 100 draws each
    python benchmarks/studies/trust.py rows     --cache features  # copies, order, dependence, dominating rows

Spans of real features against whole corpora, and the features themselves: ``benchmarks/studies/trust_corpora.py``.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np

import spikepool as sp
from trust_corpora import overlap, top

RESULTS = Path(__file__).parents[1] / "results"


def quiet(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sp.diagnose(*args, **options)


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
    "pooled, variances 0.4 to 2.2": lambda rng, d, V, N, T: (
        pooled_noise(rng, d, V, N, T, np.ones(V)) * np.sqrt(rng.uniform(0.4, 2.2, d))
    ),
    "pooled, t tokens": lambda rng, d, V, N, T: rng.standard_t(5, (V, d))[rng.integers(0, V, (N, T))].mean(axis=1),
    "t columns": lambda rng, d, V, N, T: rng.standard_t(5, (N, d)),
    "variances 0.5 to 2": lambda rng, d, V, N, T: rng.standard_normal((N, d)) * np.sqrt(rng.uniform(0.5, 2, d)),
    "variances 0.2 to 5": lambda rng, d, V, N, T: rng.standard_normal((N, d)) * np.sqrt(rng.uniform(0.2, 5, d)),
    "variances as 1/sqrt(rank)": lambda rng, d, V, N, T: rng.standard_normal((N, d)) * np.arange(1.0, d + 1) ** -0.25,
    "deviations 3 to 0.3": lambda rng, d, V, N, T: rng.standard_normal((N, d)) * np.linspace(3, 0.3, d),
    "log variances 0.2 to 5": lambda rng, d, V, N, T: (
        rng.standard_normal((N, d)) * np.exp(rng.uniform(np.log(0.2), np.log(5), d) / 2)
    ),
}
# d, V, N, T
CONTROL_SIZES = (
    (64, 1000, 400, 6),
    (300, 480, 600, 10),
    (30, 1000, 400, 6),
    (100, 5000, 500, 10),
    (210, 340, 410, 10),
    (400, 1000, 60, 6),
    (300, 480, 150, 10),
)


def measure_controls(draws: int, full: bool, out: Path) -> None:
    """Verdicts on noise. "signal" is decided before anything is simulated, so that by default only that is asked."""
    from spikepool.trust.bulk_fit import edge_factor
    from spikepool.trust.memory_rows import MemoryRows
    from spikepool.trust.regimes import read_isotropic

    results = json.loads(out.read_text()) if out.exists() else {}
    for d, V, N, T in CONTROL_SIZES:
        for name, make in NEGATIVE.items():
            key = f"{name} | d={d} V={V} N={N} T={T}"
            if key in results:
                continue
            verdicts: dict[str, int] = {}
            pooled = name.startswith(("pooled", "Zipf"))
            factor = edge_factor(np.full(T, 1 / T), d, V, N) if pooled else None
            for seed in range(draws):
                x = make(np.random.default_rng([17, seed]), d, V, N, T)
                if full:
                    verdict = quiet(x).verdict
                else:
                    verdict = read_isotropic(MemoryRows(x)).verdict or "coloured or poor fit"
                    if pooled and read_isotropic(MemoryRows(x), d / V, factor).verdict == "signal":
                        verdicts["signal with V and weights"] = verdicts.get("signal with V and weights", 0) + 1
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="controls", choices=("controls", "rows"))
    parser.add_argument("--cache", type=Path, default=Path("features"))
    parser.add_argument("--corpus", default="clinc150")
    parser.add_argument("--draws", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--full", action="store_true", help="controls: simulate what is coloured as well")
    options = parser.parse_args()
    if options.what == "controls":
        measure_controls(options.draws or 100, options.full, options.out or RESULTS / "trust_controls.json")
    else:
        out = options.out or RESULTS / "trust_rows.json"
        measure_rows(options.cache, options.corpus, options.draws or 10, out)


if __name__ == "__main__":
    main()
