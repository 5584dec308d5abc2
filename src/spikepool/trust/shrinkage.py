"""Nonlinear shrinkage: the variances of the population along the components of a sample.

Sample eigenvalues spread more than those of the population, and the variances along the sample's components spread
less. The latter are known from the sample eigenvalues alone (Ledoit and Péché): with the density f of the eigenvalues,
its Hilbert transform H and the ratio c of dimensions to rows,

    d_i = λ_i / ((π c λ_i f(λ_i))² + (1 − c − π c λ_i H(λ_i))²)

Density and transform are kernel estimates with the kernel and the bandwidth of the reference.

References
----------
O. Ledoit and M. Wolf, "Analytical nonlinear shrinkage of large-dimensional covariance matrices", Annals of Statistics
48 (2020).
"""

from __future__ import annotations

import math

import numpy as np

from spikepool.kit.arrays import FloatArray

_EDGE = math.sqrt(5.0)  # of Epanechnikov's kernel with unit variance


def shrunken_eigenvalues(values: FloatArray, n: int) -> FloatArray:
    """Variances (d,), descending, along the components of `n` centred rows, which must be more than dimensions.

    Parameters
    ----------
    values : array of shape (d,)
        Sample eigenvalues, descending and positive.
    n : int
    """
    ratio, width = len(values) / (n - 1), (n - 1) ** (-1 / 3) * values
    x = (values[:, None] - values) / width
    density = np.mean(_kernel(x) / width, axis=1)
    transform = np.mean(_hilbert(x) / width, axis=1)
    scaled = math.pi * ratio * values
    return np.sort(values / ((scaled * density) ** 2 + (1 - ratio - scaled * transform) ** 2))[::-1]


def _kernel(x: FloatArray) -> FloatArray:
    return np.asarray(0.75 / _EDGE * np.maximum(1 - (x / _EDGE) ** 2, 0.0))


def _hilbert(x: FloatArray) -> FloatArray:
    """Hilbert transform of the kernel, −1/(π x) far from zero, where the terms of the closed form cancel."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = _EDGE / x
        logs = (1 - 1 / t**2) * np.log(np.abs((t - 1) / (t + 1)))
        near = -0.3 * x + 0.75 / _EDGE * np.where(np.isfinite(logs), logs, 0.0)
        far = -(t + t**3 / 5) / _EDGE
    return np.asarray(np.where(np.abs(x) < 100 * _EDGE, near, far) / math.pi)
