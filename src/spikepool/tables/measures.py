r"""Norms, ranks and the power-law exponent of a weight: the numbers that other tools report.

With σ_1 ≥ σ_2 ≥ ... the singular values of W as stored (not centred) and λ_i = σ_i²:

.. math:: \|W\|_F^2 = \sum \lambda_i, \quad \text{stable rank} = \|W\|_F^2/\lambda_1, \quad
          \text{effective rank} = \exp\Big(−\sum p_i \log p_i\Big),\ p_i = \lambda_i/\|W\|_F^2.

The exponent is that of WeightWatcher's default fit. For each λ_min among the λ_i above 1e-5, with the n values from it
on,

.. math:: \alpha = 1 + n \Big/ \sum \log(\lambda_i/\lambda_{\min}),

and the λ_min is taken whose fit has the smallest Kolmogorov-Smirnov distance max |1 − (λ/λ_min)^{1−α} − i/n|, where
i = 0 ... n−1 counts the values from λ_min on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spikepool.kit.arrays import FloatArray

# WeightWatcher's: smaller eigenvalues are left out, and below 20 of them another fit is made.
SMALLEST_EIGENVALUE = 1e-5
FEWEST_EIGENVALUES = 20


@dataclass(frozen=True)
class Measures:
    """Norms, ranks and exponent of a weight.

    Attributes
    ----------
    frobenius, spectral : float
        ‖W‖_F and σ_1.
    stable_rank, effective_rank : float
    condition : float
        σ_1 over the smallest singular value; infinite beyond about 1e6, where that is rounding.
    alpha : float or None
        Power-law exponent of the eigenvalues of W'W; None below 20 eigenvalues larger than 1e-5.
    """

    frobenius: float
    spectral: float
    stable_rank: float
    effective_rank: float
    condition: float
    alpha: float | None


def measure(eigenvalues: FloatArray) -> Measures:
    """Measures of a weight from all min(V, d) eigenvalues of W'W, largest first."""
    total, top, least = (float(value) for value in (eigenvalues.sum(), eigenvalues[0], eigenvalues[-1]))
    # eigenvalues of W'W in double precision are off by 1e-16 of the largest, times their number
    small = 1e-15 * len(eigenvalues) * top
    return Measures(
        frobenius=float(np.sqrt(total)),
        spectral=float(np.sqrt(top)),
        stable_rank=stable_rank(eigenvalues),
        effective_rank=effective_rank(eigenvalues),
        condition=float(np.sqrt(top / least)) if least > small else float("inf"),
        alpha=power_law_exponent(eigenvalues),
    )


def stable_rank(eigenvalues: FloatArray) -> float:
    """Sum over the largest; 0 where all are zero."""
    top = float(eigenvalues[0]) if len(eigenvalues) else 0.0
    return float(eigenvalues.sum()) / top if top > 0 else 0.0


def effective_rank(eigenvalues: FloatArray) -> float:
    """Exp of the entropy of the shares; 0 where all are zero."""
    positive = eigenvalues[eigenvalues > 0]
    share = positive / positive.sum()
    return float(np.exp(-np.sum(share * np.log(share)))) if len(share) else 0.0


def power_law_exponent(eigenvalues: FloatArray) -> float | None:
    """WeightWatcher's alpha of eigenvalues sorted from the largest, or None where there are too few."""
    logs = np.log(eigenvalues[eigenvalues > SMALLEST_EIGENVALUE][::-1])
    N = len(logs)
    if N < FEWEST_EIGENVALUES:
        return None
    n = np.arange(N, 0, -1)
    excess = np.cumsum(logs[::-1])[::-1] - n * logs
    best, alpha = 2.0, None
    for i in np.flatnonzero(excess[:-1] > 0):
        slope = n[i] / excess[i]
        distance = np.abs(1 - np.exp(-slope * (logs[i:] - logs[i])) - np.arange(n[i]) / n[i]).max()
        if distance < best:
            best, alpha = float(distance), float(1 + slope)
    return alpha
