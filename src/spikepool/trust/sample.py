"""What the rows say about themselves: spectrum, row statistics, agreement of halves and of resampled rows.

Everything the simulation of :mod:`spikepool.trust.coloured` has to explain; :mod:`spikepool.trust.memory_rows` collects
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spikepool.data.description import Caution
from spikepool.kit.arrays import FloatArray, IntArray

# Spans that are reported, as far as rows and dimensions allow.
SPANS = (1, 2, 5, 10, 20, 50)
# Single components that are reported.
COMPONENTS = 10
# Spans below this size depend on single gaps of the spectrum; they decide nothing.
SMALLEST_STEADY_SPAN = 5
# Rows for each component of a span, and independent rows below which halves and spans are not simulated.
_ROWS_A_COMPONENT = 4
FEWEST_ROWS = SMALLEST_STEADY_SPAN * _ROWS_A_COMPONENT


def span_sizes(n: float, d: int) -> IntArray:
    """Sizes k of the spans: at most half of the dimensions and a quarter of the rows; the top one always."""
    allowed = [k for k in SPANS if k <= min(d / 2, n / _ROWS_A_COMPONENT)]
    return np.array(allowed or [1])


@dataclass(frozen=True)
class Sample:
    """A sample of rows, seen through its covariance.

    Attributes
    ----------
    n_effective : int
        Independent rows they are worth: distinct ones, fewer still when rows of a group are alike.
    ks : numpy.ndarray of int
        Sizes of the spans.
    values : numpy.ndarray of shape (d,)
        Eigenvalues of the covariance (divisor n − 1), descending.
    norms, whitened : numpy.ndarray of shape (m,)
        Squared norms and mean whitened squares of the distinct rows, and `n_whitened` components of the latter.
    fourth : float
        Mean fourth power of the scores along these components, of unit variance: 3 for Gaussian rows.
    counts : numpy.ndarray of int, or None
        Multiplicities of the distinct rows when some are equal.
    halves : numpy.ndarray of shape (splits, len(ks))
        Overlaps between the components of random halves.
    contiguous : numpy.ndarray of shape (len(ks),)
        The same between the first and the second half of the rows in their order.
    resampled, resampled_single : numpy.ndarray of shape (resamples, ...), or None
        Overlaps of resampled rows with the sample: spans (len(ks)) and single components (max(ks)).
    lone : numpy.ndarray
        Variance of the columns that one row, or unit of rows, determines, by that row: rarely set ones.
    """

    n_effective: int
    ks: IntArray
    values: FloatArray
    norms: FloatArray
    whitened: FloatArray
    n_whitened: int
    fourth: float
    counts: IntArray | None
    halves: FloatArray
    contiguous: FloatArray
    resampled: FloatArray | None
    resampled_single: FloatArray | None
    lone: FloatArray


def effective_rows(sizes: IntArray, likeness: float) -> int:
    """Independent rows that rows in groups are worth: ``n / (1 + rho² Σ n_g(n_g − 1)/n)``.

    Products of rows, which a covariance averages, are correlated within a group by rho², for rows correlated by rho.
    """
    n = int(sizes.sum())
    pairs = float((sizes.astype(float) * (sizes - 1.0)).sum())
    return max(4, int(n / (1 + likeness**2 * pairs / n)))


def group_likeness(sums: FloatArray, squares: float, sizes: IntArray) -> float:
    """Mean correlation rho of two rows of a group, from sums of whitened scores (n_groups, J) by group.

    ``Σ_g (‖Σ_i y_i‖² − Σ_i ‖y_i‖²) / Σ_g n_g (n_g − 1)`` over the mean of ‖y_i‖², at least 0.
    """
    n = int(sizes.sum())
    pairs = float((sizes.astype(float) * (sizes - 1.0)).sum())
    if pairs == 0:
        return 0.0
    return float(np.clip((float((sums**2).sum()) - squares) / pairs / (squares / n), 0.0, 1.0))


def whitened_count(n: int, d: int) -> int:
    """Leading components that the whitened statistic averages over: enough to be steady, few enough to be real."""
    return int(max(1, min(max(5, min(d / 2, n / 8, 100)), d, n - 1)))


def drift_caution(contiguous: float, random: float, gap: float = 0.10) -> Caution | None:
    """The sentence about halves in order that agree less, over the steady spans, than random ones by `gap`."""
    if contiguous >= random - gap:
        return None
    return Caution(
        "drift",
        f"the first and the second half of the rows agree {contiguous:.2f}, random halves {random:.2f}: the rows are "
        "sorted or drift; the numbers are those of a random sample of them",
    )
