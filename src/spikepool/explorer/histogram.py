"""Histograms of eigenvalues, with bins that resolve the bulk whatever lies beyond it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# bins over the bulk; outliers beyond it get bins of the same width, up to the second number in all
BULK_BINS = 60
MOST_BINS = 600


def histogram(eigenvalues: NDArray[np.float64], edge: float) -> dict[str, list[float]]:
    """Density of the eigenvalues that are not rounding zeros, as a share of all of them.

    An atom at zero is left out, as it is from the density of the bulk law.

    Parameters
    ----------
    eigenvalues : numpy.ndarray
        All eigenvalues of a covariance.
    edge : float
        Right edge of the bulk.
    """
    values = np.asarray(eigenvalues, dtype=np.float64)
    top = float(values.max())
    positive = values[values > 1e-10 * max(top, 1e-300)]
    if len(positive) == 0 or not edge > 0:
        return {"edges": [0.0, 1.0], "density": [0.0]}
    width = max(edge / BULK_BINS, top / MOST_BINS)
    edges = np.arange(int(np.ceil(top / width)) + 2) * width
    counts, edges = np.histogram(positive, bins=edges)
    return {"edges": edges.tolist(), "density": (counts / (len(values) * width)).tolist()}
