"""Matrix-free products with the pooled noise: nothing larger than the table and the tokens is held.

With Z the (d x V) noise of the table, W the sparse (V x N) token-weight matrix and P = I − 11'/N when S is centred
(P = I when not), the pooled noise is ``Y = Z W P``; with b the pooled latents, ``C P = mu u (P b)' + Y`` and

    S(mu) x = C P C' x / N

costs two passes over Z and two over the tokens. Work is cut into pieces whose number depends on sizes only and
whose results are added in a fixed order, so that the numbers do not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.kit.threads import Map, serial_map
from spikepool.world.pooling_matrix import PoolingMatrix, ordered_sum, panels
from spikepool.world.sampling import Sample
from spikepool.world.tokens import sequence_blocks


class PooledNoise:
    """Y = Z W P as an operator, with the vectors through which the signal enters.

    Attributes
    ----------
    u : numpy.ndarray of shape (d,)
        The hidden direction.
    b : numpy.ndarray of shape (N,)
        Pooled latents, centred when S is: ``C P = mu u b' + Y``.
    """

    # bound on the error of a pair: a digit beyond the 1e-6 promised, and errors against dense solutions are smaller
    tolerance = 1e-7

    def __init__(self, sample: Sample, w: FloatArray, *, run: Map = serial_map) -> None:
        model = sample.model
        self.N, self.d, self.V = model.N, model.d, model.V
        self.u = sample.direction
        self.centered = model.centered
        self._table = sample.noise
        self._dtype = sample.noise.dtype
        self._run = run
        self._panels = panels(self.V, self.d)
        self.pooling = PoolingMatrix(
            sample.tokens, w, self.V, token_weights=model.token_weights, run=run, dtype=self._dtype
        )
        if model.latent == "signs":
            gain = self.pooling.pool(sample.signs.astype(self._dtype)).astype(np.float64, copy=False)
        else:
            gain = sample.gain(w)
        self.b = self._project(gain)

    def _project(self, y: FloatArray) -> FloatArray:
        return y - float(y.sum()) / self.N if self.centered else y

    def adjoint(self, x: FloatArray) -> FloatArray:
        """Y'x, (N,)."""
        x = x.astype(self._dtype, copy=False)
        parts = self._run(lambda i: self._table[self._panels[i]] @ x, len(self._panels))
        scores = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return self._project(self.pooling.pool(scores).astype(np.float64, copy=False))

    def forward(self, y: FloatArray) -> FloatArray:
        """Y y, (d,), for a y that is centred when S is, as those of :meth:`adjoint` and `b` are."""
        spread = self.pooling.spread(y.astype(self._dtype, copy=False))
        spread = spread.astype(self._dtype, copy=False)
        parts = self._run(lambda i: spread[self._panels[i]] @ self._table[self._panels[i]], len(self._panels))
        return ordered_sum(parts)

    def mean_column(self) -> FloatArray:
        """Mean of the columns of Z W, the direction of the mean's outlier when S is not centred."""
        spread = self.pooling.spread(np.full(self.N, 1 / self.N, dtype=self._dtype))
        return ordered_sum([spread.astype(self._dtype, copy=False) @ self._table])

    def covariance(self, x: FloatArray, mu: float) -> FloatArray:
        """S(mu) x for a vector of length d."""
        y = self.adjoint(x)
        if mu == 0:
            return self.forward(y) / self.N
        y += mu * float(self.u @ x) * self.b
        return (self.forward(y) + mu * float(self.b @ y) * self.u) / self.N

    def apply(self, x: FloatArray, mu: float) -> FloatArray:
        """S(mu) x for each row of `x` (m, d)."""
        return np.stack([self.covariance(row, mu) for row in x])

    def drawn(self) -> PooledNoise:
        """Itself: its table is drawn."""
        return self

    def pooled_blocks(self) -> Any:
        """Blocks of rows of ``Y'`` (n, d), centred when S is, with the slices of their sequences."""
        mean = self.mean_column() if self.centered else np.zeros(self.d)
        for rows in sequence_blocks(self.N, self.d):
            yield rows, self.pooling.rows(self._table, rows) - mean
