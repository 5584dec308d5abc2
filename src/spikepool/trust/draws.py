"""Draws of a sample covariance from a population spectrum and row scales, and the spans of their leading components.

A row of the simulated world is ``x_i = sqrt(s_i) · diag(tau)^{1/2} z_i`` with Gaussian ``z_i``: the population's
components are the coordinate axes, by rotation, so that the overlap of the top k sample components U with those of the
population is read off the leading block of U::

    O_k = ‖P_k U_k‖²/k = Σ_{i,j <= k} U_ij² / k

Three routes to the same law: the rows themselves, their Gram matrix when there are fewer rows than dimensions, and for
many rows a sum of Wishart matrices by Bartlett's decomposition, one for each group of rows of nearly equal scale.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.trust.effort import LARGE_SIDE

# Rows of a block of the direct draw: bounds its memory whatever the number of rows.
_BLOCK_ENTRIES = 4_000_000
# Bartlett's route costs d³ for each group of rows, the direct one n·d²: it is taken from this many rows a dimension on.
BARTLETT_RATIO = 16
_BARTLETT_GROUPS = 8
# Rows of the largest scales are drawn one by one there: their group would not be of nearly equal scale.
_LARGEST_SHARE = 0.02


@dataclass(frozen=True)
class World:
    """A population spectrum (descending) with the scales (mean 1) of the rows that are drawn from it."""

    tau: FloatArray
    scales: FloatArray

    def scales_of(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Scales of `n` rows: the known ones in random order when there are enough, resampled when not."""
        if n <= len(self.scales):
            return np.asarray(rng.permutation(self.scales)[:n])
        return np.asarray(rng.choice(self.scales, n))


def covariance(world: World, n: int, rng: np.random.Generator) -> FloatArray:
    """``X'X/(n − 1)`` of n centred rows; centring takes one of them."""
    scales, d = world.scales_of(n - 1, rng), len(world.tau)
    total = np.zeros((d, d))
    if n >= BARTLETT_RATIO * d:
        scales = np.sort(scales)
        single = max(1, int(_LARGEST_SHARE * len(scales)))
        for group in np.array_split(scales[:-single], _BARTLETT_GROUPS):
            total += group.mean() * _wishart(d, len(group), rng)
        scales = scales[-single:]
    rows = max(1, _BLOCK_ENTRIES // d)
    for start in range(0, len(scales), rows):
        part = scales[start : start + rows]
        x = rng.standard_normal((len(part), d))
        x *= np.sqrt(part)[:, None]
        total += x.T @ x
    root = np.sqrt(world.tau)
    return np.asarray(total * root * root[:, None] / (n - 1))


def _wishart(d: int, n: int, rng: np.random.Generator) -> FloatArray:
    """``Z'Z`` of n >= d Gaussian rows: ``L L'`` with L lower triangular, chi on the diagonal and normal below it."""
    lower = np.tril(rng.standard_normal((d, d)), -1)
    lower[np.diag_indices(d)] = np.sqrt(rng.chisquare(n - np.arange(d)))
    return lower @ lower.T


def gram_rows(world: World, n: int, rng: np.random.Generator) -> FloatArray:
    """Draw n − 1 rows, scaled so that their Gram matrix has the eigenvalues of :func:`covariance`."""
    x = rng.standard_normal((n - 1, len(world.tau)))
    x *= np.sqrt(world.tau / (n - 1))
    x *= np.sqrt(world.scales_of(n - 1, rng))[:, None]
    return x


def eigenvalues(world: World, n: int, rng: np.random.Generator) -> FloatArray:
    """All d eigenvalues of a draw, descending, exact zeros included."""
    d = len(world.tau)
    if n <= d:
        x = gram_rows(world, n, rng)
        values = np.linalg.eigvalsh(x @ x.T)[::-1]
        return np.concatenate([np.maximum(values, 0.0), np.zeros(d - len(values))])
    return np.asarray(np.maximum(np.linalg.eigvalsh(covariance(world, n, rng))[::-1], 0.0))


def leading(world: World, n: int, count: int, rng: np.random.Generator) -> FloatArray:
    """The first `count` eigenvectors of a draw as columns (d, count), largest first."""
    if n <= len(world.tau):
        return top_right_vectors(gram_rows(world, n, rng), count)
    return top_vectors(covariance(world, n, rng), count)


def top_vectors(matrix: FloatArray, count: int) -> FloatArray:
    """Eigenvectors of the `count` largest eigenvalues of a symmetric matrix, largest first."""
    d = len(matrix)
    if d > LARGE_SIDE and count < d // 8:
        with contextlib.suppress(ArpackNoConvergence):
            # a fixed start, so that the same matrix gives the same vectors
            values, vectors = eigsh(matrix, count, which="LA", v0=np.ones(d), tol=1e-8)
            return np.asarray(vectors[:, np.argsort(values)[::-1]])
    _, vectors = scipy.linalg.eigh(matrix, subset_by_index=(d - count, d - 1), check_finite=False)
    return np.asarray(vectors[:, ::-1])


def top_right_vectors(x: FloatArray, count: int) -> FloatArray:
    """Leading right singular vectors of rows that are fewer than their dimension."""
    vectors = x.T @ top_vectors(x @ x.T, count)
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=0), np.finfo(float).tiny))


def overlaps_with_axes(vectors: FloatArray, ks: IntArray) -> tuple[FloatArray, FloatArray]:
    """``O_k`` for each k, and the squared cosine of each component with its own axis."""
    block = vectors[: vectors.shape[1]] ** 2
    return _spans(block, ks), np.diag(block).copy()


def overlaps(first: FloatArray, second: FloatArray, ks: IntArray) -> tuple[FloatArray, FloatArray]:
    """The same between two sets of components, given as columns."""
    block = (first.T @ second) ** 2
    return _spans(block, ks), np.diag(block).copy()


def _spans(block: FloatArray, ks: IntArray) -> FloatArray:
    cumulated = block.cumsum(axis=0).cumsum(axis=1)
    return np.asarray(np.minimum(cumulated[ks - 1, ks - 1] / ks, 1.0))
