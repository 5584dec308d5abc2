"""Load a fitted pooling that was saved: data are checked, and only known classes are made from them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import ModelFormatError, require
from spikepool.pooling.learned import LearnedPoolingClassifier, LearnedPoolingRegressor
from spikepool.pooling.saving import ARRAYS, CLASSES, FORMAT, STRUCTURE, VERSION
from spikepool.pooling.selection import poolings

LARGEST_STRUCTURE = 2**27  # bytes of JSON; a hundred thousand classes take a tenth of it


def _made(value: Any, arrays: dict[str, Any]) -> Any:
    """The reverse of what :mod:`spikepool.pooling.saving` writes."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "number" in value:
        return float(value["number"])
    if "labels" in value:
        return np.array([_made(v, arrays) for v in value["labels"]], dtype=value["dtype"])
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
    return CLASSES[value["class"]](**{k: _made(v, arrays) for k, v in value["fields"].items()})


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
        path = place / STRUCTURE
        if path.stat().st_size > LARGEST_STRUCTURE:
            raise ModelFormatError("the structure of the model is too large", path.stat().st_size, "Save it again")
        content = json.loads(path.read_text(encoding="utf-8"))
        data = (place / ARRAYS).read_bytes()
    except (OSError, ValueError, RecursionError) as err:
        if isinstance(err, ModelFormatError):
            raise
        raise ModelFormatError(f"cannot read a saved model ({err})", str(place), "Pass a folder made by save") from err
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelFormatError("the folder is not a saved model of spikepool", str(place), "Pass a folder made by save")
    version = content.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise ModelFormatError(
            f"the model has format version {version}; this spikepool reads up to {VERSION}", remedy="Update spikepool"
        )
    if hashlib.sha256(data).hexdigest() != content.get("sha256"):
        raise ModelFormatError("the arrays of the model are damaged: their checksum differs", str(place), "Save again")
    kinds = {cls.__name__: cls for cls in (LearnedPoolingClassifier, LearnedPoolingRegressor)}
    try:
        arrays = safetensors.load(data)
        estimator = kinds[content["class"]](**{k: _made(v, arrays) for k, v in content["parameters"].items()})
        for name, value in content["attributes"].items():
            setattr(estimator, name, _made(value, arrays))
    except ModelFormatError:
        raise
    except Exception as err:  # whatever a damaged structure leads to
        raise ModelFormatError(
            f"the model is damaged ({type(err).__name__}: {err})", str(place), "Save it again"
        ) from err
    return estimator
