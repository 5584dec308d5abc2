"""The settings of the paper's experiments, and theory vectorised over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.kit.arrays import FloatArray
from spikepool.model import SequenceModel
from spikepool.theory import spikes
from spikepool.world.correlation import prefix_correlation, spiked_correlation
from spikepool.world.weights import causal_weights, mean_weights, optimal_weights

# Experiments section of the paper.
SIZES = {"d": 500, "V": 800, "N": 1000}
PREFIX = {"T": 10, "L": 3}
# The spiked correlation of its Figure 4 has "a sign pattern" that is not printed. This one gives mean and causal
# weights nearly equal alpha/kappa (1.10 and 1.16 against 11 for the optimal ones), as the caption describes.
SPIKED = {"T": 20, "strength": 10.0, "support": 5}
SPIKED_SIGNS = (-1.0, -1.0, 1.0, 1.0, 1.0)

METHODS = ("mean", "causal", "optimal")


@dataclass(frozen=True)
class Sizes:
    """d, V and N of a computation, the paper's divided by a whole number for the quick report."""

    d: int
    V: int
    N: int

    @classmethod
    def scaled(cls, divisor: int = 1) -> Sizes:
        """The paper's sizes over `divisor`, with the aspect ratios kept."""
        return cls(SIZES["d"] // divisor, SIZES["V"] // divisor, SIZES["N"] // divisor)


def prefix_model(sizes: Sizes, mu: float = 1.0, **fields: Any) -> SequenceModel:
    """The prefix model of the paper's experiments."""
    R = prefix_correlation(PREFIX["T"], PREFIX["L"])
    return SequenceModel(d=sizes.d, V=sizes.V, N=sizes.N, R=R, mu=mu, **fields)


def spiked_model(sizes: Sizes, mu: float = 1.0, **fields: Any) -> SequenceModel:
    """The spiked model with real-valued latents, the reading that keeps the paper's R as printed."""
    R = spiked_correlation(SPIKED["T"], SPIKED["strength"], SPIKED["support"], signs=SPIKED_SIGNS)  # type: ignore[arg-type]
    return SequenceModel(d=sizes.d, V=sizes.V, N=sizes.N, R=R, mu=mu, latent="gaussian", **fields)


def weights_for(R: ArrayLike) -> dict[str, FloatArray]:
    """Mean, causal and optimal weights for a positional correlation."""
    matrix = np.asarray(R, dtype=np.float64)
    T = len(matrix)
    return {"mean": mean_weights(T), "causal": causal_weights(T), "optimal": optimal_weights(matrix)}


def centred_alignment(
    mu: ArrayLike, ratio: ArrayLike, delta: ArrayLike, gamma: ArrayLike, *, class_means: bool
) -> FloatArray:
    """Exact alignment of a centred S over arrays of mu, ``ratio = alpha/kappa``, delta and gamma.

    The same numbers as :meth:`spikepool.SequenceModel.predict`, vectorised for maps and curves. With `class_means`
    (a sampled table and ±1 latents) the spike has strength ``alpha (mu² + delta)`` and points along mu plus the
    table's own class mean; without (class-centred table, or real latents) it has strength ``alpha mu²``.
    """
    square = np.asarray(mu, dtype=np.float64) ** 2
    ratio = np.asarray(ratio, dtype=np.float64)
    delta = np.asarray(delta, dtype=np.float64)
    extra = delta if class_means else np.zeros_like(delta)
    total = np.asarray(spikes.total_alignment(ratio * (square + extra) - delta, delta, gamma))
    strength = square + extra
    share = np.divide(square, strength, out=np.zeros_like(strength + square), where=strength > 0)
    return np.asarray(total * share)


def sample_threshold(ratio: ArrayLike, delta: ArrayLike, gamma: ArrayLike, *, class_means: bool) -> FloatArray:
    """Mu at which the signal's outlier appears in S; see :func:`centred_alignment`."""
    needed = np.asarray(spikes.sample_threshold(delta, gamma)) / np.asarray(ratio, dtype=np.float64)
    extra = np.asarray(delta, dtype=np.float64) if class_means else 0.0
    return np.asarray(np.sqrt(np.maximum(needed - extra, 0.0)))
