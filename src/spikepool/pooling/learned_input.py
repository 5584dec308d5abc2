"""What is given to a fit, checked once: tokens of every layer, targets, row weights and a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from spikepool.data.estimator_input import named, read_tokens
from spikepool.data.labels import label_array
from spikepool.data.tokens import TokenInput
from spikepool.errors import InvalidInputError, ShapeError
from spikepool.kit.arrays import AnyArray, FloatArray
from spikepool.pooling.layers import split_layers


def read_labelled(estimator: Any, X: Any, y: Any, mask: Any) -> tuple[dict[Any, TokenInput], AnyArray]:
    """Every layer's tokens, and the targets as one array."""
    if y is None:
        raise InvalidInputError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None"
        )
    sources = {layer: read_tokens(estimator, part, mask, reset=True) for layer, part in split_layers(X).items()}
    first = next(iter(sources.values()))
    for layer, source in sources.items():
        if (source.n, source.T) != (first.n, first.T):
            raise ShapeError(f"layer {layer} has another number of rows or tokens", source.n, "Match the layers")
    if hasattr(getattr(y, "dtype", None), "na_value"):  # of pandas, nullable: numbers would become floats
        y = y.to_numpy(dtype=object)
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise InvalidInputError(
            "y should be a 1d array of one label per row: multilabel and multi-output targets are not supported",
            shape,
            "Fit one estimator for each column of y",
        )
    try:
        target = label_array(column_or_1d(y, warn=True))
    except ValueError as err:
        raise named(err, "Pass one label per row") from err
    if len(target) != first.n:
        raise ShapeError(
            f"y has {len(target):,} labels for {first.n:,} rows: X is read as {first.n:,} rows of "
            f"{first.T:,} tokens with {first.d:,} features each",
            remedy="Pass X of shape (n, T, d) and one label per row",
        )
    return sources, target


def row_weights(sample_weight: Any, n: int, least: float = 1e-9) -> FloatArray:
    """Weights of the rows, not negative; positive ones are at least `least` times the largest."""
    if sample_weight is None:
        return np.ones(n)
    try:
        weights = np.asarray(_check_sample_weight(sample_weight, np.empty((n, 1)), dtype=np.float64))
    except ValueError as err:
        raise named(err, "Pass one non-negative number per row") from err
    if (weights < 0).any() or not weights.any():
        raise InvalidInputError(
            "sample_weight must be non-negative, and positive for some row", weights.min(), "Drop the row instead"
        )
    largest = float(weights.max())
    tiny = weights[(weights > 0) & (weights < max(least * largest, 1e-100))]
    if len(tiny):
        raise InvalidInputError(
            f"sample_weight has positive weights below {least:g} of the largest, or below 1e-100",
            float(tiny.min()),
            "Pass 0 to leave a row out, or rescale the weights",
        )
    return weights


def seed_number(random_state: Any) -> int:
    """scikit-learn's notion of a seed, with our error."""
    try:
        return int(check_random_state(random_state).randint(2**31))
    except ValueError as err:
        raise InvalidInputError(
            "random_state must be an int, a RandomState or None", random_state, "Pass an integer seed"
        ) from err
