"""Positional correlation matrices R = E[xi xi'] of the latent signs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import DomainError, InvalidInputError, ShapeError, SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory


def prefix_correlation(T: int, L: int) -> FloatArray:
    """The first `L` positions share one sign, the other T − L are independent: R = 1_L 1_L' ⊕ I."""
    T = _length(T)
    L = check.size(L, "L")
    if L > T:
        raise SizeError(f"L must be at most T = {T}", L, "Shorten the prefix or lengthen the sequence")
    R = np.eye(T)
    R[:L, :L] = 1.0
    return R


def markov_correlation(T: int, rho: float) -> FloatArray:
    """Signs of a stationary two-state Markov chain: R_ts = rho^|t−s|, −1 <= rho <= 1."""
    T = _length(T)
    rho = _correlation(rho)
    powers: FloatArray = np.power(rho, np.arange(T, dtype=np.float64)) if rho != 0 else np.eye(1, T)[0]
    index = np.arange(T)
    R: FloatArray = powers[np.abs(index[:, None] - index[None, :])]
    return R


def equicorrelation(T: int, rho: float) -> FloatArray:
    """Every pair of positions has correlation `rho`; PSD for rho >= −1/(T−1)."""
    T = _length(T)
    rho = _correlation(rho)
    if T > 1 and rho < -1 / (T - 1) - 1e-15:
        raise DomainError(f"rho must be at least -1/(T-1) = {-1 / (T - 1):.6g} to be a correlation", rho, "Raise rho")
    return np.where(np.eye(T, dtype=bool), 1.0, rho)


def spiked_correlation(
    T: int,
    strength: float,
    support: int | ArrayLike,
    signs: ArrayLike | None = None,
    *,
    normalize: bool = False,
) -> FloatArray:
    """R = I + strength · v v' with v a unit vector of equal magnitudes on `support`.

    Parameters
    ----------
    T : int
        Sequence length.
    strength : float
        Size of the spike, at least 0; the largest eigenvalue is ``1 + strength``.
    support : int or array_like of int
        Number of leading positions that carry the spike, or their 0-based indices.
    signs : array_like of ±1, optional
        Sign of v at each supported position; all +1 by default.
    normalize : bool
        Divide by the diagonal to make a correlation matrix. Without it the diagonal exceeds one, so no ±1 signs
        have this R and it can be used only with ``latent="gaussian"``.
    """
    T = _length(T)
    strength = check.non_negative(strength, "strength")
    if np.isscalar(support) or getattr(support, "ndim", 1) == 0:
        count = check.size(support, "support")
        if count > T:
            raise SizeError(f"support must be at most T = {T}", count, "Use fewer positions")
        positions = np.arange(count)
    else:
        values = check.finite_array(support, "support", ndim=1)
        whole = np.asarray(support).dtype != bool and np.array_equal(values, np.rint(values))
        if not whole or len(np.unique(values)) < len(values):
            raise ShapeError("support must be distinct position indices", support, "Pass a list of integers")
        if values.min() < 0 or values.max() >= T:
            raise SizeError(f"support indices must lie in [0, {T})", support, "Count positions from 0")
        positions = values.astype(np.intp)
    v = np.zeros(T)
    pattern = np.ones(len(positions)) if signs is None else check.finite_array(signs, "signs", ndim=1)
    if len(pattern) != len(positions):
        raise ShapeError("signs must have one entry for each supported position", pattern, "Match the support")
    if not np.all(np.abs(pattern) == 1):
        raise InvalidInputError("signs must be -1 or +1", pattern, "Pass a pattern of signs")
    v[positions] = pattern / np.sqrt(len(positions))
    R = np.eye(T) + strength * np.outer(v, v)
    if check.flag(normalize, "normalize"):
        scale = np.sqrt(np.diag(R))
        R /= np.outer(scale, scale)
        np.fill_diagonal(R, 1.0)
    return R


def identity_correlation(T: int) -> FloatArray:
    """Independent positions."""
    return np.eye(_length(T))


# Correlations that have a name wherever one is described: command line, sweep files, explorer.
NAMED_CORRELATIONS: dict[str, Callable[..., FloatArray]] = {
    "prefix": prefix_correlation,
    "markov": markov_correlation,
    "equicorrelation": equicorrelation,
    "spiked": spiked_correlation,
    "identity": identity_correlation,
}


def named_correlation(kind: str, where: str = "correlation", **parameters: Any) -> FloatArray:
    """The correlation called `kind` with the parameters of its function; what is missing or unknown is named."""
    make = NAMED_CORRELATIONS[check.choice(kind, f"{where} kind", tuple(NAMED_CORRELATIONS))]
    try:
        inspect.signature(make).bind(**parameters)
    except TypeError as err:
        raise InvalidInputError(f"{where}: {err}", parameters, f"Give the parameters of {kind!r}") from err
    return make(**parameters)


def _length(T: int) -> int:
    """T, when the machine can hold the (T, T) matrix."""
    T = check.size(T, "T")
    require_memory(16 * T * T, f"a correlation matrix of T = {T} positions", "Shorten the sequences")
    return T


def _correlation(rho: float) -> float:
    value = check.finite_number(rho, "rho")
    if not -1 <= value <= 1:
        raise DomainError("rho must lie in [-1, 1]", rho, "Pass a correlation coefficient")
    return value


def average_correlation(R: ArrayLike) -> FloatArray:
    """The positional correlation that matters when it varies by sequence: the average of a stack (n, T, T).

    If sequence n has signs of correlation R^(n), the pooled latents a_n = w'xi_n enter S through the rank-one term
    ``h a'`` alone, whose right vector matters by its squared norm, ``‖a‖²/N → w' mean(R^(n)) w``. So only the average
    of R^(n) enters, whatever its law (open problem ii of the paper).
    """
    array = check.finite_array(R, "R")
    if array.ndim == 3:
        if array.shape[1] != array.shape[2]:
            raise ShapeError("R must be a stack of square matrices", array, "Pass (n, T, T)")
        for matrix in array:
            check.symmetric_psd(matrix, "R")
        array = array.mean(axis=0)
    return check.symmetric_psd(array, "R")
