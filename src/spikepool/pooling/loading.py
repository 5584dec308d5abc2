"""Load a fitted pooling that was saved: data are checked, and only known classes are made from them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import MemoryBudgetError, ModelFormatError, SpikepoolError, require
from spikepool.kit.arrays import AnyArray
from spikepool.kit.bounded_reading import read_file, regular_file
from spikepool.kit.memory import require_memory
from spikepool.pooling.catalogue import poolings
from spikepool.pooling.fitted import FittedPooling
from spikepool.pooling.learned import LearnedPoolingClassifier, LearnedPoolingRegressor
from spikepool.pooling.registry import SAVED, FunctionPooling
from spikepool.pooling.saving import ARRAYS, FORMAT, INPUT, STRUCTURE, VERSION, content_digest

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
    free = [content["fitted"]["fields"].get("classes"), content["parameters"].get("table")]
    others = {value["array"] for value in free if isinstance(value, dict) and "array" in value}
    for name, array in arrays.items():
        if array.dtype.kind != "f" and (name not in others or array.dtype.kind not in "iub"):
            raise ModelFormatError(f"{name} of the model has another type", str(array.dtype), "Save the model again")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelFormatError(f"{name} of the model holds NaN or infinity", remedy="Save the model again")


def _check_fitted(estimator: Any) -> None:
    """Raise unless sizes agree with the arrays, and a prediction from normal tokens is finite."""
    fitted: FittedPooling = estimator.fitted_
    classes, T, d = fitted.classes, fitted.positions, fitted.d
    if isinstance(estimator, LearnedPoolingClassifier) != (classes is not None):
        raise ModelFormatError("the model has classes and is no classifier, or the reverse", remedy="Save it again")
    if classes is not None and (
        np.ndim(classes) != 1 or len(classes) < 2 or not np.array_equal(np.unique(classes), classes)
    ):
        raise ModelFormatError("the classes of the model are not in order", remedy="Save the model again")
    shape = np.shape(fitted.head_weights)
    if any(type(size) is not int or size < 1 for size in (T, d)) or len(shape) != 2 or shape[1] != T:
        raise ModelFormatError("the positions of the model do not fit its arrays", (T, d), "Save the model again")
    columns = 1 if classes is None else len(classes)
    for part in (*fitted.parts, fitted.leading):
        coef, level = part.linear.coef, part.linear.intercept
        space = getattr(part.pooling, "space", None)
        own = getattr(part.pooling, "T", 1)  # places of a sequence: as many as its coefficients
        if (
            coef.ndim != 2
            or coef.shape[1] != columns
            or level.shape != (columns,)
            or (space is not None and space.mean.shape != (d,))
            or type(own) is not int
            or not 1 <= own <= len(coef)
            or part.layer not in fitted.layers
            or (d if space is None and not isinstance(part.pooling, FunctionPooling) else 1) > len(coef)
        ):
            raise ModelFormatError("a part of the model does not fit its arrays", coef.shape, "Save the model again")
    if any(isinstance(part.pooling, FunctionPooling) for part in fitted.parts):
        return  # a function of the user's may refuse tokens that it does not know
    T = min(T, 8)  # predictions take sequences of any length
    if estimator.table is not None:
        X: Any = np.arange(2 * T).reshape(2, T) % len(estimator.table)
    else:
        X = np.random.default_rng(0).standard_normal((2, T, d))
        X = X if estimator.layers_ == (None,) else dict.fromkeys(estimator.layers_, X)
    mask = np.ones((2, T), dtype=bool) if getattr(estimator, "_mask_hid_tokens", False) else None
    with np.errstate(all="ignore"):
        values = estimator._predict_scores(X, mask)
    if not np.isfinite(values).all() or values.shape != (2, columns):
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
    if not place.exists():
        raise ModelFormatError("there is no saved model here", str(place), "Pass a folder made by save")
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
    if type(version) is not int or version != VERSION:
        earlier = type(version) is int and 1 <= version < VERSION
        raise ModelFormatError(
            f"the model has format version {version!r:.40}; this spikepool reads version {VERSION}",
            remedy="Fit it again on its training data (spikepool fit data.csv --out model/, or fit and save), "
            f"or load it with the spikepool that wrote it ({content.get('spikepool')!s:.20})"
            if earlier
            else "Update spikepool",
        )
    if content.get("content_sha256") != content_digest(content):
        raise ModelFormatError(f"{STRUCTURE} of the model is damaged: its checksum differs", str(place), "Save again")
    files = content.get("files") or {}
    if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
        raise ModelFormatError("model.json does not list its files by name", type(files).__name__, "Save it again")
    foreign = sorted(path.name for path in place.iterdir() if path.name not in (STRUCTURE, ARRAYS, *files))
    if foreign:
        raise ModelFormatError(
            f"the folder holds files that {STRUCTURE} does not list", ", ".join(foreign[:5]), "Move them elsewhere"
        )
    for name, digest in files.items():
        if hashlib.sha256(read_file(place / Path(name).name, LARGEST_STRUCTURE)).hexdigest() != digest:
            raise ModelFormatError(f"{name} of the model is damaged: its checksum differs", str(place), "Save again")
    if hashlib.sha256(data).hexdigest() != content.get("sha256"):
        raise ModelFormatError("the arrays of the model are damaged: their checksum differs", str(place), "Save again")
    kinds = {cls.__name__: cls for cls in (LearnedPoolingClassifier, LearnedPoolingRegressor)}
    try:
        arrays = safetensors.load(data)
        estimator = kinds[content["class"]](**{k: _made(v, arrays) for k, v in content["parameters"].items()})
        for name, value in content["input"].items():
            if name not in INPUT:
                raise ModelFormatError("the model has an attribute that is never written", name, "Save it again")
            setattr(estimator, name, _made(value, arrays))
        fitted = _made(content["fitted"], arrays)
        if not isinstance(fitted, FittedPooling):
            raise ModelFormatError("the model has no fitted state", remedy="Save it again")
        estimator.fitted_ = fitted
        _check_numbers(arrays, content)
        _check_fitted(estimator)
    except ModelFormatError:
        raise
    except Exception as err:  # whatever a damaged structure leads to
        raise ModelFormatError(
            f"the model is damaged ({type(err).__name__}: {err})", str(place), "Save it again"
        ) from err
    return estimator
