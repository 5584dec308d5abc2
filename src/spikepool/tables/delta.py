"""What changed between two weights of one shape: rounding, a scale, an order of rows, noise, or a few directions.

The difference D = B − A is examined in this order:

1. *identical*, *few entries* (at most one in 10,000 differs), *scale* (B = c A), *permutation* (the same rows or
   columns in another order);
2. *rounding*: B is A stored in fewer bits: bfloat16 or float16 to the bit; blocks of 32 or 16 numbers (or parts of
   larger blocks) of rows or columns on grids of at most 256 equal steps, with errors of the size of a step; or at most
   256 different numbers with small relative errors, as in 8-bit floats;
3. the spectrum of D: eigenvalues of D'D/V that stand beyond the edge of the rest are counted, as in
   :class:`spikepool.TableSpectrum`; single entries far out (heavy tails) are cut off first. The rest is *noise* if its
   second moment is that of independent entries, m_2/m_1² = 1 + d/V to a tenth, and *structured* otherwise. A few
   directions over noise, over nothing, or over the rounding of a 16-bit format are *low rank*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import ArrayBlocks, BlockSource, block_rows
from spikepool.errors import ShapeError, SpikepoolError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.showing import Result
from spikepool.laws.bulk_edge import find_edge
from spikepool.tables.geometry import side_by_side
from spikepool.tables.gram import stream_moments
from spikepool.tables.report import effective_rank, stable_rank

# Share of the entries up to which a change is one of single entries.
FEW_ENTRIES = 1e-4
# Different numbers of a format of 8 bits, and its largest relative error (root mean square): that of E5M2 is .08.
LEVELS, LEVEL_ERROR = 256, 0.1
# Entries beyond so many robust standard deviations are cut off, where no row or column has this share of them.
CUT_OFF, MOST_CUT = 4.0, 0.25
# Share of the rank up to which a change without a rest is of low rank.
LOST_RANK = 0.9
# Relative size below which a residual is rounding of the arithmetic itself.
NOTHING = 1e-6
# Second moment of the rest, over that of independent entries, up to which it is noise.
FLAT = 1.1
# Squared size of the rest, over that of the rounding of a 16-bit format, up to which it is that rounding.
ROUNDING_ENERGY = 2.0
# Share of the energy beyond which the rest of a difference counts as nothing.
ALL_ENERGY = 0.999
# Numbers of a block that share a scale in the common formats of 8 bits or fewer, or a part of such a block.
QUANTISED_BLOCKS = (32, 16)
MOST_STEPS = 255
# Share of the blocks that must lie on a grid: in some the smallest gap is two steps, and no continuous block passes.
ON_A_GRID = 0.8
OFF_THE_GRID = 0.05  # of a step
STEP_ERROR = 0.5  # root mean square error in steps; rounding to the nearest gives .29
SENTENCES = {
    "identical": "The weights are identical.",
    "few entries": "{changed} of {entries} entries differ, by up to {largest:.3g}; all others are equal.",
    "scale": "The second is {factor:.4g} times the first.",
    "permutation": "The {axis} are the same in another order.",
    "rounding": "The second is the first rounded to {format}; the error is {relative_norm:.2g} of the weight's size.",
    "noise": "The difference is like independent noise: no direction stands out of it.",
    "low rank": "{rank} direction(s) stand out, with {energy:.0%} of the change; the rest is {rest}.",
    "structured": "The change is spread over many directions of unequal size, as after training; {rank} stand out.",
}


@dataclass(frozen=True)
class WeightDelta(Result, schema="delta"):
    """The difference of two weights in a few numbers.

    Attributes
    ----------
    kind : str
        ``"identical"``, ``"few entries"``, ``"scale"``, ``"permutation"``, ``"rounding"``, ``"noise"``,
        ``"low rank"`` or ``"structured"``.
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

    def _notes(self) -> list[str]:
        return [self.sentence]


def difference(first: BlockSource, second: BlockSource) -> BlockSource:
    """B − A as a table in memory, in single precision."""
    if first.shape != second.shape:
        raise ShapeError("the weights have different shapes", (first.shape, second.shape), "Compare equal shapes")
    V, d = first.shape
    require_memory(4 * V * d, f"the difference of {V} x {d} weights", "Compare one weight at a time")
    out = np.empty((V, d), dtype=np.float32)
    start = 0
    for a, b in _together(first, second):
        out[start : start + len(a)] = b - a
        start += len(a)
    return ArrayBlocks(out, f"{second.name} − {first.name}")


def _together(first: BlockSource, second: BlockSource) -> Iterator[tuple[FloatArray, FloatArray]]:
    """The same rows of both, in small blocks: several temporary arrays are held beside them."""
    return side_by_side((first, second), max(64, block_rows(first.shape[1]) // 8))


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
        kind, rank = _spectral_kind(values, D, second, words)
    energy = float(values[:rank].sum() / total) if total > 0 else 0.0
    if rank:
        _, directions = base.eigenpairs()
        overlap = float(np.sum((vectors[:, :rank].T @ directions[:, :rank]) ** 2) / rank)
    words |= {"rank": rank, "energy": energy}
    return WeightDelta(
        kind,
        relative,
        rank,
        energy,
        stable_rank(values),
        effective_rank(values),
        overlap,
        SENTENCES[kind].format(**words),
    )


def _plain_kind(first: BlockSource, second: BlockSource, relative: float, words: dict[str, Any]) -> str | None:
    """Changes that are recognised by their entries."""
    if relative == 0:
        return "identical"
    ab = aa = largest = 0.0
    changed, entries = 0, math.prod(first.shape)
    for a, b in _together(first, second):
        ab, aa = ab + float(np.sum(a * b)), aa + float(np.sum(a * a))
        changed, largest = changed + int(np.sum(a != b)), max(largest, float(np.abs(b - a).max()))
    if changed <= max(1, FEW_ENTRIES * entries):
        words |= {"changed": changed, "entries": entries, "largest": largest}
        return "few entries"
    factor = ab / aa if aa > 0 else 0.0
    residual = sum(float(np.sum((b - factor * a) ** 2)) for a, b in _together(first, second))
    if aa > 0 and np.sqrt(residual / aa) < NOTHING:
        words["factor"] = factor
        return "scale"
    for axis, keys in (("rows", _row_keys), ("columns", _column_keys)):
        if np.array_equal(np.sort(keys(first)), np.sort(keys(second))):
            words["axis"] = axis
            return "permutation"
    kind = _rounding(first, second)
    if kind is not None:
        words["format"] = kind
        return "rounding"
    return None


def _row_keys(source: BlockSource) -> NDArray[np.int64]:
    """A number for each row, equal for equal rows."""
    return np.array([hash(row.tobytes()) for block in source.blocks() for row in np.ascontiguousarray(block)])


def _column_keys(source: BlockSource) -> FloatArray:
    """A number for each column, equal for equal columns: the sum of its entries, each times a number of its row."""
    rng = np.random.default_rng(0)
    keys = np.zeros(source.shape[1])
    for block in source.blocks():
        for row in block:  # one row after the other, so that the order of the columns does not change the rounding
            keys += rng.random() * row
    return keys


def _rounding(first: BlockSource, second: BlockSource) -> str | None:
    """The format that the second is the first rounded to, or None."""
    grids = [(axis, size) for axis in ("rows", "columns") for size in QUANTISED_BLOCKS]
    holds = {"bfloat16": True, "float16": True, **{f"{axis} {size}": True for axis, size in grids}}
    bits = {f"{axis} {size}": 0 for axis, size in grids}
    for a, b in _together(first, second):
        if holds["bfloat16"]:
            holds["bfloat16"] = bool(np.all(np.abs(b - a) <= np.abs(a) * 2.0**-8 + 1e-38) and _is_bfloat16(b))
        if holds["float16"]:
            holds["float16"] = bool(np.array_equal(_to_float16(a), b))
        for axis, size in grids:
            name = f"{axis} {size}"
            if holds[name] and (axis == "rows" or len(b) >= size):  # the last block may be short
                steps = _grid_bits(a, b, size) if axis == "rows" else _grid_bits(a.T, b.T, size)
                holds[name], bits[name] = steps is not None, max(bits[name], steps or 0)
        if not any(holds.values()):
            return "8 bits" if _few_levels(first, second) else None
    name = next(name for name, held in holds.items() if held)
    return name if name.endswith("float16") else f"{bits[name]} bits"


def _few_levels(first: BlockSource, second: BlockSource) -> bool:
    """Whether the second has at most 256 different numbers, each close to that of the first, which has more."""
    levels: FloatArray = np.empty(0)
    before: FloatArray = np.empty(0)
    error = size = 0.0
    for a, b in _together(first, second):
        levels = np.unique(np.concatenate([levels, b.reshape(-1)]))
        if len(levels) > LEVELS:
            return False
        if len(before) <= LEVELS:
            before = np.unique(np.concatenate([before, a.reshape(-1)]))
        error, size = error + float(np.sum((b - a) ** 2)), size + float(np.sum(a * a))
    return len(before) > LEVELS and math.sqrt(error / size) < LEVEL_ERROR


def _is_float16(b: FloatArray) -> bool:
    return bool(np.array_equal(_to_float16(b), b))


def _to_float16(b: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):  # too large a number becomes infinite, which equals nothing here
        return b.astype(np.float16).astype(np.float64)


def _is_bfloat16(b: FloatArray) -> bool:
    bits = np.ascontiguousarray(b, dtype=np.float32).view(np.uint32)
    return bool(np.all(bits & 0xFFFF == 0))


def _grid_bits(a: FloatArray, b: FloatArray, size: int) -> int | None:
    """Bits of the grids of equal steps that blocks of b lie on, with errors of their size against a; None if not so.

    A multiple of `size` numbers may share a grid: a part of such a block lies on the same one.
    """
    width = b.shape[1] // size * size
    if not width:
        return None
    a, b = (x[:, :width].reshape(-1, size) for x in (a, b))
    changed = np.any(a != b, axis=1)  # some formats keep a part as it is
    a, b = a[changed], b[changed]
    ordered = np.sort(b, axis=1)
    gaps = np.diff(ordered, axis=1)
    span = ordered[:, -1] - ordered[:, 0]
    # gaps below the rounding of the arithmetic are none
    tiny = 1e-6 * np.maximum(np.abs(ordered[:, [0, -1]]).max(axis=1), 1e-300)[:, None]
    step = np.where(gaps > tiny, gaps, np.inf).min(axis=1)
    varied = np.isfinite(step) & (span < (MOST_STEPS + 0.5) * step)
    if not varied.any():
        return None
    # multiples of the smallest gap, and not a step of a size that anything would be a multiple of
    steps = (ordered[varied] - ordered[varied][:, :1]) / step[varied][:, None]
    close = np.abs(steps - np.round(steps)).max(axis=1) < OFF_THE_GRID
    near = np.sqrt(np.mean((b - a)[varied] ** 2, axis=1)) < STEP_ERROR * step[varied]
    good = close & near
    constant = int(np.sum(~np.isfinite(step)))  # all numbers of a block on one level
    if good.sum() < ON_A_GRID * (len(b) - constant):
        return None
    return max(1, math.ceil(math.log2(float(np.quantile(np.round(steps[good][:, -1]), 0.99)) + 1)))


def _spectral_kind(values: FloatArray, D: BlockSource, second: BlockSource, words: dict[str, Any]) -> tuple[str, int]:
    """Noise, low rank or structured, and how many directions stand out."""
    V, d = D.shape
    numerical = int(np.sum(values > 1e-10 * values[0]))
    if numerical <= LOST_RANK * min(V, d):
        return "low rank", numerical
    rank = _outlying(values)
    trimmed = _trimmed(D) if rank else None
    fewer = rank if trimmed is None else _outlying(trimmed)
    if trimmed is not None and fewer < rank and _is_flat(trimmed[fewer:], V):
        words["rest"] = "like independent noise with heavy tails"
        return ("low rank", fewer) if fewer else ("noise", 0)
    if _is_flat(values[rank:], V):
        words["rest"] = "like independent noise"
        return ("low rank", rank) if rank else ("noise", 0)
    # Entries of unequal size round by unequal steps. Divided by these, the error of a 16-bit format is like noise.
    steps = _rounding_steps(second)
    if steps is not None and float(values[rank:].sum()) * V <= ROUNDING_ENERGY * float(steps[0].sum()) / 12:
        scales = [np.sqrt(np.maximum(part / part.mean(), 1e-12)) for part in steps]
        even = stream_moments(ArrayBlocks(D.whole() / scales[0][:, None] / scales[1])).uncentered().eigenvalues()
        outlying = _outlying(even)
        if outlying and _is_flat(even[outlying:], V):
            words["rest"] = "the rounding of a 16-bit format"
            return "low rank", outlying
    if float(values[:rank].sum()) > ALL_ENERGY * float(values.sum()) and rank <= min(V, d) // 4:
        return "low rank", rank
    return "structured", rank


def _trimmed(D: BlockSource) -> FloatArray | None:
    """Eigenvalues of the difference with its far entries cut off; None where these make up rows or columns."""
    entries = D.whole()
    limit = CUT_OFF * float(np.median(np.abs(entries))) / 0.6745
    far = np.abs(entries) > limit
    if limit == 0 or not far.any() or max(far.mean(axis=0).max(), far.mean(axis=1).max()) >= MOST_CUT:
        return None
    return stream_moments(ArrayBlocks(np.clip(entries, -limit, limit))).uncentered().eigenvalues()


def _outlying(values: FloatArray) -> int:
    """Eigenvalues beyond the bulk; 0 where there are too few for a bulk."""
    try:
        return find_edge(values[values > 1e-12 * values[0]]).n_outliers
    except SpikepoolError:
        return 0


def _is_flat(rest: FloatArray, V: int) -> bool:
    """Whether the second moment of the eigenvalues is that of independent entries."""
    return float(np.mean(rest**2) / np.mean(rest) ** 2) <= FLAT * (1 + len(rest) / V)


def _rounding_steps(source: BlockSource) -> tuple[FloatArray, FloatArray] | None:
    """Squared steps of the 16-bit format that the entries are stored in, by row and by column; None for other types."""
    for bits, holds in ((8, _is_bfloat16), (11, _is_float16)):  # significant bits
        rows, columns = [], np.zeros(source.shape[1])
        for block in source.blocks():
            if not holds(block):
                break
            squares = 4.0 ** (np.frexp(block)[1] - bits)
            rows.append(squares.sum(axis=1))
            columns += squares.sum(axis=0)
        else:
            return np.concatenate(rows), columns
    return None
