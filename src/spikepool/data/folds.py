"""Groups of rows that stay together, and the folds, blocks and halves into which rows are divided."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from spikepool.errors import InvalidInputError, ShapeError, SizeError
from spikepool.kit.arrays import BoolArray, FloatArray, IntArray


def group_numbers(groups: Any, n: int, *, fewest: int = 1, why: str = "") -> IntArray:
    """Numbers (n,) of the user's groups, of which at least `fewest` are needed; `why` is the reason in the error."""
    given = np.asarray(groups)
    if given.shape != (n,):
        raise ShapeError(f"groups must have one entry for each of the {n} rows", given.shape, "Pass shape (n,)")
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise InvalidInputError("groups must not contain NaN", remedy="Give rows without a group one of their own")
    try:
        names, numbers = np.unique(given, return_inverse=True)
    except TypeError as err:
        raise InvalidInputError("groups must be labels of one kind", groups, "Pass integers or strings") from err
    if len(names) < fewest:
        raise SizeError(f"at least {fewest} groups are required {why}", len(names), "Use finer groups, or none")
    return np.asarray(numbers.reshape(-1), dtype=np.intp)


def balanced_rows(strata: IntArray, weights: FloatArray, limit: int, seed: int) -> IntArray:
    """At most `limit` rows of positive weight, equal shares of every stratum, at random within each."""
    positive = np.flatnonzero(weights > 0)
    if len(positive) <= limit:
        return positive
    order = positive[np.random.default_rng(seed).permutation(len(positive))]
    order = order[np.argsort(strata[order], kind="stable")]
    return np.sort(order[np.linspace(0, len(order) - 1, limit).astype(np.intp)])


def assign_folds(strata: IntArray, clusters: IntArray, folds: int, seed: int) -> IntArray:
    """Fold of each row: clusters stay together, strata (classes) are spread as evenly as they can be."""
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    n = len(strata)
    if len(np.unique(clusters)) == n:
        order = np.random.default_rng(seed).permutation(n)
        order = order[np.argsort(strata[order], kind="stable")]
        result = np.empty(n, dtype=np.intp)
        result[order] = np.arange(n) % folds
        return result
    result = np.zeros(n, dtype=np.intp)
    # one class, or none with a member for every fold, leaves nothing to spread
    alike = strata.min() == strata.max() or np.bincount(strata).max() < folds
    splitter = (GroupKFold if alike else StratifiedGroupKFold)(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # classes with fewer members than folds
        for k, (_, test) in enumerate(splitter.split(strata, strata, clusters)):
            result[test] = k
    return result


def seen_elsewhere(strata: IntArray, folds: IntArray) -> BoolArray:
    """Whether another fold has the class of each row, (n,)."""
    pairs = np.unique(np.column_stack([strata, folds]), axis=0)[:, 0]
    return np.asarray(np.bincount(pairs)[strata] > 1)


def fold_blocks(
    groups: IntArray, labels: IntArray | None, count: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """An order of the rows and the ends of its blocks; classes in proportion, or groups in one block each."""
    n = len(groups)
    number = np.unique(groups, return_inverse=True)[1].ravel()
    if labels is None or number.max() + 1 < n:
        order = np.argsort(rng.permutation(int(number.max()) + 1)[number], kind="stable")
        last = np.flatnonzero(np.diff(number[order], append=-1)) + 1  # ends of groups
    else:
        # rank of each row within its class, as a part of the class
        rows, part = rng.permutation(n), np.empty(n)
        for k in range(int(labels.max()) + 1):
            of_class = rows[labels[rows] == k]
            part[of_class] = (np.arange(len(of_class)) + rng.random()) / max(len(of_class), 1)
        order, last = np.argsort(part, kind="stable"), np.arange(1, n + 1)
    wanted = np.arange(1, count + 1) * n / count
    return order, np.unique(last[np.abs(last[:, None] - wanted).argmin(axis=0)])


def split_groups(groups: IntArray, size: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """About `size` random rows in whole groups, and the rows of the other groups."""
    number = np.unique(groups, return_inverse=True)[1]
    order = rng.permutation(number.max() + 1)
    before = np.concatenate([[0], np.cumsum(np.bincount(number)[order])[:-1]])
    inside = np.empty(len(order), dtype=bool)
    inside[order] = before < size  # whole groups until the size is reached
    return np.flatnonzero(inside[number]), np.flatnonzero(~inside[number])
