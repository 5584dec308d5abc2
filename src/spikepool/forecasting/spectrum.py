"""The population spectrum behind a sample, and the effective penalty of ridge on rows drawn from it.

A ridge fit with penalty delta to m = n − 1 centred rows of population eigenvalues lam with multiplicities h acts like
one on the population with the effective penalty kappa,

    m = sum h lam/(lam + kappa) + delta/kappa,       df(delta) = sum s/(s + delta) ≈ sum h lam/(lam + kappa)

with s the eigenvalues of X'X (Silverstein 1995; Hastie, Montanari, Rosset, Tibshirani 2022). The second relation gives
h: kappa = delta/(m − df) is seen in the sample for every delta, and the multiplicities are the non-negative least
squares solution over a grid of lam. Holds for rows of independent-like coordinates after whitening; heavy-tailed rows
bend it most at small penalties.

A few directions beyond the bulk hardly change df, and often hold all of the target (the differences of class means).
Their sample eigenvalues s are inverted one by one, lam = −1/m̲(s) with m̲ the companion transform of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from spikepool.errors import ConvergenceError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.roots import find_root
from spikepool.laws.bulk_edge import FEWEST, find_edge
from spikepool.ridge.gcv import LEAST_FREEDOM

# Penalties at which the degrees of freedom are met, and eigenvalues that may meet them.
_GRID = 90


@dataclass(frozen=True)
class PopulationSpectrum:
    """Population eigenvalues, descending, with multiplicities that need not be whole."""

    eigenvalues: FloatArray
    multiplicities: FloatArray

    def effective_penalty(self, m: FloatArray, penalty: FloatArray) -> FloatArray:
        """Effective penalty kappa for `m` centred rows and ridge penalties, broadcast against each other."""
        rows, delta = np.broadcast_arrays(np.asarray(m, dtype=np.float64), np.asarray(penalty, dtype=np.float64))
        lam, h = self.eigenvalues, self.multiplicities
        flat_rows, flat_delta = rows.ravel(), delta.ravel()

        def excess(x: FloatArray, index: np.ndarray) -> FloatArray:
            kappa = np.exp(x)
            used = (h * lam / (lam + kappa[:, None])).sum(axis=1) + flat_delta[index] / kappa
            return np.asarray(np.log(used / flat_rows[index]))

        low = np.log(flat_delta / flat_rows)
        high = np.log((flat_delta + float(h @ lam)) / flat_rows)
        report = find_root(excess, low - 1e-9, high + 1e-9, xtol=1e-13)
        if not report.converged.all():
            raise ConvergenceError("the effective penalty of ridge was not found", remedy="Rescale the features")
        return np.asarray(np.exp(report.value).reshape(rows.shape))

    def sorted(self) -> PopulationSpectrum:
        """The same with eigenvalues in descending order."""
        order = np.argsort(self.eigenvalues)[::-1]
        return PopulationSpectrum(self.eigenvalues[order], self.multiplicities[order])

    def bands(self, edges: FloatArray) -> FloatArray:
        """Weights (bands, eigenvalues), rows summing to one, of the directions whose rank lies between two edges."""
        last = np.cumsum(self.multiplicities)
        first = last - self.multiplicities
        lower, upper = edges[:-1, None], edges[1:, None]
        inside = np.clip(np.minimum(last, upper) - np.maximum(first, lower), 0, None)
        total = inside.sum(axis=1)
        real = total > 1e-6 * last[-1]
        return np.asarray(inside[real] / total[real, None])


def fit_spectrum(squared: FloatArray, rows: int, dimension: int, row_norm: float) -> PopulationSpectrum:
    """Population spectrum from the eigenvalues `squared` of X'X over `rows` centred rows.

    Parameters
    ----------
    squared : array
        Nonzero eigenvalues of X'X.
    rows, dimension : int
        Shape of X.
    row_norm : float
        Trace of the covariance; the fit keeps it, and the total multiplicity `dimension`.
    """
    m = rows - 1
    squared = np.sort(squared)[::-1]
    spikes = _spikes(squared, m)
    if len(spikes) and spikes.sum() < row_norm:
        rest = fit_bulk(
            squared[len(spikes) :], m - len(spikes), dimension - len(spikes), row_norm - float(spikes.sum())
        )
        return PopulationSpectrum(
            np.concatenate([spikes, rest.eigenvalues]), np.concatenate([np.ones(len(spikes)), rest.multiplicities])
        ).sorted()
    return fit_bulk(squared, m, dimension, row_norm)


def _spikes(squared: FloatArray, m: int) -> FloatArray:
    """Population eigenvalues behind sample eigenvalues beyond the bulk, descending; none for a small spectrum."""
    if len(squared) < FEWEST:
        return np.zeros(0)
    values = squared / m
    count = find_edge(values).n_outliers
    bulk = values[count:]
    companion = ((1 / (bulk - values[:count, None])).sum(axis=1) - (m - count - len(bulk)) / values[:count]) / (
        m - count
    )
    return np.asarray(-1 / companion)


def fit_bulk(squared: FloatArray, m: int, dimension: int, row_norm: float) -> PopulationSpectrum:
    """The same for a spectrum without outliers, of `m` independent rows."""
    penalties = row_norm * np.logspace(-6, 2.5, _GRID)
    freedom = (squared / (squared + penalties[:, None])).sum(axis=1)
    # with fewer rows than features df approaches m at small penalties, where m − df is the rounding of both
    usable = m - freedom > LEAST_FREEDOM * m
    kappa = penalties[usable] / (m - freedom[usable])
    highest = 1.5 * float(squared.max()) / m
    lowest = min(0.1 * float(kappa.min()), 0.1 * row_norm / dimension, 1e-3 * highest)
    grid = np.geomspace(lowest, highest, _GRID)
    seen = grid / (grid + kappa[:, None]) / freedom[usable, None]
    system = np.vstack([seen, grid / row_norm, np.full(_GRID, 1 / dimension)])
    h = nnls(system, np.ones(len(system)), maxiter=50 * _GRID)[0]
    live = h > 0
    return PopulationSpectrum(grid[live][::-1], h[live][::-1])
