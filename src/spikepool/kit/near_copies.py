"""Rows that are nearly copies of others: two rows so close that they are not independent draws.

Independent rows x, y of a population with D effective dimensions, ``D = tr(Sigma)²/tr(Sigma²)``, have

    ‖x − y‖² / (‖x‖² + ‖y‖²) ≈ chi²_D / D

(x and y centred). In many dimensions that is near one. In a few, some rows are close by chance: that share is known.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from spikepool.kit.arrays import FloatArray, IntArray

# Two rows are near copies when their squared distance is below this share of the sum of their squared norms.
NEAR_DISTANCE = 0.02
# Share of rows with a near copy, beyond what chance explains, from which it is mentioned. Plain subsamples of two
# corpora under five encoders have at most 4 %.
NEAR_SHARE = 0.10
# Rows whose nearest neighbour is looked for, and rows of a block that they are compared with.
NEIGHBOUR_ROWS = 1000
NEIGHBOUR_BLOCK = 2000


def norm_scatter(trace: float, squared: float, n: int) -> float:
    """Scatter of the squared norms, ``2 tr(Sigma²)/tr(Sigma)² = 2/D``, freed from the bias of n rows.

    `trace` and `squared` are the traces of the sample covariance and of its square, or of a multiple of it.
    """
    return 2 * max(squared - trace**2 / (n - 1), 0.0) / trace**2


def neighbour_rows(n: int, rng: np.random.Generator) -> IntArray:
    """The rows whose nearest neighbour is looked for."""
    return np.arange(n) if n <= NEIGHBOUR_ROWS else np.sort(rng.choice(n, NEIGHBOUR_ROWS, replace=False))


def nearest_distances(
    x: FloatArray,
    norms: FloatArray,
    units: IntArray,
    others: FloatArray,
    other_norms: FloatArray,
    other_units: IntArray,
) -> FloatArray:
    """Least ``‖x − y‖²/(‖x‖² + ‖y‖²)`` of each row to the `others` that are not of its unit, block by block."""
    nearest = np.full(len(x), np.inf)
    for start in range(0, len(others), NEIGHBOUR_BLOCK):
        part = slice(start, start + NEIGHBOUR_BLOCK)
        total = norms[:, None] + other_norms[part]
        distance = 1 - 2 * (x @ others[part].T) / np.maximum(total, np.finfo(float).tiny)
        distance[units[:, None] == other_units[part]] = np.inf
        nearest = np.minimum(nearest, distance.min(axis=1))
    return np.asarray(np.maximum(nearest, 0.0))


def near_share(nearest: FloatArray) -> float:
    """Share of the rows with a near copy."""
    return float(np.mean(nearest < NEAR_DISTANCE))


def chance_share(n: int, scatter: float) -> float:
    """Share of `n` independent rows that have such a neighbour by chance; `scatter` is 2/D."""
    if scatter <= 0:
        return 0.0
    dimensions = max(2 / scatter, 1.0)
    return float(-np.expm1(-n * chi2.cdf(NEAR_DISTANCE * dimensions, dimensions)))
