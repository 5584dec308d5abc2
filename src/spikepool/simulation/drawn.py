"""Spectra of draws whose table is drawn: any noise law, weights that are a function of the draw, whole spectra.

S is applied as a product of table, tokens, tokens and table (:mod:`spikepool.simulation.pooled_noise`).

Weights, signal strengths and eigenpairs asked for are checked before anything is drawn (:func:`check_grid`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.threads import Map, task_threads
from spikepool.simulation import dense
from spikepool.simulation.pooled_noise import PooledNoise
from spikepool.simulation.top_pairs import KRYLOV_LIMIT, top_pairs
from spikepool.world.pooled_latents import pooling_weights
from spikepool.world.sampling import Sample, draw_sample, sample_bytes, table_dtype
from spikepool.world.seeds import child_seed, seed_sequence
from spikepool.world.sequences import SequenceWorld

# Fixed weights (T,) or (N, T), or a function of the drawn sample that returns them.
Weights = ArrayLike | Callable[[Sample], ArrayLike]


def named_weights(weights: Mapping[str, Weights] | Sequence[Weights]) -> dict[str, Weights]:
    """Weights by name; numbered when they come as a sequence."""
    return dict(weights) if isinstance(weights, Mapping) else {str(i): w for i, w in enumerate(weights)}


def maximal_rank(model: SequenceWorld) -> int:
    """Largest rank S can have: the smaller of d, the sequences and the vocabulary, less what centring removes."""
    centered = int(model.centered)
    tokens = model.V if model.token_weights is None else int(np.count_nonzero(model.token_weights))
    # 1'W is constant when weights have unit sum, so that centring takes one from the rank of W as well
    return min(model.d, model.N - centered, tokens - centered + int(model.latent == "gaussian"))


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


# Entries of the table, or token positions, from which threads are worth their overhead.
_THREADED_SIZE = 1 << 21


def sample_grid(
    sample: Sample, weights: Mapping[str, Weights] | Sequence[Weights], mus: ArrayLike, k: int = 2
) -> tuple[FloatArray, FloatArray]:
    """Top `k` eigenvalues and alignments, each (weights, mus, k), of one draw; `mus` replace the model's mu."""
    named = named_weights(weights)
    strengths, k = check_grid(sample.model, named, mus, k)
    with _threads(sample.model) as run:
        found = [_weights_grid(sample, w, strengths, k, run) for w in named.values()]
    return np.stack([values for values, _ in found]), np.stack([alignments for _, alignments in found])


def _weights_grid(sample: Sample, w: Weights, mus: FloatArray, k: int, run: Map) -> tuple[FloatArray, FloatArray]:
    """Top `k` eigenvalues and alignments, (mus, k), for one choice of weights."""
    if not callable(w):
        return top_pairs(PooledNoise(sample, pooling_weights(w, sample.model), run=run), mus, k)
    found = []
    for j, mu in enumerate(mus):  # such weights may depend on mu through the table
        at_mu = dataclasses.replace(sample, model=sample.model.replace(mu=float(mu)))
        noise = PooledNoise(at_mu, pooling_weights(w(at_mu), sample.model), run=run)
        found.append(top_pairs(noise, mus[j : j + 1], k))
    return np.concatenate([values for values, _ in found]), np.concatenate([part for _, part in found])


def spectrum(model: SequenceWorld, w: Weights, *, rng: Any = None, dtype: Any = np.float64) -> FloatArray:
    """All d eigenvalues of S for one draw, ascending; the draw is that of trial 0 of
    :func:`~spikepool.simulation.simulate.simulate` with a drawn table.
    """
    fixed = w if callable(w) else pooling_weights(w, model)
    require(model, dtype, [w], extra=dense.gram_bytes(model.d, model.N))
    sample = draw_sample(model, rng=child_seed(seed_sequence(rng), 0), dtype=dtype)
    drawn = pooling_weights(fixed(sample), model) if callable(fixed) else fixed
    with _threads(model) as run:
        return dense.spectrum(PooledNoise(sample, drawn, run=run), model.mu)


def require(model: SequenceWorld, dtype: Any, weights: Any, extra: int = 0) -> None:
    """Refuse a draw that would not fit, before anything is drawn."""
    per_sequence = any(callable(w) or np.ndim(w) == 2 for w in weights)
    needed = (
        sample_bytes(model, table_dtype(dtype))
        + 8 * model.d * min(model.d, KRYLOV_LIMIT) // 4
        + 8 * 6 * (model.N + model.V)
        + (16 * model.N * model.T if per_sequence else 0)
        + extra
    )
    require_memory(
        needed,
        f"simulating d={model.d}, V={model.V}, N={model.N}, T={model.T} in {np.dtype(dtype)}",
        "Lower V or d (the table), or N or T (the tokens), or pass dtype='float32'",
    )


def _threads(model: SequenceWorld) -> AbstractContextManager[Map]:
    """Threads over the pieces of one product, where it is large: small ones are bound by the interpreter."""
    return task_threads(large=max(model.V * model.d, model.N * model.T) > _THREADED_SIZE)
