"""Where a token stands among the observed tokens of its sequence, and the fixed rules that follow from that.

Places are counted over observed tokens only, from the start and from the end, so that padding on either side, or holes,
change nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import InvalidInputError
from spikepool.kit.arrays import BoolArray, FloatArray

# Rules that are one weight vector a row; "concat" is the first three side by side.
WEIGHT_RULES = ("mean", "last", "first", "ramp")


CONCAT = ("mean", "last", "first")


def places(observed: BoolArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Place of each token from the start and from the end, (n, T) each; 0 where nothing is observed."""
    start = np.cumsum(observed, axis=1) - 1
    length = observed.sum(axis=1, keepdims=True)
    return np.where(observed, start, 0), np.where(observed, length - 1 - start, 0)


def rule_weights(rule: str, observed: BoolArray) -> FloatArray:
    """Weights (n, T) of a fixed rule, of unit sum in every row with a token: mean, last, first, or ramp (w_t ~ t)."""
    if rule == "mean":
        raw = observed.astype(np.float64)
        return np.asarray(raw / np.maximum(raw.sum(axis=1, keepdims=True), 1.0))
    start, end = places(observed)
    if rule == "last":
        raw = (observed & (end == 0)).astype(np.float64)
    elif rule == "first":
        raw = (observed & (start == 0)).astype(np.float64)
    elif rule == "ramp":
        raw = np.where(observed, start + 1.0, 0.0)
    else:
        raise InvalidInputError("not a rule of fixed weights", rule, f"Choose one of {', '.join(WEIGHT_RULES)}")
    return np.asarray(raw / np.maximum(raw.sum(axis=1, keepdims=True), 1.0))


def without_first(observed: BoolArray) -> BoolArray:
    """`observed` without the first token of each row, where a row has another."""
    start, _ = places(observed)
    return np.asarray(observed & ((start > 0) | (observed.sum(axis=1, keepdims=True) == 1)))
