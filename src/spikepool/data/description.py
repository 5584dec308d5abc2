"""What the rows of a data set say of each other: exact copies, near copies, order, outlying rows, rank.

Each fact is found in one way, when it is first asked for, and stated in one sentence. `report` describes its rows once
and hands the description to trust and plan, which then cannot disagree.

A row has a near copy when another row is much closer than the rows around it: with delta_j the squared distance to the
j-th nearest row (over the sum of both squared norms), ``delta_1 < r delta_m``, r = .15, m = 32 (a quarter of the rows
if fewer). Independent rows of D effective dimensions, ``D = tr(Sigma)²/tr(Sigma²)``, have ``(delta_1/delta_m)^{D/2}``
distributed as the smallest of m − 1 uniform variables, so that the share expected by chance is known:

    P(delta_1 < r delta_m) = 1 − (1 − r^{D/2})^{m−1}.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import AnyArray, FloatArray, IntArray

# A row has a near copy when the nearest row is closer, in squared distance, than this part of the m-th nearest.
NEAR_RATIO = 0.15
# Share of rows with a near copy, beyond what chance explains, from which it is mentioned.
NEAR_SHARE = 0.25
# Standard deviations of the mean correlation of consecutive rows at which they are in an order.
ORDER_DEVIATIONS = 5.0
# Least size of that correlation.
ORDER_CORRELATION = 0.05
# Neighbour that the nearest one is compared with, rows whose neighbours are looked for, and rows of a block.
_NEIGHBOURS = 32
NEIGHBOUR_ROWS = 1000
NEIGHBOUR_BLOCK = 2000


def norm_scatter(trace: float, squared: float, n: int) -> float:
    """Scatter of the squared norms, ``2 tr(Sigma²)/tr(Sigma)² = 2/D``, freed from the bias of n rows.

    `trace` and `squared` are the traces of the sample covariance and of its square, or of a multiple of it.
    """
    return 2 * max(squared - trace**2 / (n - 1), 0.0) / trace**2 if trace > 0 else 0.0


def neighbour_rows(n: int, rng: np.random.Generator) -> IntArray:
    """The rows whose neighbours are looked for."""
    return np.arange(n) if n <= NEIGHBOUR_ROWS else np.sort(rng.choice(n, NEIGHBOUR_ROWS, replace=False))


def nearest_distances(
    x: FloatArray,
    norms: FloatArray,
    units: IntArray,
    others: FloatArray,
    other_norms: FloatArray,
    other_units: IntArray,
    known: FloatArray | None = None,
) -> FloatArray:
    """The 32 least ``‖x − y‖²/(‖x‖² + ‖y‖²)`` of each row to `others` not of its unit, ascending, inf where fewer.

    `known` are those to rows seen before, among which the least are kept as well.
    """
    nearest = np.full((len(x), _NEIGHBOURS), np.inf) if known is None else known
    for start in range(0, len(others), NEIGHBOUR_BLOCK):
        part = slice(start, start + NEIGHBOUR_BLOCK)
        total = norms[:, None] + other_norms[part]
        distance = 1 - 2 * (x @ others[part].T) / np.maximum(total, np.finfo(float).tiny)
        distance[units[:, None] == other_units[part]] = np.inf
        nearest = merge_nearest(nearest, np.maximum(distance, 0.0))
    return np.asarray(nearest)


def merge_nearest(first: FloatArray | None, second: FloatArray) -> FloatArray:
    """The least of two sets of distances of each row, ascending."""
    if first is None:
        return second
    together = np.concatenate([first, second], axis=1)
    return np.asarray(np.sort(np.partition(together, _NEIGHBOURS - 1, axis=1)[:, :_NEIGHBOURS], axis=1))


def excess_share(nearest: FloatArray, n: int, scatter: float) -> tuple[float, bool]:
    """Share of rows with a near copy, and whether chance explains it; `scatter` is 2/D of `n` rows."""
    m = min(_NEIGHBOURS, max(n // 4, 2))
    far = np.where(np.isfinite(nearest[:, m - 1]), nearest[:, m - 1], np.inf)
    share = float(np.mean(nearest[:, 0] < NEAR_RATIO * far))
    dimensions = 2 / scatter if scatter > 0 else np.inf
    chance = 1 - (1 - NEAR_RATIO ** (max(dimensions, 1.0) / 2)) ** (m - 1)
    return share, bool(share <= NEAR_SHARE + chance)


def near_copy_groups(x: FloatArray, norms: FloatArray, units: IntArray) -> IntArray:
    """Group numbers (n,) of rows that are near copies of each other, directly or by way of others, or of one unit."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(x)
    nearest = nearest_distances(x, norms, units, x, norms, units)
    reach = NEAR_RATIO * nearest[:, min(_NEIGHBOURS, max(n // 4, 2)) - 1]
    _, first, unit_of_row = np.unique(units, return_index=True, return_inverse=True)
    rows, columns = [np.arange(n)], [first[unit_of_row.ravel()]]
    for start in range(0, n, NEIGHBOUR_BLOCK):
        part = slice(start, start + NEIGHBOUR_BLOCK)
        total = norms[part, None] + norms
        close = 1 - 2 * (x[part] @ x.T) / np.maximum(total, np.finfo(float).tiny) < reach[part, None]
        i, j = np.nonzero(close)
        rows.append(i + start)
        columns.append(j)
    i, j = np.concatenate(rows), np.concatenate(columns)
    graph = coo_array((np.ones(len(i)), (i, j)), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)


def copies_of_a_row(nearest: FloatArray, n: int) -> float:
    """Mean number of rows that are near copies of each other, a row itself included."""
    m = min(_NEIGHBOURS, max(n // 4, 2))
    return float(1 + np.mean(np.sum(nearest < NEAR_RATIO * nearest[:, m - 1 : m], axis=1)))


def is_ordered(lag: float, scatter: float, n: int) -> bool:
    """Whether a mean correlation `lag` of consecutive rows is beyond chance and worth a word."""
    return abs(lag) > max(ORDER_DEVIATIONS * float(np.sqrt(scatter / 2 / n)), ORDER_CORRELATION)


def near_words(share: float) -> str:
    """One sentence on near copies, the same wherever it is said."""
    return (
        f"{share:.0%} of the rows have a near copy and are not independent: remove near copies, or name what belongs "
        "together with groups="
    )


def order_words(lag: float) -> str:
    """One sentence on rows in an order, the same wherever it is said."""
    return (
        f"consecutive rows are {'alike' if lag > 0 else 'opposite'} (correlation {lag:.2f}): if they depend on each "
        "other (windows of a series, parts of a document) name their groups with groups=; if they are only sorted, "
        "shuffle them"
    )


@lru_cache(maxsize=4)
def _multipliers(width: int) -> NDArray[np.uint64]:
    """Odd numbers (2, width), the same in every process."""
    return np.random.default_rng(0).integers(1, 1 << 63, size=(2, width), dtype=np.uint64) * 2 + 1


def row_hashes(x: AnyArray, first: int = 0, width: int | None = None) -> NDArray[np.uint64]:
    """64-bit hashes of rows (n, ...): equal for equal rows, and for others with probability 2^-64 a pair.

    With `first` and `width` x holds the columns from `first` on of rows of so many columns: hashes of parts add up to
    that of the row, and columns of zeros add nothing.
    """
    x = np.ascontiguousarray(x, dtype=np.float64).reshape(len(x), -1)
    bits = (x + 0.0).view(np.uint64)  # + 0.0 makes −0 and 0 the same
    multipliers = _multipliers(width or x.shape[1])[:, first : first + x.shape[1]]
    # products wrap modulo 2^64; mixing high bits down first, since floats that are round numbers end in zeros
    mixed = (bits ^ (bits >> np.uint64(29))) * multipliers[0]
    mixed ^= mixed >> np.uint64(32)
    return np.asarray((mixed * multipliers[1]).sum(axis=1, dtype=np.uint64))


def numbered(labels: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Numbers 0, 1, ... of labels in the order in which they first appear, and how often each does."""
    _, first, inverse, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(len(first), dtype=np.intp)
    order = np.argsort(first)
    rank[order] = np.arange(len(first))
    return rank[inverse.ravel()], counts[order]


def tie(*labels: IntArray | None) -> IntArray:
    """Clusters of rows that share an entry of any of the labels, or are linked by such rows."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    given = [label for label in labels if label is not None]
    n = len(given[0])
    if len(given) == 1:
        return given[0]
    links, offset = [], n
    for label in given:
        links.append(offset + label)
        offset += int(label.max()) + 1
    rows = np.tile(np.arange(n), len(given))
    graph = coo_array((np.ones(len(rows)), (rows, np.concatenate(links))), shape=(offset, offset))
    return np.asarray(connected_components(graph, directed=False)[1][:n], dtype=np.intp)


# Share of rows that are exact copies of others from which it is mentioned; they are counted once in any case.
EXACT_SHARE = 0.01
# Number of rows that may not hold much of the variance.
OUTLYING_ROWS = 5
# Share of the variance that so many rows hold from which they are named.
OUTLYING_SHARE = 0.25


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
