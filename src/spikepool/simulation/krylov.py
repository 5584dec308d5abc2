"""Block Krylov spaces of a symmetric operator, with full orthogonalisation.

Starting from a few vectors X the method builds an orthonormal basis Q of span{X, AX, A²X, ...} and the projection
H = Q'AQ. The extreme eigenvalues of H converge first, at a rate set by the square root of their distance to the rest.
What is special here: the direction u lies in the first block. The weight of a Ritz vector at u is then a Gauss
quadrature weight of the spectral measure of A at u, and converges like the Ritz values do: with the square of the
residual over the gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from spikepool.kit.arrays import FloatArray

# A new block whose norm falls below this fraction of the operator's size has left the space invariant.
_BREAKDOWN = 1e-12


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
    basis : numpy.ndarray of shape (n, d)
        Q', its rows orthonormal.
    """

    projected: FloatArray
    start: FloatArray
    coupling: FloatArray
    steps: int
    basis: FloatArray

    @property
    def invariant(self) -> bool:
        """Whether the space cannot grow."""
        return not self.coupling.any()


R = TypeVar("R")

# Asks for A x of rows x, is sent it, and ends with a result.
Search = Generator[FloatArray, FloatArray, R]


def answered(search: Search[R], apply: Callable[[FloatArray], FloatArray]) -> R:
    """The result of a search whose products `apply` gives."""
    try:
        block = next(search)
        while True:
            block = search.send(apply(block))
    except StopIteration as end:
        result: R = end.value
        return result


def krylov_space(
    apply: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    excess: Callable[[KrylovSpace], float],
    *,
    max_dimension: int,
    first_look: int = 6,
) -> KrylovSpace:
    """Grow a space as in :func:`growing_space`, with `apply` for its products."""
    growing = growing_space(start, excess, max_dimension=max_dimension, first_look=first_look)
    return answered(growing, apply)


def growing_space(
    start: FloatArray,
    excess: Callable[[KrylovSpace], float],
    *,
    max_dimension: int,
    first_look: int = 6,
) -> Search[KrylovSpace]:
    """Grow the space until its `excess` is gone, it is invariant, or it has `max_dimension`.

    It yields rows x (p, ·) and is sent the rows A x, so that the products of several spaces can be taken together.
    What is sent may have more coordinates than x: those of axes that were chosen on the way, in which every
    vector before had none.

    Parameters
    ----------
    start : numpy.ndarray of shape (p, d)
        Linearly independent starting vectors, as rows.
    excess : callable
        Logarithm of the error of what is wanted from a space over what is tolerated; not above 0 when done. It falls
        about linearly with the steps, and is computed where the line through its last two values reaches 0.
    max_dimension : int
        Of the space; not more than the size of A.
    first_look : int
        Steps before the first look at the space.
    """
    p, width = start.shape
    capacity = max_dimension
    room = np.zeros((max(p, min(capacity, 32 * p)), width))
    basis = room
    H = np.zeros((len(basis), len(basis)))
    basis[:p], R = _orthonormal_rows(start)
    n, steps, size = p, 0, 0.0
    next_look, looks = first_look, [(0, math.inf)]
    while True:
        block = yield basis[n - p : n]
        if block.shape[1] > width:
            width = block.shape[1]
            if width > room.shape[1]:
                room = np.concatenate([room, np.zeros((len(room), 2 * width))], axis=1)
            basis = room[:, :width]
        # A maps a block to itself and its two neighbours; the pass over all removes what rounding left
        recent = max(n - 2 * p, 0)
        along = block @ basis[recent:n].T
        block -= along @ basis[recent:n]
        coefficients = block @ basis[:n].T
        block -= coefficients @ basis[:n]
        coefficients[:, recent:] += along
        size = max(size, math.sqrt(np.vdot(coefficients, coefficients)))
        H[n - p : n, :n] = coefficients
        H[:n, n - p : n] = coefficients.T
        steps += 1
        following, coupling = _orthonormal_rows(block)
        exhausted = n + p > capacity
        broken = min(coupling.diagonal()) <= _BREAKDOWN * size
        if exhausted or broken or steps >= next_look:
            corner = H[:n, :n]
            corner[n - p :, n - p :] = (corner[n - p :, n - p :] + corner[n - p :, n - p :].T) / 2
            coordinates = np.zeros((n, p))
            coordinates[:p] = R
            ahead = np.zeros((p, p)) if broken else coupling
            space = KrylovSpace(corner, coordinates, ahead, steps, basis[:n])
            looks.append((steps, excess(space)))
            if exhausted or broken or looks[-1][1] <= 0:
                return space
            next_look = _next_look(looks)
        if n + p > len(basis):
            larger = min(capacity, 2 * len(room))
            room = np.concatenate([room, np.zeros((larger - len(room), room.shape[1]))])
            basis = room[:, :width]
            H = np.pad(H, (0, larger - len(H)))
        basis[n : n + p] = following
        n += p


def _next_look(looks: list[tuple[int, float]]) -> int:
    """Step at which the line through the last two looks reaches 0, at most half as many steps further on."""
    (before, first), (now, last) = looks[-2:]
    reach = now + max(2, now // 2)
    if not (math.isfinite(first) and math.isfinite(last) and last < first):
        # the first of all: edges of bulks lose up to 1.5 in a step
        return min(reach, now + (4 if math.isinf(last) else min(4, math.ceil(last / 1.5))))
    return min(reach, now + max(1, math.ceil(last * (now - before) / (first - last))))


def _orthonormal_rows(block: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Orthonormal rows B and upper triangular R with ``block.T = B.T R``."""
    # Gram-Schmidt by hand: a call of LAPACK costs several times as much for the one or two rows there are
    B, R = block.copy(), np.zeros((len(block), len(block)))
    for j, row in enumerate(B):
        left = row @ row
        for _ in range(3 if j else 0):
            along = B[:j] @ row
            row -= along @ B[:j]
            R[:j, j] += along
            left = row @ row
            if 3 * left >= along @ along:  # else another pass removes what rounding left of this one
                break
        R[j, j] = norm = math.sqrt(left)
        if norm:
            row /= norm
    return B, R
