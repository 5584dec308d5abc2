"""Rows that are not independent of each other: near copies, and consecutive rows that are alike.

A left-out row whose near copy, or whose neighbour in a series, is still there is no new row: leave-one-out is too good,
and the whole curve with it. Both are looked for within the classes, whose own differences are no dependence.
"""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.near_copies import (
    NEAR_SHARE,
    chance_share,
    near_share,
    nearest_distances,
    neighbour_rows,
    norm_scatter,
)

# Standard deviations and size of the mean correlation of consecutive rows at which they are in an order. Shuffled rows
# reach the first once in a million; the second is what long pilots may have without harm.
_ORDER_DEVIATIONS, _ORDER_CORRELATION = 5.0, 0.05


def dependence_notes(
    X: FloatArray, labels: IntArray | None, groups: IntArray, ordered: bool, rng: np.random.Generator
) -> list[str]:
    """What to say of rows (n, d) with the groups (n,) that are known; of their order only if it is `ordered`."""
    classes = np.zeros(len(X), dtype=np.intp) if labels is None else labels
    sizes = np.bincount(classes)
    x = X - X.mean(axis=0)
    sums = np.zeros((len(sizes), X.shape[1]))
    np.add.at(sums, classes, x)
    x -= (sums / np.maximum(sizes, 1)[:, None])[classes]
    norms = np.einsum("ij,ij->i", x, x)
    if not norms.sum() > 0:
        return []
    gram = x @ x.T if len(x) <= x.shape[1] else x.T @ x
    scatter = norm_scatter(float(norms.sum()), float((gram**2).sum()), len(x))
    notes = []
    chosen = neighbour_rows(len(x), rng)
    near = near_share(nearest_distances(x[chosen], norms[chosen], groups[chosen], x, norms, groups))
    if near > NEAR_SHARE + chance_share(len(x), scatter):
        notes.append(
            f"{near:.0%} of the rows have a near copy: left-out rows are not new, and every number here is too high; "
            "remove near copies, or name what belongs together with groups="
        )
    lag = _lag(x, norms, classes, sizes)
    if ordered and abs(lag) > max(_ORDER_DEVIATIONS * np.sqrt(scatter / 2 / len(x)), _ORDER_CORRELATION):
        notes.append(
            f"consecutive rows are {'alike' if lag > 0 else 'opposite'} (correlation {lag:.2f}): if they depend on "
            "each other (windows of a series, parts of a document) every number here is too high, say so with "
            "groups=; if they are only sorted the numbers hold"
        )
    return notes


def _lag(x: FloatArray, norms: FloatArray, classes: IntArray, sizes: IntArray) -> float:
    """Mean correlation of consecutive rows about the means of their classes.

    Independent rows of one class of m have ``E[x_i·x_j] = −E‖x‖²/(m − 1)`` about its mean, which is added back.
    """
    products = np.einsum("ij,ij->i", x[1:], x[:-1])
    same = classes[1:] == classes[:-1]
    products += np.where(same, (norms[1:] + norms[:-1]) / 2 / np.maximum(sizes[classes[1:]] - 1, 1), 0.0)
    return float(products.mean() / norms.mean())
