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

Deterministic equivalents of ridge: what a fit to n rows does to each part of the target.

The target is a linear function of the features with the share w_b of its variance spread evenly over the directions
of band b, plus noise with the share w_noise. With L = lam/(lam + kappa), m = n − 1 and df2 = sum h L²,

    M_b  = mean_b (1 − L)² · m/(m − df2),        M_noise  = m/(m − df2)              MSE/var(y)       = M·w
    T_b  = mean_b L,                             T_noise  = 0                        E[f·y]/var(y)    = T·w
    E2_b = mean_b L² + M_b df2/m,                E2_noise = M_noise df2/m            E[|f|²]/var(y)   = E2·w

(Dobriban and Wager 2018; Hastie et al. 2022), so that M = 1 + E2 − 2T on each part.

Where the target's power lies: shares of its variance by band of principal directions, and noise.

The pilot's errors g(delta) = mean(|f|² − 2 f·y)/var(y) at its own size and at 2/5 of it are linear in the shares,
g = (E2 − 2T)·w, w >= 0, sum w = 1. They are solved by non-negative least squares, whitened by the errors' covariance
over rows and by the accuracy of the equivalents, with a prior that spreads a limit R² evenly over the bands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from spikepool.errors import ConvergenceError
from spikepool.forecasting.pilot import LEAST_R2, LOG_PENALTIES, Pilot, PilotSize, explained, weighted_mean
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


# Ranks of principal directions between which the power is taken as even. Powers of the eigenvalue as a basis fail
# where one eigenvalue dominates.
BAND_EDGES = np.array([0, 1, 3, 7, 15, 31, 63, 127, 255, np.inf])
# Index in Pilot.sizes of the sizes that are fitted: the pilot itself and .4 of it.
_FITTED_SIZES = (0, 3)
# Penalties within this much of the least error (in units of var(y)) enter the fit, and none below is forecast with.
# Chosen on the development tasks: further from the optimum heavy-tailed rows bias the equivalents, and .3 doubles the
# error at 8 times the pilot.
_ERROR_WINDOW = 0.1
# Accuracy of the equivalents (relative to errors of .5).
_EQUIVALENT_ERROR = 0.015
# Prior: limit R² = (pilot's R²)^p with p = 1 − .7 min(1, d/n0), in even parts over the bands, each with this standard
# deviation: with many more rows than features little is left to learn. Chosen on 73 development tasks: with .4 and .15
# forecasts from 200 rows were 2.9 points too low at 4 times the pilot (now 1.4); flat from .6 to .8 and .15 to .5.
_LIMIT_REACH = 0.7
_PRIOR_DEVIATION = 0.3
# Part of the prior's noise that is always kept: a lucky pilot would otherwise be told that nothing is noise, and an
# accuracy of one. No difference on the development tasks between 0 and .7;
# `tests/forecasting/test_hard_pilots.py` has a pilot that needs it.
_NOISE_KEPT = 0.7


@dataclass(frozen=True)
class PilotDesign:
    """Equivalents of the fitted sizes of a pilot, shared by every reweighting of its rows.

    `penalties` are those that ridge at other sizes is taken to choose from.
    """

    spectrum: PopulationSpectrum
    bands: FloatArray
    sizes: tuple[tuple[PilotSize, Equivalents], ...]
    penalties: FloatArray


def design_pilot(pilot: Pilot, spectrum: PopulationSpectrum) -> PilotDesign:
    """Bands of the spectrum, and the equivalents at the sizes the power is fitted to."""
    bands = spectrum.bands(BAND_EDGES)
    usable = [pilot.sizes[i] for i in _FITTED_SIZES if i < len(pilot.sizes) and pilot.sizes[i].tested.any()]
    fitted = tuple((size, equivalents(spectrum, bands, size.n, pilot.penalties)) for size in usable)
    error = pilot.sizes[0].excess.mean(axis=0) / pilot.energy.mean()
    smallest = pilot.penalties[np.flatnonzero(error <= error.min() + _ERROR_WINDOW)[0]]
    penalties = pilot.row_norm * 10.0**LOG_PENALTIES
    return PilotDesign(spectrum, bands, fitted, penalties[penalties >= 0.999 * smallest])


def fit_target_power(pilot: Pilot, design: PilotDesign, weights: FloatArray) -> FloatArray:
    """Shares (bands + 1,) of the target's variance, noise last, from rows with the given weights."""
    rows, errors, scatter = [], [], []
    for size, known in design.sizes:
        w = weights * size.tested
        # without the error of the intercept, which the equivalents leave out and the curve adds
        g = (1 - explained(pilot, size.excess, w)) / (1 + 1 / size.n) - 1
        near = g <= g.min() + _ERROR_WINDOW
        rows.append(known.excess[near])
        errors.append(g[near])
        # influence of each row on the ratio g
        influence = (size.excess - g * pilot.energy[:, None])[:, near] / weighted_mean(pilot.energy, w)
        scatter.append(influence * np.sqrt(size.tested / size.tested.mean())[:, None])
    A, g = np.vstack(rows), np.concatenate(errors)
    model_error = _EQUIVALENT_ERROR * np.maximum(1, np.abs(g) / 0.5)
    covariance = np.atleast_2d(np.cov(np.hstack(scatter), rowvar=False))
    whiten = np.linalg.cholesky(covariance / pilot.rows + np.diag(model_error**2))
    best = max(-float(errors[0].min()), LEAST_R2)
    count = len(design.bands)
    limit = best ** (1 - _LIMIT_REACH * min(1.0, pilot.dimension / pilot.rows))
    prior = np.append(np.full(count, limit / count), 1 - limit)
    whole = _EQUIVALENT_ERROR**-2  # holds the sum of the shares at one, far better than any error is known
    system = np.vstack(
        [np.linalg.solve(whiten, A), np.eye(count + 1) / _PRIOR_DEVIATION, np.full((1, count + 1), whole)]
    )
    values = np.concatenate([np.linalg.solve(whiten, g), prior / _PRIOR_DEVIATION, [whole]])
    kept = _NOISE_KEPT * (1 - limit)
    power = nnls(system, values - kept * system[:, -1], maxiter=100 * (count + 1))[0]
    power[-1] += kept
    return np.asarray(power)
