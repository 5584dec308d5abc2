"""What changed between two weights of one shape: rounding, a scale, an order of rows, noise, or a few directions.

The difference D = B − A is examined in this order:

1. *identical*, *scale* (B = c A), *permutation* (the same rows in another order);
2. *rounding*: B is A stored in fewer bits, bfloat16 or float16 to the bit, or on a grid of at most 16 or 256 values for
   each block of 32 numbers or each row, with errors of at most half a step;
3. the spectrum of D: eigenvalues of D'D/V that stand beyond the edge of the rest are counted, as in
   :class:`spikepool.TableSpectrum`. The rest is *noise* if its second moment is that of independent entries,
   m_2/m_1² = 1 + d/V to a tenth, and *structured* otherwise. A few directions over noise, or over nothing, are
   *low rank*.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spikepool.data.blocks import ArrayBlocks, BlockSource
from spikepool.errors import ShapeError, SpikepoolError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.bulk_edge import find_edge
from spikepool.kit.memory import require_memory
from spikepool.kit.showing import plain
from spikepool.tables.gram import stream_moments

# Relative size below which a residual is rounding of the arithmetic itself.
NOTHING = 1e-6
# Second moment of the rest, over that of independent entries, up to which it is noise.
FLAT = 1.1
# Share of the energy beyond which the rest of a difference counts as nothing.
ALL_ENERGY = 0.999
# Numbers of a block that share a scale in 4-bit formats.
QUANTISED_BLOCK = 32
SENTENCES = {
    "identical": "The weights are identical.",
    "scale": "The second is {factor:.4g} times the first.",
    "permutation": "The rows are the same in another order.",
    "rounding": "The second is the first rounded to {format}; the error is {relative_norm:.2g} of the weight's size.",
    "noise": "The difference is like independent noise: no direction stands out of it.",
    "low rank": "{rank} direction(s) stand out, with {energy:.0%} of the change; the rest is {rest}.",
    "structured": "The change is spread over many directions of unequal size, as after training; {rank} stand out.",
}


@dataclass(frozen=True)
class WeightDelta:
    """The difference of two weights in a few numbers.

    Attributes
    ----------
    kind : str
        ``"identical"``, ``"scale"``, ``"permutation"``, ``"rounding"``, ``"noise"``, ``"low rank"`` or
        ``"structured"``.
    relative_norm : float
        ‖B − A‖/‖A‖.
    rank : int
        Directions that stand out of the rest of the difference.
    energy : float
        Their share of ‖B − A‖².
    stable_rank, effective_rank : float
        ‖D‖²/σ_1², and exp of the entropy of σ²/‖D‖².
    overlap : float or None
        Overlap of the leading directions of D with as many of A (in the columns), where some stand out.
    sentence : str
        What this means, in words.
    """

    kind: str
    relative_norm: float
    rank: int
    energy: float
    stable_rank: float
    effective_rank: float
    overlap: float | None
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        record: dict[str, Any] = plain(asdict(self))
        return record

    def __str__(self) -> str:
        return self.sentence


def difference(first: BlockSource, second: BlockSource) -> BlockSource:
    """B − A as a table in memory, in single precision."""
    if first.shape != second.shape:
        raise ShapeError("the weights have different shapes", (first.shape, second.shape), "Compare equal shapes")
    V, d = first.shape
    require_memory(4 * V * d, f"the difference of {V} x {d} weights", "Compare one weight at a time")
    out = np.empty((V, d), dtype=np.float32)
    start = 0
    for a, b in zip(first.blocks(), second.blocks(), strict=True):
        out[start : start + len(a)] = b - a
        start += len(a)
    return ArrayBlocks(out, f"{second.name} − {first.name}")


def examine(first: BlockSource, second: BlockSource) -> WeightDelta:
    """What kind of change leads from the first weight to the second."""
    D = difference(first, second)
    moments = stream_moments(D).uncentered()
    base = stream_moments(first).uncentered()
    values, vectors = moments.eigenpairs()
    size = float(np.trace(base.lower)) / base.n
    total = float(values.sum())
    relative = float(np.sqrt(total / size)) if size > 0 else float("inf") if total > 0 else 0.0
    words: dict[str, Any] = {"relative_norm": relative, "rest": "nothing"}
    kind = _plain_kind(first, second, relative, words)
    rank, overlap = 0, None
    if kind is None:
        kind, rank = _spectral_kind(values, D.shape, words)
    energy = float(values[:rank].sum() / total) if total > 0 else 0.0
    if rank:
        _, own = base.eigenpairs()
        overlap = float(np.sum((vectors[:, :rank].T @ own[:, :rank]) ** 2) / rank)
    share = values[values > 0] / total if total > 0 else np.ones(1)
    words |= {"rank": rank, "energy": energy}
    return WeightDelta(
        kind,
        relative,
        rank,
        energy,
        total / float(values[0]) if total > 0 else 0.0,
        float(np.exp(-np.sum(share * np.log(share)))) if total > 0 else 0.0,
        overlap,
        SENTENCES[kind].format(**words),
    )


def _plain_kind(first: BlockSource, second: BlockSource, relative: float, words: dict[str, Any]) -> str | None:
    """Changes that are recognised by their entries."""
    if relative == 0:
        return "identical"
    ab = aa = 0.0
    for a, b in zip(first.blocks(), second.blocks(), strict=True):
        ab, aa = ab + float(np.sum(a * b)), aa + float(np.sum(a * a))
    factor = ab / aa if aa > 0 else 0.0
    residual = sum(float(np.sum((b - factor * a) ** 2)) for a, b in zip(first.blocks(), second.blocks(), strict=True))
    if aa > 0 and np.sqrt(residual / aa) < NOTHING:
        words["factor"] = factor
        return "scale"
    if sorted(_row_keys(first)) == sorted(_row_keys(second)):
        return "permutation"
    found = _rounding(first, second)
    if found is not None:
        words["format"] = found
        return "rounding"
    return None


def _row_keys(source: BlockSource) -> list[int]:
    """A number for each row, equal for equal rows."""
    return [hash(row.tobytes()) for block in source.blocks() for row in np.ascontiguousarray(block)]


def _rounding(first: BlockSource, second: BlockSource) -> str | None:
    """The format that the second is the first rounded to, or None."""
    formats = {"bfloat16": True, "float16": True, "4 bits": True, "8 bits": True}
    for a, b in zip(first.blocks(), second.blocks(), strict=True):
        if formats["bfloat16"]:
            formats["bfloat16"] = bool(np.all(np.abs(b - a) <= np.abs(a) * 2.0**-8 + 1e-38) and _is_bfloat16(b))
        if formats["float16"]:
            formats["float16"] = bool(np.array_equal(a.astype(np.float16).astype(np.float64), b))
        if formats["8 bits"]:
            formats["8 bits"] = _on_a_grid(a, b, 255)
        if formats["4 bits"]:
            d = a.shape[1] // QUANTISED_BLOCK * QUANTISED_BLOCK
            one, other = (x[:, :d].reshape(-1, QUANTISED_BLOCK) for x in (a, b))
            formats["4 bits"] = d > 0 and _on_a_grid(one, other, 16)
        if not any(formats.values()):
            return None
    return next(name for name, holds in formats.items() if holds)


def _is_bfloat16(b: FloatArray) -> bool:
    bits = np.ascontiguousarray(b, dtype=np.float32).view(np.uint32)
    return bool(np.all(bits & 0xFFFF == 0))


def _on_a_grid(a: FloatArray, b: FloatArray, levels: int) -> bool:
    """Whether the rows of b lie on grids of at most `levels` equal steps, within half a step of a."""
    ordered = np.sort(b, axis=1)
    gaps = np.diff(ordered, axis=1)
    span = ordered[:, -1] - ordered[:, 0]
    tiny = 1e-6 * np.maximum(span, 1e-300)[:, None]
    if np.any(np.sum(gaps > tiny, axis=1) + 1 > levels):
        return False
    step = np.where(gaps > tiny, gaps, np.inf).min(axis=1)
    step = np.where(np.isfinite(step), step, 0.0)
    if np.any(span > (levels + 0.5) * step) or (levels > b.shape[1] and np.mean(span > 0) < 0.5):
        return False
    # a block whose values happen to use few levels has a wider smallest gap: a step and a half is then allowed
    return bool(np.mean(np.abs(b - a).max(axis=1) <= 0.75 * step + 1e-12) > 0.98)


def _spectral_kind(values: FloatArray, shape: tuple[int, ...], words: dict[str, Any]) -> tuple[str, int]:
    """Noise, low rank or structured, and how many directions stand out."""
    V, d = shape
    nonzero = values[values > 1e-12 * values[0]]
    numerical = int(np.sum(values > 1e-10 * values[0]))
    if numerical <= min(V, d) // 10:
        return "low rank", numerical
    try:
        rank = find_edge(nonzero).n_outliers
    except SpikepoolError:  # too few eigenvalues for a bulk
        rank = 0
    rest = values[rank:]
    if float(values[:rank].sum()) > ALL_ENERGY * float(values.sum()) and rank <= min(V, d) // 4:
        return "low rank", rank
    flat = float(np.mean(rest**2) / np.mean(rest) ** 2) <= FLAT * (1 + len(rest) / V)
    if not flat:
        return "structured", rank
    words["rest"] = "like independent noise"
    return ("low rank", rank) if rank else ("noise", 0)


__all__ = ["WeightDelta", "difference", "examine"]
