"""Several attention heads (open problem iv of the paper): the best recombination of their pooled outputs.

Head h pools with weights w_h, rows of an (H, T) array. Recombining the pooled outputs with coefficients a gives the
representation of the weights w = sum_h a_h w_h, whose ratio

    alpha/kappa = a'(W R W')a / a'(W W')a,    W the (H, T) matrix of heads,

is largest at the top eigenvector of the pencil (W R W', W W'). It never exceeds lambda_max(R), and reaches it when
the heads span a top eigenvector of R.

Layers need nothing new: :func:`spikepool.causal_weights` with `layers` and `residual` gives the weights of a stack,
``w = ((1−r) A' + r I)^layers 1/T``, because each layer acts on positions only and the mean over rows is linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool import _validation as check
from spikepool.errors import NoOptimumError, ShapeError, WeightsError

FloatArray = NDArray[np.float64]

# Directions of the heads' span with a singular value below this (relative) are taken for linear dependence,
# eigenvalues closer than this (relative) for one repeated eigenvalue.
_RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class HeadMix:
    """A recombination of heads.

    Attributes
    ----------
    coefficients : ndarray of shape (H,)
        Coefficient of each head; the shortest vector that gives `weights` when heads are linearly dependent.
    weights : ndarray of shape (T,)
        The weights they make together, of unit sum.
    alpha, kappa : float
        Signal and noise gain of these weights.
    """

    coefficients: FloatArray
    weights: FloatArray
    alpha: float
    kappa: float

    @property
    def ratio(self) -> float:
        """alpha/kappa, on which detectability depends."""
        return self.alpha / self.kappa


def optimal_heads(heads: ArrayLike, R: ArrayLike) -> HeadMix:
    """The combination of `heads` with the largest alpha/kappa.

    Parameters
    ----------
    heads : array_like of shape (H, T)
        Weights of each head. They need not sum to one, but must be finite and not all zero.
    R : array_like of shape (T, T)
        Positional correlation.

    Raises
    ------
    NoOptimumError
        When every best combination sums to zero over positions, so that no weights of unit sum attain the
        supremum, which the error carries.
    """
    R = check.symmetric_psd(R, "R")
    W = check.finite_array(heads, "heads", ndim=2)
    if W.shape[1] != len(R):
        raise ShapeError(f"heads must have one column for each of the {len(R)} positions", W, "Pass (H, T)")
    # Orthonormal basis of the span of the heads: the pencil becomes an ordinary eigenproblem, also for dependent heads.
    _, sizes, basis = np.linalg.svd(W, full_matrices=False)
    if sizes[0] == 0:
        raise WeightsError("all heads are zero", W, "Pass at least one head with non-zero weights")
    basis = basis[sizes > _RANK_TOLERANCE * sizes[0]]
    values, vectors = np.linalg.eigh(basis @ R @ basis.T)
    top = vectors[:, values >= values[-1] - _RANK_TOLERANCE * max(abs(values[-1]), 1.0) * len(values)]
    space = top.T @ basis  # orthonormal rows that span the best weights
    sums = space.sum(axis=1)
    total = float(sums @ sums)
    if total <= _RANK_TOLERANCE * len(R):
        raise NoOptimumError(
            "no recombination of unit sum attains the largest signal-to-noise ratio: the best weights sum to zero; the "
            f"supremum is {values[-1]:.12g}",
            remedy="Add a head with more weight where the signal is, or constrain the coefficients",
            supremum=float(values[-1]),
        )
    # among equally good weights, the ones of unit sum with the smallest noise gain
    w = sums @ space / total
    coefficients = np.linalg.lstsq(W.T, w, rcond=_RANK_TOLERANCE)[0]
    return HeadMix(coefficients, w, float(w @ R @ w), float(w @ w))


__all__ = ["HeadMix", "optimal_heads"]
