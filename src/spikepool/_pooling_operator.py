"""Matrix-free products with the pooled noise: nothing larger than the table and the tokens is held.

With Z the (d x V) noise of the table, W the sparse (V x N) token-weight matrix and P = I − 11'/N when S is centred
(P = I when not), the pooled noise is ``Y = Z W P``; with b the pooled latents, ``C P = mu u (P b)' + Y`` and

    S(mu) x = C P C' x / N

costs two passes over Z and two over the tokens. Work is cut into pieces whose number depends on sizes only and
whose results are added in a fixed order, so that the numbers do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spikepool._threads import Map, serial_map
from spikepool.sampling import Sample, sequence_blocks

FloatArray = NDArray[np.float64]

# A panel of the table, or a block of token positions, of about this many entries is one task of one thread: large
# against the cost of handing it over (some 50 microseconds), small enough to share out among many cores.
_PANEL_ELEMENTS = 1 << 20


def _slices(total: int, width: int) -> list[slice]:
    """Equal runs of `total` rows of `width` entries, of about ``_PANEL_ELEMENTS`` entries each."""
    count = min(total, max(1, round(total * width / _PANEL_ELEMENTS)))
    bounds = [total * i // count for i in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


class PoolingMatrix:
    """The sparse matrix W' (N x V), whose row n holds the weights of sequence n at its tokens.

    Rows are kept as compressed blocks that share the token array, and, when all sequences have the same
    weights, one array of weights as well: no copy of size N·T is made.
    """

    def __init__(
        self,
        tokens: NDArray[np.int32],
        w: FloatArray,
        V: int,
        *,
        dtype: Any = np.float64,
        run: Map = serial_map,
    ) -> None:
        N, T = tokens.shape
        self.shape = (N, V)
        self._run = run
        self._slices = _slices(N, T)
        longest = max(rows.stop - rows.start for rows in self._slices)
        pointers = np.arange(0, (longest + 1) * T, T, dtype=np.int32)
        shared = np.tile(w.astype(dtype), longest) if w.ndim == 1 else None
        self._blocks = []
        for rows in self._slices:
            n = rows.stop - rows.start
            data = w[rows].astype(dtype).ravel() if shared is None else shared[: n * T]
            block = csr_array((n, V), dtype=dtype)
            # assigned, not passed: the constructor scans the indices of every block to choose their type
            block.data, block.indices, block.indptr = data, tokens[rows].reshape(-1), pointers[: n + 1]
            self._blocks.append(block)
        self._transposed = [block.T for block in self._blocks]

    def pool(self, x: FloatArray) -> FloatArray:
        """W'x, one number for each sequence."""
        parts = self._run(lambda i: self._blocks[i] @ x, len(self._blocks))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def spread(self, y: FloatArray) -> FloatArray:
        """W y, one number for each token of the vocabulary."""
        parts = self._run(lambda i: self._transposed[i] @ y[self._slices[i]], len(self._blocks))
        return _total(parts)

    def rows(self, table: NDArray[Any], sequences: slice) -> FloatArray:
        """Pooled rows (n, d) of a (V, d) table for some of the sequences."""
        parts = [
            block[max(sequences.start - rows.start, 0) : sequences.stop - rows.start] @ table
            for block, rows in zip(self._blocks, self._slices, strict=True)
            if rows.start < sequences.stop and rows.stop > sequences.start
        ]
        return np.asarray(np.concatenate(parts), dtype=np.float64)


def _total(parts: Sequence[Any]) -> FloatArray:
    """Sum in order, in double precision."""
    total: FloatArray = parts[0].astype(np.float64, copy=len(parts) > 1)
    for part in parts[1:]:
        total += part
    return total


class PooledNoise:
    """Y = Z W P as an operator, with the vectors through which the signal enters.

    Attributes
    ----------
    u : numpy.ndarray of shape (d,)
        The hidden direction.
    b : numpy.ndarray of shape (N,)
        Pooled latents, centred when S is: ``C P = mu u b' + Y``.
    """

    def __init__(self, sample: Sample, w: FloatArray, *, run: Map = serial_map) -> None:
        model = sample.model
        self.N, self.d, self.V = model.N, model.d, model.V
        self.u = sample.direction
        self.centered = model.centered
        self._table = sample.noise
        self._dtype = sample.noise.dtype
        self._run = run
        self._panels = _slices(self.V, self.d)
        self.pooling = PoolingMatrix(sample.tokens, w, self.V, run=run, dtype=self._dtype)
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
        return _total(parts)

    def mean_column(self) -> FloatArray:
        """Mean of the columns of Z W, the direction of the mean's outlier when S is not centred."""
        spread = self.pooling.spread(np.full(self.N, 1 / self.N, dtype=self._dtype))
        return _total([spread.astype(self._dtype, copy=False) @ self._table])

    def covariance(self, x: FloatArray, mu: float) -> FloatArray:
        """S(mu) x for a vector of length d."""
        y = self.adjoint(x)
        if mu == 0:
            return self.forward(y) / self.N
        y += mu * float(self.u @ x) * self.b
        return (self.forward(y) + mu * float(self.b @ y) * self.u) / self.N

    def pooled_blocks(self) -> Any:
        """Blocks of rows of ``Y'`` (n, d), centred when S is, with the slices of their sequences."""
        mean = self.mean_column() if self.centered else np.zeros(self.d)
        for rows in sequence_blocks(self.N, self.d):
            yield rows, self.pooling.rows(self._table, rows) - mean
