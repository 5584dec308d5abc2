"""Random classes for positions that share their class draw with given probabilities.

Classes c_1, ..., c_T with P(c_t = k) = pi_k and, for every pair,

    P(c_t = k, c_s = l) = R_ts pi_k [k = l] + (1 − R_ts) pi_k pi_l.

Positions joined by no chain of positive R are independent, and positions with R = 1 are one position. Each remaining
group is drawn as a chain (a position keeps its neighbour's class with probability R_{t,t+1}, else draws afresh) when R
is the product of its neighbouring entries, or through one common draw (copied with probability a_t) when
R_ts = a_t a_s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import CorrelationError, DomainError, NotRealizableError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.world.signs import _components, _is_chain, _one_factor

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
