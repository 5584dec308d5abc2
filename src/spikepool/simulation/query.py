"""Draws of sequences pooled by a query, and the top of their spectrum.

Tokens that never repeat are not drawn: given the scores, the components of a pooled vector off the query, the signal
and the key are independent normal variables of variance kappa_n, exactly in law. A finite vocabulary draws its table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from spikepool.errors import SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress
from spikepool.simulation.simulate import SimulationResult
from spikepool.world.pooling_matrix import token_matrix
from spikepool.world.query import QueryWorld
from spikepool.world.tokens import child_seed, seed_sequence


@dataclass(frozen=True)
class QuerySimulation(SimulationResult):
    """Top eigenpairs off the query over independent draws, and the pair along the query where it is left in.

    Attributes
    ----------
    query_eigenvalue, query_overlap : numpy.ndarray of shape (trials,)
        Of the covariance from which q is not projected out: the eigenpair closest to q, its eigenvalue and the squared
        cosine of its eigenvector with q.
    """

    query_eigenvalue: FloatArray
    query_overlap: FloatArray


def simulate_query(
    world: QueryWorld, trials: int = 20, k: int = 1, *, rng: Any = None, progress: bool | None = None
) -> QuerySimulation:
    """Top `k` eigenvalues of S and the alignments of their eigenvectors with u, over independent draws.

    Parameters
    ----------
    world : QueryModel
        What is drawn, anew in each trial.
    trials : int
        Number of draws.
    k : int
        Number of eigenpairs, at most d − 1.
    rng : int, SeedSequence or Generator, optional
        Trial i draws from its own child of this seed, whatever the number of trials.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after a couple of seconds.
    """
    trials, k = check.size(trials, "trials"), check.size(k, "k")
    if k > world.d - 1:
        raise SizeError(f"k must be at most d − 1 = {world.d - 1}", k, "Keep fewer eigenpairs")
    cells = world.N * (world.d + 2 * world.T) + world.d**2 + (world.V or 0) * world.d
    require_memory(16 * cells, f"simulating d={world.d}, N={world.N}, T={world.T}", "Lower N, T, d or V")
    root = seed_sequence(rng)
    values, alignments = np.empty((trials, k)), np.empty((trials, k))
    along, overlap = np.empty(trials), np.empty(trials)
    with Progress(trials, "simulating", show=progress) as bar:
        for i in range(trials):
            C = draw_columns(world, np.random.default_rng(child_seed(root, i)))
            C -= C.mean(axis=0)
            S = C.T @ C / world.N
            d = world.d
            found, vectors = eigh(S[1:, 1:], subset_by_index=[d - 1 - k, d - 2])
            values[i], alignments[i] = found[::-1], vectors[0, ::-1] ** 2
            found, vectors = np.linalg.eigh(S)
            nearest = int(np.argmax(vectors[0] ** 2))
            along[i], overlap[i] = found[nearest], vectors[0, nearest] ** 2
            bar.advance()
    return QuerySimulation(values, alignments, world.V is not None, along, overlap)


def draw_columns(world: QueryWorld, rng: np.random.Generator) -> FloatArray:
    """Pooled vectors (N, d) in coordinates along q, u, the part of k off q, and the rest."""
    if world.V is not None:
        vocabulary = world.vocabulary(rng)
        tokens, _ = world.draw_tokens(rng)
        table = rng.standard_normal((world.V, world.d))
        table[:, 0] = vocabulary.scores
        table[:, 1] += world.mu * vocabulary.signs
        table[:, 2] += world.missed * vocabulary.relevant
        return np.asarray(token_matrix(tokens, world.weights(vocabulary.scores[tokens]), world.V) @ table)
    pooled = world.draw_pooled(world.N, rng)
    C = rng.standard_normal((world.N, world.d)) * np.sqrt(pooled.kappa)[:, None]
    C[:, 0] = pooled.f
    C[:, 1] += world.mu * pooled.A * (rng.integers(0, 2, world.N) * 2.0 - 1)
    C[:, 2] += world.missed * pooled.A
    return C
