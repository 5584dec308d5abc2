"""Draws of a model with K classes, and the top of the spectrum of their pooled covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import DomainError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress
from spikepool.kit.showing import html_table, mean_table, plain
from spikepool.world.class_centring import Projection
from spikepool.world.class_sampling import class_sampler
from spikepool.world.class_tables import ClassWorld
from spikepool.world.pooling_matrix import token_matrix


@dataclass(frozen=True)
class ClassSimulation:
    """Top eigenpairs over independent draws.

    Attributes
    ----------
    eigenvalues, alignments : ndarray of shape (trials, k)
        Largest first; alignments with the span of the true class differences.
    overlaps : ndarray of shape (trials, k, r)
        Squared cosines with each of ``ClassModel.directions``.
    """

    eigenvalues: FloatArray
    alignments: FloatArray
    overlaps: FloatArray

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: every eigenpair of every trial."""
        fields = {"eigenvalues": self.eigenvalues, "alignments": self.alignments, "overlaps": self.overlaps}
        record: dict[str, Any] = plain(fields)
        return record

    def _repr_html_(self) -> str:
        return html_table(*mean_table(self.eigenvalues, self.alignments), title=f"{len(self.alignments)} draws")

    def plot(self, ax: Any = None) -> Any:
        """Alignment of each leading eigenvector with the class differences in every draw; returns the axes."""
        from spikepool.drawing.predictions import draw_trials

        return draw_trials(self.alignments, ax)


def simulate_classes(
    world: ClassWorld, w: ArrayLike, trials: int = 20, k: int | None = None, *, rng: Any = None
) -> ClassSimulation:
    """Top `k` eigenpairs of S (K by default) over independent draws of table, classes and tokens.

    S is formed and decomposed in full: meant for d of a few thousand at most. Classes are drawn by
    :func:`spikepool.world.class_sampling.class_sampler`.
    """
    w = check.weight_vector(w, world.T)
    trials = check.size(trials, "trials")
    k = world.K if k is None else check.size(k, "k")
    if k > world.d:
        raise DomainError(f"k must be at most d = {world.d}", k, "Ask for fewer eigenpairs")
    require_memory(
        8 * (world.V * world.d + 2 * world.N * world.d + 5 * world.N * world.T + 2 * world.d**2),
        f"simulating d={world.d}, V={world.V}, N={world.N}, T={world.T}",
        "Lower V or d (the table), or N or T (the tokens)",
    )
    generator = check.generator(rng)
    draw = class_sampler(world.R, world.shares)
    sizes = world.class_sizes()
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    owner = np.repeat(np.arange(world.K), sizes)
    project = Projection(owner if world.table == "class_centered" else None)
    directions = world.directions
    p, r = directions.shape
    eigenvalues, overlaps = np.empty((trials, k)), np.empty((trials, k, r))
    with Progress(trials, "K classes") as progress:
        for trial in range(trials):
            table = generator.standard_normal((world.V, world.d))
            table = project(table)
            table[:, :p] += world.means.T[owner]
            classes = draw(world.N, rng=generator)
            tokens = starts[classes] + (generator.random(classes.shape) * sizes[classes]).astype(np.intp)
            C = token_matrix(tokens, w, world.V) @ table
            if world.centered:
                C -= C.mean(axis=0)
            values, vectors = np.linalg.eigh(C.T @ C / world.N)
            eigenvalues[trial] = values[::-1][:k]
            overlaps[trial] = (vectors[:p, ::-1][:, :k].T @ directions) ** 2
            progress.advance()
    return ClassSimulation(eigenvalues, overlaps.sum(axis=2), overlaps)
