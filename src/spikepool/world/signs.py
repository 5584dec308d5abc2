"""Random signs with a given correlation matrix.

Signs xi in {−1, +1}^T with E[xi] = 0 and E[xi xi'] = R exist exactly when R is a mixture of rank-one matrices s s',
that is, when it lies in the (affine image of the) cut polytope; a unit diagonal and positive semi-definiteness are
not enough. R is first reduced: positions of correlation ±1 are one position, and positions joined by no chain of
non-zero correlations are independent. Each remaining block takes the first construction that fits: a Markov chain, one
common factor, thresholded Gaussians, and a mixture of sign vectors found by linear programming.

Where R is made of blocks that share one sign (:func:`sign_blocks`), the law of the signs is explicit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import CorrelationError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.validation import IDENTITY_TOLERANCE
from spikepool.world._cut_polytope import check_triangles, find_mixture

SignArray = NDArray[np.int8]
BlockSampler = Callable[[int, np.random.Generator], SignArray]

# Entries this close to a structure (0, ±1, a product of neighbours) are taken to have it.
_STRUCTURE_TOLERANCE = 1e-12
# The triangle inequalities of an indefinite matrix are looked at up to this size; there are about T³/6 of them.
_TRIANGLE_LIMIT = 100


@dataclass(frozen=True)
class _Block:
    """Positions `positions`, whose signs are `orientation` times those of the distinct columns `column`."""

    positions: NDArray[np.intp]
    column: NDArray[np.intp]
    orientation: SignArray
    draw: BlockSampler
    method: str

    def is_everything(self, T: int) -> bool:
        """Whether it draws all `T` positions, each column as it is."""
        order = np.arange(T)
        return (
            np.array_equal(self.positions, order)
            and np.array_equal(self.column, order)
            and bool(np.all(self.orientation == 1))
        )


class SignSampler:
    """Draws sign vectors with correlation `R`; made by :func:`sign_sampler`.

    Attributes
    ----------
    R : numpy.ndarray of shape (T, T)
    methods : tuple of str
        Construction used for each independent block: "independent", "markov", "one-factor", "gaussian" or "mixture".
    """

    def __init__(self, R: FloatArray, blocks: tuple[_Block, ...]) -> None:
        self.R = R
        self._blocks = blocks
        self.methods = tuple(block.method for block in blocks)

    def __repr__(self) -> str:
        return f"SignSampler(T={len(self.R)}, methods={sorted(set(self.methods))})"

    def __call__(self, n: int, *, rng: Any = None) -> SignArray:
        """Draw `n` independent sign vectors, as an (n, T) array of int8."""
        n = check.size(n, "n")
        require_memory(10 * n * len(self.R), f"{n} sign vectors of length {len(self.R)}", "Draw fewer at a time")
        generator = check.generator(rng)
        if self._blocks[0].is_everything(len(self.R)):
            return self._blocks[0].draw(n, generator)
        signs = np.empty((n, len(self.R)), dtype=np.int8)
        for block in self._blocks:
            signs[:, block.positions] = block.draw(n, generator)[:, block.column] * block.orientation
        return signs


def sign_sampler(R: ArrayLike, *, seconds: float = 30.0) -> SignSampler:
    """A sampler of ±1 signs xi with E[xi] = 0 and E[xi xi'] = `R`.

    Parameters
    ----------
    R : array_like of shape (T, T)
        Correlation matrix: symmetric, PSD, unit diagonal.
    seconds : float
        Limit of the search for a mixture, for each block of positions without special structure. Blocks of up to 20
        positions take a second or two, 24 about 15 seconds.

    Returns
    -------
    SignSampler
        Call it as ``draw(n, rng=0)``.

    Raises
    ------
    NotRealizableError
        When no random signs have this correlation; it names an inequality that all signs satisfy and R violates.
    ConvergenceError
        When the search for a mixture could not decide, or not within `seconds`.

    Examples
    --------
    >>> import spikepool as sp
    >>> draw = sp.sign_sampler(sp.prefix_correlation(T=4, L=3))
    >>> draw(2, rng=0).shape
    (2, 4)
    """
    matrix = check.finite_array(R, "R", ndim=2)
    try:
        matrix = check.symmetric_psd(matrix, "R")
        check.unit_diagonal(matrix, "R")
    except CorrelationError:
        # a broken triangle inequality says more about signs than a negative eigenvalue does
        if len(matrix) <= _TRIANGLE_LIMIT and np.allclose(matrix, matrix.T) and np.allclose(np.diag(matrix), 1):
            check_triangles(matrix, np.arange(len(matrix)), len(matrix))
        raise
    limit = check.positive(seconds, "seconds")
    return SignSampler(matrix, tuple(_make_block(matrix, positions, limit) for positions in _components(matrix)))


def _components(R: FloatArray) -> list[NDArray[np.intp]]:
    """Sets of positions joined by non-zero correlations."""
    from scipy.sparse.csgraph import connected_components

    count, labels = connected_components(np.abs(R) > _STRUCTURE_TOLERANCE, directed=False)
    return [np.flatnonzero(labels == label) for label in range(count)]


def _make_block(R: FloatArray, positions: NDArray[np.intp], seconds: float) -> _Block:
    """Merge positions of correlation ±1 and choose a construction for what is left."""
    local = R[np.ix_(positions, positions)]
    column = np.full(len(positions), -1, dtype=np.intp)
    orientation = np.ones(len(positions), dtype=np.int8)
    kept: list[int] = []
    for i in range(len(positions)):
        if column[i] >= 0:
            continue
        twins = (np.abs(local[i]) >= 1 - _STRUCTURE_TOLERANCE) & (column < 0)
        column[twins] = len(kept)
        orientation[twins] = np.where(local[i, twins] > 0, 1, -1)
        kept.append(i)
    method, draw = _choose(local[np.ix_(kept, kept)], positions[kept], len(R), seconds)
    return _Block(positions, column, orientation, draw, method)


def _choose(R: FloatArray, positions: NDArray[np.intp], size: int, seconds: float) -> tuple[str, BlockSampler]:
    T = len(R)
    if T == 1:
        return "independent", partial(_coin, 1)
    links = np.diag(R, 1)
    if np.all(np.abs(links) > 0) and _is_chain(R, links):
        return "markov", partial(_markov, links)
    loadings = _one_factor(R)
    if loadings is not None:
        return "one-factor", partial(_factor, loadings)
    root = _gaussian_root(R)
    if root is not None:
        return "gaussian", partial(_threshold, root)
    check_triangles(R, positions, size)
    vectors, weights = find_mixture(R, positions, size, seconds=seconds)
    return "mixture", partial(_mixture, vectors, weights)


def _coin(T: int, n: int, rng: np.random.Generator) -> SignArray:
    return (2 * rng.integers(0, 2, size=(n, T), dtype=np.int8) - 1).astype(np.int8)


def _flips(n: int, correlation: FloatArray, rng: np.random.Generator) -> SignArray:
    """Independent signs of mean `correlation`, one column each."""
    return np.where(rng.random((n, len(correlation))) < (1 + correlation) / 2, 1, -1).astype(np.int8)


def _is_chain(R: FloatArray, links: FloatArray) -> bool:
    """Whether R_ts is the product of the neighbouring correlations between t and s."""
    product = np.ones(len(R))
    for lag in range(2, len(R)):
        # products along each diagonal grow by one link: R[t, t+lag] = R[t, t+lag−1] · link
        product = np.diag(R, lag - 1)[:-1] * links[lag - 1 :]
        if np.any(np.abs(np.diag(R, lag) - product) > _STRUCTURE_TOLERANCE):
            return False
    return True


def _markov(links: FloatArray, n: int, rng: np.random.Generator) -> SignArray:
    signs = np.concatenate([_coin(1, n, rng), _flips(n, links, rng)], axis=1)
    return np.multiply.accumulate(signs, axis=1, dtype=np.int8)


def _one_factor(R: FloatArray) -> FloatArray | None:
    """Loadings a with R_ts = a_t a_s off the diagonal and |a| <= 1, if there are any."""
    if len(R) < 3 or np.any(R == 0):
        return None
    # a_1² = R_12 R_13 / R_23
    square = R[0, 1] * R[0, 2] / R[1, 2]
    if not 0 < square <= 1 + _STRUCTURE_TOLERANCE:
        return None
    a = R[0] / np.sqrt(square)
    a[0] = np.sqrt(square)
    off = ~np.eye(len(R), dtype=bool)
    fits = np.all(np.abs(np.outer(a, a) - R)[off] <= _STRUCTURE_TOLERANCE) and np.all(np.abs(a) <= 1 + 1e-12)
    return np.clip(a, -1.0, 1.0) if fits else None


def _factor(loadings: FloatArray, n: int, rng: np.random.Generator) -> SignArray:
    return _coin(1, n, rng) * _flips(n, loadings, rng)


def _gaussian_root(R: FloatArray) -> FloatArray | None:
    """B with B B' = sin(πR/2): signs of N(0, sin(πR/2)) have correlation (2/π) arcsin sin(πR/2) = R."""
    values, vectors = np.linalg.eigh(np.sin(np.pi / 2 * R))
    if values[0] < -1e-13 * len(R):
        return None
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)), dtype=np.float64)


def _threshold(root: FloatArray, n: int, rng: np.random.Generator) -> SignArray:
    return np.where(rng.standard_normal((n, root.shape[1])) @ root.T >= 0, 1, -1).astype(np.int8)


def _mixture(vectors: SignArray, weights: FloatArray, n: int, rng: np.random.Generator) -> SignArray:
    # a random global sign makes the law symmetric without changing the correlation
    return vectors[rng.choice(len(weights), size=n, p=weights)] * _coin(1, n, rng)


@dataclass(frozen=True)
class SignBlocks:
    """Positions grouped in blocks: ``xi_t = sign_t * s_block(t)`` with independent uniform signs s.

    Attributes
    ----------
    block : ndarray of int, shape (T,)
        Block of each position, numbered from 0 in order of appearance.
    sign : ndarray, shape (T,)
        ±1: sign of the position relative to the first one of its block.
    """

    block: NDArray[np.intp]
    sign: FloatArray

    @property
    def count(self) -> int:
        """Number of blocks."""
        return int(self.block.max()) + 1

    def totals(self, w: FloatArray) -> FloatArray:
        """Weight of each block in ``w'xi = sum_b totals_b s_b``."""
        result: FloatArray = np.zeros(self.count)
        np.add.at(result, self.block, w * self.sign)
        return result


def sign_blocks(R: FloatArray) -> SignBlocks | None:
    """The blocks of `R` when its entries are all 0 or ±1 (prefix model, identity, ...), else None.

    R fixes only pair correlations; the law meant is the one :func:`spikepool.sign_sampler` draws, independent blocks.
    """
    rounded = np.rint(R)
    if float(np.abs(R - rounded).max()) > IDENTITY_TOLERANCE or float(np.abs(rounded).max()) > 1:
        return None
    first = np.argmax(rounded != 0, axis=0)
    sign = rounded[first, np.arange(len(R))]
    same = first[:, None] == first[None, :]
    if not np.array_equal(np.where(same, np.outer(sign, sign), 0.0), rounded):
        return None
    _, block = np.unique(first, return_inverse=True)
    return SignBlocks(block.astype(np.intp), sign)


def sign_patterns(count: int) -> FloatArray:
    """All 2^count sign vectors, one per row."""
    bits: NDArray[Any] = (np.arange(1 << count)[:, None] >> np.arange(count)[None, :]) & 1
    return 1.0 - 2.0 * bits
