"""Rows read in blocks: covariance by halves in a first pass, norms and whitened squares of the rows in a second.

Nothing of the size of the rows is kept but a few numbers a row. Four covariances (random halves, cut by the order of
the rows) cost no more than one, and their sums are the halves to compare. There is one random split instead of four
and no resampling: at the sizes that are streamed, halves scatter little, and resampling would take a pass for each.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from spikepool.data.blocks import BlockSource
from spikepool.data.description import Description
from spikepool.data.map_merge import map_chunks, map_merge
from spikepool.errors import DomainError
from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.equal_rows import numbered
from spikepool.kit.near_copies import merge_nearest, neighbour_rows, norm_scatter
from spikepool.trust.draws import overlaps, top_vectors
from spikepool.trust.memory_rows import descending
from spikepool.trust.row_passes import FirstPass, Scores, SecondPass
from spikepool.trust.row_scales import whitened_count
from spikepool.trust.rows import LARGEST_FEATURE
from spikepool.trust.sample import Sample, effective_rows, group_likeness, span_sizes

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
        found = map_merge(new, [self.source], label="covariance")
        counts, sums, squares, largest = found.counts, found.sums, found.squares, found.largest
        hashes, neighbours, shift = np.concatenate(found.hashes), np.concatenate(found.kept), found.shift
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
        ends = found.first + found.last
        pairs = found.products - float(offset @ (2 * total - ends)) + (n - 1) * float(offset @ offset)
        copies, counts_of = numbered(hashes)
        self.description = Description.known(
            n,
            self._group,
            copies=copies,
            counts=counts_of,
            lag=pairs / (n - 1) / max(mean_norm, np.finfo(float).tiny),
            scatter=norm_scatter(float(self.values.sum()), float((self.values**2).sum()), n),
            rank=self.rank,
        )
        self.ks = span_sizes(int(self._group.max()) + 1 if self._group is not None else len(counts_of), self.rank)
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
        self.description.__dict__.update(nearest=nearest, norms=self.norms)

    def scores(self, count: int) -> FloatArray:
        """Projections (n, count) on the first components: one more pass."""
        directions = self.vectors[:count].T
        found = np.empty((self.n, directions.shape[1]))
        for start, scores in map_chunks(Scores(self.mean, directions), [self.source], label="scores"):
            found[start : start + len(scores)] = scores
        return found

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
