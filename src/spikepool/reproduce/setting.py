"""The settings of the paper's experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from spikepool.kit.arrays import FloatArray
from spikepool.model import SequenceModel
from spikepool.world.correlation import prefix_correlation, spiked_correlation
from spikepool.world.weights import NAMED_WEIGHTS, named_weights

# Experiments section of the paper.
SIZES = {"d": 500, "V": 800, "N": 1000}
PREFIX = {"T": 10, "L": 3}
# The spiked correlation of its Figure 4 has "a sign pattern" that is not printed. This one gives mean and causal
# weights nearly equal alpha/kappa (1.10 and 1.16 against 11 for the optimal ones), as the caption describes.
SPIKED = {"T": 20, "strength": 10.0, "support": 5}
SPIKED_SIGNS = (-1.0, -1.0, 1.0, 1.0, 1.0)

METHODS = tuple(NAMED_WEIGHTS)


@dataclass(frozen=True)
class Sizes:
    """d, V and N of a computation, the paper's or, for a quick look, those divided by a whole number."""

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
    return {name: named_weights(name, R) for name in METHODS}
