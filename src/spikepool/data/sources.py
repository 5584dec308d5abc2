"""A table as a stream of blocks of rows, whatever it is stored in.

Nothing here holds more than one block, so that a table larger than memory can be analysed.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import MemoryBudgetError, NonFiniteError, ShapeError, TableFormatError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory

# Widths the analysis accepts. The covariance takes 8 d² bytes: 2 GiB at the first limit. A file smaller than its
# own covariance is accepted only up to the second, where that is 128 MiB, so that no small file can ask for
# more than a gigabyte.
WIDEST = 16384
WIDEST_SHORT = 4096

# Rows are read in blocks of about this many bytes of float64: large enough for BLAS to run at full speed,
# small against the table.
BLOCK_BYTES = 2**24


class TableSource(ABC):
    """A (V, d) table of real numbers, read block by block.

    Attributes
    ----------
    shape : tuple of int
        (V, d), one row a token.
    name : str
        Name of the tensor, or of the object it came from.
    """

    def __init__(self, shape: tuple[int, int], name: str) -> None:
        self.shape = shape
        self.name = name

    @abstractmethod
    def _blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        """Consecutive blocks of at most `rows` rows, in any real dtype, not checked."""

    def blocks(self, rows: int | None = None) -> Iterator[FloatArray]:
        """Consecutive (b, d) blocks of rows as float64, each a fresh array, checked to be finite and complete."""
        V, d = self.shape
        rows = rows or block_rows(d)
        seen = 0
        for block in self._blocks(rows):
            values = checked_block(block, d, self.name, seen)
            seen += len(values)
            yield values
        if seen != V:
            raise TableFormatError(
                f"{self.name}: {V} rows were announced, the data hold another number",
                seen,
                "The file is damaged; download it again",
            )

    def transposed(self) -> TableSource:
        """The same table with rows and columns exchanged; read into memory in single precision."""
        V, d = self.shape
        require_memory(4 * V * d, f"transposing {self.name} of shape {self.shape}", "Save it transposed")
        table = np.empty((d, V), dtype=np.float32)
        start = 0
        for block in self.blocks():
            table[:, start : start + len(block)] = block.T
            start += len(block)
        return ArraySource(table, self.name)


class ArraySource(TableSource):
    """Anything with a shape that gives rows by slicing: ndarray, memmap, Dask, Zarr or HDF5 array.

    Parameters
    ----------
    array : array-like with `shape` and slicing
    name : str
    bfloat16 : bool
        The entries are 16-bit patterns of bfloat16, which numpy has no dtype for.
    """

    def __init__(self, array: Any, name: str = "the table", *, bfloat16: bool = False) -> None:
        shape = checked_shape(getattr(array, "shape", ()), name)
        super().__init__(shape, name)
        self._array = array
        self._bfloat16 = bfloat16

    def transposed(self) -> TableSource:
        """The same table with rows and columns exchanged; still read by blocks."""
        return ArraySource(self._array.T, self.name, bfloat16=self._bfloat16)

    def _blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        # only of a read-only map: a copy-on-write map would lose its changes with its pages
        mapped = getattr(self._array, "_mmap", None) if getattr(self._array, "mode", None) == "r" else None
        for start in range(0, self.shape[0], rows):
            piece = self._array[start : start + rows]
            if hasattr(piece, "compute"):  # a Dask array: bring only this block
                piece = piece.compute()
            if hasattr(piece, "toarray"):  # a sparse matrix
                piece = piece.toarray()
            block = np.asarray(piece)
            yield bfloat16_to_float32(block) if self._bfloat16 else block
            if mapped is not None and hasattr(mapped, "madvise"):
                # Pages already read would be counted as ours until memory runs short; hand them back now.
                mapped.madvise(mmap.MADV_DONTNEED)


def checked_block(block: NDArray[Any], d: int, name: str, start: int) -> FloatArray:
    """Rows as a fresh float64 array, which callers may centre in place; finite, and `d` wide."""
    if block.ndim != 2 or block.shape[1] != d:
        raise TableFormatError(
            f"{name}: a block of rows has the wrong shape, {d} columns were announced",
            block.shape,
            "The file is damaged; download it again",
        )
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


def bfloat16_to_float32(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Exact value of bfloat16 bit patterns: bfloat16 is the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def block_rows(d: int) -> int:
    """Rows of a block of about BLOCK_BYTES."""
    return max(64, BLOCK_BYTES // (8 * max(d, 1)))


def checked_shape(shape: Any, name: str) -> tuple[int, int]:
    """A shape (V, d) with at least two rows and columns."""
    if len(shape) != 2:
        raise ShapeError(f"{name} must have 2 dimensions (tokens, coordinates)", tuple(shape), "Choose another tensor")
    V, d = int(shape[0]), int(shape[1])
    if V < 2 or d < 2:
        raise ShapeError(f"{name} needs at least 2 rows and 2 columns", (V, d), "Choose another tensor")
    return V, d


def checked_width(source: TableSource) -> TableSource:
    """`source`, if it is narrow enough for its covariance to fit in memory."""
    V, d = source.shape
    if d > (WIDEST if d <= V else WIDEST_SHORT):
        raise MemoryBudgetError(
            f"{source.name} has {d} columns; its covariance would take {8 * d * d / 2**30:.2g} GiB",
            (V, d),
            "Rows must be tokens: transpose the table if they are not, or project it on fewer columns",
        )
    return source
