"""Spectra of draws whose table is drawn: any noise law, weights that are a function of the draw, whole spectra.

S is applied as a product of table, tokens, tokens and table (:mod:`spikepool.simulation.pooled_noise`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.threads import Map, task_threads
from spikepool.simulation import dense
from spikepool.simulation.pooled_noise import PooledNoise
from spikepool.simulation.request import Weights, check_grid, named_weights
from spikepool.simulation.top_pairs import KRYLOV_LIMIT, top_pairs
from spikepool.world.sampling import Sample, draw_sample, sample_bytes, table_dtype
from spikepool.world.seeds import child_seed, seed_sequence
from spikepool.world.sequences import SequenceWorld
from spikepool.world.tokens import pooling_weights

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
