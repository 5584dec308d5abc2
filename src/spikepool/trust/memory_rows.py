"""Rows in memory: spectrum and row statistics, halves and resamples."""

from __future__ import annotations

import copy

import numpy as np

from spikepool.data.description import Description
from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.trust.draws import overlaps, top_right_vectors, top_vectors
from spikepool.trust.effort import effort
from spikepool.trust.population import FLOOR
from spikepool.trust.sample import Sample, effective_rows, group_likeness, span_sizes, whitened_count


class MemoryRows:
    """Centred rows with their spectrum.

    Attributes
    ----------
    n, d : int
    rank : int
        Dimensions that the rows span.
    mean : numpy.ndarray of shape (d,)
    values : numpy.ndarray of shape (d,)
        Eigenvalues of the covariance (divisor n − 1), descending, with exact zeros.
    vectors : numpy.ndarray of shape (rank, d)
        Components as rows.
    norms : numpy.ndarray of shape (n,)
        Squared norms of the centred rows.
    description : Description
        What the rows say of each other.
    """

    def __init__(
        self, features: FloatArray, groups: IntArray | None = None, description: Description | None = None
    ) -> None:
        self.n, self.d = features.shape
        self.mean = features.mean(axis=0)
        self.x = features - self.mean
        self.norms = np.einsum("ij,ij->i", self.x, self.x)
        self.values, self.vectors = spectrum(self.x)
        self.rank = int(np.count_nonzero(self.values))
        self.description = Description(features, groups=groups) if description is None else description

    def scores(self, count: int) -> FloatArray:
        """Projections (n, count) on the first components."""
        return np.asarray(self.x @ self.vectors[:count].T)

    def sample(self, units: IntArray, grouped: bool, rng: np.random.Generator) -> Sample:
        """What the simulation has to explain; rows of one unit (copies, or a group) stay together."""
        sizes = np.bincount(units)
        n_distinct = self.n if grouped else len(sizes)
        n_whitened = whitened_count(n_distinct, self.d)
        ks = span_sizes(len(sizes), self.d)
        count, work = int(ks[-1]), effort(n_distinct, self.d)
        scores = self.scores(n_whitened) / np.sqrt(np.maximum(self.values[:n_whitened], np.finfo(float).tiny))
        whitened, norms, effective = np.mean(scores**2, axis=1), self.norms, n_distinct
        fourth = float(np.mean(scores**4))
        # rows of each unit, by unit
        order, starts = np.argsort(units, kind="stable"), np.concatenate([[0], np.cumsum(sizes)])
        if grouped:
            sums = np.zeros((len(sizes), n_whitened))
            np.add.at(sums, units, scores)
            effective = effective_rows(sizes, group_likeness(sums, float((scores**2).sum()), sizes))
        else:
            first = order[starts[:-1]]
            norms, whitened = norms[first], whitened[first]

        def rows_of(chosen: IntArray) -> FloatArray:
            if len(sizes) == self.n:
                return np.asarray(self.x[order[chosen]])
            return np.asarray(self.x[np.concatenate([order[starts[u] : starts[u + 1]] for u in chosen])])

        halves = []
        for _ in range(work.splits):
            shuffled = rng.permutation(len(sizes))
            cut = int(np.searchsorted(np.cumsum(sizes[shuffled]), self.n / 2)) + 1
            cut = min(cut, len(sizes) - 1)
            halves.append(
                overlaps(components(rows_of(shuffled[:cut]), count), components(rows_of(shuffled[cut:]), count), ks)[0]
            )
        middle = self.n // 2
        contiguous = overlaps(components(self.x[:middle], count), components(self.x[middle:], count), ks)[0]
        again = [
            overlaps(components(rows_of(rng.integers(0, len(sizes), len(sizes))), count), self.vectors[:count].T, ks)
            for _ in range(work.resamples)
        ]
        return Sample(
            n_effective=effective,
            ks=ks,
            values=self.values,
            norms=norms,
            whitened=whitened,
            n_whitened=n_whitened,
            fourth=fourth,
            counts=None if grouped or len(sizes) == self.n else sizes,
            halves=np.array(halves),
            contiguous=contiguous,
            resampled=np.array([spans for spans, _ in again]),
            resampled_single=np.array([single for _, single in again]),
            lone=lone_variances(self.x, units) / (self.n - 1),
        )


def spanned(rows: MemoryRows) -> MemoryRows:
    """The same rows as ones of the dimensions that they span: repeated and constant columns add none."""
    inside = copy.copy(rows)
    inside.d, inside.values, inside.vectors = rows.rank, rows.values[: rows.rank], rows.vectors[: rows.rank]
    return inside


def lone_variances(x: FloatArray, units: IntArray) -> FloatArray:
    """Sums of squares of the columns that one unit of rows determines, by that unit.

    Such a column has one value in more than half of the rows, and more than half of its squares in one unit.
    """
    squares = np.zeros((int(units.max()) + 1, x.shape[1]))
    np.add.at(squares, units, x**2)
    total, holder = squares.sum(axis=0), squares.argmax(axis=0)
    lone = squares.max(axis=0) > total / 2
    lone[lone] = (x[:, lone] == np.median(x[:, lone], axis=0)).mean(axis=0) > 0.5
    return np.asarray(np.bincount(holder[lone], total[lone])[np.unique(holder[lone])])


def components(x: FloatArray, count: int) -> FloatArray:
    """The first `count` principal components of rows, as columns."""
    x = x - x.mean(axis=0)
    return top_right_vectors(x, count) if len(x) <= x.shape[1] else top_vectors(x.T @ x, count)


def spectrum(centred: FloatArray) -> tuple[FloatArray, FloatArray]:
    """All d eigenvalues of centred'centred/(n − 1), descending with exact zeros, and eigenvectors as rows."""
    n, d = centred.shape
    if d <= n:
        return descending(centred.T @ centred / (n - 1))
    values, left = descending(centred @ centred.T / (n - 1))
    rank = int(np.count_nonzero(values))
    right = (left[:rank] @ centred) / np.sqrt((n - 1) * values[:rank])[:, None]
    return np.concatenate([values[:rank], np.zeros(d - rank)]), right


def descending(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues of a covariance, descending, exact zeros where they are rounding, and its eigenvectors as rows."""
    values, vectors = np.linalg.eigh(matrix)
    values = values[::-1]
    return np.where(values > FLOOR * values[0], values, 0.0), vectors[:, ::-1].T
