"""The two passes over rows that are never held, each a sum over chunks that may be worked on anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import DomainError, NonFiniteError
from spikepool.kit.arrays import BoolArray, FloatArray, IntArray
from spikepool.kit.equal_rows import row_hashes
from spikepool.kit.near_copies import nearest_distances
from spikepool.trust.effort import BLOCK_BYTES
from spikepool.trust.rows import LARGEST_FEATURE


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
