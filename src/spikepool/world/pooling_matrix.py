"""The sparse token-weight matrix W, as products with it, and the projection off the class means of a table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spikepool.kit.arrays import FloatArray
from spikepool.kit.threads import Map, serial_map

# A panel of the table, or a block of token positions, of about this many entries is one task of one thread: large
# against the cost of handing it over (some 50 microseconds), small enough to share out among many cores.
_PANEL_ELEMENTS = 1 << 20


def panels(total: int, width: int) -> list[slice]:
    """Equal runs of `total` rows of `width` entries, of about ``_PANEL_ELEMENTS`` entries each."""
    count = min(total, max(1, round(total * width / _PANEL_ELEMENTS)))
    bounds = [total * i // count for i in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def token_matrix(
    tokens: NDArray[Any], weights: FloatArray, V: int, token_weights: FloatArray | None = None
) -> csr_array:
    """W' (N x V), rows are sequences; repeated tokens of a sequence add up, token v with weight a_v (1 by default)."""
    N, T = tokens.shape
    data = np.broadcast_to(weights, (N, T)).ravel()
    if token_weights is not None:
        data = data * token_weights[tokens.ravel()]
    matrix = csr_array((data, (np.repeat(np.arange(N), T), tokens.ravel())), shape=(N, V))
    matrix.sum_duplicates()
    return matrix


class PoolingMatrix:
    """The sparse matrix W' (N x V), whose row n holds the weights of sequence n at its tokens.

    Rows are kept as compressed blocks that share the token array, and, when all sequences have the same
    weights, one array of weights as well: no copy of size N·T is made. Token weights (V,) multiply the columns, around
    the products.
    """

    def __init__(
        self,
        tokens: NDArray[np.int32],
        w: FloatArray,
        V: int,
        *,
        token_weights: FloatArray | None = None,
        dtype: Any = np.float64,
        run: Map = serial_map,
    ) -> None:
        N, T = tokens.shape
        self.shape = (N, V)
        self._scale = None if token_weights is None else token_weights.astype(dtype)
        self._run = run
        self._slices = panels(N, T)
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
        x = x if self._scale is None else self._scale * x
        if len(self._blocks) == 1:
            return np.asarray(self._blocks[0] @ x)
        parts = self._run(lambda i: self._blocks[i] @ x, len(self._blocks))
        return np.concatenate(parts)

    def spread(self, y: FloatArray) -> FloatArray:
        """W y, one number for each token of the vocabulary."""
        if len(self._blocks) == 1:
            total = np.asarray(self._transposed[0] @ y, dtype=np.float64)
        else:
            total = ordered_sum(self._run(lambda i: self._transposed[i] @ y[self._slices[i]], len(self._blocks)))
        return total if self._scale is None else self._scale * total

    def rows(self, table: NDArray[Any], sequences: slice) -> FloatArray:
        """Pooled rows (n, d) of a (V, d) table for some of the sequences."""
        parts = []
        for block, rows in zip(self._blocks, self._slices, strict=True):
            if rows.start >= sequences.stop or rows.stop <= sequences.start:
                continue
            part = block[max(sequences.start - rows.start, 0) : sequences.stop - rows.start]
            if self._scale is not None:
                data = part.data * self._scale[part.indices]
                part = csr_array((data, part.indices, part.indptr), shape=part.shape)
            parts.append(part @ table)
        return np.asarray(np.concatenate(parts), dtype=np.float64)


def ordered_sum(parts: Sequence[Any]) -> FloatArray:
    """Sum in order, in double precision."""
    total: FloatArray = parts[0].astype(np.float64, copy=len(parts) > 1)
    for part in parts[1:]:
        total += part
    return total


class Projection:
    """P, the projection off the class means; the identity without class-centring."""

    def __init__(self, signs: NDArray[Any] | None) -> None:
        self._classes = [] if signs is None else [np.flatnonzero(signs == c) for c in np.unique(signs)]

    def __call__(self, x: FloatArray) -> FloatArray:
        """P x, along the first axis."""
        if self._classes:
            x = x.copy()
            for rows in self._classes:
                x[rows] -= x[rows].mean(axis=0)
        return x
