"""Top eigenpairs of S(mu) for one weighting of one draw, from a Krylov space of S, or densely where that is less work.

For one mu the space is that of S(mu) at the hidden direction u. For many, S(mu) is a rank-two change of its noise
part, in the span of u and one more vector g: one block Krylov space started at [u, g] serves every mu
(:mod:`spikepool.simulation.dense`). Small problems, and the rare one where the Krylov space stops early, are
decomposed densely on the smaller Gram side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from spikepool.errors import ConvergenceError
from spikepool.kit.arrays import FloatArray
from spikepool.simulation import dense
from spikepool.simulation.krylov import Excess, KrylovSpace, krylov_space, krylov_spaces
from spikepool.simulation.pooled_noise import PooledNoise

# Below this size a dense decomposition takes less time than a Krylov space.
DENSE_SIDE = 80

# Beyond this size a dense decomposition cannot replace a Krylov space that did not converge.
DENSE_LIMIT = 6000

# Largest dimension of a Krylov space; the orthogonalisation, quadratic in it, would dominate beyond.
KRYLOV_LIMIT = 600

# Steps, in cube roots of the smaller side, before the edge of a bulk is worth a look: its gaps are 2/3 powers of the
# side, and a Krylov space takes as many steps as the square root of one over the gap.
_EDGE_STEPS = 2.5


class PooledOperator(Protocol):
    """The pooled noise Y = Z W P of a draw as an operator, with its table drawn or not.

    Vectors on the left are rows of coordinates, d of them or fewer where the table chooses its own axes.
    """

    N: int
    d: int
    u: FloatArray
    b: FloatArray
    centered: bool
    # largest error of an eigenvalue, relative to the top one, and of an alignment
    tolerance: float

    def forward(self, y: FloatArray) -> FloatArray:
        """Y y."""

    def mean_column(self) -> FloatArray:
        """Mean of the columns of Z W."""

    def apply(self, x: FloatArray, mu: float) -> FloatArray:
        """S(mu) x for each row of `x`."""

    def drawn(self) -> PooledNoise:
        """The same with its table drawn."""


Operator = TypeVar("Operator", bound=PooledOperator)
Pairs = tuple[FloatArray, FloatArray]  # eigenvalues and alignments


def top_pairs(noise: PooledOperator, mus: FloatArray, k: int) -> Pairs:
    """Top `k` eigenvalues and alignments, (m, k), of S(mu) for each of `mus`."""
    return top_pairs_together([noise], mus, k, lambda _, x, mu: noise.apply(x[0], mu)[None])[0]


def top_pairs_together(
    noises: Sequence[Operator],
    mus: FloatArray,
    k: int,
    apply: Callable[[Sequence[Operator], FloatArray, float], FloatArray],
) -> list[Pairs]:
    """:func:`top_pairs` of several operators, step by step together.

    ``apply(some, x, mu)`` gives S(mu) x of some of them for x (s, p, ·), each for its own rows.
    """
    sought: list[_Sought] = []
    if min(noises[0].d, noises[0].N) > DENSE_SIDE:
        sought = [_single(noise, k) if len(mus) == 1 else _grid(noise, mus, k) for noise in noises]
    pairs: dict[int, Pairs] = {}
    searched = [i for i, one in enumerate(sought) if one.start.any()]
    if searched:
        mu = float(mus[0]) if len(mus) == 1 else 0.0
        krylov_spaces(
            lambda which, x: apply([noises[searched[i]] for i in which], x, mu),
            _same_width([sought[i].start for i in searched]),
            [sought[i].excess for i in searched],
            max_dimension=min(KRYLOV_LIMIT, noises[0].d),
            first_look=sought[searched[0]].first_look,
        )
        pairs = {i: sought[i].found[0] for i in searched if sought[i].found}
        if len(mus) == 1:
            pairs = {i: (values[None], vectors[:1] ** 2) for i, (values, vectors) in pairs.items()}
    return [pairs.get(i) or _densely(noise, mus, k) for i, noise in enumerate(noises)]


@dataclass(frozen=True)
class _Sought:
    """What is sought in a Krylov space: its starting rows, the excess of what is found, and a place for that."""

    start: FloatArray
    excess: Excess
    found: list[Pairs]
    first_look: int = 6


def _same_width(starts: Sequence[FloatArray]) -> FloatArray:
    """Blocks of rows in one array; missing coordinates are zero."""
    together = np.zeros((len(starts), len(starts[0]), max(start.shape[1] for start in starts)))
    for block, start in zip(together, starts, strict=True):
        block[:, : start.shape[1]] = start
    return together


def _densely(noise: PooledOperator, mus: FloatArray, k: int) -> Pairs:
    """By a full decomposition, with the table drawn."""
    if min(noise.d, noise.N) > DENSE_LIMIT:
        raise not_separated(k)
    table = noise.drawn()
    theta, U, G = dense.measure(table, 0.0)
    rank = min(k, len(theta))
    values, vectors = dense.top_pairs(theta, U, G, float(table.b @ table.b) / table.N, mus, rank)
    # tokens that repeat can leave a rank below k: the rest are zero eigenvalues, with no direction of their own
    rest = ((0, 0), (0, k - rank))
    return np.pad(values, rest), np.pad((vectors @ U) ** 2, rest)


def not_separated(k: int) -> ConvergenceError:
    """The error of a Krylov space that reached its limit."""
    return ConvergenceError(
        f"the top {k} eigenpairs did not separate in a Krylov space of dimension {KRYLOV_LIMIT}",
        remedy="Lower k: eigenvalues inside the bulk are too close together at this size",
    )


def excess(values: FloatArray, residuals: FloatArray, weights: FloatArray, tolerance: float) -> float:
    """Log of the largest error over the tolerance, of Ritz values (m, k + 1), descending.

    The last value is not wanted and only bounds a gap. With t = (residual/gap)² a value is off by t·gap, and the weight
    of its vector at the start, `weights` (m, k + 1), by t times the largest of them: vectors mix with each other.
    """
    steps = values[:, :-1] - values[:, 1:]
    gaps = steps.copy()
    gaps[:, 1:] = np.minimum(gaps[:, 1:], steps[:, :-1])
    if np.any(gaps <= 0):
        return math.inf
    felt = np.maximum(gaps / values[:, :1], weights.max(axis=1, keepdims=True))
    worst = float(np.max((residuals[:, :-1] / gaps) ** 2 * felt))
    return math.log(worst / tolerance) if worst else -math.inf


def _top_excess(space: KrylovSpace, k: int, tolerance: float) -> float:
    """The excess of the top `k` Ritz pairs, from them alone.

    The projection is banded up to rounding, and a look at its end takes a fraction of the time of a decomposition.
    """
    from scipy.linalg import eig_banded

    p, n = len(space.coupling), len(space.projected)
    band = np.zeros((p + 1, n))
    for j in range(min(p + 1, n)):
        band[j, : n - j] = np.diagonal(space.projected, -j)
    values, vectors = eig_banded(band, lower=True, select="i", select_range=(n - k - 1, n - 1), check_finite=False)
    residuals = np.linalg.norm(space.coupling @ vectors[-p:], axis=0)
    return excess(values[None, ::-1], residuals[None, ::-1], _weights(vectors[:p])[None, ::-1], tolerance)


def _weights(coordinates: FloatArray) -> FloatArray:
    """Squared lengths of columns."""
    return np.asarray(np.einsum("pk,pk->k", coordinates, coordinates))


def stack(*vectors: FloatArray) -> FloatArray:
    """Unit vectors as rows; those with fewer coordinates are filled up with zeros."""
    width = max(len(v) for v in vectors)
    return np.stack([np.pad(v, (0, width - len(v))) / np.linalg.norm(v) for v in vectors])


def largest(
    apply: Callable[[FloatArray], FloatArray], start: FloatArray, k: int, size: int, tolerance: float
) -> Pairs | None:
    """Top `k` eigenvalues of an operator and the coordinates (p, k) of their eigenvectors along the starting block.

    The starting vectors are orthonormalised in order. None when the Krylov space did not converge, or ended before it
    could have seen every eigenvalue.
    """
    pairs: list[Pairs] = []
    krylov_space(apply, start, _largest_excess(k, tolerance, pairs), max_dimension=min(KRYLOV_LIMIT, size))
    return pairs[0] if pairs else None


def _largest_excess(k: int, tolerance: float, pairs: list[Pairs]) -> Excess:
    """What :func:`largest` asks of a space; the pairs are put into `found` when they are there."""

    def over(space: KrylovSpace) -> float:
        p = len(space.coupling)
        if len(space.projected) <= k + 1:
            return math.inf
        above = _top_excess(space, k, tolerance)
        if above > 0:
            return above
        theta, Y = np.linalg.eigh(space.projected)
        values, vectors = theta[::-1][: k + 1], Y[:, ::-1][:, : k + 1]
        residuals = np.linalg.norm(space.coupling @ vectors[-p:], axis=0)
        above = excess(values[None], residuals[None], _weights(vectors[:p])[None], tolerance)
        if above <= 0 and not space.invariant:
            pairs.append((values[:k], vectors[:p, :k]))
        return above

    return over


def _start(noise: PooledOperator, *vectors: FloatArray) -> FloatArray:
    """Starting block: the given vectors, and the mean of the columns when it makes a separate outlier."""
    return stack(*vectors) if noise.centered else stack(*vectors, noise.mean_column())


def _single(noise: PooledOperator, k: int) -> _Sought:
    """One mu: Krylov space of S(mu) at u."""
    pairs: list[Pairs] = []
    return _Sought(_start(noise, noise.u), _largest_excess(k, noise.tolerance, pairs), pairs)


def _grid(noise: PooledOperator, mus: FloatArray, k: int) -> _Sought:
    """Many mu: block Krylov space of the noise part, S(0), at [u, g]; without a start where g is absent."""
    pairs: list[Pairs] = []
    g = noise.forward(noise.b) / noise.N
    c = float(noise.b @ noise.b) / noise.N
    length = float(np.linalg.norm(g))

    def over(space: KrylovSpace) -> float:
        p = len(space.coupling)
        if len(space.projected) <= k + 1:
            return math.inf
        # the noise part alone first: it is the hardest, and costs no search
        alone = _top_excess(space, k, noise.tolerance)
        if alone > 0:
            return alone
        theta, Y = np.linalg.eigh(space.projected)
        ends = space.coupling @ Y[-p:]
        U, G = space.start[:, 0] @ Y, length * (space.start[:, 1] @ Y)
        values, vectors = dense.top_pairs(theta, U, G, c, mus, k + 1)
        alignments = (vectors @ U) ** 2
        above = excess(values, np.linalg.norm(vectors @ ends.T, axis=2), alignments, noise.tolerance)
        if above <= 0 and not space.invariant:
            pairs.append((values[:, :k], alignments[:, :k]))
        return above

    first_look = round(_EDGE_STEPS * min(noise.d, noise.N) ** (1 / 3))
    start = _start(noise, noise.u, g) if length else np.zeros((1, 1))
    return _Sought(start, over, pairs, first_look)
