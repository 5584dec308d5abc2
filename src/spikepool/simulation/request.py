"""What a simulation is asked for: weights, signal strengths and eigenpairs, checked before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from numpy.typing import ArrayLike

from spikepool.errors import SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.world.sampling import Sample
from spikepool.world.sequences import SequenceWorld
from spikepool.world.tokens import pooling_weights

# Fixed weights (T,) or (N, T), or a function of the drawn sample that returns them.
Weights = ArrayLike | Callable[[Sample], ArrayLike]


def named_weights(weights: Mapping[str, Weights] | Sequence[Weights]) -> dict[str, Weights]:
    """Weights by name; numbered when they come as a sequence."""
    return dict(weights) if isinstance(weights, Mapping) else {str(i): w for i, w in enumerate(weights)}


def maximal_rank(model: SequenceWorld) -> int:
    """Largest rank S can have: the smaller of d, the sequences and the vocabulary, less what centring removes."""
    centered = int(model.centered)
    # 1'W is constant when weights have unit sum, so that centring takes one from the rank of W as well
    return min(model.d, model.N - centered, model.V - centered + int(model.latent == "gaussian"))


def usual_pairs(model: SequenceWorld) -> int:
    """Eigenpairs that the signal and the vocabulary mean can make outliers of; at most the rank of S."""
    return min(1 if model.centered else 2, model.d, model.N, model.V)


def check_grid(
    model: SequenceWorld, weights: Mapping[str, Weights], mus: ArrayLike, k: int | None
) -> tuple[FloatArray, int]:
    """Signal strengths and number of eigenpairs, checked together with the weights against the model."""
    if not weights:
        raise SizeError("at least one weight vector is needed", weights, "Pass a mapping of names to weights")
    for w in weights.values():
        if not callable(w):
            pooling_weights(w, model)
    strengths = check.finite_array(mus, "mus", ndim=1)
    for mu in strengths:
        check.non_negative(float(mu), "mu")
    k = usual_pairs(model) if k is None else check.size(k, "k")
    rank = maximal_rank(model)
    if k > rank:
        raise SizeError(f"k must be at most {rank}, the largest rank S can have here", k, "Lower k, or raise d, N or V")
    return strengths, k
