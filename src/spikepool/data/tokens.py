"""The forms in which token embeddings reach the pooling estimators, read as blocks of one shape.

A block is a pair (x, observed): ``x`` of shape (b, T, d) in float64 with zeros where nothing is observed, and a
boolean (b, T). Sources: (n, T, d) numbers; (n, T*d) with the number of positions; integer token ids (n, T) with a
table (V, d); each of them an array or a memory map. Only one block is dense at any moment, so ids and memory maps never
become a full (n, T, d) array. A :class:`TokenBlock` of ids is not dense even then: its tokens are looked up for the
rows that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.in_memory import as_array
from spikepool.errors import DomainError, InvalidInputError, NonFiniteError, RaggedError, ShapeError, TokenError
from spikepool.kit.arrays import BoolArray, FloatArray, IntArray
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress

Block = tuple[FloatArray, BoolArray]

# Larger entries would overflow where tokens are kept in single precision, and their fourth powers anywhere.
LARGEST_ENTRY = 1e30
# A dense block of this many bytes fits in the caches of the BLAS without starving it of rows.
BLOCK_BYTES = 48 * 2**20
# Work that takes rows one by one converts them in pieces of this many bytes: a block of half floats would be four times
# as large in double precision, and a second one is made while the first is still held.
PIECE_BYTES = 4 * 2**20


def check_table(table: Any) -> NDArray[Any]:
    """The table as a finite real (V, d) array; kept in its own precision, never copied when it is an array."""
    try:
        E = np.asarray(as_array(table, "table"))
    except RaggedError as err:
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


def check_mask(mask: Any, n: int, T: int) -> BoolArray | None:
    """`mask` as a boolean (n, T) array: True where a token is observed."""
    if mask is None:
        return None
    m = np.asarray(mask)
    if m.shape != (n, T):
        raise ShapeError(f"mask must have shape ({n}, {T})", tuple(m.shape), "Pass one entry for each token")
    return as_observed(m)


def as_observed(mask: NDArray[Any]) -> BoolArray:
    """A mask of zeros and ones as booleans."""
    if mask.dtype == np.bool_:
        return mask
    if mask.dtype.kind not in "fiu" or not np.isin(np.unique(mask), (0, 1)).all():
        raise InvalidInputError("mask must be boolean, or 0 and 1", mask, "Use True where a token is present")
    return mask.astype(np.bool_)


@dataclass(frozen=True, eq=False)
class TokenBlock:
    """Consecutive rows of an input, checked; tokens become numbers in float64 when they are asked for.

    Parameters
    ----------
    values : array
        (b, T, d) as stored, finite where observed, or (b, T) of ids when `table` is given: rows of the table
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

    def dense(self, rows: slice | IntArray = slice(None), columns: slice = slice(None)) -> FloatArray:
        """Tokens of the rows, (m, T, d)."""
        values, observed = self.values[rows, columns], self.observed[rows, columns]
        if self.table is None:
            x = np.array(values, dtype=np.float64, order="C")  # a fresh array, which may be changed
        else:
            x = np.take(self.table, values, axis=0).astype(np.float64, copy=False)
        if not observed.all():
            x[~observed] = 0.0
        return x

    def pieces(self, *, trimmed: bool = False) -> Iterator[tuple[IntArray, slice, Block]]:
        """The block, dense, in pieces of at most ``PIECE_BYTES`` (or one row), each with its rows and positions.

        With `trimmed` a piece begins at the first position that one of its rows has observed, and ends at the last.
        Rows then come in the order of their numbers of tokens, so that few positions of a piece are empty.
        """
        d = self.values.shape[2] if self.table is None else self.table.shape[1]
        step = max(1, PIECE_BYTES // (8 * self.observed.shape[1] * d))
        order = np.argsort(self.observed.sum(axis=1), kind="stable") if trimmed else np.arange(len(self))
        for first in range(0, len(self), step):
            rows, columns = order[first : first + step], slice(0, self.observed.shape[1])
            if trimmed:
                seen = np.flatnonzero(self.observed[rows].any(axis=0))
                columns = slice(seen[0], seen[-1] + 1) if len(seen) else slice(0, 1)
            yield rows, columns, (self.dense(rows, columns), self.observed[rows, columns])


@dataclass(frozen=True, eq=False)
class TokenForm:
    """How given rows become tokens.

    Parameters
    ----------
    T, d : int
        Positions, and features of a token.
    table : array or None
        (V, d), rows = tokens; the given rows are then ids.
    padding : int or None
        Token id that stands for "nothing here".
    """

    T: int
    d: int
    table: NDArray[Any] | None
    padding: int | None = None

    def rows_per_block(self) -> int:
        """Rows whose dense block stays within ``BLOCK_BYTES``."""
        return max(1, BLOCK_BYTES // (8 * self.T * self.d))

    def token_block(self, source: Any, mask: Any, start: int = 0) -> TokenBlock:
        """One block from a slice of the source and of the mask; `start` numbers its rows in errors."""
        part = np.asarray(source)
        given = None if mask is None else np.asarray(mask)
        if self.table is not None:
            observed = self.check_ids_in_table(part, given, start)
            return TokenBlock(np.where(observed, part, 0).astype(np.intp), observed, self.table)
        part = part.reshape(len(part), self.T, self.d)
        observed = np.ones(part.shape[:2], dtype=bool) if given is None else given.astype(bool)
        if not _surely_fit(part):
            _refuse_unfit(part, observed, start)
        return TokenBlock(part, observed)

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


# ((x, observed), numbers of the rows) -> (rows, width). A function with a true attribute ``trims`` does not need the
# positions that no row of a piece has observed.
RowFunction = Callable[[Block, IntArray], FloatArray]


@dataclass(frozen=True, eq=False)
class TokenInput:
    """n sequences of T positions with d features each, readable in blocks.

    Parameters
    ----------
    source : array
        (n, T, d) or (n, T*d) of numbers, or (n, T) of token ids when the form has a table.
    mask : array of bool, or None
        (n, T); None when every position is observed.
    form : TokenForm
    """

    source: NDArray[Any]
    mask: BoolArray | None
    form: TokenForm

    @property
    def n(self) -> int:
        """Number of sequences."""
        return len(self.source)

    @property
    def T(self) -> int:
        """Number of positions."""
        return self.form.T

    @property
    def d(self) -> int:
        """Number of features of a token."""
        return self.form.d

    def observed(self) -> BoolArray:
        """Where there are tokens, (n, T); without reading them."""
        if self.form.table is not None:
            return self.form.check_ids_in_table(self.source, self.mask)
        return np.ones((self.n, self.T), dtype=bool) if self.mask is None else self.mask

    def token_blocks(self) -> Iterator[tuple[int, TokenBlock]]:
        """First row and content of blocks in order of rows."""
        step = self.form.rows_per_block()
        for start in range(0, self.n, step):
            mask = None if self.mask is None else self.mask[start : start + step]
            yield start, self.form.token_block(self.source[start : start + step], mask, start)

    def blocks(self, *, trimmed: bool = False) -> Iterator[Block]:
        """Small dense pieces, on request without positions that no row of a piece has observed."""
        for _, block in self.token_blocks():
            for _, _, piece in block.pieces(trimmed=trimmed):
                yield piece

    def take(self, rows: NDArray[np.intp]) -> TokenInput:
        """The given rows, which ascend, in memory."""
        return TokenInput(np.asarray(self.source[rows]), None if self.mask is None else self.mask[rows], self.form)

    def map_blocks(self, function: RowFunction, label: str, show: bool | None) -> Iterator[tuple[int, FloatArray]]:
        """First row of each block and ``function((x, observed), rows)`` of its pieces, in order of rows.

        `label` and `show` are those of the progress bar; see :class:`spikepool.kit.progress.Progress`.
        """
        trimmed = bool(getattr(function, "trims", False))
        with Progress(-(-self.n // self.form.rows_per_block()), label, show=show) as bar:
            for start, block in self.token_blocks():
                out: FloatArray | None = None
                for rows, _, piece in block.pieces(trimmed=trimmed):
                    part = function(piece, start + rows)
                    out = np.empty((len(block), *part.shape[1:])) if out is None else out
                    out[rows] = part
                assert out is not None
                yield start, out
                bar.advance()

    def map_rows(self, function: RowFunction, width: int, label: str, show: bool | None) -> FloatArray:
        """The same for all rows, as one array (n, width)."""
        require_memory(8 * self.n * width, f"{label} of {self.n} rows as one array", "Use fewer rows")
        out = np.empty((self.n, width))
        for start, rows in self.map_blocks(function, label, show):
            out[start : start + len(rows)] = rows
        return out


def _surely_fit(x: NDArray[Any]) -> bool:
    """Whether all entries are finite and not too large, looked at in bulk; False only says to look closely."""
    if x.dtype == np.float16:  # half floats have no fast arithmetic: a full exponent is infinity or NaN
        return not x.size or bool((x.view(np.uint16) & 0x7FFF).max() < 0x7C00)
    if x.dtype == np.float32:
        return bool(np.isfinite(x).all())
    if x.dtype.kind != "f":
        return True
    flat = np.asarray(x, dtype=np.float64).reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.dot(flat, flat) <= LARGEST_ENTRY**2)


def _refuse_unfit(part: NDArray[Any], observed: BoolArray, start: int) -> None:
    """Raise for observed entries that are not finite or too large; masked entries may have any value."""
    x = np.where(observed[..., None], part, 0.0).astype(np.float64)
    if not np.isfinite(x).all():
        rows = np.flatnonzero(~np.isfinite(x).all(axis=(1, 2)))[:5] + start
        raise NonFiniteError(
            "X contains NaN or infinity at observed positions; first rows", rows, "Impute them or mask them"
        )
    largest = float(np.abs(x).max())
    if largest > LARGEST_ENTRY:
        raise DomainError(f"entries of X must be below {LARGEST_ENTRY:g}", largest, "Rescale X")


def check_ids(ids: Any) -> NDArray[Any]:
    """Token ids as an integer (n, T) array; integral floats are accepted, others are not."""
    array = np.asarray(ids)
    if array.ndim != 2:
        raise ShapeError("token ids must be an (n, T) array", tuple(array.shape), "Pad the sequences to one length")
    if array.dtype.kind in "iu":
        return array
    rounded = array.astype(np.int64) if array.dtype.kind == "f" and np.isfinite(array).all() else None
    if rounded is None or not np.array_equal(rounded, array):
        raise TokenError("token ids must be integers", array, "Convert them to int")
    return rounded


def split_width(width: int, n_positions: int | None) -> tuple[int, int]:
    """(T, d) of rows of `width` = T*d numbers; T = 1 when `n_positions` is None."""
    T = n_positions or 1
    if width % T:
        raise ShapeError(f"X has {width} columns, not a multiple of n_positions", T, "Check n_positions")
    return T, width // T


def relative_labels(observed: BoolArray, n_bins: int) -> NDArray[np.intp]:
    """Bin of each token by its relative place among the observed tokens of its row: floor(rank·bins/length)."""
    rank = np.cumsum(observed, axis=1) - 1
    length = np.maximum(observed.sum(axis=1, keepdims=True), 1)
    return np.where(observed, rank * n_bins // length, 0)


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
