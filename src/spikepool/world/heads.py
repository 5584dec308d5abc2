"""Several attention heads and layers (open problem iv of the paper).

**Heads.** Head h pools with weights w_h, rows of an (H, T) array. Recombining the pooled outputs with coefficients a
gives the representation of the weights w = sum_h a_h w_h, whose ratio

    alpha/kappa = a'(W R W')a / a'(W W')a,    W the (H, T) matrix of heads,

is largest at the top eigenvector of the pencil (W R W', W W'). It never exceeds lambda_max(R), and reaches it when
the heads span a top eigenvector of R.

**Layers.** A layer of attention acts on positions only, so a stack is a product of (T, T) matrices, and the mean over
rows makes one weight vector of it. Layers that ignore their scores give :func:`spikepool.causal_weights` with `layers`
and `residual`. Real attention at the tau/d scaling does so in the first two layers only: the outputs of a layer share
tokens, so that their inner products are of order d and the scores of the next layer do not vanish. In the second layer
they are equal along a row, which the softmax ignores; from the third on they are not. They are deterministic all the
same, see :func:`layered_weights`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import NoOptimumError, ShapeError, WeightsError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.results import Result, Table

# Directions of the heads' span with a singular value below this (relative) are taken for linear dependence,
# eigenvalues closer than this (relative) for one repeated eigenvalue.
_RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class HeadMix(Result, schema="head-mix"):
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

    def _tables(self) -> list[Table]:
        rows = [(f"head {h}", a) for h, a in enumerate(self.coefficients.tolist(), 1)]
        rows += [("signal gain alpha", self.alpha), ("noise gain kappa", self.kappa), ("alpha/kappa", self.ratio)]
        return [(f"{len(self.coefficients)} heads together", ("", "coefficient"), rows)]

    def plot(self, ax: Any = None) -> Any:
        """The weights that the heads make together, by position; returns the axes."""
        from spikepool.drawing.predictions import draw_weights

        return draw_weights(self.weights, ax)


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


def layered_weights(T: int, layers: int = 1, residual: float = 0.0, tau: float = 1.0) -> FloatArray:
    """Limit of the pooling weights of stacked causal attention at the tau/d scaling, followed by a mean over rows.

    Layer l maps the rows X_l = B_l X_0 to ``(1−r) A_l X_l + r X_l`` with A_l the causal attention matrix of X_l itself
    (no self, first row on itself). As d grows <x_t, x_s>/d → (B_l B_l')_ts, because the tokens of a sequence are
    distinct and their noise dominates; so

        B_0 = I,    B_{l+1} = ((1−r) softmax(tau B_l B_l' on the causal mask) + r I) B_l,    w = B_layers' 1/T

    with an error of order d^{−1/2}. Up to two layers, or with ``tau = 0``, this is
    :func:`spikepool.causal_weights`.

    Parameters
    ----------
    T : int
        Sequence length.
    layers : int
        Number of layers; 0 gives the mean.
    residual : float
        Share r in [0, 1] of each layer's input that skips the attention.
    tau : float
        Inverse temperature.
    """
    T = check.size(T, "T")
    require_memory(40 * T * T, f"attention of T = {T} positions", "Shorten the sequences")
    layers = check.size(layers, "layers", minimum=0)
    residual = check.fraction(residual, "residual")
    tau = check.finite_number(tau, "tau")
    mask = np.tril(np.ones((T, T), dtype=bool), -1)
    mask[0, 0] = True
    B = np.eye(T)
    for _ in range(layers):
        scores = np.where(mask, tau * (B @ B.T), -np.inf)
        A = np.exp(scores - scores.max(axis=1, keepdims=True))
        A /= A.sum(axis=1, keepdims=True)
        B = (1 - residual) * (A @ B) + residual * B
    return np.asarray(B.mean(axis=0))
