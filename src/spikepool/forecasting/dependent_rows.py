"""Rows that are not independent of each other: near copies, and consecutive rows that are alike.

A left-out row whose near copy, or whose neighbour in a series, is still there is no new row: leave-one-out is too good,
and the whole curve with it. Both are looked for within classes, since differences between classes are not dependence.
"""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.near_copies import (
    excess_share,
    is_ordered,
    near_copy_groups,
    near_words,
    nearest_distances,
    neighbour_rows,
    norm_scatter,
    order_words,
)


def dependence_warnings(
    X: FloatArray, labels: IntArray | None, groups: IntArray, ordered: bool, fewest: int, rng: np.random.Generator
) -> tuple[list[str], IntArray]:
    """What to say of rows (n, d) with the groups (n,) that are known, and the groups with near copies joined.

    Near copies are joined if at least `fewest` groups remain. Of the order of rows something is said only if it is
    `ordered`.
    """
    classes = np.zeros(len(X), dtype=np.intp) if labels is None else labels
    sizes = np.bincount(classes)
    x = X - X.mean(axis=0)
    sums = np.zeros((len(sizes), X.shape[1]))
    np.add.at(sums, classes, x)
    x -= (sums / np.maximum(sizes, 1)[:, None])[classes]
    norms = np.einsum("ij,ij->i", x, x)
    if not norms.sum() > 0:
        return [], groups
    gram = x @ x.T if len(x) <= x.shape[1] else x.T @ x
    scatter = norm_scatter(float(norms.sum()), float((gram**2).sum()), len(x))
    found = []
    chosen = neighbour_rows(len(x), rng)
    nearest = nearest_distances(x[chosen], norms[chosen], groups[chosen], x, norms, groups)
    share, by_chance = excess_share(nearest, len(x), scatter)
    if not by_chance:
        joined = near_copy_groups(x, norms, groups)
        # with fewer groups there is nothing to leave out: then it is said and not done
        if joined.max() + 1 >= fewest:
            groups = joined
            found.append(
                f"{share:.0%} of the rows have a near copy: they are left out together, as {joined.max() + 1:,} groups"
            )
        else:
            found.append(near_words(share))
    lag = _lag(x, norms, classes, sizes)
    if ordered and is_ordered(lag, scatter, len(x)):
        found.append(order_words(lag))
    return found, groups


def _lag(x: FloatArray, norms: FloatArray, classes: IntArray, sizes: IntArray) -> float:
    """Mean correlation of consecutive rows about the means of their classes.

    Independent rows of one class of m have ``E[x_i·x_j] = −E‖x‖²/(m − 1)`` about its mean, which is added back.
    """
    products = np.einsum("ij,ij->i", x[1:], x[:-1])
    same = classes[1:] == classes[:-1]
    products += np.where(same, (norms[1:] + norms[:-1]) / 2 / np.maximum(sizes[classes[1:]] - 1, 1), 0.0)
    return float(products.mean() / norms.mean())
