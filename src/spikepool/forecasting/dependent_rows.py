"""Rows that are not independent of each other: near copies, and consecutive rows that are alike.

A left-out row whose near copy, or whose neighbour in a series, is still there is no new row: leave-one-out is too good,
and the whole curve with it. Both are looked for within the classes, whose own differences are no dependence.
"""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.near_copies import (
    excess_share,
    is_ordered,
    near_words,
    nearest_distances,
    neighbour_rows,
    norm_scatter,
    order_words,
)


def dependence_warnings(
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
    found = []
    chosen = neighbour_rows(len(x), rng)
    nearest = nearest_distances(x[chosen], norms[chosen], groups[chosen], x, norms, groups)
    share, by_chance = excess_share(nearest, len(x), scatter)
    if not by_chance:
        found.append(near_words(share))
    lag = _lag(x, norms, classes, sizes)
    if ordered and is_ordered(lag, scatter, len(x)):
        found.append(order_words(lag))
    return found


def _lag(x: FloatArray, norms: FloatArray, classes: IntArray, sizes: IntArray) -> float:
    """Mean correlation of consecutive rows about the means of their classes.

    Independent rows of one class of m have ``E[x_i·x_j] = −E‖x‖²/(m − 1)`` about its mean, which is added back.
    """
    products = np.einsum("ij,ij->i", x[1:], x[:-1])
    same = classes[1:] == classes[:-1]
    products += np.where(same, (norms[1:] + norms[:-1]) / 2 / np.maximum(sizes[classes[1:]] - 1, 1), 0.0)
    return float(products.mean() / norms.mean())
