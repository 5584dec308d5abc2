"""The Tracy-Widom law of real symmetric matrices, by its Fredholm determinant.

    F(s) = det(I − K_s),    K_s(x, y) = Ai((x + y)/2 + s)/2   on L²(0, ∞)

(Ferrari and Spohn, 2005). Gauss-Legendre quadrature of the kernel converges exponentially (Bornemann, 2010): the law is
known to about 1e-13 for s >= −8 from 44 nodes. The tail 1 − F follows from the eigenvalues of the quadrature matrix
without cancellation, so that p-values far below the rounding unit keep their digits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import airy

from spikepool.errors import DomainError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray

MEAN, VARIANCE = -1.2065335745820, 1.6077810345810
_NODES = 44
# The kernel is below 1e-40 this far beyond max(−s, 0).
_REACH = 32.0
# Below this point the probability is less than 1e-13.
_LOWEST = -9.0


@cache
def _legendre() -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, np.sqrt(weights / 2)


def _log_cdf(s: FloatArray) -> FloatArray:
    """Log F at points (n,), by the eigenvalues of the symmetrised quadrature of the kernel; −∞ below ``_LOWEST``."""
    nodes, roots = _legendre()
    result = np.full(len(s), -np.inf)
    inside = np.flatnonzero(s >= _LOWEST)
    for part in np.array_split(inside, max(1, len(inside) // 256)):
        at = s[part]
        reach = _REACH + 2 * np.maximum(0.0, -at)
        x, w = reach[:, None] * nodes, np.sqrt(reach)[:, None] * roots
        kernel = airy((x[:, :, None] + x[:, None, :]) / 2 + at[:, None, None])[0] / 2
        values = np.linalg.eigvalsh(w[:, :, None] * kernel * w[:, None, :])
        result[part] = np.log1p(-values).sum(axis=1)
    return result


def tracy_widom_sf(s: ArrayLike) -> Any:
    """P(TW > s) for the real symmetric (beta = 1) law, accurate in its right tail; 1 below s = −9."""
    points = check.finite_array(s, "s")
    return np.clip(-np.expm1(_log_cdf(points.ravel())), 0.0, 1.0).reshape(points.shape)[()]


def tracy_widom_cdf(s: ArrayLike) -> Any:
    """P(TW <= s); 0 below s = −9."""
    points = check.finite_array(s, "s")
    return np.exp(_log_cdf(points.ravel())).reshape(points.shape)[()]


def tracy_widom_isf(probability: float) -> float:
    """The s with P(TW > s) = `probability`."""
    p = check.fraction(probability, "probability", closed=False)
    if not 1e-300 < p < 1 - 1e-12:
        raise DomainError("probability must lie between 1e-300 and 1 − 1e-12", p, "Choose a level in between")
    high = 1.0
    while tracy_widom_sf(high) > p:
        high *= 2
    return float(brentq(lambda s: float(tracy_widom_sf(s)) - p, _LOWEST, high, xtol=1e-12))


def edge_amplitude(law: Any) -> float:
    """The A of a density ``A sqrt(edge − x)/pi`` next to the right edge, by extrapolation of the density itself."""
    low, high = law.support()
    steps = (high - low) * 1e-3 / 4.0 ** np.arange(6)
    values = np.pi * np.asarray(law.pdf(high - steps)) / np.sqrt(steps)
    # a power series in the step: Richardson's table
    while len(values) > 1:
        order = 4.0 ** (6 - len(values) + 1)
        values = (order * values[1:] - values[:-1]) / (order - 1)
    return float(values[0])
