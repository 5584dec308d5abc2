"""Pooling weights and the two gains, alpha and kappa, through which they act.

Weights w of unit sum enter every prediction through the signal gain ``alpha = w'Rw`` and the noise gain
``kappa = w'w``; detectability depends on their ratio alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import NoOptimumError, SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory

# Eigenvalues closer than this to the largest (relative to it) are taken for one repeated eigenvalue.
_EIGENSPACE_TOLERANCE = 1e-10
# A projection of the ones vector this much shorter than it is rounding error of an eigenvector orthogonal to it.
_ORTHOGONALITY_TOLERANCE = 1e-12


def gains(w: ArrayLike, R: ArrayLike) -> tuple[float, float]:
    """Signal gain w'Rw and noise gain w'w of pooling weights `w` under positional correlation `R`."""
    R = check.symmetric_psd(R, "R")
    w = check.weight_vector(w, len(R))
    return max(float(w @ R @ w), 0.0), float(w @ w)


def mean_weights(T: int) -> FloatArray:
    """Uniform weights 1/T."""
    T = _length(T)
    return np.full(T, 1.0 / T)


def causal_weights(T: int, layers: int = 1, residual: float = 0.0) -> FloatArray:
    """Weights of score-free causal self-attention followed by a mean (Proposition 2 of the paper).

    With harmonic numbers H_n, one layer without residual gives

        w_1 = (1 + H_{T−1})/T,    w_s = (H_{T−1} − H_{s−1})/T  for s = 2..T.

    Several layers, each ``(1−r) A + r I`` with A the score-free causal average, give
    ``w = ((1−r) A' + r I)^layers 1 / T``. Exact in O(layers · T) operations, so T of a million is immediate. The layers
    ignore their scores; real attention does so in its first two layers only, see
    :func:`spikepool.world.heads.layered_weights` for the third and later ones.

    Parameters
    ----------
    T : int
        Sequence length.
    layers : int
        Number of stacked averages; 0 gives the mean.
    residual : float
        Share r in [0, 1] of each layer's input that skips the average.
    """
    T = _length(T)
    layers = check.size(layers, "layers", minimum=0)
    residual = check.fraction(residual, "residual")
    w = np.full(T, 1.0 / T)
    for _ in range(layers):
        before, w = w, (1 - residual) * _average_transposed(w) + residual * w
        if np.array_equal(w, before):  # everything has reached the first position: more layers change nothing
            break
    return w


def _length(T: int) -> int:
    """T, when the machine can hold weights of that length."""
    T = check.size(T, "T")
    require_memory(32 * T, f"a sequence of T = {T} positions", "Shorten the sequence")
    return T


def _average_transposed(v: FloatArray) -> FloatArray:
    """A'v for A[1,1] = 1 and A[t,s] = 1/(t−1) for s < t: suffix sums of v_t/(t−1)."""
    T = len(v)
    result = np.zeros(T)
    shares = v[1:] / np.arange(1, T)
    # summed from the far end, where the terms are smallest
    result[:-1] = np.cumsum(shares[::-1])[::-1]
    result[0] += v[0]
    return result


def optimal_weights(R: ArrayLike) -> FloatArray:
    """Weights of unit sum that maximise alpha/kappa (Theorem 5 of the paper).

    The top eigenvector of R, normalised to unit sum. When the largest eigenvalue is repeated every vector of its
    eigenspace is optimal, and the projection of the ones vector on that space is returned: it has the smallest
    noise gain kappa among them.

    They are the best weights where S is centred, whatever the sizes and mu. For an S that is not centred use
    ``model.optimal_weights()``, which also takes the competing vocabulary mean into account.

    Raises
    ------
    NoOptimumError
        When the ones vector is orthogonal to the top eigenspace: the supremum ``lambda_max(R)`` (carried by the
        error as ``supremum``) is approached by ever larger weights but attained by none.
    """
    R = check.symmetric_psd(R, "R")
    T = len(R)
    values, vectors = np.linalg.eigh(R)
    top = vectors[:, values >= values[-1] * (1 - _EIGENSPACE_TOLERANCE * T)]
    projection = top @ top.sum(axis=0)
    total = float(projection.sum())  # squared length of the projected ones vector
    if total <= _ORTHOGONALITY_TOLERANCE**2 * T:
        raise NoOptimumError(
            "no weights of unit sum attain the largest signal-to-noise ratio: the top eigenspace of R is "
            f"orthogonal to the ones vector; the supremum is {values[-1]:.12g}",
            remedy="Use any weights near the top eigenvector with a small non-zero sum, or constrain the weights",
            supremum=float(values[-1]),
        )
    weights: FloatArray = projection / total
    return weights


def _harmonic(n: int) -> float:
    """H_n = 1 + 1/2 + ... + 1/n, summed from the smallest term."""
    return float(np.sum(1.0 / np.arange(n, 0, -1)))


def _prefix_sizes(T: int, L: int) -> tuple[int, int]:
    T = check.size(T, "T")
    L = check.size(L, "L")
    if L > T:
        raise SizeError(f"L must be at most T = {T}", L, "Shorten the prefix")
    return T, L


def prefix_mean_gains(T: int, L: int) -> tuple[float, float]:
    """Alpha and kappa of mean pooling in the prefix model: ((L² + T − L)/T², 1/T)."""
    T, L = _prefix_sizes(T, L)
    return (L * L + T - L) / T**2, 1 / T


def prefix_causal_gains(T: int, L: int) -> tuple[float, float]:
    """Alpha and kappa of causal weights in the prefix model, in closed form.

    With D = H_{T−1} − H_{L−1},

        alpha = (L² + 2(T−L) + (2L(L−1)+1) D + L(L−1) D²)/T²,    kappa = (2T − 1 + H_{T−1})/T².
    """
    T, L = _prefix_sizes(_length(T), L)
    D = float(np.sum(1.0 / np.arange(T - 1, L - 1, -1)))
    alpha = (L * L + 2 * (T - L) + (2 * L * (L - 1) + 1) * D + L * (L - 1) * D * D) / T**2
    return alpha, (2 * T - 1 + _harmonic(T - 1)) / T**2


def causal_crossover(T: int) -> int | None:
    """Longest prefix L for which causal weights beat the mean in the prefix model, or None if there is none.

    Causal weights have the larger alpha/kappa exactly for L = 2, ..., ``causal_crossover(T)``. At L = 1 all weights
    tie (R is the identity), and from the next L on the mean wins; the paper claims a win for every L < T.
    """
    T = _length(T)
    L = np.arange(2, T + 1, dtype=np.float64)
    if len(L) == 0:
        return None
    inverse = 1.0 / np.arange(1, T)
    tails = np.cumsum(inverse[::-1])[::-1]  # tails[k−1] = H_{T−1} − H_{k−1}
    D = np.append(tails[1:], 0.0)
    kappa = 2 * T - 1 + tails[0]
    causal = (L * L + 2 * (T - L) + (2 * L * (L - 1) + 1) * D + L * (L - 1) * D * D) / kappa
    mean = 1 + L * (L - 1) / T
    wins = np.flatnonzero(causal > mean * (1 + 1e-12))
    return int(L[wins[-1]]) if len(wins) else None


# Weightings that have a name wherever weights are named: command line, sweep files, explorer, figures.
NAMED_WEIGHTS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "mean": lambda R: mean_weights(len(R)),
    "causal": lambda R: causal_weights(len(R)),
    "optimal": lambda R: optimal_weights(R),
}


def named_weights(name: str, R: ArrayLike) -> FloatArray:
    """The weights called `name` for a positional correlation."""
    return NAMED_WEIGHTS[check.choice(name, "weights", tuple(NAMED_WEIGHTS))](np.asarray(R, dtype=np.float64))
