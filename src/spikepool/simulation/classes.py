"""Draws of a model with K classes, and the top of the spectrum of their pooled covariance.

The table is E = M O + Z with M the class means, O the (K x V) matrix of who belongs to which class, and Gaussian
noise Z. As with two classes (:mod:`spikepool.simulation.undrawn`), Z is drawn through its products alone unless asked
for. The Krylov space starts at the directions of the true class differences, so that the squared cosines with each
converge like the eigenvalues do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from spikepool.errors import DomainError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress
from spikepool.kit.results import Result, Table, record
from spikepool.kit.threads import Map, task_threads
from spikepool.simulation.lazy_gaussian import RotatedTable
from spikepool.simulation.mean_table import mean_table
from spikepool.simulation.top_pairs import DENSE_LIMIT, DENSE_SIDE, largest, not_separated, stack
from spikepool.simulation.undrawn import TOLERANCE, UndrawnTable
from spikepool.world.class_tables import ClassSampler, ClassWorld, class_sampler
from spikepool.world.pooling_matrix import PoolingMatrix, Projection, token_matrix
from spikepool.world.seeds import child_seed, seed_sequence

# Directions of the class means shorter than this, relative to the longest, are rounding.
_RANK_TOLERANCE = 1e-12

# Token positions from which threads are worth their overhead, and products that memory is asked for beforehand.
_THREADED_SIZE = 1 << 21
_USUAL_PRODUCTS = 64

Pairs = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class ClassSimulation(Result, schema="class-simulation"):
    """Top eigenpairs over independent draws.

    Attributes
    ----------
    eigenvalues, alignments : ndarray of shape (trials, k)
        Largest first; alignments with the span of the true class differences.
    overlaps : ndarray of shape (trials, k, r)
        Squared cosines with each of ``ClassModel.directions``.
    table_drawn : bool
        The route: whether tables were drawn, or only their products.
    """

    eigenvalues: FloatArray
    alignments: FloatArray
    overlaps: FloatArray
    table_drawn: bool

    def _record(self) -> dict[str, Any]:
        return record(self, "eigenvalues", "alignments", "overlaps", "table_drawn")

    def _tables(self) -> list[Table]:
        return [mean_table(self.eigenvalues, self.alignments)]

    def plot(self, ax: Any = None) -> Any:
        """Alignment of each leading eigenvector with the class differences in every draw; returns the axes."""
        from spikepool.drawing.predictions import draw_trials

        return draw_trials(self.alignments, ax)


class _Classes:
    """Who is of which class: tokens of a class have consecutive ids."""

    def __init__(self, world: ClassWorld) -> None:
        self.sizes = world.class_sizes()
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        self.owner = np.repeat(np.arange(world.K), self.sizes)
        self.project = Projection(self.owner if world.table == "class_centered" else None)
        self._draw: ClassSampler = class_sampler(world.R, world.shares)
        self._N = world.N

    def tokens(self, generator: np.random.Generator) -> NDArray[np.int32]:
        """Tokens (N, T) of one draw."""
        classes = self._draw(self._N, rng=generator)
        within = (generator.random(classes.shape) * self.sizes[classes]).astype(np.int32)
        within += self.starts[classes].astype(np.int32)
        return within

    def sums(self, rows: FloatArray) -> FloatArray:
        """Sums (m, K) over the tokens of each class."""
        return np.asarray(np.add.reduceat(rows, self.starts, axis=1))


def simulate_classes(
    world: ClassWorld,
    w: ArrayLike,
    trials: int = 20,
    k: int | None = None,
    *,
    rng: Any = None,
    table_drawn: bool | None = None,
) -> ClassSimulation:
    """Top `k` eigenpairs of S (K by default) over independent draws of table, classes and tokens.

    Classes are drawn by :func:`spikepool.world.class_tables.class_sampler`. With ``table_drawn=True`` table and S are
    formed, and S is decomposed in full: meant for d of a few thousand at most. By default neither is.
    """
    w = check.weight_vector(w, world.T)
    trials = check.size(trials, "trials")
    k = world.K if k is None else check.size(k, "k")
    if k > world.d:
        raise DomainError(f"k must be at most d = {world.d}", k, "Ask for fewer eigenpairs")
    route = table_drawn is not None and check.flag(table_drawn, "table_drawn")
    _require(world, route)
    classes = _Classes(world)
    one = _drawn_draws(world, classes, w, k, rng) if route else _undrawn_draws(world, classes, w, k, rng)
    r = world.directions.shape[1]
    require_memory(8 * trials * k * (1 + r), f"{trials:,} trials", "Ask for fewer trials")
    eigenvalues, overlaps = np.empty((trials, k)), np.empty((trials, k, r))
    with Progress(trials, "K classes") as progress:
        for trial in range(trials):
            eigenvalues[trial], overlaps[trial] = one(trial)
            progress.advance()
    return ClassSimulation(eigenvalues, overlaps.sum(axis=2), overlaps, route)


def _require(world: ClassWorld, table_drawn: bool) -> None:
    """Refuse a draw that would not fit, before anything is drawn."""
    numbers = 3 * world.N * world.T + 6 * (world.N + world.V)
    if table_drawn:
        numbers += world.V * world.d + 2 * world.N * world.d + 2 * world.N * world.T + 2 * world.d**2
    else:
        numbers += 2 * world.V * min(_USUAL_PRODUCTS, world.d)
    require_memory(
        8 * numbers,
        f"simulating d={world.d}, V={world.V}, N={world.N}, T={world.T}",
        "Lower V or d (the table), or N or T (the tokens)" if table_drawn else "Lower N or T (the tokens), or V",
    )


def _decompose(world: ClassWorld, table: FloatArray, W: csr_array, directions: FloatArray, k: int) -> Pairs:
    """Top pairs by a full decomposition; `table` (V, d) holds the means, in the coordinates of `directions` (p, r)."""
    C = W @ table
    if world.centered:
        C -= C.mean(axis=0)
    values, vectors = np.linalg.eigh(C.T @ C / world.N)
    return values[::-1][:k], (vectors[: len(directions), ::-1][:, :k].T @ directions) ** 2


def _drawn_draws(world: ClassWorld, classes: _Classes, w: FloatArray, k: int, rng: Any) -> Callable[[int], Pairs]:
    generator = check.generator(rng)
    p = len(world.means)

    def one(trial: int) -> Pairs:
        table = classes.project(generator.standard_normal((world.V, world.d)))
        table[:, :p] += world.means.T[classes.owner]
        return _decompose(world, table, token_matrix(classes.tokens(generator), w, world.V), world.directions, k)

    return one


def _undrawn_draws(world: ClassWorld, classes: _Classes, w: FloatArray, k: int, rng: Any) -> Callable[[int], Pairs]:
    root = seed_sequence(rng)
    # axes of the span of the class means, in which they and the directions of their differences are written
    vectors, sizes, _ = np.linalg.svd(world.means, full_matrices=False)
    axes = vectors[:, sizes > _RANK_TOLERANCE * max(float(sizes[0]), 1e-300)]
    means, directions = axes.T @ world.means, axes.T @ world.directions

    def one(trial: int) -> Pairs:
        seed = child_seed(root, trial)
        tokens = classes.tokens(np.random.default_rng(child_seed(seed, 0)))
        large = max(world.N * world.T, _USUAL_PRODUCTS * world.V) > _THREADED_SIZE
        with task_threads(large=large) as run:
            draw = _UndrawnClasses(world, classes, means, tokens, w, np.random.default_rng(child_seed(seed, 1)), run)
            return draw.top(directions, k)

    return one


class _UndrawnClasses:
    """S of one draw as an operator: E = M O + Z, with the means in the first coordinates of the table."""

    def __init__(
        self,
        world: ClassWorld,
        classes: _Classes,
        means: FloatArray,
        tokens: NDArray[np.int32],
        w: FloatArray,
        rng: np.random.Generator,
        run: Map,
    ) -> None:
        self._world, self._classes, self._means = world, classes, means
        rotated = RotatedTable(world.d, world.V, rng, run=run)
        for _ in range(len(means)):
            rotated.new_axis()
        self.table = UndrawnTable(rotated, np.zeros(0), None, classes.project)
        self._spare_axis = rotated.new_axis
        self._tokens, self._w = tokens, w
        self.pooling = PoolingMatrix(tokens, w, world.V, run=run)

    def _embed(self, v: FloatArray) -> FloatArray:
        """E v for each row of `v` (m, V)."""
        sums = self.table.forward(v)
        sums[:, : len(self._means)] += self._classes.sums(v) @ self._means.T
        return sums

    def apply(self, x: FloatArray) -> FloatArray:
        """S x for each row of `x`."""
        p = len(self._means)
        scores = self.table.adjoint(x)
        scores += (x[:, :p] @ self._means[: x.shape[1]])[:, self._classes.owner]
        N = self._world.N
        spread = np.empty_like(scores)
        for i, row in enumerate(scores):
            y = self.pooling.pool(row)
            if self._world.centered:
                y -= float(y.sum()) / N
            spread[i] = self.pooling.spread(y)
        return self._embed(spread) / N

    def top(self, directions: FloatArray, k: int) -> Pairs:
        """Top `k` eigenvalues, and squared cosines (k, r) with `directions` (p, r)."""
        world, r = self._world, directions.shape[1]
        if min(world.d, world.N) > DENSE_SIDE:
            start = [*directions.T] if r else [self._spare_axis()]
            if not world.centered:
                start.append(self._embed(self.pooling.spread(np.full(world.N, 1 / world.N))[None])[0])
            pairs = largest(self.apply, stack(*start), k, world.d, TOLERANCE)
            if pairs is not None:
                return pairs[0], pairs[1][:r].T ** 2
            if min(world.d, world.N) > DENSE_LIMIT:
                raise not_separated(k)
        table = self.table.to_dense()
        table[:, : len(self._means)] += self._means.T[self._classes.owner]
        return _decompose(world, table, token_matrix(self._tokens, self._w, world.V), directions, k)
