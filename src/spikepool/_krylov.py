"""Block Krylov spaces of a symmetric operator, with full orthogonalisation.

Starting from a few vectors X the method builds an orthonormal basis Q of span{X, AX, A²X, ...} and the projection
H = Q'AQ. The extreme eigenvalues of H converge first, at a rate set by the square root of their distance to the rest.
What is special here: the direction u lies in the first block. The weight of a Ritz vector at u is then a Gauss
quadrature weight of the spectral measure of A at u, and converges like the Ritz values do: with the square of the
residual over the gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# A new block whose norm falls below this fraction of the operator's size has left the space invariant.
_BREAKDOWN = 1e-12

# Steps before the first look at the space.
_FIRST_LOOK = 6


@dataclass(frozen=True)
class KrylovSpace:
    """A basis, the projected operator and its coupling to the next block.

    Attributes
    ----------
    projected : numpy.ndarray of shape (n, n)
        H = Q'AQ.
    start : numpy.ndarray of shape (n, p)
        Coordinates of the starting vectors.
    coupling : numpy.ndarray of shape (p, p)
        A Q − Q H is zero but for the last block, where it is the next block times this matrix; zeros when the
        space is invariant.
    steps : int
        Applications of A to a block.
    """

    projected: FloatArray
    start: FloatArray
    coupling: FloatArray
    steps: int

    @property
    def invariant(self) -> bool:
        """Whether the space cannot grow."""
        return not self.coupling.any()


def krylov_spaces(
    apply: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    finished: Callable[[KrylovSpace], bool],
    *,
    max_dimension: int,
) -> KrylovSpace:
    """Grow the space until `finished` says so, it is invariant, or it has `max_dimension`.

    Parameters
    ----------
    apply : callable
        x -> A x for a vector of length d.
    start : numpy.ndarray of shape (p, d)
        Linearly independent starting vectors, as rows.
    finished : callable
        Looks at the space from time to time, at ever larger intervals.
    max_dimension : int
        Of the space; never more than d.
    """
    p, d = start.shape
    capacity = min(max_dimension, d)
    basis = np.empty((min(capacity, 32 * p), d))
    H = np.zeros((len(basis), len(basis)))
    basis[:p], R = _orthonormal_rows(start)
    n, steps, size, next_look = p, 0, 0.0, _FIRST_LOOK
    space = KrylovSpace(H[:0, :0], np.zeros((0, p)), np.zeros((p, p)), 0)
    while True:
        block = np.stack([apply(row) for row in basis[n - p : n]])
        size = max(size, float(np.abs(block).max()))
        # twice is enough: the second pass removes what rounding left of the first
        coefficients = block @ basis[:n].T
        block -= coefficients @ basis[:n]
        correction = block @ basis[:n].T
        block -= correction @ basis[:n]
        coefficients += correction
        H[n - p : n, :n] = coefficients
        H[:n, n - p : n] = coefficients.T
        steps += 1
        following, coupling = _orthonormal_rows(block)
        exhausted = n + p > capacity
        broken = float(np.abs(np.diag(coupling)).min()) <= _BREAKDOWN * size
        if exhausted or broken or steps >= next_look:
            next_look = max(steps + 2, int(1.2 * steps))
            corner = H[:n, :n]
            corner[n - p :, n - p :] = (corner[n - p :, n - p :] + corner[n - p :, n - p :].T) / 2
            coordinates = np.zeros((n, p))
            coordinates[:p] = R
            space = KrylovSpace(corner, coordinates, np.zeros((p, p)) if broken else coupling, steps)
            if exhausted or broken or finished(space):
                return space
        if n + p > len(basis):
            larger = min(capacity, 2 * len(basis))
            basis = np.concatenate([basis, np.empty((larger - len(basis), d))])
            H = np.pad(H, (0, larger - len(H)))
        basis[n : n + p] = following
        n += p


def _orthonormal_rows(block: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Orthonormal rows B and upper triangular R with ``block.T = B.T R``."""
    if len(block) == 1:
        norm = float(np.linalg.norm(block))
        return (block / norm if norm else block), np.array([[norm]])
    Q, R = np.linalg.qr(block.T)
    return Q.T, R
