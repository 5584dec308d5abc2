"""The data of a model with K classes, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import CorrelationError, DomainError, ShapeError, SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.world.sequences import TABLES
from spikepool.world.sizes import PooledSizes

# Directions of the class differences shorter than this, relative to the longest, do not count.
_RANK_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class ClassWorld(PooledSizes):
    """Sequences of tokens from an embedding table with K classes.

    Parameters
    ----------
    d, V, N : int
        Embedding dimension, vocabulary size, number of sequences.
    R : array_like of shape (T, T)
        Probability that two positions share their class draw: unit diagonal, entries in [0, 1], PSD.
    means : array_like of shape (p, K), p <= d
        Class means as columns, in any orthonormal coordinates of a p-dimensional subspace.
    shares : array_like of shape (K,), optional
        Share pi_k of the vocabulary, and of the positions, that belongs to class k; equal when not given.
    table : {"sampled", "class_centered"}
        As in :class:`spikepool.SequenceModel`.
    centered : bool
        Whether the sample mean of the columns of C is subtracted before S is formed.
    """

    d: int
    V: int
    N: int
    R: FloatArray
    means: FloatArray
    shares: FloatArray
    table: str = "sampled"
    centered: bool = True

    def __init__(
        self,
        d: int,
        V: int,
        N: int,
        R: ArrayLike,
        means: ArrayLike,
        shares: ArrayLike | None = None,
        table: str = "sampled",
        centered: bool = True,
    ) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("d", check.size(d, "d"))
        put("V", check.size(V, "V"))
        put("N", check.size(N, "N"))
        put("R", check.symmetric_psd(R, "R"))
        check.unit_diagonal(self.R, "R")
        if self.R.min() < -check.IDENTITY_TOLERANCE:
            raise CorrelationError(
                "R holds probabilities of sharing a class and must not be negative; its smallest entry is",
                float(self.R.min()),
                "For two classes with opposite signs use SequenceModel",
            )
        put("means", _frozen(check.finite_array(means, "means", ndim=2)))
        p, K = self.means.shape
        if p > self.d:
            raise ShapeError(f"means must have at most d = {self.d} rows", self.means, "Pass (p, K) with p <= d")
        if K < 2:
            raise SizeError("there must be at least two classes", K, "Pass one column of means for each class")
        put("shares", _frozen(_check_shares(shares, K)))
        if self.V < K:
            raise SizeError(f"V must be at least the number of classes, {K}", self.V, "Enlarge the vocabulary")
        put("table", check.choice(table, "table", TABLES))
        put("centered", check.flag(centered, "centered"))

    @property
    def K(self) -> int:
        """Number of classes."""
        return int(self.means.shape[1])

    @property
    def directions(self) -> FloatArray:
        """Principal directions (p, r) of the true class differences: left singular vectors of their matrix.

        Columns sqrt(pi_k)(m_k − mbar), largest singular value first; r is the rank, at most K − 1.
        """
        mean = self.means @ self.shares
        vectors, sizes, _ = np.linalg.svd((self.means - mean[:, None]) * np.sqrt(self.shares), full_matrices=False)
        return np.asarray(vectors[:, sizes > _RANK_TOLERANCE * max(float(sizes[0]), 1e-300)])

    def class_sizes(self) -> NDArray[np.intp]:
        """Number of tokens of each class: shares of V, rounded to at least one with the largest remainders."""
        exact = self.shares * self.V
        sizes = np.maximum(np.floor(exact), 1).astype(np.intp)
        while sizes.sum() != self.V:
            step = 1 if sizes.sum() < self.V else -1
            room = np.where(sizes + step >= 1, step * (exact - sizes), -np.inf)
            sizes[int(np.argmax(room))] += step
        return sizes

    def class_covariance(self, w: ArrayLike) -> FloatArray:
        """Gamma(w) = (w'Rw)(diag(pi) − pi pi'), the covariance of the weight put on each class."""
        alpha, _ = self.gains(w)
        return np.asarray(alpha * (np.diag(self.shares) - np.outer(self.shares, self.shares)))


def _frozen(array: FloatArray) -> FloatArray:
    array = array.copy()
    array.setflags(write=False)
    return array


def _check_shares(shares: ArrayLike | None, K: int) -> FloatArray:
    if shares is None:
        return np.full(K, 1 / K)
    pi = check.finite_array(shares, "shares", ndim=1)
    if len(pi) != K:
        raise ShapeError(f"shares must have one entry for each of the {K} classes", pi, "Match the means")
    if pi.min() <= 0 or abs(float(pi.sum()) - 1) > check.IDENTITY_TOLERANCE:
        raise DomainError("shares must be positive and sum to one", pi, "Divide them by their sum")
    return pi
