"""Coloured noise and planted spikes, written from the definitions, without the code under test."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq


def log_uniform(d: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """d variances log-uniform over [.2, 5]: drawn, or the quantiles when no generator is given."""
    levels = (np.arange(d) + 0.5) / d if rng is None else rng.random(d)
    return np.exp(np.log(0.2) + np.log(25) * levels)


def detection_threshold(population: np.ndarray, ratio: float) -> float:
    """Smallest population eigenvalue that leaves the bulk: psi'(l) = 0 for psi(l) = l + c l mean(t/(l - t))."""

    def psi(ell: float) -> float:
        return float(ell + ratio * ell * np.mean(population / (ell - population)))

    top = float(population.max())
    step = 1e-6 * top

    def slope(ell: float) -> float:  # by central difference, so that no derivative formula is shared
        return (psi(ell + step) - psi(ell - step)) / (2 * step)

    return float(brentq(slope, top * (1 + 1e-4), 50 * top))


def rows(population: np.ndarray, V: int, rng: np.random.Generator, rotate: bool = False) -> np.ndarray:
    """V Gaussian rows with these variances, in random directions if asked for, around a random mean."""
    d = len(population)
    E = rng.standard_normal((V, d)) * np.sqrt(population)
    if rotate:
        E = E @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    return E + rng.standard_normal(d)


def sample_eigenvalues(E: np.ndarray) -> np.ndarray:
    """Nonzero eigenvalues of the centred covariance, largest first."""
    s = np.linalg.svd(E - E.mean(axis=0), compute_uv=False) ** 2 / len(E)
    return s[: min(E.shape[1], len(E) - 1)]
