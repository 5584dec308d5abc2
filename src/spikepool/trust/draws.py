"""Draws of a sample covariance from a population spectrum and row scales, and the spans of their leading components.

A row of the simulated world is ``x_i = sqrt(s_i) · diag(tau)^{1/2} z_i`` with Gaussian ``z_i``: the population's
components are the coordinate axes, by rotation, so that the overlap of the top k sample components U with those of the
population is read off the leading block of U::

    O_k = ‖P_k U_k‖²/k = Σ_{i,j <= k} U_ij² / k

Three routes to the same law: the rows themselves, their Gram matrix when there are fewer rows than dimensions, and for
many rows a sum of Wishart matrices by Bartlett's decomposition, one for each group of rows of nearly equal scale.

Rows may be a part of a finite collection of M. Then their components are compared with those of the collection, which
has M − n more rows of the same law: see :func:`share_of_loss`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.trust.effort import BLOCK_BYTES, LARGE_SIDE

# Bartlett's route costs d³ for each group of rows, the direct one n·d²: it is taken from this many rows a dimension on.
BARTLETT_RATIO = 16


class Draw:
    """A draw of n centred rows (centring takes one of them) up to the spectrum, which may be applied again and again.

    Rows more than dimensions are kept as their white second moments (d, d), fewer as the white rows themselves.

    Parameters
    ----------
    scales : array of shape (m,)
        Scales of rows; n − 1 of them are drawn.
    n, d : int
    rng : numpy.random.Generator
    """

    def __init__(self, scales: FloatArray, n: int, d: int, rng: np.random.Generator) -> None:
        chosen = _scales_of(scales, n - 1, rng)
        self._wide = n <= d
        self._white = (
            rng.standard_normal((n - 1, d)) * np.sqrt(chosen / (n - 1))[:, None]
            if self._wide
            else _moments(chosen, d, rng) / (n - 1)
        )

    @classmethod
    def joined(cls, parts: Sequence[Draw]) -> Draw:
        """The rows of several draws of equal size and dimension together."""
        made = cls.__new__(cls)
        made._wide = parts[0]._wide
        white = [part._white for part in parts]
        made._white = np.concatenate(white) / np.sqrt(len(parts)) if made._wide else np.mean(white, axis=0)
        return made

    def moments(self) -> FloatArray:
        """White second moments (d, d)."""
        return np.asarray(self._white.T @ self._white) if self._wide else self._white

    def eigenvalues(self, tau: FloatArray) -> FloatArray:
        """All d eigenvalues under a population spectrum, descending, exact zeros included."""
        values = np.maximum(np.linalg.eigvalsh(self._matrix(tau))[::-1], 0.0)
        return np.concatenate([values, np.zeros(len(tau) - len(values))])

    def leading(self, tau: FloatArray, count: int) -> FloatArray:
        """The first `count` eigenvectors under a population spectrum as columns (d, count), largest first."""
        if self._wide:
            return top_right_vectors(self._white * np.sqrt(tau), count)
        return top_vectors(self._matrix(tau), count)

    def _matrix(self, tau: FloatArray) -> FloatArray:
        """Gram matrix of the rows, or their covariance: the smaller one."""
        root = np.sqrt(tau)
        if self._wide:
            x = self._white * root
            return np.asarray(x @ x.T)
        return np.asarray(self._white * root * root[:, None])


def _scales_of(scales: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """Scales of `n` rows: the known ones in random order when there are enough, resampled when not."""
    if n <= len(scales):
        return np.asarray(rng.permutation(scales)[:n])
    return np.asarray(rng.choice(scales, n))


def _moments(scales: FloatArray, d: int, rng: np.random.Generator) -> FloatArray:
    """``Σ_i s_i z_i z_i'`` of Gaussian rows."""
    total, scales = np.zeros((d, d)), np.sort(scales)
    while len(scales) + 1 >= BARTLETT_RATIO * d:
        # the smaller half are one group of nearly equal scales; the largest, which matter most, are drawn one by one
        group, scales = np.split(scales, [len(scales) // 2])
        total += group.mean() * _wishart(d, len(group), rng)
    rows = max(1, BLOCK_BYTES // (8 * d))
    for start in range(0, len(scales), rows):
        part = scales[start : start + rows]
        # white rows lose nothing in single precision, whatever the spectrum, and are drawn twice as fast
        x = rng.standard_normal((len(part), d), dtype=np.float32)
        x *= np.sqrt(part).astype(np.float32)[:, None]
        total += x.T @ x
    return total


def _wishart(d: int, n: int, rng: np.random.Generator) -> FloatArray:
    """``Z'Z`` of n >= d Gaussian rows: ``L L'`` with L lower triangular, chi on the diagonal and normal below it."""
    lower = np.tril(rng.standard_normal((d, d)), -1)
    lower[np.diag_indices(d)] = np.sqrt(rng.chisquare(n - np.arange(d)))
    return lower @ lower.T


def top_vectors(matrix: FloatArray, count: int) -> FloatArray:
    """Eigenvectors of the `count` largest eigenvalues of a symmetric matrix, largest first."""
    d = len(matrix)
    if d > LARGE_SIDE and count < d // 8:
        with contextlib.suppress(ArpackNoConvergence):
            # a fixed start, so that the same matrix gives the same vectors
            values, vectors = eigsh(matrix, count, which="LA", v0=np.ones(d), tol=1e-8)
            return np.asarray(vectors[:, np.argsort(values)[::-1]])
    if count > d // 4:  # all of them are found sooner than a large part
        return np.asarray(np.linalg.eigh(matrix)[1][:, : d - count - 1 : -1])
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


def share_of_loss(
    scales: FloatArray, tau: FloatArray, n: int, M: int, ks: IntArray, draws: list[Draw], rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Loss 1 − O_k of n rows against a collection of M that they are part of, over that against the population.

    ``1 − n/M`` to first order, since the covariance of the rows departs from the collection's by ``1/n − 1/M`` where it
    departs from the population's by 1/n; more where losses are large. `draws` are of n rows. Second, how much more
    the log of the loss scatters: with few rows left out it hangs on the one gap of the collection's spectrum after k.
    """
    if n >= M:
        return np.zeros(len(ks)), np.zeros(len(ks))
    d, count = len(tau), int(ks[-1])
    root, losses = np.sqrt(tau), []
    for draw in draws:
        both = n * draw.moments() + (M - n) * Draw(scales, M - n + 1, d, rng).moments()
        part = draw.leading(tau, count)
        whole = top_vectors(both * root * root[:, None], count)
        losses.append([1 - overlaps(part, whole, ks)[0], 1 - overlaps_with_axes(part, ks)[0]])
    both_losses = np.maximum(losses, np.finfo(float).tiny)
    with_whole, with_population = both_losses.mean(axis=0)
    scatter = np.log(both_losses).var(axis=0, ddof=1)
    return np.clip(with_whole / with_population, 1 - n / M, 1.0), np.sqrt(np.maximum(scatter[0] - scatter[1], 0.0))


def _spans(block: FloatArray, ks: IntArray) -> FloatArray:
    cumulated = block.cumsum(axis=0).cumsum(axis=1)
    return np.asarray(np.minimum(cumulated[ks - 1, ks - 1] / ks, 1.0))
