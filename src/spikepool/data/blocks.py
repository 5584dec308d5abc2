"""The one source of rows, whatever they are stored in: shape, dtype, where the chunks end, and each chunk when asked.

A chunk is what the storage hands out as one piece: a chunk of a Zarr or Dask array, a row group of Parquet, a record
batch of Arrow. Work follows these borders, so that a pass reads each of them once. Arrays and memory maps have no
borders of their own and get some of about ``CHUNK_BYTES``.
"""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spikepool.data.locations import require_whole, translate
from spikepool.errors import ChunkMismatchError, NonFiniteError, ShapeError, SpikepoolError, UnreadableChunkError
from spikepool.kit.arrays import FloatArray

# Borders for what has none, in bytes as float64: enough rows for BLAS to run at full speed, small against memory.
CHUNK_BYTES = 48 * 2**20
# Blocks of tables, in bytes as float64: the same reasons, and the covariance is held beside them.
BLOCK_BYTES = 2**24
# Attribute of stored features that names the pooling which made them, if it has learned from their labels.
LEARNED_POOLING = "spikepool_learned_pooling"


class BlockSource(ABC):
    """n rows of equal shape in chunks.

    Attributes
    ----------
    name : str
        For messages.
    shape : tuple of int
        Of the whole; rows first.
    dtype : numpy.dtype
    borders : tuple of int
        0 = b_0 < b_1 < ... = n; chunk k holds the rows b_k to b_{k+1}.
    portable : bool
        Whether a copy of this object reads the same rows in another process or on another machine, at the cost of
        the chunk alone.
    learned_pooling : str or None
        The pooling that made these features, if the file says that it has learned from the labels of the rows.
    """

    learned_pooling: str | None = None

    def __init__(
        self, name: str, shape: Sequence[int], dtype: Any, borders: Sequence[int], *, portable: bool = False
    ) -> None:
        self.name = name
        self.shape = tuple(int(size) for size in shape)
        self.dtype = np.dtype(dtype)
        self.borders = tuple(int(border) for border in borders)
        self.portable = portable
        if self.borders[0] != 0 or self.borders[-1] != self.shape[0] or any(np.diff(self.borders) <= 0):
            raise ShapeError(f"{name} has no rows, or an empty chunk", self.shape, "Drop empty chunks")

    @property
    def adaptable(self) -> bool:
        """Whether any rows can be read alone, so that the borders are free to follow those of another source."""
        return False

    def with_borders(self, borders: Sequence[int]) -> Self:
        """The same rows with other borders; only where these are free."""
        other = copy(self)
        other.borders = tuple(borders)
        return other

    @abstractmethod
    def _load(self, start: int, stop: int) -> Any:
        """Rows of one chunk, or of a part of it."""

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.borders) - 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a row as stored, uncompressed."""
        return math.prod(self.shape[1:]) * int(self.dtype.itemsize)

    def read(self, k: int) -> NDArray[Any]:
        """Chunk k as an array.

        Raises
        ------
        UnreadableChunkError
            It cannot be read; chunk and rows are named.
        """
        start, stop = self.borders[k], self.borders[k + 1]
        where = f"chunk {k} (rows {start} to {stop - 1}) of {self.name}"
        try:
            rows = np.asarray(self._load(start, stop))
        except SpikepoolError:
            raise
        except Exception as err:  # whatever codecs, file systems and drivers raise
            named = translate(err, where)
            if type(named).__name__ != "DataSourceError":
                raise named from err
            raise UnreadableChunkError(
                f"{where} cannot be read ({type(err).__name__}: {' '.join(str(err).split())})",
                remedy="Write that chunk again, or leave it out",
            ) from err
        if rows.shape != (stop - start, *self.shape[1:]):
            raise UnreadableChunkError(
                f"{where} should have shape {(stop - start, *self.shape[1:])}", rows.shape, "The data are damaged"
            )
        return rows

    def chunks(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """First row and content of every chunk, in order; each is read once."""
        for k in range(self.n_chunks):
            yield self.borders[k], self.read(k)

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """The given rows, which ascend; chunks that hold none of them are not read."""
        out = np.empty((len(rows), *self.shape[1:]), dtype=self.dtype)
        ends = np.searchsorted(rows, self.borders)
        for k in range(self.n_chunks):
            if ends[k + 1] > ends[k]:
                out[ends[k] : ends[k + 1]] = self.read(k)[rows[ends[k] : ends[k + 1]] - self.borders[k]]
        return out

    def blocks(self, rows: int | None = None) -> Iterator[FloatArray]:
        """Consecutive (b, d) blocks of at most `rows` rows of a table: fresh float64 arrays, checked to be finite."""
        d = self.shape[1]
        step = rows or block_rows(d)
        source = self.with_borders([*range(0, len(self), step), len(self)]) if self.adaptable else self
        for first, chunk in source.chunks():
            for start in range(0, len(chunk), step):
                yield checked_block(chunk[start : start + step], d, self.name, first + start)

    def whole(self) -> NDArray[Any]:
        """All the rows as one array."""
        require_whole(len(self) * self.row_bytes, self.name)
        parts = [rows for _, rows in self.chunks()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class ArrayBlocks(BlockSource):
    """An array in memory, a memory map, or anything else that has a shape and gives rows by slicing.

    Parameters
    ----------
    array : array-like with `shape`, `dtype` and slicing
    name : str
    borders : sequence of int, optional
    decode : callable, optional
        Turns stored rows into numbers, for types that NumPy does not have (bfloat16, 8-bit floats).
    """

    def __init__(
        self,
        array: Any,
        name: str = "X",
        borders: Sequence[int] | None = None,
        *,
        decode: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    ) -> None:
        shape = tuple(int(size) for size in array.shape)
        self.array, self.decode = array, decode
        dtype = array.dtype if decode is None else np.float32
        super().__init__(name, shape, dtype, borders if borders is not None else even_borders(shape))

    def _load(self, start: int, stop: int) -> Any:
        mapped = getattr(self.array, "_mmap", None)
        rows = self.array[start:stop]
        if hasattr(rows, "toarray"):  # a sparse matrix
            rows = rows.toarray()
        if self.decode is not None:
            rows = self.decode(np.asarray(rows))
        # Pages read before would be counted as ours until memory runs short; hand them back now. Not those of a
        # copy-on-write map, whose changes would go with them.
        if mapped is not None and hasattr(mapped, "madvise") and getattr(self.array, "mode", None) == "r":
            rows = np.array(rows)
            mapped.madvise(mmap.MADV_DONTNEED)
        return rows

    @property
    def adaptable(self) -> bool:
        """Rows in memory have no borders of their own."""
        return True

    def take(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """The given rows."""
        taken = np.asarray(self.array[rows])
        return taken if self.decode is None else self.decode(taken)


class SequentialBlocks(BlockSource):
    """Rows that can be read from the first to the last only: compressed archives, text files.

    A chunk that follows the one before continues the pass; any other starts a new one. :meth:`passes` opens
    the data and gives a function that reads the next rows.
    """

    _pass: tuple[int, Callable[[int], Any]] | None = None

    @abstractmethod
    def passes(self) -> Callable[[int], Any]:
        """A new pass: ``read(count)`` gives the next `count` rows."""

    def _load(self, start: int, stop: int) -> Any:
        at, read = self._pass if self._pass is not None else (stop, None)
        self._pass = None  # an error ends the pass
        if read is None or at > start:
            at, read = 0, self.passes()
        while at < start:
            count = min(start - at, max(1, stop - start))
            read(count)
            at += count
        rows = read(stop - start)
        self._pass = (stop, read) if stop < len(self) else None
        return rows

    @property
    def adaptable(self) -> bool:
        """Any consecutive rows can be read."""
        return True

    def with_borders(self, borders: Sequence[int]) -> Self:
        """The same rows with other borders, and a pass of their own."""
        other = super().with_borders(borders)
        other._pass = None
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_pass"}  # open files do not travel


class DaskBlocks(BlockSource):
    """A Dask array; chunks along other axes than the first are put together, each still loaded once."""

    def __init__(self, array: Any, name: str) -> None:
        if any(np.isnan(size) for sizes in array.chunks for size in sizes):
            raise ShapeError(
                f"{name} is a Dask array with chunks of unknown size", array.shape, "Call its compute_chunk_sizes()"
            )
        whole = {axis: -1 for axis in range(1, array.ndim) if len(array.chunks[axis]) > 1}
        self.array = array.rechunk(whole) if whole else array
        if 0 in self.array.chunks[0] and array.shape[0]:
            self.array = self.array.rechunk({0: tuple(size for size in array.chunks[0] if size)})
        self._pieces: list[Any] | None = None
        super().__init__(name, array.shape, array.dtype, np.cumsum([0, *self.array.chunks[0]]).tolist())

    def delayed(self, k: int) -> Any:
        """Chunk k as a Dask Delayed."""
        if self._pieces is None:
            self._pieces = list(self.array.to_delayed().ravel())
        return self._pieces[k]

    def _load(self, start: int, stop: int) -> Any:
        return self.delayed(self.borders.index(start)).compute()


def even_borders(shape: Sequence[int], chunk_bytes: int = CHUNK_BYTES) -> list[int]:
    """Borders of chunks of about `chunk_bytes` in float64."""
    n = int(shape[0])
    step = max(1, chunk_bytes // max(1, 8 * math.prod(shape[1:])))
    return [*range(0, n, step), n]


def align(first: BlockSource, second: BlockSource) -> tuple[BlockSource, BlockSource]:
    """Both with the same borders, where those of one are free; else as they are."""
    if first.borders != second.borders and len(first) == len(second):
        if second.adaptable:
            return first, second.with_borders(first.borders)
        if first.adaptable:
            return first.with_borders(second.borders), second
    return first, second


def check_aligned(sources: Sequence[BlockSource]) -> None:
    """Raise :class:`ChunkMismatchError` unless all have chunks with the same borders along the rows."""
    first = sources[0]
    for other in sources[1:]:
        if other.borders != first.borders:
            at = next(
                (a for a, b in zip(first.borders, other.borders, strict=False) if a != b), min(len(first), len(other))
            )
            raise ChunkMismatchError(
                f"{first.name} and {other.name} have unequal chunks: {first.n_chunks} and {other.n_chunks}, borders "
                f"differ from row {at} on",
                (_sizes(first), _sizes(other)),
                "Give both the same chunks along the rows (rechunk one of them), so that each is read once",
            )


def _sizes(source: BlockSource) -> tuple[int, ...]:
    """Rows of the first chunks."""
    return tuple(int(size) for size in np.diff(source.borders[:5]))


def block_rows(d: int) -> int:
    """Rows of a block of about BLOCK_BYTES."""
    return max(64, BLOCK_BYTES // (8 * max(d, 1)))


def checked_block(block: NDArray[Any], d: int, name: str, start: int) -> FloatArray:
    """Rows as a fresh float64 array, which callers may centre in place; finite, and `d` wide."""
    if block.ndim != 2 or block.shape[1] != d:
        raise ShapeError(f"{name}: rows from {start} on should have {d} columns", block.shape, "The data are damaged")
    values = np.array(block, dtype=np.float64)
    # The sum is finite unless an entry is not, or the sum itself overflows; only then look at all entries.
    if not np.isfinite(values.sum()) and not np.isfinite(values).all():
        bad = np.argwhere(~np.isfinite(values))[0]
        raise NonFiniteError(
            f"{name} contains NaN or infinities, first at row {start + bad[0]}, column {bad[1]}",
            float(values[tuple(bad)]),
            "Drop or repair these rows, then save the table again",
        )
    return values
