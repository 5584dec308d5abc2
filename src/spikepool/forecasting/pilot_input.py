"""Reading a labelled pilot: classes or numbers, groups, repeated rows, scale, and what to warn about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.data.description import Caution, Description
from spikepool.data.folds import group_numbers
from spikepool.data.in_memory import as_array, padded
from spikepool.data.labels import decided_task, label_array
from spikepool.data.subsample import spread_rows
from spikepool.errors import InvalidInputError, MemoryBudgetError, ShapeError, SizeError
from spikepool.forecasting.dependence import dependence_caution
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray

# Parts of the pilot that are left out in turn; a class with fewer rows is not in every one of them.
FOLDS = 5
# With fewer rows no part of the curve can be measured; up to the second number it can, and badly.
FEWEST_ROWS, SMALL_PILOT = 20, 60
# Rows for each of the different features from which new rows will have features that were met: features are categories.
_DRAWS_OF_A_FEATURE = 3
# Rows that a forecast is made from: more would take minutes and change the curve by less than its interval.
MOST_ROWS = 20_000
# The smaller Gram matrix is decomposed fifty times.
_LARGEST_SIDE = 10_000


class ForecastWarning(UserWarning):
    """The pilot is such that its forecast deserves less belief, or counts its rows in another way."""


@dataclass(frozen=True)
class PilotInput:
    """A pilot ready to be measured.

    Attributes
    ----------
    X : array (n, d)
        Features of distinct rows.
    Y : array (n, k)
        ±1 indicators of the classes, or targets.
    labels : array (n,) or None
        Class of each row from 0; None for regression.
    classes : array or None
        The classes as they were given.
    groups : array (n,)
        Rows that stay together.
    kept : array (n,)
        Which of the given rows these are.
    scale : array (d,)
        What the features were divided by.
    standardized : bool
        Whether that is their standard deviation, as was asked for.
    warnings : tuple of str
        What may be wrong with the rows.
    """

    X: FloatArray
    Y: FloatArray
    labels: IntArray | None
    classes: AnyArray | None
    groups: IntArray
    kept: IntArray
    scale: FloatArray
    standardized: bool
    warnings: tuple[str, ...]


def in_memory(rows: Any, name: str) -> Any:
    """Rows as an array."""
    return as_array(rows, name)


def take_part(C: Any, y: Any, groups: Any, mask: Any) -> tuple[Any, Any, Any, Any, tuple[str, ...]]:
    """Rows, labels, groups and mask of at most ``MOST_ROWS`` rows, and a note if there were more."""
    counted = hasattr(C, "__len__") and not hasattr(C, "toarray")  # sparse matrices are refused later
    n = len(C) if counted else 0
    rows = spread_rows(n, MOST_ROWS, np.random.default_rng(0))
    if rows is None or any(hasattr(part, "__len__") and len(part) != n for part in (y, groups, mask)):
        return C, y, groups, mask, ()  # all of them; lengths that differ are named later
    caution = (
        f"the forecast is made from {len(rows):,} of the {n:,} rows, in runs of neighbours spread over all of them"
    )
    C = padded(C, name="C")[0] if isinstance(C, (list, tuple)) else C
    parts = ((C, "C"), (y, "y"), (groups, "groups"), (mask, "mask"))
    taken = [None if part is None else as_array(part, name)[rows] for part, name in parts]
    return taken[0], taken[1], taken[2], taken[3], (caution,)


def read_features(C: Any, name: str = "C") -> FloatArray:
    """Pooled features as a finite (n, d) array."""
    features = check.feature_rows(in_memory(C, name), name)
    if min(features.shape) > _LARGEST_SIDE:
        raise MemoryBudgetError(
            f"the smaller side of {name} must be at most {_LARGEST_SIDE}", features.shape, "Take a part of the rows"
        )
    check.moderate_squares(features, name)
    return features


def read_targets(y: Any, rows: int, task: str) -> tuple[FloatArray, IntArray | None, AnyArray | None]:
    """Targets (n, k), labels and classes; the last two are None for regression."""
    values = label_array(y)
    if values.ndim not in (1, 2) or len(values) != rows:
        raise ShapeError(f"y must have one entry for each of the {rows} rows", values.shape, "Pass y of shape (n,)")
    task = decided_task(values, task)
    if task == "regression":
        Y = check.finite_array(values, "y").reshape(rows, -1)
        check.moderate_squares(Y, "y")
        if not (np.ptp(Y, axis=0) > 0).any():
            raise InvalidInputError("y is constant", float(Y[0, 0]), "Pass targets that differ")
        return Y, None, None
    if values.ndim == 2:
        raise ShapeError("y must have one label per row", values.shape, "Pass y of shape (n,), or task='regression'")
    classes, labels = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        raise InvalidInputError("y has one class only", classes[0], "Pass labels of two classes or more")
    if len(classes) == rows:
        raise InvalidInputError(
            "every row has a different class", len(classes), "Pass labels that repeat, or task='regression'"
        )
    labels = labels.astype(np.intp).ravel()
    return np.where(labels[:, None] == np.arange(len(classes)), 1.0, -1.0), labels, classes


def fold_groups(groups: Any, rows: int) -> IntArray:
    """Group numbers (n,), enough for the folds; every row its own group when None."""
    return np.arange(rows) if groups is None else group_numbers(groups, rows, fewest=FOLDS, why="to leave some out")


def read_pilot(
    C: Any,
    y: Any,
    *,
    groups: Any = None,
    task: str = "auto",
    standardize: bool = False,
    description: Description | None = None,
) -> PilotInput:
    """Check a pilot; merge copies of rows, keep rows with the same features in one group, and scale when asked.

    Rows of few values coincide without being copies and are left as they are. `description` is that of the rows, if it
    was made before.
    """
    X = read_features(C)
    Y, labels, classes = read_targets(y, len(X), task)
    number = fold_groups(groups, len(X))
    if (np.ptp(X, axis=0) == 0).all():
        raise InvalidInputError("the features are constant", X.shape, "Pass features that differ between rows")
    notes: list[str] = []
    units = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0) if standardize else 1.0
    if description is None or description.n != len(X) or standardize:
        description = Description(X / units, labels, None if groups is None else number)
    kept = chosen = np.arange(len(X))
    sizes, distinct = np.bincount(description.copies), len(description.counts)
    if distinct < len(X) and (distinct * _DRAWS_OF_A_FEATURE <= len(X) or _coincide(X, description.copies)):
        times = int(np.gcd.reduce(sizes))
        if times > 1 and groups is None:
            notes.append(
                Caution(
                    "duplicates",
                    f"all numbers of equal rows are multiples of {times}: if the rows were given {times} times over, "
                    "pass them once; scores and intervals are too good otherwise",
                )
            )
        # values of few columns coincide, and new rows will coincide with these as often
    else:
        same_row = np.unique(np.column_stack([description.copies, Y]), axis=0, return_inverse=True)[1].ravel()
        chosen = np.sort(np.unique(same_row, return_index=True)[1])
        notes += [caution for caution in (description.caution("duplicates"),) if caution is not None]
        cautions, number = _dependence(description, chosen)
        notes += cautions
        if groups is None and not cautions:
            suspicion = dependence_caution(X / units, Y, labels)
            notes += [] if suspicion is None else [suspicion]
    X, Y, number, kept = X[chosen], Y[chosen], number[chosen], kept[chosen]
    labels = None if labels is None else labels[chosen]

    if len(X) < FEWEST_ROWS:
        raise SizeError(f"a pilot needs at least {FEWEST_ROWS} distinct rows", len(X), "Label more rows")
    notes += _cautions(X, labels, standardize)
    # the features' own units cancel, and squares stay in range
    scale = np.full(X.shape[1], max(float(np.abs(X - X.mean(axis=0)).max()), 1e-300))
    if standardize:
        spread = X.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
    return PilotInput(X / scale, Y, labels, classes, number, kept, scale, standardize, tuple(notes))


def _cautions(X: FloatArray, labels: IntArray | None, standardize: bool, dominating: float = 30.0) -> list[str]:
    """What to say of few rows, of rare classes, and of rows or columns that dominate the others.

    A row `dominating` times as far from the mean as the median row, or a column that varies so many times as much as
    the median one, alone decides a principal direction.
    """
    notes = []
    if len(X) < SMALL_PILOT:
        notes.append(f"a pilot of {len(X)} rows says little: rely on the interval")
    if labels is not None:
        counts = np.bincount(labels)
        few = int((counts < FOLDS).sum())
        if few:
            notes.append(
                f"{few} of {len(counts)} classes have fewer than {FOLDS} rows: "
                "the accuracy of these is hardly measured, and classes without a row are not counted"
            )
    norms = ((X - X.mean(axis=0)) ** 2).sum(axis=1)
    far = int((norms > dominating**2 * np.median(norms)).sum())
    if far:
        notes.append(
            f"rows more than {dominating:g} times as far from the centre as the median row: {far}; they dominate "
            "ridge, so check them, clip them or leave them out"
        )
    spread = X.std(axis=0)
    widest, usual = float(spread.max()), float(np.median(spread[spread > 0]))
    if not standardize and widest > dominating * usual:
        notes.append(
            f"one column varies {widest / usual:.3g} times as much as the usual one: ridge hardly sees "
            "the others, and standardize=True is another model"
        )
    return notes


def _dependence(facts: Description, kept: IntArray) -> tuple[list[Caution], IntArray]:
    """What to say of rows that are not independent, and groups (n,) of rows that are left out together.

    A left-out row whose near copy, or whose neighbour in a series, is still there is not a new row: leave-one-out is
    too good, and the whole curve with it.
    """
    cautions, number = [facts.caution("near-duplicates"), facts.caution("order")], facts.units
    if facts.near_share is not None:
        joined = facts.near_groups()
        count = len(np.unique(joined[kept]))
        if count >= FEWEST_ROWS:  # with fewer groups there is nothing to leave out: then it is said and not done
            number = joined
            share = f"{facts.near_share:.0%} of the rows have a near copy"
            cautions[0] = Caution("near-duplicates", f"{share}: they are left out together, as {count:,} groups")
    return [caution for caution in cautions if caution is not None], number


def _coincide(X: FloatArray, same: IntArray, factor: float = 4.0) -> bool:
    """Whether equal rows are as many as the few values of their columns explain, up to a factor.

    With frequencies f_jv of the values v of column j, two rows with independent columns are equal with probability
    prod_j sum_v f_jv²; columns that depend on each other coincide more often. Copies of rows that were measured are
    many more than that.
    """
    sizes = np.bincount(same).astype(np.float64)
    pairs = float((sizes * (sizes - 1)).sum()) / 2
    chance = 1.0
    for column in X.T:
        chance *= float(((np.unique(column, return_counts=True)[1] / len(X)) ** 2).sum())
        if chance * len(X) ** 2 < 1:
            return False
    expected = chance * len(X) * (len(X) - 1) / 2
    return bool(pairs <= factor * expected + 3 * np.sqrt(expected))
