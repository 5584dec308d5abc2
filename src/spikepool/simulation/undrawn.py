"""The pooled noise of a draw whose table is never drawn.

Tokens are drawn as always. The Gaussian table answers products only (:mod:`spikepool.simulation.lazy_gaussian` for
isotropic noise, :mod:`spikepool.simulation.lazy_gaussian` with a covariance), and everything else enters around them:
the noise's covariance on the left as A^{1/2}, the centring of classes on the right as a projection of the argument,
the signal through the pooled latents, the centring of S through those of the sequences. All weightings of a draw
share its tokens and its table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import FloatArray
from spikepool.kit.threads import Map, serial_map
from spikepool.simulation.lazy_gaussian import LazyGaussian, RotatedTable
from spikepool.simulation.pooled_noise import PooledNoise
from spikepool.world.pooled_latents import pooled_latents, with_token_weights
from spikepool.world.pooling_matrix import PoolingMatrix, Projection
from spikepool.world.sampling import Sample, coloring, draw_direction, noise_seed
from spikepool.world.sequences import SequenceWorld
from spikepool.world.tokens import TokenSampler

Rows = Callable[[FloatArray], FloatArray]

# Bound on the error of a pair, see :func:`spikepool.simulation.top_pairs.excess`: the completed table gives the same.
TOLERANCE = 1e-9


class Products(Protocol):
    """A matrix known through its products with rows of vectors."""

    def adjoint(self, x: FloatArray) -> FloatArray:
        """Z'x for each row of `x`."""

    def forward(self, v: FloatArray) -> FloatArray:
        """Z v for each row of `v`."""

    def random_direction(self) -> FloatArray:
        """A unit vector, uniform on the sphere."""

    def to_dense(self) -> FloatArray:
        """Z' (V, d) in the coordinates of the products."""


class UndrawnTable:
    """Noise of an embedding table, A^{1/2} Z Pi, known through products only.

    Attributes
    ----------
    direction : numpy.ndarray
        The hidden direction, in the coordinates of the table.
    """

    def __init__(self, Z: Products, direction: FloatArray, color: Rows | None, project: Projection) -> None:
        self._Z = Z
        self.direction = direction
        self._color, self._project = color, project

    def adjoint(self, x: FloatArray) -> FloatArray:
        """Products (m, V) of the table's noise with each row of `x`, one number for each token."""
        scores = self._Z.adjoint(x if self._color is None else self._color(x))
        return self._project(scores.T).T

    def forward(self, v: FloatArray) -> FloatArray:
        """Sums of the tokens' noise with the coefficients of each row of `v` (m, V)."""
        sums = self._Z.forward(self._project(v.T).T)
        return sums if self._color is None else self._color(sums)

    def random_direction(self) -> FloatArray:
        """A unit vector on the left, uniform on the sphere and independent of the table."""
        return self._Z.random_direction()

    def to_dense(self) -> FloatArray:
        """The noise itself, (V, d), completed with fresh numbers, in the coordinates of the products."""
        table = self._project(self._Z.to_dense())
        return table if self._color is None else self._color(table)


class UndrawnDraw:
    """Tokens, latents and the undrawn table of one draw."""

    def __init__(
        self, model: SequenceWorld, tokens: NDArray[np.int32], latent: NDArray[Any], table: UndrawnTable, run: Map
    ) -> None:
        self.model, self.tokens, self.latent, self.table, self.run = model, tokens, latent, table, run

    def sample(self) -> Sample:
        """The same draw with its table completed, in the coordinates of the products."""
        noise = self.table.to_dense()
        direction = np.zeros(self.model.d)
        direction[: len(self.table.direction)] = self.table.direction
        return Sample(self.model, direction, noise, self.tokens, self.latent)


class UndrawnSource:
    """Draws of one model with undrawn tables; what does not depend on the draw is prepared once.

    Parameters
    ----------
    model : SequenceWorld
        With Gaussian noise.
    """

    def __init__(self, model: SequenceWorld) -> None:
        self.model = model
        self._tokens = TokenSampler(model)
        self._color = None if model.covariance is None else coloring(model)
        self._project = Projection(model.signs if model.table == "class_centered" else None)

    def draw(self, root: np.random.SeedSequence, *, run: Map = serial_map) -> UndrawnDraw:
        """The draw of seed `root`: the tokens are those of every other route."""
        tokens, latent = self._tokens(root)
        model, rng = self.model, np.random.default_rng(noise_seed(root))
        if self._color is None:
            rotated = RotatedTable(model.d, model.V, rng, run=run)
            table = UndrawnTable(rotated, rotated.new_axis(), None, self._project)
        else:
            lazy = LazyGaussian(model.d, model.V, rng, run=run)
            table = UndrawnTable(lazy, draw_direction(model, root), self._color, self._project)
        return UndrawnDraw(model, tokens, latent, table, run)


class UndrawnNoise:
    """Y = Z W P of one weighting of an undrawn draw; a :class:`~spikepool.simulation.top_pairs.PooledOperator`."""

    tolerance = TOLERANCE

    def __init__(self, draw: UndrawnDraw, w: FloatArray) -> None:
        model = draw.model
        self.N, self.d = model.N, model.d
        self.centered = model.centered
        self.u = draw.table.direction
        self._draw, self._w, self._table = draw, w, draw.table
        self._pooling = PoolingMatrix(draw.tokens, w, model.V, token_weights=model.token_weights, run=draw.run)
        if model.latent == "signs":
            gain = self._pooling.pool(model.signs.astype(np.float64))
        else:
            gain = pooled_latents(draw.latent, with_token_weights(w, model, draw.tokens))
        self.b = self._project(gain)

    def _project(self, y: FloatArray) -> FloatArray:
        return y - float(y.sum()) / self.N if self.centered else y

    def forward(self, y: FloatArray) -> FloatArray:
        """Y y for a y that is centred when S is."""
        return np.asarray(self._table.forward(self._pooling.spread(y)[None])[0])

    def mean_column(self) -> FloatArray:
        """Mean of the columns of Z W, the direction of the mean's outlier when S is not centred."""
        return self.forward(np.full(self.N, 1 / self.N))

    def apply(self, x: FloatArray, mu: float) -> FloatArray:
        """S(mu) x for each row of `x`, in which u may have fewer coordinates than there are."""
        return np.asarray(apply_together([self], x[None], mu)[0])

    def _pool(self, scores: FloatArray, x: FloatArray, mu: float) -> list[FloatArray]:
        """P(W'Z'x + mu b u'x) for each row of `x`, with the rows Z'x given."""
        pooled = [self._project(self._pooling.pool(row)) for row in scores]
        if mu:
            for row, y in zip(x, pooled, strict=True):
                y += mu * float(self.u @ row[: len(self.u)]) * self.b
        return pooled

    def _finish(self, sums: FloatArray, pooled: list[FloatArray], mu: float) -> None:
        """Make S(mu) x of the rows Z W y."""
        if mu:
            for row, y in zip(sums, pooled, strict=True):
                row[: len(self.u)] += mu * float(self.b @ y) * self.u
        sums /= self.N

    def drawn(self) -> PooledNoise:
        """The same with the table completed."""
        return PooledNoise(self._draw.sample(), self._w, run=self._draw.run)


def apply_together(noises: Sequence[UndrawnNoise], x: FloatArray, mu: float) -> FloatArray:
    """S(mu) x of several weightings of one draw, each for its rows of x (s, p, ·): the table is asked once for all."""
    table = noises[0]._table
    scores = table.adjoint(x.reshape(-1, x.shape[2])).reshape(*x.shape[:2], -1)
    pooled = [noise._pool(vectors, rows, mu) for noise, vectors, rows in zip(noises, scores, x, strict=True)]
    spread = [noise._pooling.spread(y) for noise, vectors in zip(noises, pooled, strict=True) for y in vectors]
    sums = table.forward(np.stack(spread)).reshape(*x.shape[:2], -1)
    for noise, vectors, rows in zip(noises, pooled, sums, strict=True):
        noise._finish(rows, vectors, mu)
    return sums
