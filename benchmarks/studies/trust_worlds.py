"""Kinds of rows for `diagnose` whose population components are known: coverage of spans, kind by kind.

    python benchmarks/studies/trust_worlds.py measure --half development  # ten minutes on one core
    python benchmarks/studies/trust_worlds.py measure --half set-aside
    python benchmarks/studies/trust_worlds.py table
    python benchmarks/studies/trust_worlds.py compare --before results/trust_worlds_before.jsonl

A kind belongs to the half that the hash of its name says. Constants are chosen on the development half; the other half
is for reporting. Every draw records the verdict, the kinds of its warnings, and for each span the overlap, its
interval and the true overlap of the sample's components with the population's.
"""

from __future__ import annotations

import argparse
import json
import warnings
import zlib
from pathlib import Path

import numpy as np

import spikepool as sp
from coverage import summary, told
from trust_kinds import KINDS

RESULTS = Path(__file__).parents[1] / "results" / "trust_worlds.jsonl"


def half_of(name: str) -> str:
    return "set-aside" if zlib.crc32(name.encode()) & 1 else "development"


def truth_of(name: str) -> np.ndarray:
    sample, _, sigma = KINDS[name]
    if sigma is None:
        sigma = np.cov(sample(100_000, np.random.default_rng(9)).T)
    return np.linalg.eigh(sigma)[1][:, ::-1]


def measure(draws: int, half: str, out: Path, only: str) -> None:
    done = {(c["kind"], c["seed"]) for c in map(json.loads, out.read_text().splitlines())} if out.exists() else set()
    for name, (sample, rows, _) in KINDS.items():
        missing = [seed for seed in range(draws) if (name, seed) not in done]
        if half not in (half_of(name), "both") or only not in name or not missing:
            continue
        truth = truth_of(name)
        for seed in missing:
            x = sample(rows, np.random.default_rng([zlib.crc32(name.encode()), seed]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = sp.diagnose(x, target=0.9, random_state=seed)
            centred = x - x.mean(axis=0)
            u = np.linalg.svd(centred, full_matrices=False)[2].T
            spans = [
                (s.k, s.overlap, *s.interval, float(np.linalg.norm(u[:, : s.k].T @ truth[:, : s.k]) ** 2 / s.k))
                for s in found.spans or ()
            ]
            outliers = [
                (o.alignment, *o.interval, float((u[:, i] @ truth[:, i]) ** 2)) for i, o in enumerate(found.outliers)
            ]
            record = {
                "kind": name,
                "seed": seed,
                "verdict": found.verdict,
                "warnings": sorted({w.kind for w in found.warnings}),
                "spans": np.round(spans, 4).tolist(),
                "outliers": np.round(outliers, 4).tolist(),
            }
            out.parent.mkdir(exist_ok=True)
            with out.open("a") as file:
                file.write(json.dumps(record) + "\n")
        print(name, len(missing), flush=True)


def covered(spans: np.ndarray) -> np.ndarray:
    return (spans[:, -3] <= spans[:, -1]) & (spans[:, -1] <= spans[:, -2])


def coverage(cells: list[dict], key: str = "spans") -> tuple[float, int, np.ndarray]:
    """Share of truths inside, the draws that have any, and the spans of k >= 5 (or outliers)."""
    draws = [np.array([s for s in c[key] if key != "spans" or s[0] > 2]) for c in cells]
    draws = [d for d in draws if len(d)]
    if not draws:
        return np.nan, 0, np.empty((0, 5))
    spans = np.concatenate(draws)
    return float(covered(spans).mean()), len(draws), spans


def table(out: Path) -> list[str]:
    """Kinds with the worst coverage first; coverage over the spans given without a warning, and with one."""
    cells = [json.loads(line) for line in out.read_text().splitlines()]
    rows = []
    for name in KINDS:
        mine = [c for c in cells if c["kind"] == name]
        if not mine:
            continue
        share, answered, spans = coverage([c for c in mine if not c["warnings"]])
        verdicts = [sum(c["verdict"] == v for c in mine) for v in ("signal", "no signal", "coloured", "poor fit")]
        off = spans[:, 1] - spans[:, 4] if len(spans) else np.full(1, np.nan)
        width = float((spans[:, 3] - spans[:, 2]).mean()) if len(spans) else np.nan
        warned, alone = coverage([c for c in mine if c["warnings"]])[0], coverage(mine, "outliers")[0]
        rows.append((share, name, verdicts, answered, np.abs(off).mean(), off.mean(), width, warned, alone))
    rows.sort(key=lambda r: (np.isnan(r[0]), r[0]))
    lines = [
        "| kind | half | signal / none / coloured / poor fit | draws with spans | coverage | mean error | bias | width "
        "| coverage with a warning | outliers |",
        "| --- " * 10 + "|",
    ]
    show = lambda value: "–" if np.isnan(value) else f"{value:.2f}"  # noqa: E731
    for share, name, verdicts, answered, *rest in rows:
        counts = " / ".join(map(str, verdicts))
        numbers = " | ".join([told(share, answered), *map(show, rest)])
        lines.append(f"| {name} | {half_of(name)} | {counts} | {answered} | {numbers} |")
    for half in ("development", "set-aside"):
        share, answered, spans = coverage([c for c in cells if half_of(c["kind"]) == half and not c["warnings"]])
        if len(spans):
            off, width = np.abs(spans[:, 1] - spans[:, 4]).mean(), (spans[:, 3] - spans[:, 2]).mean()
            lines.append(
                f"\n{half}: {len(spans)} spans of {answered} draws, mean error {off:.4f}, coverage {share:.3f}, "
                f"width {width:.3f}"
            )
    lines.append("\n" + summary([(row[0], row[3]) for row in rows if row[3]]))
    return lines


def compare(out: Path, before: Path) -> list[str]:
    """Two versions on the same draws, kinds with the worst coverage of the second first."""
    versions = [
        {(c["kind"], c["seed"]): c for c in map(json.loads, path.read_text().splitlines())} for path in (before, out)
    ]
    rows, common = [], versions[0].keys() & versions[1].keys()
    for name in KINDS:
        seeds = sorted(seed for kind, seed in common if kind == name)
        old, new = ([version[name, seed] for seed in seeds] for version in versions)
        if not new:
            continue
        found = []
        for cells in (old, new):
            counts = [sum(c["verdict"] == v for c in cells) for v in ("signal", "no signal", "coloured", "poor fit")]
            share, answered, spans = coverage([c for c in cells if not c["warnings"]])
            known = told(share, answered)
            width = "–" if np.isnan(share) else f"{(spans[:, 3] - spans[:, 2]).mean():.2f}"
            found.append((" / ".join(map(str, counts)) if cells else "–", known, width))
        pairs = " | ".join(f"{a} | {b}" for a, b in zip(*found, strict=True))
        rows.append((np.isnan(share), share, f"| {name} | {half_of(name)} | {len(new)} | {pairs} |"))
    rows.sort(key=lambda row: row[:2])
    titles = "verdicts before | verdicts | coverage before | coverage | width before | width"
    head = f"| kind | half | draws | {titles} |"
    return [head, "| --- " * head.count(" | ") + "| --- |", *(row[-1] for row in rows)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="table", choices=("measure", "table", "compare"))
    parser.add_argument("--draws", type=int, default=24)
    parser.add_argument("--half", choices=("development", "set-aside", "both"), default="development")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--before", type=Path, help="records of another version")
    options = parser.parse_args()
    if options.what == "measure":
        measure(options.draws, options.half, options.out, options.only)
    elif options.what == "compare":
        print("\n".join(compare(options.out, options.before)))
    else:
        print("\n".join(table(options.out)))
