"""A model with K classes: its data, checked once, and random classes of its positions.

Positions share their class draw with given probabilities: classes c_1, ..., c_T with P(c_t = k) = pi_k and, for every
pair,

    P(c_t = k, c_s = l) = R_ts pi_k [k = l] + (1 − R_ts) pi_k pi_l.

Positions joined by no chain of positive R are independent, and positions with R = 1 are one position. Each remaining
group is drawn as a chain (a position keeps its neighbour's class with probability R_{t,t+1}, else draws afresh) when R
is the product of its neighbouring entries, or through one common draw (copied with probability a_t) when
R_ts = a_t a_s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import CorrelationError, DomainError, NotRealizableError, ShapeError, SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.world.sequences import TABLES, PooledSizes
from spikepool.world.signs import _components, _is_chain, _one_factor

# Directions of the class differences shorter than this, relative to the longest, do not count.
_RANK_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class ClassWorld(PooledSizes):
    """The data of :class:`spikepool.ClassModel`, whose docstring has the parameters; checked when it is made."""

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


ClassArray = NDArray[np.intp]
GroupSampler = Callable[[int, np.random.Generator], ClassArray]


class ClassSampler(Protocol):
    """Call as ``draw(n, rng=0)`` for an (n, T) array of class numbers."""

    def __call__(self, n: int, *, rng: Any = None) -> ClassArray:
        """Draw `n` independent sequences of classes."""


def class_sampler(R: ArrayLike, shares: ArrayLike) -> ClassSampler:
    """A sampler of classes with the pair probabilities above.

    Raises
    ------
    NotRealizableError
        When a group of positions is neither a chain nor driven by one common draw: no construction is known here.
    """
    R = check.symmetric_psd(R, "R")
    check.unit_diagonal(R, "R")
    if R.min() < -check.IDENTITY_TOLERANCE:
        raise CorrelationError("R holds probabilities and must not be negative", float(R.min()), "Raise it to 0")
    pi = check.finite_array(shares, "shares", ndim=1)
    if pi.min() < 0 or pi.sum() <= 0:
        raise DomainError("shares must not be negative, nor all zero", pi, "Pass the share of each class")
    cumulative = np.cumsum(pi)
    cumulative /= cumulative[-1]

    def fresh(shape: tuple[int, int], generator: np.random.Generator) -> ClassArray:
        return np.searchsorted(cumulative, generator.random(shape), side="right").astype(np.intp)

    groups = []
    for positions in _components(R):
        local = R[np.ix_(positions, positions)]
        first = np.argmax(local >= 1 - 1e-12, axis=0)  # the first position of equal class
        kept, column = np.unique(first, return_inverse=True)
        groups.append((positions, column, _group_sampler(local[np.ix_(kept, kept)], fresh)))

    def draw(n: int, *, rng: Any = None) -> ClassArray:
        n = check.size(n, "n")
        generator = check.generator(rng)
        classes = np.empty((n, len(R)), dtype=np.intp)
        for positions, column, sample in groups:
            classes[:, positions] = sample(n, generator)[:, column]
        return classes

    return draw


def _group_sampler(R: FloatArray, fresh: Callable[[tuple[int, int], np.random.Generator], ClassArray]) -> GroupSampler:
    T = len(R)
    links = np.diag(R, 1)
    if T == 1 or _is_chain(R, links):

        def chain(n: int, generator: np.random.Generator) -> ClassArray:
            classes = fresh((n, T), generator)
            for t in range(1, T):
                keep = generator.random(n) < links[t - 1]
                classes[keep, t] = classes[keep, t - 1]
            return classes

        return chain
    loadings = _one_factor(R)
    if loadings is None or loadings.min() < 0:
        raise NotRealizableError(
            "no way is known here to draw classes that share their draw with these probabilities",
            R,
            "Use blocks, a chain (markov_correlation) or one common factor (equicorrelation)",
        )
    copies = loadings

    def one_factor(n: int, generator: np.random.Generator) -> ClassArray:
        classes = fresh((n, T), generator)
        return np.where(generator.random((n, T)) < copies, fresh((n, 1), generator), classes)

    return one_factor
