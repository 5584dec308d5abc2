r"""ScreeNOT (Donoho, Gavish and Romanov, Annals of Statistics 2023): hard thresholding under coloured noise.

For a noise matrix whose singular values have law F and aspect ratio γ ≤ 1, the threshold that minimises the
mean-square error of keeping singular values above it solves Ψ(θ) = −4, where

.. math:: \Psi(y) = y \Big( \frac{\varphi'(y)}{\varphi(y)} + \frac{\tilde\varphi'(y)}{\tilde\varphi(y)} \Big), \quad
          \varphi(y) = \int \frac{y}{y^2 − t^2}\, dF(t), \quad \tilde\varphi(y) = \gamma\varphi(y) + \frac{1−\gamma}{y}.

F is the law of the observed singular values with the top k, which may be signal, replaced by values
extrapolated along a square-root edge.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from spikepool.kit.arrays import FloatArray


def screenot_threshold(singular_values: FloatArray, aspect: float, most: int) -> float:
    """Threshold for singular values sorted from the largest, at most `most` of which are signal."""
    noise = impute(singular_values, most)

    def psi(y: float) -> float:
        gap = y**2 - noise**2
        phi = float(np.mean(y / gap))
        slope = -float(np.mean((y**2 + noise**2) / gap**2))
        dual, dual_slope = aspect * phi + (1 - aspect) / y, aspect * slope - (1 - aspect) / y**2
        return y * (slope / phi + dual_slope / dual)

    # Ψ rises from −inf at the top of the noise to −2 at infinity.
    low = float(noise.max())
    return float(brentq(lambda y: psi(y) + 4, low * (1 + 1e-9), low * 1e3))


def impute(singular_values: FloatArray, most: int) -> FloatArray:
    """Singular values with the top `most` replaced by a square-root edge through the next ones."""
    k = min(most, (len(singular_values) - 1) // 2)
    values = singular_values.astype(np.float64, copy=True)
    if k > 0:
        step = (values[k] - values[2 * k]) / (2 ** (2 / 3) - 1)
        values[:k] = values[k] + step * (1 - (np.arange(k) / k) ** (2 / 3))
    return values
