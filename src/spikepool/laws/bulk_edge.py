r"""Where the bulk ends and how many eigenvalues stand beyond it, without knowing the colour of the noise.

Below the edge e of a bulk the j-th eigenvalue sits near

.. math:: \lambda_{k+j} = e − \sigma\, a_j, \qquad a_j = \Big(\frac{3\pi(4j−3)}{8}\Big)^{2/3},

k the number of outliers, σ the Tracy-Widom scale: the square-root edge every Silverstein law of a spread-out
population has, with the asymptotic means of the Airy₁ points (off by .1 at j = 1, by less than .01 from j = 2). Both
constants come from a regression on the m eigenvalues after the k-th, with residual spread s. Then

.. math:: T_k = \frac{\lambda_k − e}{\sqrt{\sigma^2 + (2s)^2}}

says how far the k-th eigenvalue stands beyond the edge of those after it, on the Tracy-Widom scale; s takes over
where the population itself is uneven, as it is when d/V is small and the sample shows each population eigenvalue. The
count is the largest k with T_k above a margin, so that the weakest outlier decides, not the strongest.

The idea is that of Onatski (2010) and of the imputation in ScreeNOT (Donoho, Gavish and Romanov 2023). The
margin is empirical: with 300 dimensions, populations drawn log-uniformly on [.2, 5] and d/V of .01, .1, .5 and 1.5,
scanning k up to a tenth of the eigenvalues, the largest T_k exceeds 4.7 in at most 1 of 600 draws at each ratio.
Further down, up to half of the eigenvalues, twice the margin is required: chance gaps of 40 to 300 eigenvalues stay
below it. That level is that of populations whose support ends: the tip of a tail (log-normal, power law) is counted
as an outlier in most draws, see docs/benchmarks/tables.md. The 99 % point of the maximum grows as sqrt(100/n) below
n = 100 eigenvalues, and the margin with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spikepool.errors import SizeError
from spikepool.kit.arrays import FloatArray

MARGIN = 4.7
FEWEST = 30  # below this the regression has nothing to stand on
REGRESSION_LENGTH = 20
RESIDUAL_WEIGHT = 2.0
# Beyond this share of the eigenvalues outliers must stand apart by twice the margin.
USUAL_SHARE = 0.1


@dataclass(frozen=True)
class BulkEdge:
    """Result of :func:`find_edge`.

    Attributes
    ----------
    n_outliers : int
    edge : float
        Right edge of the bulk, by the regression on the eigenvalues after the last outlier; not below the first
        of them.
    scale : float
        sqrt(σ² + (2s)²), the unit of `statistics`.
    margin : float
        Units beyond the edge that make an outlier.
    threshold : float
        Eigenvalues above this are outliers.
    statistics : ndarray
        T_k for k = 1, 2, ..., the most that were considered.
    """

    n_outliers: int
    edge: float
    scale: float
    margin: float
    threshold: float
    statistics: FloatArray


def require_eigenvalues(n: int) -> None:
    """Raise if a bulk of `n` nonzero eigenvalues is too small to have an edge."""
    if n < FEWEST:
        raise SizeError(f"the edge of a bulk needs at least {FEWEST} nonzero eigenvalues", n, "Use a larger table")


def find_edge(eigenvalues: FloatArray, margin: float = MARGIN, max_outliers: int | None = None) -> BulkEdge:
    """Edge of the bulk and number of outliers of nonzero eigenvalues sorted from the largest.

    Parameters
    ----------
    eigenvalues : ndarray
        Nonzero eigenvalues, largest first; at least 30.
    margin : float
        Least T_k of an outlier, for 100 eigenvalues or more; scaled up for fewer.
    max_outliers : int, optional
        Most outliers considered; half of the eigenvalues by default.
    """
    n = len(eigenvalues)
    require_eigenvalues(n)
    m = min(REGRESSION_LENGTH, n // 2)
    most = min(n // 2 if max_outliers is None else max_outliers, n - m)
    j = np.arange(1, m + 1)
    design = np.column_stack([np.ones(m), -((3 * np.pi * (4 * j - 3) / 8) ** (2 / 3))])
    solve = np.linalg.pinv(design)
    # Row k holds the m eigenvalues after the k-th, k = 0 ... most.
    windows = np.lib.stride_tricks.sliding_window_view(eigenvalues, m)[: most + 1]
    coefficients = windows @ solve.T
    residual = ((windows - coefficients @ design.T) ** 2).sum(axis=1) / (m - 2)
    scale = np.sqrt(coefficients[:, 1] ** 2 + RESIDUAL_WEIGHT**2 * residual)
    scale = np.maximum(scale, 1e-12 * eigenvalues[0])  # equal eigenvalues: no spread at all
    statistics = (eigenvalues[:most] - coefficients[1:, 0]) / scale[1:]
    margin *= max(1.0, float(np.sqrt(100 / n)))
    needed = np.where(np.arange(1, most + 1) <= USUAL_SHARE * n, margin, 2 * margin)
    beyond = np.flatnonzero(statistics > needed)
    k = int(beyond[-1]) + 1 if len(beyond) else 0
    # What is kept in the bulk is not beyond its edge, nor beyond the threshold, whatever the regression says.
    edge = max(float(coefficients[k, 0]), float(eigenvalues[k]))
    threshold = max(float(coefficients[k, 0] + margin * scale[k]), float(eigenvalues[k]))
    return BulkEdge(k, edge, float(scale[k]), margin, threshold, statistics)
