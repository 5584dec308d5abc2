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
"""

from __future__ import annotations

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
