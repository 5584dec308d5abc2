r"""Centred Gram matrix of a table in one pass, float64, stable, in blocks.

A block with b rows, mean x̄_b and centred Gram G_b is merged into a running (n, x̄, G) by Chan, Golub and
LeVeque's update

.. math:: G \leftarrow G + G_b + \frac{n b}{n + b} (x̄_b − x̄)(x̄_b − x̄)^\top,

so that nothing is ever computed as a difference of large sums: a mean a million times the standard deviation
costs no digits. The rank-b update is one BLAS ``dsyrk``, half the work of a matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dsyrk

from spikepool.data.blocks import BlockSource
from spikepool.errors import NonFiniteError
from spikepool.kit.arrays import FloatArray


@dataclass
class Moments:
    """Number of rows, their mean and their centred Gram matrix (lower triangle), as running sums.

    Attributes
    ----------
    n : int
    mean : ndarray of shape (d,)
    lower : ndarray of shape (d, d)
        Lower triangle of the sum over rows of (x − mean)(x − mean)', Fortran order; the upper triangle is zero.
    """

    n: int
    mean: FloatArray
    lower: FloatArray

    @classmethod
    def zero(cls, d: int) -> Moments:
        """No rows yet."""
        return cls(0, np.zeros(d), np.zeros((d, d), order="F"))

    def add(self, block: FloatArray) -> None:
        """Merge a (b, d) block of rows; `block` is overwritten."""
        b = len(block)
        if b == 0:
            return
        with _overflow_is_reported_later():
            mean = block.mean(axis=0)
            block -= mean
            self.lower = dsyrk(1.0, block.T, beta=1.0, c=self.lower, overwrite_c=1, lower=1)
            self._shift(b, mean)

    def merge(self, other: Moments) -> None:
        """Add the rows of `other`."""
        if other.n:
            with _overflow_is_reported_later():
                self.lower += other.lower
                self._shift(other.n, other.mean)

    def _shift(self, b: int, mean: FloatArray) -> None:
        step = mean - self.mean
        weight = self.n * b / (self.n + b)
        if weight:
            self.lower = dsyrk(weight, step[:, None], beta=1.0, c=self.lower, overwrite_c=1, lower=1)
        self.mean = self.mean + step * (b / (self.n + b))
        self.n += b

    def copy(self) -> Moments:
        """An independent copy."""
        return Moments(self.n, self.mean.copy(), self.lower.copy(order="F"))

    def uncentered(self) -> Moments:
        """The same rows with second moments about zero instead of the mean."""
        result = self.copy()
        result.lower = dsyrk(float(self.n), self.mean[:, None], beta=1.0, c=result.lower, overwrite_c=1, lower=1)
        result.mean = np.zeros_like(self.mean)
        return result

    def eigenvalues(self) -> FloatArray:
        """Eigenvalues of Gram/n, largest first, rounding below zero removed."""
        values = np.linalg.eigvalsh(self._finite() / self.n, UPLO="L")[::-1]
        return np.asarray(np.maximum(values, 0.0), dtype=np.float64)

    def eigenpairs(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues of Gram/n, largest first, and the matching eigenvectors as columns."""
        values, vectors = np.linalg.eigh(self._finite() / self.n, UPLO="L")
        return np.maximum(values[::-1], 0.0), vectors[:, ::-1]

    def leading(self, k: int) -> FloatArray:
        """Eigenvectors of the `k` largest eigenvalues as columns, largest first."""
        d = len(self.mean)
        if k == 0:
            return np.empty((d, 0))
        _, vectors = eigh(self._finite() / self.n, lower=True, subset_by_index=(d - k, d - 1), check_finite=False)
        return np.asarray(vectors[:, ::-1])

    def _finite(self) -> FloatArray:
        if not np.isfinite(self.lower).all():
            raise NonFiniteError(
                "the second moments of the table overflow double precision",
                remedy="Divide the table by its largest entry first",
            )
        return self.lower


def _overflow_is_reported_later() -> np.errstate:
    """Silence numpy's warnings; the eigenvalues of an overflown matrix raise a named error instead."""
    return np.errstate(over="ignore", invalid="ignore")


def stream_moments(source: BlockSource, rows: int | None = None) -> Moments:
    """Moments of all the rows of `source`, in one pass."""
    moments = Moments.zero(source.shape[1])
    for block in source.blocks(rows):
        moments.add(block)
    return moments
