"""A growing stack of long rows: the probes of a table that is never drawn, and what it answered.

Rows are kept in blocks that are not copied when the stack grows. Products are cut into panels of columns whose number
depends on sizes only and whose sums are added in a fixed order, so that threads do not change a bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.threads import Map, serial_map

# Memory of a block of rows. It is touched only as rows are written, so that a small stack costs little; one block
# serves the sizes at which the number of calls matters.
_BLOCK_BYTES = 1 << 24

# Columns of a panel, one task of one thread.
_PANEL_COLUMNS = 1 << 16

# Products of at most this many multiplications, and with at least as many rows, are what a BLAS does without copying
# the rows first: a longer stack is multiplied piece by piece.
_SMALL_PRODUCT, _SMALL_ROWS = 1 << 19, 32

# What is left of a vector after orthogonalisation, relative to what it was, when it is rounding alone.
_DEPENDENT = 1e-13

# Squared length of what a second pass finds below which it changes no inner product.
_UNFELT = 1e-20


class RowStack:
    """Rows of equal length, appended and multiplied by.

    Attributes
    ----------
    width, count : int
        Length of a row, and number of rows.
    """

    def __init__(self, width: int, *, run: Map = serial_map) -> None:
        self.width, self.count = width, 0
        self._run = run
        self._block_rows = max(8, _BLOCK_BYTES // (8 * width))
        self._blocks: list[FloatArray] = []
        panels = max(1, round(width / _PANEL_COLUMNS))
        bounds = [width * i // panels for i in range(panels + 1)]
        self._panels = [slice(start, stop) for start, stop in pairwise(bounds)]

    def append(self, rows: FloatArray) -> None:
        """Add rows (m, width) at the end."""
        place = self.count % self._block_rows
        if 0 < place <= self._block_rows - len(rows):
            self._blocks[-1][place : place + len(rows)] = rows
            self.count += len(rows)
            return
        for row in rows:
            place = self.count % self._block_rows
            if place == 0:
                if self._blocks:
                    require_memory(
                        8 * self._block_rows * self.width,
                        f"{self.count + self._block_rows} probes of length {self.width}",
                        "Ask for fewer eigenpairs, or for a signal above its threshold: those take fewer steps",
                    )
                self._blocks.append(np.empty((self._block_rows, self.width)))
            self._blocks[-1][place] = row
            self.count += 1

    def _filled(self, count: int) -> Iterator[tuple[slice, FloatArray]]:
        """The first `count` rows block by block, each with its place in the stack."""
        for i, block in enumerate(self._blocks):
            start = i * self._block_rows
            if start >= count:
                return
            stop = min(start + self._block_rows, count)
            yield slice(start, stop), block[: stop - start]

    def dot(self, x: FloatArray) -> FloatArray:
        """Inner products (m, count) of rows `x` (m, width) with all rows of the stack."""
        if self.count <= self._block_rows and len(self._panels) == 1:
            return self._dot_block(x)

        def partial(i: int) -> FloatArray:
            panel, part = self._panels[i], np.empty((len(x), self.count))
            for place, block in self._filled(self.count):
                part[:, place] = x[:, panel] @ block[:, panel].T
            return part

        parts = self._run(partial, len(self._panels))
        total: FloatArray = parts[0]
        for part in parts[1:]:
            total += part
        return total

    def _dot_block(self, x: FloatArray) -> FloatArray:
        """The same where all rows lie in one block."""
        if not self.count:
            return np.zeros((len(x), 0))
        block, piece = self._blocks[0][: self.count], _SMALL_PRODUCT // max(1, x.size)
        if not _SMALL_ROWS <= piece < self.count:
            return x @ block.T
        products = np.empty((len(x), self.count))
        for start in range(0, self.count, piece):
            np.matmul(x, block[start : start + piece].T, out=products[:, start : start + piece])
        return products

    def combine(self, coefficients: FloatArray, *, first: int = 0, into: FloatArray | None = None) -> FloatArray:
        """Sums (m, width) of rows: ``coefficients @ stack[:n]`` for coefficients (m, n), added to `into` if given.

        Coefficients before the column `first` are left out.
        """
        m, n = coefficients.shape
        if 0 < n <= self._block_rows and len(self._panels) == 1:
            total = coefficients[:, first:] @ self._blocks[0][first:n]
            if into is None:
                return total
            into += total
            return into
        total = np.zeros((m, self.width)) if into is None else into

        def add(i: int) -> None:
            panel = self._panels[i]
            for place, block in self._filled(n):
                if place.stop > first:
                    total[:, panel] += coefficients[:, place] @ block[:, panel]

        self._run(add, len(self._panels))
        return total

    def remove(self, x: FloatArray) -> FloatArray:
        """Subtract from rows `x`, in place, what they hold of the orthonormal rows of the stack; gives how much."""
        along = self.dot(x)
        if self.count:
            self.combine(-along, into=x)
        return along

    def array(self) -> FloatArray:
        """All rows, copied."""
        return np.concatenate([np.empty((0, self.width)), *(block for _, block in self._filled(self.count))])


def split_off(probes: RowStack, x: FloatArray, m: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Split the first `m` rows of `x` into a part in the span of orthonormal probes and a part beyond: x = c P + R' e.

    The rows e are orthonormal and orthogonal to the probes; a row of `x` that adds nothing leaves no row in e. All is
    done twice, between the rows as well where they are alike: what is left of a nearly dependent row is small, and
    rounding is not. Of the rows of `x` after the first `m` the probes are taken once, in place, which shares a pass.
    """
    sizes = [math.sqrt(row @ row) for row in x[:m]]
    c = probes.remove(x)[:m]
    e, R, unlike = _orthonormalize(x[:m], sizes)
    if len(e):
        along = probes.remove(e)
        c += R.T @ along
        if not unlike or np.vdot(along, along) > _UNFELT:
            e, again, _ = _orthonormalize(e, [0.0] * len(e))
            R = again @ R
    return c, e, R


def _orthonormalize(x: FloatArray, sizes: list[float]) -> tuple[FloatArray, FloatArray, bool]:
    """Orthonormal rows e and R with ``x = R' e``, overwriting `x`, by Gram-Schmidt.

    What is left of a row counts as rounding below 1e-13 of its original size. The last result says that every row kept
    half of its length or more, so that e is orthonormal to rounding.
    """
    R = np.zeros((len(x), len(x)))
    kept, unlike = 0, True
    for j, row in enumerate(x):
        taken = 0.0
        if kept:
            along = x[:kept] @ row
            row -= along @ x[:kept]
            R[:kept, j] = along
            taken = along @ along
        norm = math.sqrt(row @ row)
        unlike &= 3 * norm * norm > taken
        if norm > _DEPENDENT * sizes[j]:
            np.divide(row, norm, out=x[kept])
            R[kept, j] = norm
            kept += 1
    return x[:kept], R[:kept], unlike
