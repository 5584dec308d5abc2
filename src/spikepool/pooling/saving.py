"""Save a fitted pooling as a folder: JSON for structure, safetensors for numbers, no code.

``model.json`` has the format, its version, the class, its parameters, the fitted state, what the input looked like, and
the checksums of its content and of the other files. An array stands in the JSON as ``{"array": name}``. Only classes
of `SAVED` are made on loading; nothing in the files is executed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spikepool.data.targets import MODEL_FILE, MODEL_FORMAT, check_target
from spikepool.errors import InvalidInputError, require
from spikepool.kit.files import making_parents, publishing
from spikepool.pooling.query import QueryPooling
from spikepool.pooling.registry import SAVED, FunctionPooling, saved
from spikepool.pooling.sequence import SequencePooling
from spikepool.pooling.token_space import TokenSpace

FORMAT, VERSION = MODEL_FORMAT, 3
STRUCTURE, ARRAYS = MODEL_FILE, "arrays.safetensors"
# Attributes that reading X sets, and that predictions need.
INPUT = ("n_features_in_", "feature_names_in_", "_mask_hid_tokens")

for _class in (TokenSpace, QueryPooling, SequencePooling):
    saved(_class)


class _Writer:
    """Values as JSON, with arrays set aside; an array that occurs several times is kept once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self._seen: dict[int, tuple[Any, str]] = {}

    def plain(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, str, int)):
            return value
        if isinstance(value, (float, np.floating)):
            return float(value) if math.isfinite(value) else {"number": repr(float(value))}
        if isinstance(value, (np.bool_, np.integer)):
            return value.item()
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, (tuple, list)):
            return {"tuple": [self.plain(v) for v in value]}
        if isinstance(value, dict):
            return {"mapping": [[self.plain(k), self.plain(v)] for k, v in value.items()]}
        if isinstance(value, FunctionPooling):
            return {"registered": value.name}
        if is_dataclass(value) and SAVED.get(type(value).__name__) is type(value):
            given = {f.name: self.plain(getattr(value, f.name)) for f in fields(value)}
            return {"class": type(value).__name__, "fields": given}
        raise InvalidInputError("this value cannot be saved", value, "Use numbers, text, and registered poolings")

    def _array(self, value: Any) -> Any:
        if value.dtype.kind in "OUS":
            return {"labels": [self.plain(v) for v in value.tolist()], "dtype": value.dtype.str}
        if id(value) not in self._seen:
            name = f"array{len(self.arrays)}"
            self.arrays[name] = np.ascontiguousarray(value)
            self._seen[id(value)] = (value, name)  # held, so that its id stays its own
        return {"array": self._seen[id(value)][1]}


def save(estimator: Any, folder: Any, *, overwrite: bool = False, also: Mapping[str, str] | None = None) -> Path:
    """Write a fitted pooling to a folder; see :func:`spikepool.load`.

    The folder appears whole or not at all. One that exists is replaced, whole, only with `overwrite`, and only if it is
    a saved model without foreign files. `also` has further files of text by name.
    """
    safetensors = require("safetensors.numpy", "tables")
    from spikepool import __version__

    target = check_target(folder, "model", overwrite=overwrite)
    _refuse_foreign(target)
    writer = _Writer()
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters.get("random_state"), (int, type(None))):
        parameters["random_state"] = None
    content = {
        "format": FORMAT,
        "version": VERSION,
        "spikepool": __version__,
        "class": type(estimator).__name__,
        "parameters": {k: writer.plain(v) for k, v in parameters.items()},
        "input": {k: writer.plain(getattr(estimator, k)) for k in INPUT if hasattr(estimator, k)},
        "fitted": writer.plain(estimator.fitted_),
    }
    data = safetensors.save(writer.arrays)
    content["sha256"] = hashlib.sha256(data).hexdigest()
    content["files"] = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in (also or {}).items()}
    content["content_sha256"] = content_digest(content)
    with making_parents(target), publishing(target, overwrite=overwrite, folder=True) as draft:
        (draft / ARRAYS).write_bytes(data)
        (draft / STRUCTURE).write_text(json.dumps(content, allow_nan=False, indent=1), encoding="utf-8")
        for name, text in (also or {}).items():
            (draft / name).write_bytes(text.encode())
    return target


def _refuse_foreign(target: Path) -> None:
    """Raise if the folder of a model that is to be replaced holds files that the model does not list."""
    if not target.is_dir():
        return
    try:
        files = dict(json.loads((target / STRUCTURE).read_text(encoding="utf-8")).get("files") or {})
    except (OSError, ValueError, TypeError, AttributeError):
        files = {}
    foreign = sorted(path.name for path in target.iterdir() if path.name not in (STRUCTURE, ARRAYS, *files))
    if foreign:
        raise InvalidInputError(
            f"{target.name} holds files that are not of its model, and a folder is replaced whole",
            ", ".join(foreign[:5]),
            "Move them elsewhere, or choose another name",
        )


def content_digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content of ``model.json`` but for this number: as JSON with sorted keys and no spaces."""
    rest = {name: value for name, value in content.items() if name != "content_sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Portable:
    """What takes a fitted pooling elsewhere."""

    def save(self, folder: Any, *, overwrite: bool = False) -> Any:
        """Write the fitted model to a folder (JSON and safetensors) for :func:`spikepool.load`, and return its path."""
        check_is_fitted(self, "fitted_")
        return save(self, folder, overwrite=overwrite)

    def to_onnx(self, path: Any, *, overwrite: bool = False) -> Any:
        """Write the fitted model as an ONNX file.

        Inputs are ``tokens``, float32 (n, T, d), and ``mask``, bool (n, T), true where a token is observed; n and T are
        free. With several layers ``tokens`` is (n, layers, T, d) in the order of ``layers_``; with a table it holds
        int64 ids (n, T). Outputs are ``label``, the index into ``classes_``, and ``probabilities`` (n, K); those of a
        regressor are ``values`` (n,). An existing file is refused; with `overwrite` one that this method wrote is
        replaced.
        """
        from spikepool.pooling.onnx_export import write_onnx

        check_is_fitted(self, "fitted_")
        return write_onnx(self, path, overwrite=overwrite)
