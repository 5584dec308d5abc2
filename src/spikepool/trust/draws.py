"""Draws of a sample covariance from a population spectrum and row scales, and the spans of their leading components.

A row of the simulated world is ``x_i = sqrt(s_i) · diag(tau)^{1/2} z_i`` with Gaussian ``z_i``: the population's
components are the coordinate axes, by rotation, so that the overlap of the top k sample components U with those of the
population is read off the leading block of U::

    O_k = ‖P_k U_k‖²/k = Σ_{i,j <= k} U_ij² / k

Three routes to the same law: the rows themselves, their Gram matrix when there are fewer rows than dimensions, and for
many rows a sum of Wishart matrices by Bartlett's decomposition, one for each group of rows of nearly equal scale.

Rows may be a part of a finite collection of M. Then their components are compared with those of the collection, which
has M − n more rows of the same law: see :func:`share_of_loss`.

How much to simulate: as much as a few seconds allow, and where an eigendecomposition takes that long, the least.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from spikepool.kit.arrays import FloatArray, IntArray

# Smaller side of the rows beyond which one eigendecomposition takes about a second.
LARGE_SIDE = 1500
# Bytes of rows that are worked on at a time.
BLOCK_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Effort:
    """Numbers of repetitions.

    Attributes
    ----------
    splits, resamples : int
        Random halves of the rows, and resamples of them.
    rounds, round_draws : int
        Rounds of the population spectrum, and draws of each.
    halves, draws, curve_draws : int
        Simulated halves (each is compared with every other), samples, and samples that show the overlaps of a refitted
        spectrum, or of another number of rows.
    resampling_rows : int
        Rows for each component at which resampling and simulation have equal weight.
    fitted : bool
        Whether every eigenvalue is fitted, from shrunken ones. Then the fit is repeated on its own draws, and the
        flattest spectrum is sought as well; resampling widens the interval and does not move the prediction.
    redrawn : bool
        Whether samples are drawn from redrawn spectra as well, which show the error of the fitted one.
    multiples : tuple of float
        Numbers of rows of the curve, as multiples of the sample's; past and future. Beyond them, up to `FURTHEST`, the
        loss falls as 1/n.
    """

    splits: int
    resamples: int
    rounds: int
    round_draws: int
    halves: int
    draws: int
    curve_draws: int
    resampling_rows: int
    redrawn: bool
    multiples: tuple[float, ...]
    fitted: bool = False


FULL = Effort(4, 10, 2, 2, 8, 10, 4, 50, True, (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 32.0))
LEAST = Effort(1, 3, 1, 2, 2, 4, 1, 50, False, (0.5, 1.0, 2.0, 4.0))
# Rows enough for every eigenvalue to be fitted. Resampled rows show a flat part as better known than it is.
FITTED = replace(FULL, rounds=1, round_draws=6, resampling_rows=300, fitted=True)
# Dimension up to which that is quick.
_QUICK_DIMENSION = 600
# Dimensions of all draws together, and half of those of all splits and resamples: more of them where one is quick.
# Draws that the fit is compared with are a third as many.
_DRAWN_DIMENSIONS = 3000
# Multiple of the rows up to which is planned.
FURTHEST = FULL.multiples[-1]


def fitted_eigenvalues(n: float, d: int) -> int:
    """Population eigenvalues that are fitted one by one: half as many as rows."""
    return int(max(1, min(d, n // 2)))


def effort(n: float, d: int) -> Effort:
    """What `n` rows of dimension `d` get."""
    if min(n, d) > LARGE_SIDE:
        return LEAST
    work = FITTED if fitted_eigenvalues(n, d) == d <= _QUICK_DIMENSION else FULL
    times = _DRAWN_DIMENSIONS / d
    return replace(
        work,
        splits=int(np.clip(2 * times, work.splits, 32 * work.splits)),
        resamples=int(np.clip(2 * times, work.resamples, 8 * work.resamples)),
        round_draws=int(np.clip(times / 3, work.round_draws, 4 * work.round_draws)),
        draws=int(np.clip(times, work.draws, 8 * work.draws)),
    )


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
