"""A Gaussian matrix that is never drawn: its products, exactly in law, as they are asked for.

Z is d x V with independent N(0, 1) entries. Let P (V x p) be orthonormal right probes with Z P = A known, and Q (d x
q) orthonormal left probes with Z'Q = B known. Given A and B, what is not yet known of Z is (I − QQ') Z (I − PP'), and
it is independent of them and Gaussian as before (rotate both sides so that the probes are coordinate axes: known are
the first q rows and p columns of a matrix of independent entries). So for a new v, split v = P c + r e with e a unit
vector orthogonal to P:

    Z e = Q (B'e) + (I − QQ') g,    g ~ N(0, I_d) fresh,        Z v = A c + r Z e,

exactly in law given everything seen so far, although v may depend on it. Then e joins P, and Z e joins A. Left products
are the same with the roles exchanged. A product costs O((d + V)(p + q)) instead of O(d V).

Probes are orthogonalised twice: once leaves an error of rounding times ‖v‖/r.

A Gaussian table that is never drawn, in coordinates chosen as it goes: nothing of length d is held.

The noise of an isotropic table looks the same in any orthonormal basis of R^d. Let the hidden direction be the first
axis, and let each product Z v that leaves the span of the axes so far choose the next axis along what is new of it.
Then every image known so far lies in that span, A = Q(Q'A), and of the lazy products
(:mod:`spikepool.simulation.lazy_gaussian`) only this is left: with B = Z'Q the rows of the table along the axes, P
the right probes, and v = P c + r e,

    Z v = Q (B'v) + r s q,     s² ~ chi²(d − #axes) fresh,       q the new axis,
    Z'q = s e + (I − PP' − ee') h,     h ~ N(0, I_V) fresh,      the table's row along it.

For a block of vectors r e becomes E R and s the triangular factor of a Gaussian (d − #axes) x m matrix, which has
independent entries: N(0, 1) above the diagonal, chi on it (Bartlett). The cost of a product is O(V (p + q)), and d
enters through the degrees of freedom of chi alone.
"""

from __future__ import annotations

import math

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.kit.threads import Map, serial_map
from spikepool.simulation.row_stack import RowStack, split_off


class LazyGaussian:
    """Products with a (d x V) matrix Z of independent N(0, 1) entries that is not drawn.

    Vectors are rows of blocks, so that several share the passes over the probes.

    Parameters
    ----------
    d, V : int
        Shape of Z.
    rng : numpy.random.Generator
        Source of what is fresh in each product; the order of the products is part of what a seed means.
    run : Map
        Threads for large products; they do not change a bit.
    """

    def __init__(self, d: int, V: int, rng: np.random.Generator, *, run: Map = serial_map) -> None:
        self.d, self.V = d, V
        self._rng = rng
        # P' with A', and Q' with B'
        self._right, self._right_images = RowStack(V, run=run), RowStack(d, run=run)
        self._left, self._left_images = RowStack(d, run=run), RowStack(V, run=run)
        self._dense: FloatArray | None = None

    def forward(self, v: FloatArray) -> FloatArray:
        """Z v for each row of `v` (m, V): rows (m, d)."""
        if self._dense is not None:
            return v @ self._dense
        return self._product(v, self._right, self._right_images, self._left, self._left_images)

    def adjoint(self, x: FloatArray) -> FloatArray:
        """Z'x for each row of `x` (m, d): rows (m, V)."""
        if self._dense is not None:
            return x @ self._dense.T
        return self._product(x, self._left, self._left_images, self._right, self._right_images)

    def random_direction(self) -> FloatArray:
        """A unit vector of length d, uniform on the sphere and independent of what is known of Z."""
        x = self._rng.standard_normal(self.d)
        return np.asarray(x / np.linalg.norm(x))

    def _product(
        self, v: FloatArray, probes: RowStack, images: RowStack, others: RowStack, other_images: RowStack
    ) -> FloatArray:
        c, e, r = split_off(probes, np.array(v), len(v))
        result = images.combine(c)
        if len(e):
            image = self._rng.standard_normal((len(e), images.width))
            others.remove(image)
            others.combine(other_images.dot(e), into=image)
            probes.append(e)
            images.append(image)
            result += r.T @ image
        return result

    def to_dense(self) -> FloatArray:
        """Z' (V, d), completed with fresh numbers where no product has touched it; later products are its own.

        Z = Q B' + (I − QQ') A P' + (I − QQ') G (I − PP') with G fresh.
        """
        if self._dense is None:
            P, Q = self._right.array(), self._left.array()
            A, B = self._right_images.array(), self._left_images.array()
            table = self._rng.standard_normal((self.V, self.d))
            table -= P.T @ (P @ table)
            table += P.T @ A
            table -= (table @ Q.T) @ Q
            table += B.T @ Q
            self._dense = table
        return self._dense


# A coordinate of a unit vector below this is rounding.
_NO_COORDINATE = 1e-14


class RotatedTable:
    """Products with a (d x V) matrix Z of independent N(0, 1) entries, in rotated axes.

    Vectors on the left are given by their coordinates in the axes chosen so far, as rows; the number of coordinates
    grows with the products, and missing ones are zero.

    Parameters
    ----------
    d, V : int
        Shape of Z.
    rng : numpy.random.Generator
        Source of what is fresh in each product.
    run : Map
        Threads for large products; they do not change a bit.
    """

    def __init__(self, d: int, V: int, rng: np.random.Generator, *, run: Map = serial_map) -> None:
        self.d, self.V = d, V
        self._rng = rng
        self._probes = RowStack(V, run=run)
        self._rows = RowStack(V, run=run)

    @property
    def axes(self) -> int:
        """Number of axes so far."""
        return self._rows.count

    def new_axis(self) -> FloatArray:
        """Coordinates of a unit vector orthogonal to all axes so far, independent of what is known of Z."""
        row = self._rng.standard_normal((1, self.V))
        self._probes.remove(row)
        self._rows.append(row)
        axis = np.zeros(self.axes)
        axis[-1] = 1.0
        return axis

    def random_direction(self) -> FloatArray:
        """Coordinates of a unit vector that is uniform on the sphere and independent of what is known of Z."""
        inside = self._rng.standard_normal(self.axes)
        if self.axes == self.d:
            return inside / np.linalg.norm(inside)
        outside = math.sqrt(self._rng.chisquare(self.d - self.axes))
        x = outside * self.new_axis()
        x[: len(inside)] = inside
        return np.asarray(x / np.linalg.norm(x))

    def adjoint(self, x: FloatArray) -> FloatArray:
        """Z'x for each row of coordinates `x` (m, at most `axes`): rows (m, V)."""
        # the first Krylov space of a table follows its axes, so that x has no more than the last few
        held = np.abs(x).max(axis=0) > _NO_COORDINATE
        return self._rows.combine(x, first=int(held.argmax()))

    def forward(self, v: FloatArray) -> FloatArray:
        """Coordinates of Z v for each row of `v` (m, V): rows (m, `axes`), with up to m axes more than before."""
        known = self._rows.dot(v)
        freedom = self.d - self.axes
        if freedom == 0:
            return known
        m = len(v)
        x = np.empty((m + min(m, freedom), self.V))
        x[:m] = v
        self._rng.standard_normal(out=x[m:])
        _, e, R = split_off(self._probes, x, m)
        rows = x[m:][: len(e)]  # fewer than e only when they exhaust R^d
        fresh = len(rows)
        s = self._triangle(freedom, fresh, len(e))
        rows -= (rows @ e.T) @ e
        rows += s @ e
        self._probes.append(e)
        self._rows.append(rows)
        return np.concatenate([known, (s @ R).T], axis=1)

    def _triangle(self, freedom: int, rows: int, columns: int) -> FloatArray:
        """Triangular factor (rows, columns) of a (freedom x columns) matrix of independent N(0, 1) entries."""
        s = np.zeros((rows, columns))
        for i in range(rows):
            s[i, i] = math.sqrt(self._rng.chisquare(freedom - i))
            if i + 1 < columns:
                s[i, i + 1 :] = self._rng.standard_normal(columns - i - 1)
        return s

    def to_dense(self) -> FloatArray:
        """Z' (V, d) in the axes so far and others that complete them; later products are its own."""
        rest = self._rng.standard_normal((self.d - self.axes, self.V))
        self._probes.remove(rest)
        self._rows.append(rest)
        return self._rows.array().T

    def turned(self, first: FloatArray) -> FloatArray:
        """Z' (V, d) in coordinates that have nothing to do with its products: entries independent and N(0, 1).

        The axes were chosen by the products; which way they point is still free. The first ones are laid along the
        orthonormal rows of `first` (f, d), the others uniformly at random.
        """
        free = self._rng.standard_normal((self.d, self.d - len(first)))
        frame, R = np.linalg.qr(np.concatenate([first.T, free], axis=1))
        frame *= np.where(np.diag(R) < 0, -1.0, 1.0)  # Haar measure needs a positive diagonal
        return np.asarray(self.to_dense() @ frame.T)
