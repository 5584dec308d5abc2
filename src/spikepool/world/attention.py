"""Parameter-free causal self-attention: the real forward pass, whose score-free limit is `causal_weights`.

Queries, keys and values are the token embeddings themselves. Position t attends to the positions before it, never
to itself; the first row, which has no earlier position, attends to itself. The output is averaged over rows,
so that each sequence is pooled with weights ``w = A'1/T`` of its own (Lemma 1 of the paper).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import DomainError, NonFiniteError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray

SCALINGS = {"d": 1.0, "sqrt_d": 0.5}

# Scores are computed for this many numbers at a time, to bound memory whatever n is.
_BLOCK_ELEMENTS = 1 << 22


def score_exponent(scaling: str | float) -> float:
    """Power of d that divides the scores: 1 for ``"d"``, 1/2 for ``"sqrt_d"``, or the number itself."""
    if isinstance(scaling, str):
        return SCALINGS[check.choice(scaling, "scaling", tuple(SCALINGS))]
    exponent = check.finite_number(scaling, "scaling")
    if not 0.5 <= exponent <= 1:
        raise DomainError("scaling must be 'd', 'sqrt_d' or an exponent from 1/2 to 1", exponent, "Choose one of these")
    return exponent


def _sequences(X: ArrayLike) -> NDArray[Any]:
    single = getattr(X, "dtype", None) == np.float32
    array: NDArray[Any] = np.asarray(X) if single else check.real_array(X, "X")
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.size == 0:
        raise ShapeError("X must be (n, T, d) or (T, d) and not empty", array, "Stack sequences on the first axis")
    if not np.all(np.isfinite(array)):
        raise NonFiniteError("X contains NaN or infinities", array, "Remove or impute them first")
    return array


def _softmax_rows(X: NDArray[Any], tau: float, exponent: float) -> FloatArray:
    """(n, T, T) attention matrices of a block of sequences."""
    T, d = X.shape[1:]
    factor = tau / d**exponent
    with np.errstate(over="ignore", invalid="ignore"):
        scores: FloatArray = np.einsum("ntd,nsd->nts", X, X, optimize=True).astype(np.float64) * factor
        if X.dtype == np.float32 and not np.all(np.isfinite(scores)):
            return _softmax_rows(X.astype(np.float64), tau, exponent)
    if not np.all(np.isfinite(scores)):
        raise DomainError("the attention scores overflow", float(np.abs(X).max()), "Scale X or tau down")
    mask = np.tril(np.ones((T, T), dtype=bool), -1)
    mask[0, 0] = True
    scores[:, ~mask] = -np.inf
    scores[:, 0, 0] = 0.0
    scores -= scores.max(axis=2, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=2, keepdims=True)
    return scores


def attention_matrix(X: ArrayLike, tau: float = 1.0, scaling: str | float = "d") -> FloatArray:
    """Causal attention matrices (n, T, T), rows summing to one.

    Parameters
    ----------
    X : array_like of shape (n, T, d) or (T, d)
        Embedded sequences; a single one gives n = 1.
    tau : float
        Inverse temperature.
    scaling : {"d", "sqrt_d"} or float
        Scores are ``tau/d``, ``tau/sqrt(d)`` or ``tau/d**scaling`` times the inner products, with an exponent from 1/2
        to 1. At ``"d"`` they vanish as d grows and the
        weights tend to :func:`spikepool.causal_weights`, with an error of order ``d**-0.5``; at ``"sqrt_d"`` they
        stay random.
    """
    array = _sequences(X)
    tau = check.finite_number(tau, "tau")
    return _softmax_rows(array, tau, score_exponent(scaling))


def attention_weights(X: ArrayLike, tau: float = 1.0, scaling: str | float = "d") -> FloatArray:
    """Pooling weights (n, T) of each sequence: column means of its causal attention matrix.

    Parameters as in :func:`attention_matrix`; the (n, T, T) matrices are never held together.
    """
    array = _sequences(X)
    tau = check.finite_number(tau, "tau")
    exponent = score_exponent(scaling)
    n, T, d = array.shape
    block = max(1, _BLOCK_ELEMENTS // (T * max(T, d)))
    weights = np.empty((n, T))
    for start in range(0, n, block):
        weights[start : start + block] = _softmax_rows(array[start : start + block], tau, exponent).mean(axis=1)
    return weights
