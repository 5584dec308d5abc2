"""Weights of a draw, one vector for all sequences or one for each, and the latents pooled by them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import WeightsError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.world.sequences import SequenceWorld
from spikepool.world.tokens import sequence_blocks


def pooling_weights(w: ArrayLike, model: SequenceWorld) -> FloatArray:
    """Weights checked against a model: (T,), or (N, T) with one row for each sequence; unit sums."""
    array = check.finite_array(w, "weights")
    if array.ndim != 2:
        return check.weight_vector(array, model.T)
    if array.shape != (model.N, model.T):
        raise WeightsError(
            f"per-sequence weights must have shape (N, T) = ({model.N}, {model.T})",
            array,
            "Pass one row for each sequence, or one vector of length T",
        )
    check.moderate_weights(array)
    error = np.abs(array.sum(axis=1) - 1)
    if np.any(error > check.IDENTITY_TOLERANCE * np.maximum(1.0, np.abs(array).sum(axis=1))):
        worst = int(error.argmax())
        raise WeightsError(
            f"weights must sum to one in each sequence; the sum of row {worst} is",
            float(array[worst].sum()),
            "Divide each row by its sum",
        )
    return array


def with_token_weights(w: FloatArray, model: SequenceWorld, tokens: NDArray[Any]) -> FloatArray:
    """Weights (N, T) of the positions times those of the tokens there; `w` itself without token weights."""
    return w if model.token_weights is None else w * model.token_weights[tokens]


def pooled_latents(latent: NDArray[Any], w: FloatArray) -> FloatArray:
    """Pooled latent ``b_n = sum_t w_nt xi_nt`` of each sequence, (N,), for weights (T,) or (N, T)."""
    parts = [np.sum(latent[rows] * (w if w.ndim == 1 else w[rows]), axis=1) for rows in sequence_blocks(*latent.shape)]
    return np.concatenate(parts)
