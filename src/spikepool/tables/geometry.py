"""The geometry of two tables: common rows, overlap of leading spaces, distance; formulas in :mod:`.compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import ArrayBlocks, BlockSource, block_rows
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.tables.gram import Moments, stream_moments

SIZES = (1, 2, 5, 10, 20, 50)  # dimensions of the leading spaces
FEWEST_COMMON = 20  # tokens with a common name below which two vocabularies do not match


@dataclass(frozen=True)
class SpaceOverlap:
    """Overlap of the leading spaces of dimension `k`.

    Attributes
    ----------
    k : int
    coordinates, tokens : float or None
        Mean squared cosine of the principal angles in either space; None where the tables cannot be compared so.
    largest_angle : float or None
        Largest principal angle in degrees, of coordinates where they are common, else of tokens.
    chance : float
        Mean overlap of unrelated spaces of that kind, k/d or k/V.
    """

    k: int
    coordinates: float | None
    tokens: float | None
    largest_angle: float | None
    chance: float


def match_rows(
    sources: tuple[BlockSource, BlockSource], tokens: tuple[Sequence[str] | None, Sequence[str] | None]
) -> tuple[tuple[BlockSource, BlockSource], NDArray[np.intp]] | None:
    """Both tables restricted to their common tokens in one order, and the rows of the first; None when unmatched."""
    a, b = sources
    names_a, names_b = tokens
    if names_a is None or names_b is None or list(names_a) == list(names_b):
        return (sources, np.arange(a.shape[0])) if a.shape[0] == b.shape[0] else None
    place = {name: row for row, name in reversed(list(enumerate(names_b)))}
    pairs = [(row, place[name]) for row, name in enumerate(names_a) if name in place]
    if len(pairs) < FEWEST_COMMON:
        return None
    rows = np.array(pairs, dtype=np.intp)
    return (_rows_of(a, rows[:, 0]), _rows_of(b, rows[:, 1])), rows[:, 0]


def _rows_of(source: BlockSource, rows: NDArray[np.intp]) -> BlockSource:
    """A table of the given rows, in memory in single precision."""
    d = source.shape[1]
    require_memory(4 * len(rows) * d, f"matching {len(rows)} tokens by name", "Save both tables in the same order")
    table = np.empty((len(rows), d), dtype=np.float32)
    start = 0
    for block in source.blocks():
        inside = (rows >= start) & (rows < start + len(block))
        table[inside] = block[rows[inside] - start]
        start += len(block)
    return ArrayBlocks(table, source.name)


@dataclass(frozen=True)
class JointMoments:
    """Moments of matched tables with n rows: A'A/n, A'B/n and B'B/n of centred rows, and both means."""

    n: int
    aa: FloatArray
    ab: FloatArray
    bb: FloatArray
    mean: FloatArray

    def overlaps(self) -> tuple[SpaceOverlap, ...]:
        """Overlaps of the leading spaces, of coordinates where they are common and of tokens."""
        values, vectors = zip(*(_eigenpairs(part) for part in (self.aa, self.bb)), strict=True)
        return _space_overlaps(values, vectors, self.ab, [(self.n, len(self.aa)), (self.n, len(self.bb))])


def joint_moments(pair: tuple[BlockSource, BlockSource]) -> JointMoments:
    """Moments of the tables side by side, in one pass over both."""
    width = pair[0].shape[1] + pair[1].shape[1]
    moments = Moments.zero(width)
    rows = block_rows(width)
    for blocks in side_by_side(pair, rows):
        moments.add(np.concatenate(blocks, axis=1))
    n, da = pair[0].shape
    gram = (np.tril(moments.lower) + np.tril(moments.lower, -1).T) / n
    return JointMoments(n, gram[:da, :da], gram[:da, da:], gram[da:, da:], moments.mean)


def side_by_side(pair: tuple[BlockSource, BlockSource], rows: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """The same rows of both tables; formats differ in where a block ends."""
    return meeting(pair[0].blocks(rows), pair[1].blocks(rows))


def meeting(left: Iterator[FloatArray], right: Iterator[FloatArray]) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Two streams of rows cut at the borders of both."""
    a, b = next(left), next(right)
    while True:
        count = min(len(a), len(b))
        yield a[:count], b[:count]
        a, b = a[count:], b[count:]
        a = a if len(a) else next(left, a)
        b = b if len(b) else next(right, b)
        if not len(a) or not len(b):
            return


def _eigenpairs(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues of a covariance, largest first, rounding below zero removed, and eigenvectors as columns."""
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def separate_overlaps(pair: tuple[BlockSource, BlockSource]) -> tuple[SpaceOverlap, ...]:
    """Overlaps of the leading spaces of tables whose rows do not match: of coordinates alone, where they are common."""
    values, vectors = zip(*(stream_moments(source).eigenpairs() for source in pair), strict=True)
    return _space_overlaps(values, vectors, None, [source.shape for source in pair])


def _space_overlaps(values: Any, vectors: Any, cross: FloatArray | None, shapes: Any) -> tuple[SpaceOverlap, ...]:
    """Overlaps for every size that both tables have directions for; `cross` is A'B/n of matched rows."""
    (Va, da), (Vb, db) = shapes
    ranks = [int(np.sum(v > 1e-12 * v[0])) for v in values]
    overlaps = []
    for k in (k for k in SIZES if k <= min(*ranks, max(da, db) // 2)):
        a, b = vectors[0][:, :k], vectors[1][:, :k]
        coordinates = np.linalg.svd(a.T @ b, compute_uv=False) if da == db else None
        tokens = None
        if cross is not None:
            scale = np.sqrt(np.outer(values[0][:k], values[1][:k]))
            tokens = np.linalg.svd(a.T @ cross @ b / scale, compute_uv=False)
        shown = coordinates if coordinates is not None else tokens
        overlaps.append(
            SpaceOverlap(
                k,
                None if coordinates is None else float(np.mean(coordinates**2)),
                None if tokens is None else float(np.mean(tokens**2)),
                None if shown is None else float(np.degrees(np.arccos(np.clip(shown[-1], 0, 1)))),
                k / (da if da == db else max(Va, Vb)),
            )
        )
    return tuple(overlaps)


def row_changes(
    pair: tuple[BlockSource, BlockSource], mean: FloatArray, rotation: FloatArray | None, unit: float
) -> tuple[FloatArray, FloatArray]:
    """(length of each token's move in units of the root mean square row, cosine), in one more pass."""
    n, da = pair[0].shape
    changes, cosines = np.empty(n), np.empty(n)
    rows = block_rows(len(mean))
    start = 0
    for a, b in side_by_side(pair, rows):
        a = a - mean[:da]
        b = b - mean[da:]
        here = slice(start, start + len(a))
        norms = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
        turned = a if rotation is None else a @ rotation
        products = np.einsum("ij,ij->i", turned, b)
        # what a wider first table has outside the narrower second one is part of the move
        outside = np.maximum(norms[0] ** 2 - np.einsum("ij,ij->i", turned, turned), 0) if rotation is not None else 0.0
        changes[here] = np.sqrt(np.einsum("ij,ij->i", turned - b, turned - b) + outside) / unit
        cosines[here] = products / np.maximum(norms[0] * norms[1], np.finfo(float).tiny)
        start += len(a)
    return changes, cosines


def relative_distance(powers: tuple[float, float], inner: float) -> float:
    """‖A − B‖/‖A‖ from squared norms and inner product."""
    return float(np.sqrt(max(powers[0] + powers[1] - 2 * inner, 0.0) / powers[0]))
