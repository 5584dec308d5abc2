"""Load a fitted pooling that was saved: data are checked, and only known classes are made from them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import MemoryBudgetError, ModelFormatError, SpikepoolError, require
from spikepool.kit.arrays import AnyArray
from spikepool.kit.files import read_file, regular_file
from spikepool.kit.memory import require_memory
from spikepool.pooling.learned import LearnedPoolingClassifier, LearnedPoolingRegressor
from spikepool.pooling.registry import SAVED, FunctionPooling, Part
from spikepool.pooling.saving import ARRAYS, FORMAT, STRUCTURE, VERSION, content_digest
from spikepool.pooling.selection import poolings

LARGEST_STRUCTURE = 2**27  # bytes of JSON; a hundred thousand classes take a tenth of it
LARGEST_ARRAYS = 2**32  # bytes; a table of 500,000 tokens and 1,024 dimensions takes half of it


def _made(value: Any, arrays: dict[str, Any]) -> Any:
    """The reverse of what :mod:`spikepool.pooling.saving` writes."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "number" in value:
        return float(value["number"])
    if "labels" in value:
        return _labels([_made(v, arrays) for v in value["labels"]], value["dtype"])
    if "tuple" in value:
        return tuple(_made(v, arrays) for v in value["tuple"])
    if "mapping" in value:
        return {_made(k, arrays): _made(v, arrays) for k, v in value["mapping"]}
    if "registered" in value:
        spec = poolings().get(value["registered"])
        if spec is None:
            raise ModelFormatError(
                "the model uses a pooling that is not registered", value["registered"], "Register it"
            )
        return spec.fit()
    return SAVED[value["class"]](**{k: _made(v, arrays) for k, v in value["fields"].items()})


def _labels(values: list[Any], dtype: Any) -> AnyArray:
    """Labels of text or objects, exactly as they were written."""
    if not isinstance(dtype, str) or np.dtype(dtype).kind not in "OUS":
        raise ModelFormatError("labels have a type that is never written", dtype, "Save the model again")
    labels = np.empty(len(values), dtype=object) if np.dtype(dtype).kind == "O" else np.array(values, dtype=dtype)
    if labels.dtype == object:
        labels[:] = values
    if labels.tolist() != values or labels.dtype.str != dtype:
        raise ModelFormatError("labels do not fit their type", dtype, "Save the model again")
    return labels


def _check_numbers(arrays: dict[str, AnyArray], content: dict[str, Any]) -> None:
    """Raise unless every array holds finite numbers of the type that is written: float64, but for classes and table."""
    free = [content["attributes"].get("classes_"), content["parameters"].get("table")]
    others = {value["array"] for value in free if isinstance(value, dict) and "array" in value}
    for name, array in arrays.items():
        if array.dtype.kind != "f" and (name not in others or array.dtype.kind not in "iub"):
            raise ModelFormatError(f"{name} of the model has another type", str(array.dtype), "Save the model again")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelFormatError(f"{name} of the model holds NaN or infinity", remedy="Save the model again")


def _check_fitted(estimator: Any) -> None:
    """Raise unless the classes are in order and a prediction from normal tokens is finite and of the right shape."""
    classes: Any = getattr(estimator, "classes_", None)
    if isinstance(estimator, LearnedPoolingClassifier) and (
        np.ndim(classes) != 1 or len(classes) < 2 or not np.array_equal(np.unique(classes), classes)
    ):
        raise ModelFormatError("the classes of the model are not in order", remedy="Save the model again")
    scale: Any = getattr(estimator, "scale_", 1.0)  # unused where only logistic regressions predict
    if type(scale) not in (int, float) or not np.isfinite(scale):
        raise ModelFormatError("the scale of the model is not a finite number", scale, "Save the model again")
    if any(isinstance(part.pooling, FunctionPooling) for part in estimator._parts):
        return  # a function of the user's may refuse tokens that it does not know
    T, d = estimator.n_positions_, estimator._d
    if estimator.table is not None:
        X: Any = np.arange(2 * T).reshape(2, T) % len(estimator.table)
    else:
        X = np.random.default_rng(0).standard_normal((2, T, d))
        X = X if estimator.layers_ == (None,) else dict.fromkeys(estimator.layers_, X)
    mask = np.ones((2, T), dtype=bool) if estimator._mask_hid_tokens else None
    with np.errstate(all="ignore"):
        values = estimator._predict_values(X, mask) if classes is None else estimator.predict_proba(X, mask=mask)
    if not np.isfinite(values).all() or values.shape != (2, 1 if classes is None else len(classes)):
        raise ModelFormatError("the model does not give finite predictions", remedy="Save the model again")


def load(folder: Any) -> Any:
    """Load a pooling that was saved with its method ``save``.

    Parameters
    ----------
    folder : path
        The folder, with ``model.json`` and ``arrays.safetensors``.

    Returns
    -------
    LearnedPoolingClassifier or LearnedPoolingRegressor
        Fitted; its predictions are those of the model that was saved.

    Raises
    ------
    ModelFormatError
        The folder is not a saved model, is damaged, or was written by a newer version.
    """
    safetensors = require("safetensors.numpy", "tables")
    place = Path(folder)
    try:
        content = json.loads(read_file(place / STRUCTURE, LARGEST_STRUCTURE).decode("utf-8"))
        size = regular_file(place / ARRAYS, LARGEST_ARRAYS).stat().st_size
        require_memory(3 * size, "the arrays of the model", "Load it where there is more memory")
        data = read_file(place / ARRAYS, LARGEST_ARRAYS)
    except MemoryBudgetError:
        raise
    except (SpikepoolError, ValueError, RecursionError) as err:
        raise ModelFormatError(f"cannot read a saved model ({err})", str(place), "Pass a folder made by save") from err
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelFormatError("the folder is not a saved model of spikepool", str(place), "Pass a folder made by save")
    version = content.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= VERSION:
        raise ModelFormatError(
            f"the model has format version {version!r:.40}; this spikepool reads up to {VERSION}",
            remedy="Update spikepool",
        )
    if version > 1 and content.get("content_sha256") != content_digest(content):
        raise ModelFormatError(f"{STRUCTURE} of the model is damaged: its checksum differs", str(place), "Save again")
    for name, digest in dict(content.get("files") or {}).items():
        if hashlib.sha256(read_file(place / Path(name).name, LARGEST_STRUCTURE)).hexdigest() != digest:
            raise ModelFormatError(f"{name} of the model is damaged: its checksum differs", str(place), "Save again")
    if hashlib.sha256(data).hexdigest() != content.get("sha256"):
        raise ModelFormatError("the arrays of the model are damaged: their checksum differs", str(place), "Save again")
    kinds = {cls.__name__: cls for cls in (LearnedPoolingClassifier, LearnedPoolingRegressor)}
    try:
        arrays = safetensors.load(data)
        estimator = kinds[content["class"]](**{k: _made(v, arrays) for k, v in content["parameters"].items()})
        for given, value in content["attributes"].items():
            name = "_logistic" if given == "_heads" else given  # as it was called before
            if hasattr(type(estimator), name):
                raise ModelFormatError("an attribute of the model is a name of its class", name, "Do not use it")
            made = _made(value, arrays)
            setattr(estimator, name, tuple(Part(*p) for p in made) if name in ("_parts", "_logistic") else made)
        _check_numbers(arrays, content)
        _check_fitted(estimator)
    except ModelFormatError:
        raise
    except Exception as err:  # whatever a damaged structure leads to
        raise ModelFormatError(
            f"the model is damaged ({type(err).__name__}: {err})", str(place), "Save it again"
        ) from err
    return estimator
