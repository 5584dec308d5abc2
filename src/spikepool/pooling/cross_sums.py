"""Sums over rows of c_s Y_t: what centring needs from rows whose labels do not all have exactly one token."""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import FloatArray


class CrossSums:
    """Sum over rows n of c_ns Y_nt, a (P, P, d) array, for token counts c (P,) and token sums Y (P, d) of a row.

    Multiplied out row by row it costs P²·d a row. But padding at the end of rows leaves as many different c as there
    are lengths: rows of one c are added to each other, P·d a row, and c enters only when the sums are read. Rows
    that find no free slot (tokens missing at random) are multiplied out.

    Parameters
    ----------
    P, d : int
        Number of position labels and of features.
    slots : int
        Number of different c with sums of their own.
    """

    def __init__(self, P: int, d: int, slots: int) -> None:
        self.P, self.d, self.slots = P, d, slots
        self._slot: dict[bytes, int] = {}
        self._counts: list[FloatArray] = []  # c of each slot
        self._sums: list[FloatArray] = []  # sum of Y of each slot
        self._products: FloatArray | None = None  # sum of c_s Y_t over the other rows, (s, t, d)

    def add(self, c: FloatArray, Y: FloatArray) -> None:
        """Add rows: token counts (m, P) and token sums (P, m, d)."""
        different, group = np.unique(c, axis=0, return_inverse=True)
        slot = np.array([self._slot_of(row) for row in different])[group.reshape(-1)]
        for i in np.unique(slot[slot >= 0]):
            self._sums[i] += Y[:, slot == i].sum(axis=1)
        rest = slot < 0
        if rest.any():
            self._multiply_out(c[rest], Y[:, rest])

    def _multiply_out(self, c: FloatArray, Y: FloatArray) -> None:
        part = Y.swapaxes(0, 1).reshape(-1, self.P * self.d)
        product = (c.T @ part).reshape(self.P, self.P, self.d)
        self._products = product if self._products is None else np.add(self._products, product, out=product)

    def merge(self, other: CrossSums) -> None:
        """Add the rows of `other`; its groups that find no free slot here are multiplied out."""
        for c, sums in zip(other._counts, other._sums, strict=True):
            slot = self._slot_of(c)
            if slot >= 0:
                self._sums[slot] += sums
            else:
                self._multiply_out(c[None], sums[:, None])
        if other._products is not None:
            self._products = other._products.copy() if self._products is None else self._products + other._products

    def _slot_of(self, c: FloatArray) -> int:
        """Number of the slot of `c`, a new one while there are any; −1 when there is none."""
        key = c.tobytes()
        if key not in self._slot:
            if len(self._slot) >= self.slots:
                return -1
            self._slot[key] = len(self._slot)
            self._counts.append(c.copy())
            self._sums.append(np.zeros((self.P, self.d)))
        return self._slot[key]

    def with_means(self, means: FloatArray) -> FloatArray:
        """Inner products <sum c_s Y_t, m_s> with the means (P, d), as a matrix (t, s)."""
        found = np.zeros((self.P, self.P))
        for c, sums in zip(self._counts, self._sums, strict=True):
            found += (sums @ means.T) * c
        if self._products is not None:
            found += np.einsum("std,sd->ts", self._products, means)
        return found
