"""Several layers of an encoder: (n, layers, T, d), or a mapping of names to (n, T, d), as one input for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scipy.sparse import issparse

from spikepool.data.in_memory import as_array, is_tensor
from spikepool.errors import InvalidInputError, ShapeError


def split_layers(X: Any) -> dict[Any, Any]:
    """Each layer's tokens by name, the last layer last; ``{None: X}`` where X has one layer."""
    if isinstance(X, Mapping) and not issparse(X):  # a sparse matrix of keys is a mapping too
        if not X:
            raise InvalidInputError("X is a mapping without layers", remedy="Pass {name: (n, T, d)}")
        return dict(X)
    if is_tensor(X):
        X = as_array(X)
    if getattr(X, "ndim", None) == 4:
        return {k: X[:, k] for k in range(int(X.shape[1]))}
    return {None: X}


def same_layers(fitted: tuple[Any, ...], given: dict[Any, Any]) -> None:
    """Raise unless the layers are those of the fit."""
    missing = [layer for layer in fitted if layer not in given]
    if missing or len(given) < len(fitted) or (None in given) != (None in fitted):
        raise ShapeError(
            f"the fit saw layers {', '.join(map(str, fitted))}" if None not in fitted else "the fit saw one layer",
            tuple(given),
            "Pass the same layers",
        )
