"""Block Krylov spaces of a symmetric operator, with full orthogonalisation.

Starting from a few vectors X the method builds an orthonormal basis Q of span{X, AX, A²X, ...} and the projection
H = Q'AQ. The extreme eigenvalues of H converge first, at a rate set by the square root of their distance to the rest.
What is special here: the direction u lies in the first block. The weight of a Ritz vector at u is then a Gauss
quadrature weight of the spectral measure of A at u, and converges like the Ritz values do: with the square of the
residual over the gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


# Logarithm of the error of what is wanted from a space over what is tolerated; not above 0 when done.
Excess = Callable[[KrylovSpace], float]


def krylov_space(
    apply: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    excess: Excess,
    *,
    max_dimension: int,
    first_look: int = 6,
) -> KrylovSpace:
    """One space, as in :func:`krylov_spaces`: `apply` gives A x for rows x (p, ·), starting with `start` (p, d)."""
    limits = {"max_dimension": max_dimension, "first_look": first_look}
    return krylov_spaces(lambda _, x: apply(x[0])[None], start[None], [excess], **limits)[0]


def krylov_spaces(
    apply: Callable[[Sequence[int], FloatArray], FloatArray],
    starts: FloatArray,
    excesses: Sequence[Excess],
    *,
    max_dimension: int,
    first_look: int = 6,
) -> list[KrylovSpace]:
    """Grow spaces of several operators side by side, each until its excess is gone, it is invariant or full.

    Together they take the calls of one.

    Parameters
    ----------
    apply : callable
        ``apply(which, x)`` gives A x of the operators `which` for the rows of x (s, p, ·), each for its own. The result
        may have more coordinates than x: those of axes that were chosen on the way, in which every vector before had
        none.
    starts : numpy.ndarray of shape (s, p, d)
        Linearly independent starting vectors, as rows.
    excesses : list of callables
        What is asked of each space. It falls about linearly with the steps, and is computed where the line through its
        last two values reaches 0.
    max_dimension : int
        Of a space; not more than the size of A.
    first_look : int
        Steps before the first look at a space.
    """
    p, width = starts.shape[1:]
    spaces: list[KrylovSpace] = [None] * len(starts)  # type: ignore[list-item]
    growing = list(range(len(starts)))
    looks, next_look = [[(0, math.inf)] for _ in growing], [first_look for _ in growing]
    room = np.zeros((len(starts), max(p, min(max_dimension, 32 * p)), width))
    basis = room
    H = np.zeros((len(starts), room.shape[1], room.shape[1]))
    basis[:, :p], R = _orthonormal_rows(starts)
    n, steps, size = p, 0, np.zeros(len(starts))
    while True:
        block = apply(growing, basis[:, n - p : n])
        if block.shape[2] > width:
            width = block.shape[2]
            if width > room.shape[2]:
                room = np.concatenate([room, np.zeros((*room.shape[:2], 2 * width))], axis=2)
            basis = room[:, :, :width]
        # A maps a block to itself and its two neighbours; the pass over all removes what rounding left
        recent = basis[:, max(n - 2 * p, 0) : n]
        along = block @ recent.swapaxes(1, 2)
        block -= along @ recent
        coefficients = block @ basis[:, :n].swapaxes(1, 2)
        block -= coefficients @ basis[:, :n]
        coefficients[:, :, -along.shape[2] :] += along
        H[:, n - p : n, :n] = coefficients
        H[:, :n, n - p : n] = coefficients.swapaxes(1, 2)
        steps += 1
        size = np.maximum(size, np.sqrt(np.einsum("sij,sij->s", coefficients, coefficients)))
        following, coupling = _orthonormal_rows(block)
        broken = np.diagonal(coupling, axis1=1, axis2=2).min(axis=1) <= _BREAKDOWN * size
        full = n + p > max_dimension
        going = []
        for i, which in enumerate(growing):
            last = full or bool(broken[i])
            if last or steps >= next_look[which]:
                corner = H[i, :n, :n]
                corner[n - p :, n - p :] = (corner[n - p :, n - p :] + corner[n - p :, n - p :].T) / 2
                coordinates = np.zeros((n, p))
                coordinates[:p] = R[i]
                ahead = np.zeros((p, p)) if broken[i] else coupling[i]
                spaces[which] = KrylovSpace(corner, coordinates, ahead, steps, basis[i, :n])
                looks[which].append((steps, excesses[which](spaces[which])))
                if last or looks[which][-1][1] <= 0:
                    continue
                next_look[which] = _next_look(looks[which])
            going.append(i)
        if not going:
            return spaces
        if len(going) < len(growing):
            growing = [growing[i] for i in going]
            room, H, R, size, following = room[going], H[going], R[going], size[going], following[going]
            basis = room[:, :, :width]
        if n + p > room.shape[1]:
            more = min(max_dimension, 2 * room.shape[1]) - room.shape[1]
            room = np.concatenate([room, np.zeros((len(room), more, room.shape[2]))], axis=1)
            basis = room[:, :, :width]
            H = np.pad(H, ((0, 0), (0, more), (0, more)))
        basis[:, n : n + p] = following
        n += p


def _next_look(looks: list[tuple[int, float]]) -> int:
    """Step at which the line through the last two looks reaches 0, at most half as many steps further on."""
    (before, first), (now, last) = looks[-2:]
    reach = now + max(2, now // 2)
    if not (math.isfinite(first) and math.isfinite(last) and last < first):
        # the first of all: edges of bulks lose up to 1.5 per step
        return min(reach, now + (4 if math.isinf(last) else min(4, math.ceil(last / 1.5))))
    return min(reach, now + max(1, math.ceil(last * (now - before) / (first - last))))


def _orthonormal_rows(blocks: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Orthonormal rows B and upper triangular R with ``block.T = B.T R``, for each block (p, d) of several."""
    # Gram-Schmidt by hand: a call of LAPACK costs several times as much for the one or two rows there are
    B, R = blocks.copy(), np.zeros((len(blocks), blocks.shape[1], blocks.shape[1]))
    for j in range(blocks.shape[1]):
        row, before = B[:, j], B[:, :j]
        left = np.einsum("sd,sd->s", row, row)
        for _ in range(3 if j else 0):  # a second pass where the first leaves less than half
            along = before @ row[:, :, None]
            row -= (along.swapaxes(1, 2) @ before)[:, 0]
            R[:, :j, j] += along[:, :, 0]
            left = np.einsum("sd,sd->s", row, row)
            if (3 * left >= np.einsum("sji,sji->s", along, along)).all():
                break
        R[:, j, j] = norm = np.sqrt(left)
        row /= (norm + (norm == 0))[:, None]
    return B, R
