r"""Centred Gram matrix of a table in one pass, float64, stable, in blocks.

A block with b rows, mean x̄_b and centred Gram G_b is merged into a running (n, x̄, G) by Chan, Golub and
LeVeque's update

.. math:: G \leftarrow G + G_b + \frac{n b}{n + b} (x̄_b − x̄)(x̄_b − x̄)^\top,

so that nothing is ever computed as a difference of large sums: a mean a million times the standard deviation
costs no digits. The rank-b update is one BLAS ``dsyrk``, half the work of a matrix product.

The same pass gives the moments of two random halves of the rows. A second pass gives the norms of the rows, and how
much of the outlying directions rests on a few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dsyrk

from spikepool.data.table_input import Table
from spikepool.errors import InvalidInputError, NonFiniteError, ShapeError
from spikepool.kit.arrays import BoolArray, FloatArray


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


class RowCoins:
    """A fair coin for every row number: the same whatever chunk the row comes in.

    The coins are those that `rng` would throw row by row, and are taken from it, where it can skip ahead.
    """

    def __init__(self, rng: np.random.Generator, rows: int) -> None:
        generator = rng.bit_generator
        if isinstance(generator, np.random.PCG64):
            self._state = generator.state
            generator.advance(rows)
        else:
            self._state = np.random.PCG64(int(rng.integers(1 << 63))).state

    def __call__(self, start: int, count: int) -> BoolArray:
        """Coins of the rows from `start` on."""
        generator = np.random.PCG64()
        generator.state = self._state
        generator.advance(start)
        return np.asarray(np.random.Generator(generator).random(count) < 0.5)


def half_moments(source: Table, rng: np.random.Generator, *, split: bool = True) -> tuple[Moments, Moments]:
    """Moments of two random halves of the rows of `source`, in one pass; without `split` the first has all rows."""
    V, d = source.shape
    coins = RowCoins(rng, V) if split else None
    halves = Moments.zero(d), Moments.zero(d)
    start = 0
    for block in source.blocks():
        if coins is None:
            halves[0].add(block)
        else:
            first = coins(start, len(block))
            halves[0].add(block[first])
            halves[1].add(block[~first])
        start += len(block)
    return halves


@dataclass(frozen=True)
class InfluentialRow:
    """A row that carries much of an outlying direction.

    Attributes
    ----------
    row : int
        Token id.
    token : str or None
        Its name, when a tokenizer was given.
    direction : int
        Which eigenvector it weighs on most, from 1.
    share : float
        Its share of that eigenvalue, (u'x)²/(V λ); 1/V on average.
    norm : float
        Norm of the centred row.
    """

    row: int
    token: str | None
    direction: int
    share: float
    norm: float


def scan_rows(
    source: Table, mean: FloatArray, directions: FloatArray, eigenvalues: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(norms of the centred rows, shares (V, k) of each row in each eigenvalue)."""
    V = source.shape[0]
    norms = np.empty(V)
    shares = np.empty((V, directions.shape[1]))
    start = 0
    for block in source.blocks():
        block -= mean
        stop = start + len(block)
        norms[start:stop] = np.sqrt(np.einsum("ij,ij->i", block, block))
        shares[start:stop] = (block @ directions) ** 2 / (V * eigenvalues)
        start = stop
    return norms, shares


def heaviest(
    norms: FloatArray, shares: FloatArray, count: int, name: Callable[[int], str] | None
) -> list[InfluentialRow]:
    """The `count` rows with the largest share of any direction, heaviest first."""
    largest = shares.max(axis=1)
    order = np.argsort(-largest, kind="stable")[:count]
    return [
        InfluentialRow(
            int(row),
            name(int(row)) if name else None,
            int(shares[row].argmax()) + 1,
            float(largest[row]),
            float(norms[row]),
        )
        for row in order
    ]


def token_names(tokenizer: Any, V: int) -> Callable[[int], str] | None:
    """A function from token id to name, out of a tokenizer, names of V tokens or a function; None stays None."""
    if tokenizer is None:
        return None
    for method in ("id_to_token", "convert_ids_to_tokens"):
        if hasattr(tokenizer, method):
            return partial(_named, getattr(tokenizer, method))
    if callable(tokenizer):
        return partial(_named, tokenizer)
    if isinstance(tokenizer, (str, bytes)) or not hasattr(tokenizer, "__getitem__"):
        raise InvalidInputError(
            "tokenizer must turn a token id into a name",
            tokenizer,
            "Pass a tokenizer with id_to_token, a list of names or a function",
        )
    # before the table is read: a list that is too short would fail at the very end, on some tables only
    if hasattr(tokenizer, "__len__") and len(tokenizer) < V:
        raise ShapeError(
            f"tokenizer has {len(tokenizer)} names for the {V} rows of the table",
            tokenizer,
            "Pass one name per row, in the order of the rows; rows that pad the table need one too",
        )
    return partial(_named, tokenizer.__getitem__)


def _named(lookup: Callable[[int], Any], row: int) -> str:
    try:
        return str(lookup(row))
    except Exception as err:  # the caller's own code, which may raise anything
        raise InvalidInputError(
            f"tokenizer has no name for a row of the table ({type(err).__name__}: {err})",
            row,
            "Give every row a name, or leave the tokenizer out",
        ) from err
