r"""What rows say of each other: near copies, and consecutive rows that are alike. Used by trust and plan alike.

A row has a near copy when another row is much closer than the rows around it: with delta_j the squared distance to the
j-th nearest row (over the sum of both squared norms), ``delta_1 < r delta_m``, r = .15, m = 32 (a quarter of the rows
if fewer). Independent rows of D effective dimensions, ``D = tr(Sigma)²/tr(Sigma²)``, have ``(delta_1/delta_m)^{D/2}``
distributed as the smallest of m − 1 uniform variables, so that the share expected by chance is known:

    P(delta_1 < r delta_m) = 1 − (1 − r^{D/2})^{m−1}.
"""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.constants import constant

NEAR_RATIO = constant(
    "kit.near_copies.NEAR_RATIO",
    0.15,
    "A row has a near copy when the nearest row is closer, in squared distance, than this part of the m-th nearest",
    "All rows in groups correlated by .94 are below; .02 to .18 of the rows of banking77, clinc150 and digits are",
)
NEAR_SHARE = constant(
    "kit.near_copies.NEAR_SHARE",
    0.25,
    "Share of rows with a near copy, beyond what chance explains, from which it is mentioned",
    "Plain subsamples of 250 to 4,000 rows of both corpora: at most .18",
)
ORDER_DEVIATIONS = constant(
    "kit.near_copies.ORDER_DEVIATIONS",
    5.0,
    "Standard deviations of the mean correlation of consecutive rows at which they are in an order",
    "Shuffled rows reach it once in a million",
)
ORDER_CORRELATION = constant(
    "kit.near_copies.ORDER_CORRELATION",
    0.05,
    "Least size of that correlation",
    "Both corpora, sorted by class and shuffled, stay below; digits in their order (by writer) have .07",
)
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
    _, first, own = np.unique(units, return_index=True, return_inverse=True)
    rows, columns = [np.arange(n)], [first[own.ravel()]]
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
