"""The one way in for arrays: NumPy, data frames, tensors, lists of sequences of different lengths.

Labels as a user has them: numbers, text or objects, one per row and none of them missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Mapping
from collections.abc import Set as AbstractSet
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import DataSourceError, InvalidInputError, NonFiniteError, RaggedError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray
from spikepool.kit.memory import require_memory


class DeviceNote(UserWarning):
    """A tensor was copied from an accelerator to the memory of this machine."""


def is_path(value: Any) -> bool:
    """Whether `value` is a path or a URL."""
    return isinstance(value, (str, Path))


def is_tensor(value: Any) -> bool:
    """Whether `value` is a torch tensor, without importing torch."""
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "detach")


def as_array(value: Any, name: str = "X") -> Any:
    """`value` as something with `shape` and `dtype` that NumPy can slice; arrays are returned as they are.

    Torch tensors are detached and moved to the CPU (with a note if they were elsewhere); bfloat16 becomes float32. Data
    frames become arrays. Sequences of different lengths are refused here; see :func:`padded`.
    """
    if isinstance(value, np.ndarray):
        return value
    check.dense(value, name)
    if is_tensor(value):
        return _from_torch(value, name)
    if isinstance(value, (Mapping, AbstractSet, Generator, Iterator)) or value is None:
        raise InvalidInputError(f"{name} must be an array", type(value).__name__, "Pass an array or a list of rows")
    if hasattr(value, "to_numpy"):  # a data frame or series, or an xarray.DataArray
        return value.to_numpy()
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return _foreign(value, name)
    try:
        array = np.asarray([as_array(row, name) for row in value] if _holds_tensors(value) else value)
    except ValueError as err:
        raise RaggedError(
            f"the rows of {name} have different lengths", remedy="Pad them to one length and pass mask="
        ) from err
    except TypeError as err:
        raise InvalidInputError(f"{name} must be an array", type(value).__name__, "Pass an array") from err
    if array.dtype == object and array.ndim == 0:
        raise InvalidInputError(f"{name} must be an array", type(value).__name__, "Pass an array or a list of rows")
    return array


def _foreign(value: Any, name: str) -> Any:
    """An array of another library: as it is if its type is one of NumPy's, else converted."""
    try:
        np.dtype(value.dtype)
    except TypeError:
        try:
            return np.asarray(value)
        except (TypeError, ValueError, RuntimeError) as err:
            raise InvalidInputError(
                f"NumPy cannot read {name}", type(value).__name__, "Convert it to a float32 NumPy array"
            ) from err
    return value if hasattr(value, "__getitem__") else np.asarray(value)


def _from_torch(tensor: Any, name: str) -> NDArray[Any]:
    tensor = tensor.detach()
    device = getattr(tensor.device, "type", "cpu")
    if device != "cpu":
        warnings.warn(f"{name} was copied from {device} to the CPU", DeviceNote, stacklevel=3)
        tensor = tensor.cpu()
    if str(tensor.dtype) in ("torch.bfloat16", "torch.float8_e4m3fn", "torch.float8_e5m2"):
        tensor = tensor.float()
    if getattr(tensor, "is_sparse", False) or getattr(tensor, "is_quantized", False):
        raise InvalidInputError(f"{name} is a sparse or quantised tensor", str(tensor.dtype), "Make it dense first")
    return np.asarray(
        tensor.resolve_conj().resolve_neg().numpy() if hasattr(tensor, "resolve_conj") else tensor.numpy()
    )


def _holds_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(is_tensor(row) for row in value[:1])


def is_ragged(X: Any) -> bool:
    """Whether `X` is a list of (T_i, d) arrays or tensors, as encoders return token embeddings."""
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        X = list(X)
    if not isinstance(X, (list, tuple)) or not X or not all(hasattr(row, "shape") for row in X):
        return False
    return all(len(row.shape) == 2 for row in X)


def padded(X: Any, mask: Any = None, name: str = "X") -> tuple[Any, Any]:
    """Sequences of different lengths as (n, T, d) and their mask (n, T); anything else as it is.

    Sequence i fills the first T_i places of row i. A given `mask` may be a list of masks (T_i,), or an array (n, T).
    """
    if not is_ragged(X):
        return X, mask
    rows = [as_array(row, name) for row in X]
    lengths = np.array([len(row) for row in rows])
    widths = {int(row.shape[1]) for row in rows}
    if len(widths) > 1:
        raise ShapeError(f"the sequences of {name} differ in the number of features", sorted(widths), "Use one encoder")
    T, d = int(lengths.max()), widths.pop()
    if T == 0 or d == 0:
        raise ShapeError(f"the sequences of {name} hold no tokens", (len(rows), T, d), "Drop empty sequences")
    dtype = np.result_type(*{row.dtype for row in rows})
    require_memory(len(rows) * T * d * dtype.itemsize, f"{name} padded to {T} tokens", "Cut the longest sequences")
    if (lengths == T).all() and mask is None:
        return np.stack(rows), None
    values = np.zeros((len(rows), T, d), dtype=dtype)
    observed = np.arange(T) < lengths[:, None]
    for row, target in zip(rows, values, strict=True):
        target[: len(row)] = row
    if mask is None:
        return values, observed
    if isinstance(mask, (list, tuple)) and len(mask) == len(rows) and all(np.ndim(m) == 1 for m in mask):
        for i, part in enumerate(mask):
            if len(part) != lengths[i]:
                raise ShapeError(f"the mask of sequence {i} has another length", len(part), f"Pass {lengths[i]} values")
            observed[i, : lengths[i]] &= np.asarray(part, dtype=bool)
        return values, observed
    given = np.asarray(as_array(mask, "mask"))
    if given.shape != observed.shape:
        raise ShapeError(f"mask must have shape {observed.shape}", given.shape, "Pass one value per token")
    return values, observed & given.astype(bool)


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
        if all(isinstance(v, Real) and not isinstance(v, (bool, np.bool_)) for v in values.flat):
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
    """A list of one value per row as an array: numbers where every value is one, text otherwise."""
    if not isinstance(values, list) or not values or any(isinstance(v, (list, dict)) or v is None for v in values):
        raise DataSourceError(f"{name} must hold one value per row", values, "Write numbers or text")
    for kind in (int, float):
        try:
            return np.array([kind(v) if isinstance(v, str) else v for v in values])
        except (ValueError, OverflowError):
            continue
    return np.array([str(v) for v in values])


def _is_missing(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


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
