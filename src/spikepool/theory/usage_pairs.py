"""Eigenpairs of the usage that are known one by one, and how they are found when it is too large to be diagonalised.

An eigenvalue of M that leaves the bulk of the others is a direction of its own (a heavy token, the mean, the classes of
a finite table): the separable equations take it out of the law of M as a pole. Lanczos quadrature does not show it, its
nodes being weighted by chance, so the largest eigenpairs are computed, each with its residual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from spikepool.kit.arrays import FloatArray
from spikepool.laws.measures import krylov_basis

Apply = Callable[[FloatArray], FloatArray]

# Eigenpairs kept one by one: more than the spikes and one group of them that usage_spectrum looks for.
TOP = 40
# Vectors of a block: equal eigenvalues are all seen up to this many (one more than are taken for spikes of their own).
_BLOCK = 5
# Products with a block; a pair 2 % beyond the rest of the spectrum has converged by then (Chebyshev's bound).
_STEPS = 64
# Residual, relative to the eigenvalue, at which a pair counts as found: its eigenvalue is then off by its square.
_RESIDUAL = 1e-7
# Eigenvalues closer than this, relative to their size, are copies of one.
_EQUAL = 1e-9
# What is this small against the operator is rounding.
_EXHAUSTED = 1e-11


@dataclass(frozen=True)
class TopPairs:
    """The largest eigenvalues of M = B B', descending, with what the signal and the mean hold of each.

    Attributes
    ----------
    values : numpy.ndarray of shape (k,)
        Eigenvalues t_i.
    vectors : numpy.ndarray of shape (V, k)
        Unit eigenvectors x_i in the space of tokens; the right singular vectors of B are v_i = B'x_i/sqrt(t_i).
    signal : numpy.ndarray of shape (k,)
        v_i'b, the coordinate of the pooled latents.
    mean : numpy.ndarray of shape (k,)
        Squared cosine of v_i with the vector of ones; zero when the sequences are centred.
    """

    values: FloatArray
    vectors: FloatArray
    signal: FloatArray
    mean: FloatArray

    def __len__(self) -> int:
        return len(self.values)


def converged_pairs(
    apply: Apply, size: int, rng: np.random.Generator, start: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Largest eigenpairs of a PSD operator that a block Krylov space finds: values descending, vectors as columns.

    The pairs end at the first one whose residual is not small, and before the first that has as many copies as the
    block is wide: after these lies a dense part of the spectrum, where none stands alone.

    Parameters
    ----------
    apply : callable
        x -> M x.
    size : int
        Length of x.
    rng : numpy.random.Generator
        Of the first block.
    start : numpy.ndarray of shape (size,), optional
        A vector whose directions matter: takes the place of one random vector.
    """
    width = min(_BLOCK, size)
    block = rng.standard_normal((size, width))
    if start is not None and start.any():
        block[:, 0] = start / np.linalg.norm(start) * np.sqrt(size)
    fresh = np.linalg.qr(block)[0]
    basis, projected = krylov_basis(apply, fresh.T, min(_STEPS * width, size), _EXHAUSTED)
    values, weights = eigh(projected)
    keep = slice(None, -TOP - 1, -1)
    values, vectors = values[keep], basis.T @ weights[:, keep]
    images = np.column_stack([apply(x) for x in vectors.T])
    residual = np.linalg.norm(images - vectors * values, axis=0)
    copies = (np.abs(values - values[:, None]) <= _EQUAL * values[:, None]).sum(axis=1)
    good = (residual <= _RESIDUAL * values) & (values > _EXHAUSTED * values[0]) & (copies < width)
    count = len(good) if good.all() else int(np.argmin(good))
    return values[:count], vectors[:, :count]
