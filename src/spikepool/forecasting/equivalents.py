"""Deterministic equivalents of ridge: what a fit to n rows does to each part of the target.

The target is a linear function of the features with the share w_b of its variance spread evenly over the directions
of band b, plus noise with the share w_noise. With L = lam/(lam + kappa), m = n − 1 and df2 = sum h L²,

    M_b  = mean_b (1 − L)² · m/(m − df2),        M_noise  = m/(m − df2)              MSE/var(y)       = M·w
    T_b  = mean_b L,                             T_noise  = 0                        E[f·y]/var(y)    = T·w
    E2_b = mean_b L² + M_b df2/m,                E2_noise = M_noise df2/m            E[|f|²]/var(y)   = E2·w

(Dobriban and Wager 2018; Hastie et al. 2022), so that M = 1 + E2 − 2T on each part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spikepool.forecasting.spectrum import PopulationSpectrum
from spikepool.kit.arrays import FloatArray


@dataclass(frozen=True)
class Equivalents:
    """Coefficients (..., bands + 1) of the shares of the target; the last one is noise."""

    mse: FloatArray
    excess: FloatArray


def equivalents(spectrum: PopulationSpectrum, bands: FloatArray, n: ArrayLike, penalties: FloatArray) -> Equivalents:
    """M and E2 − 2T of ridge on `n` rows (one or several) at each penalty: shape (..., penalties, bands + 1)."""
    m = np.asarray(n, dtype=np.float64)[..., None] - 1
    kappa = spectrum.effective_penalty(m, penalties)
    L = spectrum.eigenvalues / (spectrum.eigenvalues + kappa[..., None])
    df2 = L**2 @ spectrum.multiplicities
    inflation = m / (m - df2)
    signal = (1 - L) ** 2 @ bands.T * inflation[..., None]
    learned = L @ bands.T
    power = L**2 @ bands.T + signal * (df2 / m)[..., None]
    noise_power = inflation * df2 / m
    return Equivalents(
        np.concatenate([signal, inflation[..., None]], axis=-1),
        np.concatenate([power - 2 * learned, noise_power[..., None]], axis=-1),
    )
