"""Whole spectra by dense linear algebra, on the smaller side: S is d x d, its Gram matrix C'C/N is N x N."""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.simulation.pooled_noise import PooledNoise


def _columns(noise: PooledNoise, mu: float) -> FloatArray:
    """C P as an (N, d) array of rows; for N < d only."""
    rows = np.concatenate([block for _, block in noise.pooled_blocks()])
    return rows + mu * noise.b[:, None] * noise.u


def _covariance(noise: PooledNoise, mu: float) -> FloatArray:
    """S(mu), (d, d), summed over blocks of sequences so that C is never held."""
    S = np.zeros((noise.d, noise.d))
    for sequences, rows in noise.pooled_blocks():
        if mu:
            rows += mu * noise.b[sequences, None] * noise.u
        S += rows.T @ rows
    S /= noise.N
    return S


def gram_bytes(d: int, N: int) -> int:
    """Memory of a dense decomposition beside the sample: matrix, vectors, work space, and C when N < d."""
    side = min(d, N)
    return 8 * (4 * side * side + (N * d if d > N else 0) + (1 << 21))


def spectrum(noise: PooledNoise, mu: float) -> FloatArray:
    """All d eigenvalues of S(mu), ascending; rounding below zero is set to the exact zero it stands for."""
    if noise.d > noise.N:
        C = _columns(noise, mu)
        values = np.linalg.eigvalsh(C @ C.T / noise.N)
        values = np.concatenate([np.zeros(noise.d - noise.N), values])
    else:
        values = np.linalg.eigvalsh(_covariance(noise, mu))
    # S is a Gram matrix: a negative value is rounding of a zero, of the order of eps times the largest
    return np.asarray(np.maximum(values, 0.0))


def measure(noise: PooledNoise, mu: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Eigenvalues theta of S(mu), ascending, and the coordinates of u and of g = Yb/N in its eigenvectors.

    When N < d, all of the null space that is not orthogonal to u is one direction, of eigenvalue 0.
    """
    g = noise.forward(noise.b) / noise.N
    if noise.d <= noise.N:
        theta, vectors = np.linalg.eigh(_covariance(noise, mu))
        return np.maximum(theta, 0.0), noise.u @ vectors, g @ vectors
    C = _columns(noise, mu)
    theta, right = np.linalg.eigh(C @ C.T / noise.N)
    keep = theta > 1e-13 * max(theta[-1], 1e-300)
    theta, right = theta[keep], right[:, keep]
    left = C.T @ right / np.sqrt(noise.N * theta)
    U, G = noise.u @ left, g @ left
    missing = max(1.0 - float(U @ U), 0.0)
    return np.append(0.0, theta), np.append(np.sqrt(missing), U), np.append(0.0, G)
