"""The rows on which poolings are learned and compared, read once: components and repeated rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spikepool.data.description import numbered, row_hashes, tie
from spikepool.data.tokens import TokenInput
from spikepool.kit.arrays import BoolArray, FloatArray, IntArray
from spikepool.pooling.query import QueryPooling
from spikepool.pooling.registry import FunctionPooling, Pooling
from spikepool.pooling.rules import token_covariances
from spikepool.pooling.sequence import MOST_FEATURES, MOST_STREAMED
from spikepool.pooling.token_space import TokenSpace, fit_token_space


@dataclass(frozen=True, eq=False)
class LearningRows:
    """Sequences in memory, with what all candidates need of them.

    Attributes
    ----------
    source : TokenInput
        The tokens.
    shares : array (n,)
        Row weights of unit sum.
    components : int
        Leading components that are wanted.
    sink : bool or None
        Whether the first token is left out; None: when it looks like a sink.
    streamed : bool
        Whether there are more rows than these, so that the final ridge is fitted in one pass over all.
    space : TokenSpace
        The leading components of the tokens.
    z : array (n, T, p)
        Tokens in components.
    observed, usable : arrays (n, T)
        Where there are tokens, and which of them learned weights may use.

    Notes
    -----
    Components and what follows from them are worked out when first asked for: fixed rules do without.
    """

    source: TokenInput
    shares: FloatArray
    components: int
    sink: bool | None
    streamed: bool = False

    @property
    def working_type(self) -> Any:
        """Single precision where the tokens have no more."""
        given = self.source.source.dtype if self.source.form.table is None else self.source.form.table.dtype
        return np.float32 if given.kind == "f" and given.itemsize <= 4 else np.float64

    @cached_property
    def space(self) -> TokenSpace:
        """Two passes over the tokens: norms, and components."""
        source = self.source
        most = MOST_STREAMED if self.streamed else MOST_FEATURES
        wide = 0 if 2 * source.T * source.d <= most else max(1, most // source.T)
        return fit_token_space(lambda: source.blocks(trimmed=True), source.d, self.components, self.sink, wide)

    @cached_property
    def _coordinates(self) -> tuple[FloatArray, BoolArray, BoolArray]:
        source, space = self.source, self.space
        observed, usable = (np.zeros((source.n, source.T), dtype=bool) for _ in range(2))
        z = np.zeros((source.n, source.T, space.directions.shape[1]), dtype=self.working_type)
        for start, block in source.token_blocks():
            for within, columns, (x, part) in block.pieces(trimmed=True):
                here = (start + within, columns)
                observed[here], usable[here] = part, space.usable(x, part)
                z[here] = space.coordinates(x, usable[here])
        return z, observed, usable

    @property
    def z(self) -> FloatArray:
        """Tokens in components."""
        return self._coordinates[0]

    @property
    def observed(self) -> BoolArray:
        """Where there are tokens."""
        return self._coordinates[1]

    @property
    def usable(self) -> BoolArray:
        """Tokens that learned weights may use."""
        return self._coordinates[2]

    @cached_property
    def covariances(self) -> FloatArray:
        """Covariances of the components within each sequence, (n, p(p+1)/2)."""
        return token_covariances(self.z, self.usable)

    def features(self, pooling: Pooling, dtype: Any = np.float64) -> FloatArray:
        """Features of all rows, (n, F)."""
        out: FloatArray | None = None
        trimmed = not isinstance(pooling, FunctionPooling)
        for first, block in self.source.token_blocks():
            for within, columns, (x, observed) in block.pieces(trimmed=trimmed):
                rows = first + within
                if isinstance(pooling, QueryPooling) and pooling.space is self.space:
                    part = pooling.features(x, observed, (self.z[rows, columns], self.usable[rows, columns]))
                else:
                    part = pooling.features(x, observed)
                if out is None:
                    out = np.empty((self.source.n, part.shape[1]), dtype=dtype)
                out[rows] = part
        assert out is not None
        return out

    def gather(self, index: IntArray, rows: IntArray) -> FloatArray:
        """Tokens (m, k, d) of the rows (m,) at positions `index` (m, k), in single precision where X has no more."""
        array, table = self.source.source, self.source.form.table
        rows = rows[:, None]
        if table is None:
            gathered = array.reshape(len(array), self.source.T, self.source.d)[rows, index]
        else:
            ids = np.where(self.observed[rows, index], array[rows, index], 0)
            gathered = table[ids.astype(np.intp)]
        return np.asarray(gathered, dtype=self.working_type)

    def average_weights(self, pooling: Pooling) -> FloatArray:
        """Average weight of each position over the rows, (heads, T)."""
        total: FloatArray | None = None
        for _, block in self.source.token_blocks():
            for _, columns, (x, observed) in block.pieces(trimmed=not isinstance(pooling, FunctionPooling)):
                part = pooling.weights(x, observed).sum(axis=0)
                total = np.zeros((len(part), self.source.T)) if total is None else total
                total[:, columns] += part
        assert total is not None
        return total / self.source.n


def row_copies(source: TokenInput) -> IntArray:
    """Equal numbers for rows that hold the same tokens, (n,)."""
    T, d, hashes = source.T, source.d, np.zeros(source.n, dtype=np.uint64)
    width = T * (d + 1)  # the tokens, then where they are
    for first, block in source.token_blocks():
        for within, columns, (x, observed) in block.pieces(trimmed=True):
            where = row_hashes(observed, T * d + columns.start, width)
            hashes[first + within] = row_hashes(x, columns.start * d, width) + where
    return numbered(hashes)[0]


def row_bytes(source: TokenInput) -> int:
    """Size of the tokens of a row, in their own precision."""
    table = source.form.table
    return source.T * source.d * int((source.source.dtype if table is None else table.dtype).itemsize)


def rows_in_memory(source: TokenInput, rows: IntArray) -> TokenInput:
    """The given rows; the source as it is when all its rows are asked for."""
    return source if len(rows) == source.n else source.take(rows)


def distinct_rows(
    rows: IntArray, part: TokenInput, Y: FloatArray, groups: IntArray | None, weights: FloatArray
) -> tuple[IntArray, TokenInput, FloatArray, IntArray]:
    """Rows of equal tokens, targets and group as one row of their common weight; and clusters of the rest."""
    copies = row_copies(part)
    kept_groups = None if groups is None else groups[rows]
    targets = np.unique(Y[rows], axis=0, return_inverse=True)[1].reshape(-1)
    keys = np.column_stack([copies, targets, copies if kept_groups is None else kept_groups])
    number = numbered(np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1))[0]
    merged = np.asarray(np.bincount(number, weights[rows]), dtype=np.float64)
    if len(merged) == len(rows):
        return rows, part, merged, tie(copies, kept_groups)
    first = np.unique(number, return_index=True)[1]
    kept = None if kept_groups is None else kept_groups[first]
    return rows[first], part.take(first), merged, tie(numbered(copies[first])[0], kept)


def rule_head_weights(pooling: Pooling, source: TokenInput) -> FloatArray:
    """Weights of a fixed rule in a row without padding, (heads, T)."""
    return np.asarray(pooling.weights(np.zeros((1, source.T, 1)), np.ones((1, source.T), dtype=bool))[0])
