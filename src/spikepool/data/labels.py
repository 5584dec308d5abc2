"""Labels as a user has them: numbers, text or objects, one per row and none of them missing."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from spikepool.data.in_memory import as_array
from spikepool.errors import DataSourceError, InvalidInputError, NonFiniteError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray

# Every class is a column of numbers as long as the rows.
MOST_CLASSES = 2000
TASKS = ("auto", "classification", "regression")
# Whole numbers of which more than this share are distinct may be classes or amounts: the caller has to say.
_AMBIGUOUS_SHARE = 0.8
# The same for whole numbers that are given as floats, as amounts mostly are and classes seldom.
_AMBIGUOUS_FLOAT_SHARE = 0.2


def label_array(y: Any) -> AnyArray:
    """`y` as an array; a column becomes flat, objects that are all numbers become numbers, missing ones an error."""
    if isinstance(y, (list, tuple)) and len({isinstance(v, str) for v in y}) > 1:
        # NumPy would silently turn the numbers into text
        raise InvalidInputError("y mixes text and numbers", y[:5], "Pass all text or all numbers")
    values = np.asarray(as_array(y, "y"))
    if values.ndim == 0:
        raise ShapeError("y must have one label per row", y, "Pass y of shape (n,)")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.dtype.kind == "c":
        raise InvalidInputError("y must not be complex", values, "Pass classes or real numbers")
    if values.dtype.kind == "O":
        missing = np.array([_is_missing(v) for v in values.flat])
        if missing.any():
            _refuse_missing(missing.reshape(values.shape))
        kinds = {_kind(v) for v in values.flat}
        if kinds == {"bool"} or kinds == {"int"}:
            # not floats: whole numbers near 2^53 would become equal
            values = values.astype(np.bool_ if kinds == {"bool"} else _integers(values))
        elif kinds <= {"int", "float"}:
            values = values.astype(np.float64)
        else:
            try:
                np.unique(values)
            except TypeError as err:
                raise InvalidInputError(
                    "y mixes labels that cannot be ordered", remedy="Pass all text or all numbers"
                ) from err
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        _refuse_missing(~np.isfinite(values))
    return values


def as_values(values: Any, name: str) -> AnyArray:
    """A list of one value per row as an array: numbers where every value is one, text otherwise.

    Whole numbers beyond 64 bits stay text: as floats, different ones would become equal.
    """
    if not isinstance(values, list) or not values or any(isinstance(v, (list, dict)) or v is None for v in values):
        raise DataSourceError(f"{name} must hold one value per row", values, "Write numbers or text")
    try:
        whole = np.array([int(v) if isinstance(v, str) else v for v in values])
        if whole.dtype.kind in "iufb" and (whole.dtype.kind != "f" or any(isinstance(v, float) for v in values)):
            return whole
        return np.array([str(v) for v in values])
    except (ValueError, OverflowError):
        pass
    try:
        return np.array([float(v) if isinstance(v, str) else v for v in values])
    except (ValueError, OverflowError):
        return np.array([str(v) for v in values])


def _is_missing(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _kind(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    return "int" if isinstance(value, Integral) else "float" if isinstance(value, Real) else "other"


def _integers(values: AnyArray) -> type[np.integer[Any]]:
    """The type of 64 bits that holds all of them."""
    low, high = min(values.flat), max(values.flat)
    if low < -(2**63) or high >= 2 ** (64 if low >= 0 else 63):
        raise InvalidInputError("y has whole numbers beyond 64 bits", high, "Pass them as text")
    return np.uint64 if high >= 2**63 else np.int64


def _refuse_missing(missing: AnyArray) -> None:
    rows = np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1))
    shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
    raise NonFiniteError(
        f"y contains NaN or infinities, or misses values, in {len(rows)} row(s): {shown}",
        remedy="Remove the rows without a label",
    )


def decided_task(values: AnyArray, task: str = "auto") -> str:
    """Classification or regression: as asked for, or by the values of :func:`label_array`."""
    decided = _decided(values, check.choice(task, "task", TASKS))
    if decided == "classification" and values.ndim == 1:
        refuse_many_classes(len(np.unique(values)))
    return decided


def refuse_many_classes(count: int) -> None:
    """Raise if there are more classes than are compared."""
    if count > MOST_CLASSES:
        raise InvalidInputError(
            f"y has {count:,} classes, and at most {MOST_CLASSES:,} are compared",
            remedy="Merge the rare classes, or use regression for amounts (task='regression')",
        )


def _decided(values: AnyArray, task: str) -> str:
    if task != "auto":
        return task
    if values.ndim == 2:
        if ((values == 0) | (values == 1)).all() and (values.sum(axis=1) == 1).all():
            raise InvalidInputError(
                "y is one-hot", values.shape, "Pass the class of each row, y.argmax(axis=1), or task='regression'"
            )
        return "regression"
    if values.dtype.kind == "f" and not np.array_equal(values, np.round(values)):
        return "regression"
    if values.dtype.kind in "fiu":
        distinct = len(np.unique(values))
        if distinct > (_AMBIGUOUS_FLOAT_SHARE if values.dtype.kind == "f" else _AMBIGUOUS_SHARE) * len(values):
            raise InvalidInputError(
                f"y has {distinct} different whole numbers in {len(values)} rows: classes or amounts",
                remedy="Pass task='classification' or task='regression' (--task)",
            )
    return "classification"
