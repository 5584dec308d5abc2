"""The forms in which token embeddings reach the pooling estimators, read as blocks of one shape.

A block is a pair (x, observed): ``x`` of shape (b, T, d) in float64 with zeros where nothing is observed, and a
boolean (b, T). Sources: an array (n, T, d); an array (n, T*d) with the number of positions; integer token ids
(n, T) with a table (V, d); a Dask array of any of these. Only one block is dense at any moment, so ids and Dask
arrays never become a full (n, T, d) array. A :class:`TokenBlock` of ids is not dense even then: its tokens are
looked up for the rows that are asked for, in the order of axes that the work needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import DomainError, InvalidInputError, NonFiniteError, ShapeError, TokenError
from spikepool.kit.arrays import BoolArray, FloatArray

Block = tuple[FloatArray, BoolArray]
# Token sums (P, m, d) of the asked rows, label first, and sums of squared norms (m, P); None: see `label_block`.
ReadRows = Callable[[slice], tuple[FloatArray, FloatArray | None]]

# Fourth powers of larger entries would overflow.
LARGEST_ENTRY = 1e70
# A dense block of this many bytes fits in the caches of the BLAS without starving it of rows.
BLOCK_BYTES = 48 * 2**20


def is_dask(value: Any) -> bool:
    """Whether `value` is a Dask array, without importing Dask."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "chunks")


def check_table(table: Any) -> NDArray[Any]:
    """The table as a finite real (V, d) array; kept in its own precision, never copied when it is an array."""
    try:
        E = np.asarray(table)
    except ValueError as err:
        raise ShapeError("table must have rows of equal length", table, "Pass a (V, d) array") from err
    if E.ndim != 2 or 0 in E.shape:
        raise ShapeError("table must be a non-empty (V, d) array", E.shape, "Pass rows = tokens")
    if E.dtype.kind not in "fiu":
        raise InvalidInputError("table must hold real numbers", E.dtype, "Convert it to a float array")
    rows = max(1, BLOCK_BYTES // (E.shape[1] * E.itemsize))
    for start in range(0, len(E), rows):
        if not np.isfinite(E[start : start + rows]).all():
            raise NonFiniteError("table contains NaN or infinities", remedy="Remove or impute them first")
        if float(np.abs(E[start : start + rows]).max()) > LARGEST_ENTRY:
            raise DomainError(f"entries of the table must be below {LARGEST_ENTRY:g}", remedy="Rescale the table")
    return E


def check_mask(mask: Any, n: int, T: int) -> Any:
    """`mask` as a boolean (n, T) array (or Dask array): True where a token is observed."""
    if mask is None or is_dask(mask):
        if mask is not None and tuple(mask.shape) != (n, T):
            raise ShapeError(f"mask must have shape ({n}, {T})", tuple(mask.shape), "One entry for each token")
        return mask
    m = np.asarray(mask)
    if m.shape != (n, T):
        raise ShapeError(f"mask must have shape ({n}, {T})", m.shape, "Pass one entry for each token")
    if m.dtype != np.bool_:
        if m.dtype.kind not in "fiu" or not np.isin(np.unique(m), (0, 1)).all():
            raise InvalidInputError("mask must be boolean, or 0 and 1", m, "Use True where a token is present")
        m = m.astype(bool)
    return m


@dataclass(frozen=True, eq=False)
class TokenBlock:
    """Consecutive rows of an input, checked; tokens given by id are looked up when they are asked for.

    Parameters
    ----------
    values : array
        (b, T, d) with zeros where nothing is observed, or (b, T) of ids when `table` is given: rows of the table
        everywhere, whatever is observed.
    observed : array
        (b, T).
    table : array or None
        (V, d), rows = tokens.
    """

    values: NDArray[Any]
    observed: BoolArray
    table: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def dense(self, rows: slice = slice(None)) -> FloatArray:
        """Tokens of the rows, (m, T, d)."""
        return self._look_up(self.values[rows], self.observed[rows])

    def positions_first(self, rows: slice = slice(None)) -> FloatArray:
        """Tokens of the rows, (T, m, d); ids are looked up in that order, which saves a transposition."""
        return self._look_up(self.values[rows].swapaxes(0, 1), self.observed[rows].T)

    def _look_up(self, values: NDArray[Any], observed: BoolArray) -> FloatArray:
        if self.table is None:
            return values
        x = np.take(self.table, values, axis=0).astype(np.float64, copy=False)
        if not observed.all():
            x[~observed] = 0.0
        return x


@dataclass(frozen=True, eq=False)
class TokenInput:
    """n sequences of T positions with d features each, readable in blocks.

    Parameters
    ----------
    source : array or Dask array
        (n, T, d) of numbers, or (n, T) of token ids when `table` is given.
    mask : array or Dask array or None
        (n, T); None when every position is observed.
    table : array or None
        (V, d), rows = tokens.
    padding : int or None
        Token id that stands for "nothing here".
    """

    source: Any
    mask: Any
    table: NDArray[Any] | None
    padding: int | None = None

    @property
    def n(self) -> int:
        """Number of sequences."""
        return int(self.source.shape[0])

    @property
    def T(self) -> int:
        """Number of positions."""
        return int(self.source.shape[1])

    @property
    def d(self) -> int:
        """Number of features of a token."""
        return int((self.source if self.table is None else self.table).shape[-1])

    def rows_per_block(self) -> int:
        """Rows whose dense block stays within ``BLOCK_BYTES``."""
        return max(1, BLOCK_BYTES // (8 * self.T * self.d))

    def blocks(self, rows: int | None = None) -> Iterator[Block]:
        """Dense blocks in order of rows."""
        for block in self.token_blocks(rows):
            yield block.dense(), block.observed

    def token_blocks(self, rows: int | None = None) -> Iterator[TokenBlock]:
        """Blocks in order of rows."""
        step = rows or self.rows_per_block()
        for start in range(0, self.n, step):
            stop = min(start + step, self.n)
            mask = None if self.mask is None else self.mask[start:stop]
            yield self.token_block(self.source[start:stop], mask, start)

    def take(self, rows: NDArray[np.intp]) -> TokenInput:
        """The sub-input of the given rows."""
        return TokenInput(self.source[rows], None if self.mask is None else self.mask[rows], self.table, self.padding)

    def block(self, source: Any, mask: Any, start: int = 0) -> Block:
        """One dense block from a slice of the source and of the mask; `start` numbers its rows in errors."""
        block = self.token_block(source, mask, start)
        return block.dense(), block.observed

    def token_block(self, source: Any, mask: Any, start: int = 0) -> TokenBlock:
        """One block from a slice of the source and of the mask; `start` numbers its rows in errors."""
        part = np.asarray(source)
        given = None if mask is None else np.asarray(mask)
        if self.table is not None:
            observed = self.check_ids_in_table(part, given, start)
            return TokenBlock(np.where(observed, part, 0).astype(np.intp), observed, self.table)
        observed = np.ones(part.shape[:2], dtype=bool) if given is None else given.astype(bool)
        x = part.astype(np.float64)
        if not observed.all():
            x[~observed] = 0.0  # also removes NaN from places nobody looks at
        if not np.isfinite(x).all():
            rows = np.flatnonzero(~np.isfinite(x).all(axis=(1, 2)))[:5] + start
            raise NonFiniteError(
                "X contains NaN or infinity at observed positions; first rows", rows, "Impute them or mask them"
            )
        if x.size and float(max(x.max(), -x.min())) > LARGEST_ENTRY:
            raise DomainError(f"entries of X must be below {LARGEST_ENTRY:g}", float(np.abs(x).max()), "Rescale X")
        return TokenBlock(x, observed)

    def check_ids_in_table(self, ids: NDArray[Any], mask: BoolArray | None, start: int = 0) -> BoolArray:
        """What is observed among `ids`; raises :class:`TokenError` for an observed id outside the table."""
        assert self.table is not None
        observed = np.ones(ids.shape, dtype=bool) if mask is None else mask.astype(bool)
        if self.padding is not None:
            observed &= ids != self.padding
        bad = observed & ((ids < 0) | (ids >= len(self.table)))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise TokenError(
                f"token id outside the table of {len(self.table)} rows at row {row + start}, position {column}",
                int(ids[row, column]),
                "Mask padding ids (mask=, padding=) or pass the table they belong to",
            )
        return observed


def check_ids(ids: Any) -> Any:
    """Token ids as an integer (n, T) array; integral floats are accepted, others are not."""
    if is_dask(ids):
        if ids.ndim != 2 or ids.dtype.kind not in "iu":
            raise TokenError("token ids must be an integer (n, T) array", ids.dtype, "Convert them to int")
        return ids
    array = np.asarray(ids)
    if array.ndim != 2:
        raise ShapeError("token ids must be an (n, T) array", array.shape, "Pad the sequences to one length")
    if array.dtype.kind not in "iu":
        rounded = array.astype(np.int64) if array.dtype.kind == "f" and np.isfinite(array).all() else None
        if rounded is None or not np.array_equal(rounded, array):
            raise TokenError("token ids must be integers", array, "Convert them to int")
        array = rounded
    return array


def split_positions(X: Any, n_positions: int | None) -> Any:
    """An (n, T*d) array as (n, T, d); T = 1 when `n_positions` is None."""
    T = n_positions or 1
    width = int(X.shape[1])
    if width % T:
        raise ShapeError(f"X has {width} columns, not a multiple of n_positions", T, "Check n_positions")
    return X.reshape((X.shape[0], T, width // T))


def relative_labels(observed: BoolArray, n_bins: int) -> NDArray[np.intp]:
    """Bin of each token by its relative place among the observed tokens of its row: floor(rank·bins/length)."""
    rank = np.cumsum(observed, axis=1) - 1
    length = np.maximum(observed.sum(axis=1, keepdims=True), 1)
    return np.where(observed, rank * n_bins // length, 0)


def label_block(block: TokenBlock, n_bins: int | None) -> tuple[FloatArray, ReadRows]:
    """Token counts (b, P) by row and position label, and a reader of token sums and squared norms by label.

    With absolute positions (`n_bins` None) the label is the position and the sum is the token itself; no squared
    norms are read then, because they are the products of a label with itself.
    """
    if n_bins is None:
        return block.observed.astype(np.float64), lambda rows: (block.positions_first(rows), None)
    member = np.zeros((*block.observed.shape, n_bins))
    labels = relative_labels(block.observed, n_bins)
    np.put_along_axis(member, labels[..., None], block.observed[..., None].astype(float), axis=2)

    def read(rows: slice) -> tuple[FloatArray, FloatArray | None]:
        x = block.dense(rows)
        sums = np.matmul(member[rows].transpose(0, 2, 1), x)
        return sums.swapaxes(0, 1), np.einsum("mtb,mt->mb", member[rows], np.einsum("mtd,mtd->mt", x, x))

    return member.sum(axis=1), read


def row_weights(weights: FloatArray, observed: BoolArray, n_bins: int | None) -> FloatArray:
    """Weights of each token of each row: those of its position, renormalised over the observed positions.

    A row whose observed positions all have weight zero gets the mean of its tokens; a row with nothing observed
    gets zeros.
    """
    if n_bins is None:
        w = np.where(observed, weights, 0.0)
    else:
        w = np.where(observed, weights[relative_labels(observed, n_bins)], 0.0)
    total = w.sum(axis=1, keepdims=True)
    length = observed.sum(axis=1, keepdims=True)
    uniform = observed / np.maximum(length, 1)
    usable = total > np.finfo(np.float64).tiny ** 0.5
    return np.where(usable, w / np.where(usable, total, 1.0), uniform)
