"""Rows read in blocks: covariance by halves in a first pass, norms and whitened squares of the rows in a second.

Nothing of the size of the rows is kept but a few numbers a row. Four covariances (random halves, cut by the order of
the rows) cost no more than one, and their sums are the halves to compare. There is one random split instead of four
and no resampling: at the sizes that are streamed, halves scatter little, and resampling would take a pass for each.

The two passes over rows that are never held, each a sum over chunks that may be worked on anywhere.

The one place where features enter: arrays, memory maps, Zarr and Dask arrays, paths; in memory or streamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import BlockSource
from spikepool.data.description import (
    Description,
    merge_nearest,
    nearest_distances,
    neighbour_rows,
    norm_scatter,
    numbered,
    row_hashes,
)
from spikepool.data.folds import group_numbers
from spikepool.data.in_memory import as_array
from spikepool.data.map_merge import map_chunks, map_merge
from spikepool.data.opening import is_stored, open_blocks
from spikepool.errors import DomainError, InvalidInputError, MemoryBudgetError, NonFiniteError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import BoolArray, FloatArray, IntArray
from spikepool.trust import draws as effort
from spikepool.trust.draws import BLOCK_BYTES, overlaps, top_vectors
from spikepool.trust.memory_rows import MemoryRows, descending
from spikepool.trust.sample import (
    LARGEST_FEATURE,
    Rows,
    Sample,
    effective_rows,
    group_likeness,
    span_sizes,
    whitened_count,
)


def row_blocks(start: int, chunk: NDArray[Any]) -> Iterator[tuple[int, FloatArray]]:
    """First row and content, as float64, of the blocks of a chunk whose first row is number `start`."""
    step = max(1, BLOCK_BYTES // (8 * chunk.shape[1]))
    for first in range(0, len(chunk), step):
        part = np.asarray(chunk[first : first + step], dtype=np.float64)
        if not np.isfinite(part).all():
            row = start + first + int(np.flatnonzero(~np.isfinite(part).all(axis=1))[0])
            raise NonFiniteError(f"C contains NaN or infinities in row {row}", remedy="Remove or impute them first")
        yield start + first, part


class FirstPass:
    """Covariances of quarters of the rows (random halves, cut by order), hashes, lagged products, some rows kept.

    Moments are about `shift`, near the mean so that nothing cancels; with rows y − shift, the moments of another
    part about its own shift' = shift + e are moved by

        Σ (y + e) = S + m e,    Σ (y + e)(y + e)' = Q + S e' + e S' + m e e'.

    Parameters
    ----------
    n : int
        Rows in all.
    chosen : array of int
        Numbers of the rows to keep, ascending.
    group, side : array of int (n,) and of bool, or None
        Groups of rows, and the random half of each group; without, a bit of the hash of a row decides.
    """

    def __init__(self, n: int, chosen: IntArray, group: IntArray | None, side: BoolArray | None) -> None:
        self._n, self._chosen, self._group, self._side = n, chosen, group, side
        self.rows = 0
        self.largest = 0.0
        self.products = 0.0  # sum of <y_i, y_{i+1}>
        self.hashes: list[NDArray[np.uint64]] = []
        self.kept: list[FloatArray] = []

    def add(self, start: int, chunk: NDArray[Any]) -> None:
        """Add a chunk whose first row is number `start`; chunks of a part follow each other."""
        for first, x in row_blocks(start, chunk):
            self._add(first, x)

    def _add(self, start: int, x: FloatArray) -> None:
        d = x.shape[1]
        self.largest = max(self.largest, float(np.abs(x).max()))
        if self.largest > LARGEST_FEATURE:
            raise DomainError("squares of the features overflow; the largest is", self.largest, "Rescale them")
        if self.rows == 0:
            self.shift = x.mean(axis=0)
            self.counts, self.sums, self.squares = np.zeros((2, 2)), np.zeros((2, 2, d)), np.zeros((2, 2, d, d))
            self.first = x[0] - self.shift
            self.last = np.zeros(d)
        hashes = row_hashes(x)
        self.hashes.append(hashes)
        here = self._chosen[(self._chosen >= start) & (self._chosen < start + len(x))]
        self.kept.append(x[here - start])
        y = x - self.shift
        self.products += float(np.einsum("ij,ij->", y[1:], y[:-1]) + self.last @ y[0])
        self.last = y[-1].copy()
        random = self._half_of(start, hashes)
        late = np.arange(start, start + len(x)) >= self._n // 2
        for i in (0, 1):
            for j in (0, 1):
                part = y[(random == bool(i)) & (late == bool(j))]
                self.counts[i, j] += len(part)
                self.sums[i, j] += part.sum(axis=0)
                self.squares[i, j] += part.T @ part
        self.rows += len(x)

    def _half_of(self, start: int, hashes: NDArray[np.uint64]) -> BoolArray:
        """Random half of the rows of a block: by their group, or by a bit of their hash; equal rows stay together."""
        if self._group is None or self._side is None:
            return np.asarray((hashes >> np.uint64(41)) & np.uint64(1) == 1)
        return np.asarray(self._side[self._group[start : start + len(hashes)]])

    def merged(self, other: FirstPass) -> FirstPass:
        """Both parts; `other`'s rows follow."""
        result = copy(self)
        e = other.shift - self.shift
        m, S, cross = other.counts, other.sums, np.einsum("ija,b->ijab", other.sums, e)
        result.counts = self.counts + m
        result.sums = self.sums + S + m[..., None] * e
        result.squares = self.squares + other.squares + cross + cross.swapaxes(2, 3)
        result.squares += m[..., None, None] * np.outer(e, e)
        total = S.sum(axis=(0, 1))
        within = other.products + float(e @ (2 * total - other.first - other.last)) + (other.rows - 1) * float(e @ e)
        result.products = self.products + within + float(self.last @ (other.first + e))
        result.last = other.last + e
        result.rows = self.rows + other.rows
        result.largest = max(self.largest, other.largest)
        result.hashes, result.kept = self.hashes + other.hashes, self.kept + other.kept
        return result

    def __getstate__(self) -> dict[str, Any]:
        # sums that travel leave what every part was given behind
        return {key: value for key, value in self.__dict__.items() if key not in ("_chosen", "_group", "_side")}


@dataclass(frozen=True, eq=False)
class SecondPass:
    """What follows for each row from mean and components; a function of chunks.

    Attributes
    ----------
    mean : array (d,)
    directions : array (d, J)
        Components over the root of their eigenvalue.
    neighbours, neighbour_norms, neighbour_units : array
        Centred rows whose nearest neighbour is looked for.
    units : array of int (n,)
        Rows of the same unit are not compared.
    """

    mean: FloatArray
    directions: FloatArray
    neighbours: FloatArray
    neighbour_norms: FloatArray
    neighbour_units: IntArray
    units: IntArray

    def __call__(self, start: int, chunk: NDArray[Any]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Squared norms (b,), whitened scores (b, J), and relative distances of the neighbours to the nearest rows."""
        norms, scores = np.empty(len(chunk)), np.empty((len(chunk), self.directions.shape[1]))
        nearest: FloatArray | None = None
        for first, x in row_blocks(start, chunk):
            x = x - self.mean
            rows = slice(first - start, first - start + len(x))
            norms[rows] = np.einsum("ij,ij->i", x, x)
            scores[rows] = x @ self.directions
            units = self.units[first : first + len(x)]
            nearest = nearest_distances(
                self.neighbours, self.neighbour_norms, self.neighbour_units, x, norms[rows], units, nearest
            )
        assert nearest is not None
        return norms, scores, nearest


@dataclass(frozen=True, eq=False)
class Scores:
    """Projections of rows on components; a function of chunks."""

    mean: FloatArray
    directions: FloatArray

    def __call__(self, start: int, chunk: NDArray[Any]) -> FloatArray:
        """(b, count)."""
        return np.concatenate([(x - self.mean) @ self.directions for _, x in row_blocks(start, chunk)])


# Row statistics kept for the scales of simulated rows; a million would only slow their drawing down.
_KEPT_ROWS = 100_000


class StreamedRows:
    """The statistics of :class:`spikepool.trust.memory_rows.MemoryRows`, of rows that are read twice and never held.

    Parameters
    ----------
    source : BlockSource
        Two-dimensional.
    group : array of int of shape (n,), or None
        Groups of rows that stay together; without, equal rows do.
    rng : numpy.random.Generator
    """

    def __init__(self, source: BlockSource, group: IntArray | None, rng: np.random.Generator) -> None:
        self.source = source
        self.n, self.d = source.shape
        self._group = group
        self._chosen = neighbour_rows(self.n, rng)
        self._side = None if group is None else rng.integers(0, 2, int(group.max()) + 1).astype(bool)
        self._first_pass()
        self._second_pass()

    def _first_pass(self) -> None:
        n = self.n
        new = partial(FirstPass, n, self._chosen, self._group, self._side)
        moments = map_merge(new, [self.source], label="covariance")
        counts, sums, squares, largest = moments.counts, moments.sums, moments.squares, moments.largest
        hashes, neighbours, shift = np.concatenate(moments.hashes), np.concatenate(moments.kept), moments.shift
        if largest > 0 and largest < 1 / LARGEST_FEATURE:
            raise DomainError("squares of the features underflow; the largest is", largest, "Rescale them")
        total = sums.sum(axis=(0, 1))
        offset = total / n
        self.mean = shift + offset
        covariance = squares.sum(axis=(0, 1))
        mean_norm = (float(np.trace(covariance)) - n * float(offset @ offset)) / n
        covariance = (covariance - n * np.outer(offset, offset)) / (n - 1)
        self.values, self.vectors = descending(covariance)
        self.rank = int(np.count_nonzero(self.values))
        ends = moments.first + moments.last
        pairs = moments.products - float(offset @ (2 * total - ends)) + (n - 1) * float(offset @ offset)
        self.description = Description.streamed(
            self._group,
            hashes,
            lag=pairs / (n - 1) / max(mean_norm, np.finfo(float).tiny),
            scatter=norm_scatter(float(self.values.sum()), float((self.values**2).sum()), n),
            rank=self.rank,
        )
        self.ks = span_sizes(
            int(self._group.max()) + 1 if self._group is not None else len(self.description.counts), self.rank
        )
        count = int(self.ks[-1])

        def half(axis: int, which: int) -> FloatArray:
            m, s, q = (np.take(a, which, axis=axis).sum(axis=0) for a in (counts, sums, squares))
            return top_vectors(q - np.outer(s, s) / max(m, 1.0), count)

        self._halves = overlaps(half(0, 0), half(0, 1), self.ks)[0]
        self._contiguous = overlaps(half(1, 0), half(1, 1), self.ks)[0]
        self._neighbours = neighbours - self.mean

    def _second_pass(self) -> None:
        n, group = self.n, self._group
        units = self.description.units
        self._n_whitened = whitened_count(n if group is not None else len(self.description.counts), self.rank)
        directions = self.vectors[: self._n_whitened].T / np.sqrt(
            np.maximum(self.values[: self._n_whitened], np.finfo(float).tiny)
        )
        self.norms, self._whitened = np.empty(n), np.empty(n)
        self._group_sums = np.zeros((int(group.max()) + 1 if group is not None else 1, self._n_whitened))
        self._fourth = 0.0
        nearest: FloatArray | None = None
        chosen_norms = np.einsum("ij,ij->i", self._neighbours, self._neighbours)
        task = SecondPass(self.mean, directions, self._neighbours, chosen_norms, units[self._chosen], units)
        for start, (norms, scores, distances) in map_chunks(task, [self.source], label="rows"):
            rows = slice(start, start + len(norms))
            self.norms[rows], self._whitened[rows] = norms, np.mean(scores**2, axis=1)
            nearest = merge_nearest(nearest, distances)
            self._fourth += float(np.mean(scores**4, axis=1).sum())
            if group is not None:
                np.add.at(self._group_sums, group[rows], scores)
        assert nearest is not None
        self.description.nearest, self.description.norms = nearest, self.norms

    def scores(self, count: int) -> FloatArray:
        """Projections (n, count) on the first components: one more pass."""
        directions = self.vectors[:count].T
        projected = np.empty((self.n, directions.shape[1]))
        for start, scores in map_chunks(Scores(self.mean, directions), [self.source], label="scores"):
            projected[start : start + len(scores)] = scores
        return projected

    def sample(self, units: IntArray, grouped: bool, rng: np.random.Generator) -> Sample:
        """What the simulation has to explain."""
        norms, whitened, effective, counts = self.norms, self._whitened, self.n, None
        if grouped:
            sizes = np.bincount(units)
            squares = float(self._whitened.sum()) * self._n_whitened
            effective = effective_rows(sizes, group_likeness(self._group_sums, squares, sizes))
        elif len(self.description.counts) < self.n:
            first = np.unique(units, return_index=True)[1]
            norms, whitened, effective, counts = norms[first], whitened[first], len(first), self.description.counts
        if len(norms) > _KEPT_ROWS:
            kept = rng.choice(len(norms), _KEPT_ROWS, replace=False)
            norms, whitened, counts = norms[kept], whitened[kept], None if counts is None else counts[kept]
        return Sample(
            n_effective=effective,
            ks=self.ks,
            values=self.values,
            norms=norms,
            whitened=whitened,
            n_whitened=self._n_whitened,
            fourth=self._fourth / self.n,
            counts=counts,
            halves=self._halves[None],
            contiguous=self._contiguous,
            resampled=None,
            resampled_single=None,
        )


# Groups from which something can be said about new ones.
_FEWEST_GROUPS = 8
# Fewer dimensions have no bulk to tell components from.
_FEWEST_DIMENSIONS = 4
# The covariance and its eigenvectors are formed; beyond this dimension that is no longer a quick look.
_LARGEST_DIMENSION = 20_000


def open_rows(
    C: Any, groups: Any, rng: np.random.Generator, description: Description | None = None
) -> tuple[Rows, IntArray | None]:
    """The rows with their spectrum, and the groups as numbers."""
    stored = is_stored(C)
    if stored:
        source = open_blocks(C, name="C")
        shape = source.shape
        if len(shape) != 2:
            raise ShapeError(f"C must have 2 dimensions, not {len(shape)}", shape, "Pool the sequences first")
        if source.dtype.kind not in "fiub":
            raise InvalidInputError("C must be real numbers", source.dtype, "Pass a numeric array")
    else:
        C = as_array(C, "C")
        features = check.finite_array(C, "C", ndim=2)
        shape = features.shape
    n, d = shape
    if n < 4 or d < _FEWEST_DIMENSIONS:
        raise ShapeError("C must have at least 4 samples and 4 features", shape, "Pass (n_samples, d)")
    if min(n, d) > _LARGEST_DIMENSION:
        raise MemoryBudgetError(
            f"the smaller side of C must be at most {_LARGEST_DIMENSION}", shape, "Reduce the dimension first"
        )
    group = None
    if groups is not None:
        group = numbered(group_numbers(groups, n, fewest=_FEWEST_GROUPS, why="to say anything about new ones"))[0]
    rows: Rows
    if 8 * n * d > effort.STREAMED_BYTES and d <= n:
        rows = StreamedRows(source if stored else open_blocks(features, name="C"), group, rng)
    else:
        if stored:
            features = check.finite_array(source.whole(), "C")
        largest = float(np.abs(features).max())
        if largest > 0 and not 1 / LARGEST_FEATURE <= largest <= LARGEST_FEATURE:
            raise DomainError("squares of the features under- or overflow; the largest is", largest, "Rescale them")
        rows = MemoryRows(features, group, description)
    if rows.values[0] <= _resolution(source if stored else C) * max(float(np.sum(rows.mean**2)), 1e-300):
        raise InvalidInputError("all rows of C are equal", remedy="Pass features that vary between samples")
    if rows.rank < min(_FEWEST_DIMENSIONS, len(rows.description.counts) - 1):
        raise InvalidInputError(
            f"the {d} features of C span too few dimensions", rows.rank, f"Pass at least {_FEWEST_DIMENSIONS}"
        )
    return rows, group


def _resolution(given: Any) -> float:
    """Variance below which rows are equal up to rounding, as a share of the squared mean."""
    dtype = np.dtype(getattr(given, "dtype", np.float64))
    return float((4 * np.finfo(dtype if dtype.kind == "f" else np.float64).eps) ** 2)
