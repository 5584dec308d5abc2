"""The one way in for arrays: NumPy, data frames, tensors, lists of sequences of different lengths."""

from __future__ import annotations

import math
import warnings
from collections.abc import Generator, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.paths import is_path
from spikepool.errors import InvalidInputError, RaggedError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.memory import require_memory


class DeviceNote(UserWarning):
    """A tensor was copied from an accelerator to the memory of this machine."""


def is_tensor(value: Any) -> bool:
    """Whether `value` is a torch tensor, without importing torch."""
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "detach")


def as_array(value: Any, name: str = "X") -> Any:
    """`value` as something with `shape` and `dtype` that NumPy can slice; arrays are returned as they are.

    Torch tensors are detached and moved to the CPU (with a note if they were elsewhere); bfloat16 and 8-bit floats
    become float32. Data frames become arrays. Sequences of different lengths are refused here; see :func:`padded`.
    """
    if isinstance(value, np.ndarray):
        return value
    check.dense(value, name)
    if is_tensor(value):
        return _from_torch(value, name)
    if is_path(value):
        raise InvalidInputError(f"{name} must be an array, not a path", value, "Load the file first (numpy.load)")
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
    """An array of another library (JAX, Zarr, Dask), in memory."""
    try:
        nbytes = math.prod(value.shape) * np.dtype(value.dtype).itemsize
    except TypeError:  # a type that NumPy does not have, or chunks of unknown size
        nbytes = 0
    require_memory(int(nbytes), f"{name} as one array", "Use fewer rows, or a memory map")
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as err:
        raise InvalidInputError(
            f"NumPy cannot read {name}", type(value).__name__, "Convert it to a float32 NumPy array"
        ) from err


def _from_torch(tensor: Any, name: str) -> NDArray[Any]:
    tensor = tensor.detach()
    device = getattr(tensor.device, "type", "cpu")
    if device != "cpu":
        warnings.warn(f"{name} was copied from {device} to the CPU", DeviceNote, stacklevel=3)
        tensor = tensor.cpu()
    if str(tensor.dtype).startswith(("torch.bfloat16", "torch.float8")):  # types that NumPy does not have
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
