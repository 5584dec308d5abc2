"""What the rows of a data set say of each other: exact copies, near copies, order, outlying rows, rank.

Each fact is found in one way, when it is first asked for, and stated in one sentence. `report` describes its rows once
and hands the description to trust and plan, which then cannot disagree.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.constants import constant
from spikepool.kit.equal_rows import numbered, row_hashes, tie
from spikepool.kit.near_copies import (
    copies_of_a_row,
    excess_share,
    is_ordered,
    near_copy_groups,
    near_words,
    nearest_distances,
    neighbour_rows,
    norm_scatter,
    order_words,
)

EXACT_SHARE = constant(
    "data.description.EXACT_SHARE",
    0.01,
    "Share of rows that are exact copies of others from which it is mentioned; they are counted once in any case",
    "Subsamples of banking77 and clinc150 under five encoders have at most .2 %",
)
OUTLYING_ROWS = constant(
    "data.description.OUTLYING_ROWS",
    5,
    "Number of rows that may not hold much of the variance",
    "A choice",
)
OUTLYING_SHARE = constant(
    "data.description.OUTLYING_SHARE",
    0.25,
    "Share of the variance that so many rows hold from which they are named",
    "Plain subsamples: at most .21 (250 rows); the attention sink of a decoder's middle layer .4 to .9",
)


class Caution(str):
    """A sentence about the rows with its `kind`: duplicates, near-duplicates, order, drift or dominating rows."""

    kind: str

    def __new__(cls, kind: str, text: str) -> Caution:
        """The text with its kind."""
        made = super().__new__(cls, text)
        made.kind = kind
        return made

    def __reduce__(self) -> tuple[type[Caution], tuple[str, str]]:
        return type(self), (self.kind, str(self))


class Description:
    """Facts about rows (n, d), each computed when it is first asked for.

    Parameters
    ----------
    X : array of shape (n, d)
        Features in memory.
    labels : array of int of shape (n,), optional
        Classes. Near copies and order are looked for about the means of the classes, since differences between classes
        are not dependence.
    groups : array of int of shape (n,), optional
        Rows that belong together. Nothing is then said of their order.

    Attributes
    ----------
    copies, counts : numpy.ndarray of int
        Number of the distinct row that each row is, and multiplicities of the distinct rows.
    units : numpy.ndarray of int
        Copies and groups, tied: rows of one unit are not compared.
    nearest : numpy.ndarray
        Relative squared distances of up to 1,000 rows to their 32 nearest rows of other units, ascending.
    near_share : float or None
        Share of rows with a near copy; None where chance explains it.
    lag : float
        Mean correlation of consecutive rows about the means of their classes.
    ordered : bool
        Whether that is beyond chance.
    outlying : numpy.ndarray of int
        The few rows that hold much of the variance, largest first; empty if there are none.
    rank : int
        Dimensions that the rows span.
    """

    def __init__(self, X: FloatArray, labels: IntArray | None = None, groups: IntArray | None = None) -> None:
        self.n, self._x, self._labels, self.groups = len(X), X, labels, groups

    @classmethod
    def known(cls, n: int, groups: IntArray | None, **facts: Any) -> Description:
        """A description of rows that are not held, from facts (attributes) that were found while they were read."""
        made = cls.__new__(cls)
        made.n, made.groups = n, groups
        made.__dict__.update(facts)
        return made

    @cached_property
    def _copies(self) -> tuple[IntArray, IntArray]:
        return numbered(row_hashes(self._x))

    @cached_property
    def copies(self) -> IntArray:  # noqa: D102
        return self._copies[0]

    @cached_property
    def counts(self) -> IntArray:  # noqa: D102
        return self._copies[1]

    @cached_property
    def units(self) -> IntArray:  # noqa: D102
        return tie(self.copies, self.groups)

    @cached_property
    def centred(self) -> FloatArray:
        """Rows about the means of their classes."""
        x = self._x - self._x.mean(axis=0)
        if self._labels is not None:
            sums = np.zeros((int(self._labels.max()) + 1, x.shape[1]))
            np.add.at(sums, self._labels, x)
            x -= (sums / np.maximum(np.bincount(self._labels), 1)[:, None])[self._labels]
        return np.asarray(x)

    @cached_property
    def norms(self) -> FloatArray:
        """Their squared norms."""
        return np.asarray(np.einsum("ij,ij->i", self.centred, self.centred))

    @cached_property
    def _gram(self) -> FloatArray:
        x = self.centred
        return np.asarray(x @ x.T if len(x) <= x.shape[1] else x.T @ x)

    @cached_property
    def scatter(self) -> float:
        """Scatter 2/D of the squared norms of Gaussian rows of this covariance."""
        return norm_scatter(float(self.norms.sum()), float((self._gram**2).sum()), self.n)

    @cached_property
    def rank(self) -> int:  # noqa: D102
        return int(np.linalg.matrix_rank(self._gram, hermitian=True))

    @cached_property
    def nearest(self) -> FloatArray:  # noqa: D102
        chosen = neighbour_rows(self.n, np.random.default_rng(0))
        x, norms, units = self.centred, self.norms, self.units
        return nearest_distances(x[chosen], norms[chosen], units[chosen], x, norms, units)

    @cached_property
    def lag(self) -> float:
        """Independent rows of a class of m have ``E[x_i·x_j] = −E‖x‖²/(m − 1)`` about its mean, which is added back."""
        x, norms = self.centred, self.norms
        classes = np.zeros(self.n, dtype=np.intp) if self._labels is None else self._labels
        products = np.einsum("ij,ij->i", x[1:], x[:-1])
        if self._labels is not None:
            same, sizes = classes[1:] == classes[:-1], np.bincount(classes)
            products += np.where(same, (norms[1:] + norms[:-1]) / 2 / np.maximum(sizes[classes[1:]] - 1, 1), 0.0)
        return float(products.mean() / max(norms.mean(), 1e-300))

    @cached_property
    def near_share(self) -> float | None:  # noqa: D102
        share, by_chance = excess_share(self.nearest, self.n, self.scatter)
        return None if by_chance else share

    @cached_property
    def ordered(self) -> bool:  # noqa: D102
        return self.groups is None and is_ordered(self.lag, self.scatter, self.n)

    @cached_property
    def outlying(self) -> IntArray:  # noqa: D102
        top = np.argsort(self.norms)[::-1][:OUTLYING_ROWS]
        held = self.norms[top]
        if held.sum() <= OUTLYING_SHARE * self.norms.sum() or self.n < 8 * OUTLYING_ROWS:
            return top[:0]
        return top[: int(np.searchsorted(np.cumsum(held), 0.9 * held.sum())) + 1]

    def near_groups(self) -> IntArray:
        """Group numbers (n,) of rows that are near copies of each other, or of one unit."""
        return near_copy_groups(self.centred, self.norms, self.units)

    def independent_share(self) -> float:
        """Share of rows that are independent at worst: autoregressive ones of correlation `lag`, and near copies.

        Products of rows, which a covariance averages, are correlated by lag² from one to the next.
        """
        squared = min(self.lag**2, 0.99)
        copies = 1.0 if self.near_share is None else copies_of_a_row(self.nearest, self.n)
        return (1 - squared) / (1 + squared) / copies

    def caution(self, kind: str) -> Caution | None:
        """The sentence about one kind of fact, if there is something to say."""
        if kind == "duplicates" and self.n - len(self.counts) > EXACT_SHARE * self.n:
            done = "groups= decides what is independent" if self.groups is not None else "each is counted once"
            return Caution(kind, f"{self.n - len(self.counts):,} of {self.n:,} rows are exact copies of others: {done}")
        if kind == "near-duplicates" and self.near_share is not None:
            return Caution(kind, near_words(self.near_share))
        if kind == "order" and self.ordered:
            return Caution(kind, order_words(self.lag))
        if kind == "dominating rows" and len(self.outlying):
            share, rows = self.norms[self.outlying].sum() / self.norms.sum(), ", ".join(map(str, self.outlying))
            return Caution(
                kind,
                f"{len(self.outlying)} row(s) ({rows}) hold {share:.0%} of the variance: the first components describe "
                "them; look at them, then remove or clip them",
            )
        return None
