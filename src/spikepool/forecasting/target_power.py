"""Where the target's power lies: shares of its variance by band of principal directions, and noise.

The pilot's errors g(delta) = mean(|f|² − 2 f·y)/var(y) at its own size and at 2/5 of it are linear in the shares,
g = (E2 − 2T)·w, w >= 0, sum w = 1. They are solved by non-negative least squares, whitened by the errors' covariance
over rows and by the accuracy of the equivalents, with a prior that spreads the R² of the pilot evenly over the bands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from spikepool.forecasting.equivalents import Equivalents, equivalents
from spikepool.forecasting.pilot import LEAST_R2, LOG_PENALTIES, Pilot, PilotSize, explained, weighted_mean
from spikepool.forecasting.spectrum import PopulationSpectrum
from spikepool.kit.arrays import FloatArray

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
# Prior: the limit of R² is the pilot's, in even parts over the bands, each with this standard deviation.
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
    prior = np.append(np.full(count, best / count), 1 - best)
    whole = _EQUIVALENT_ERROR**-2  # holds the sum of the shares at one, far better than any error is known
    system = np.vstack(
        [np.linalg.solve(whiten, A), np.eye(count + 1) / _PRIOR_DEVIATION, np.full((1, count + 1), whole)]
    )
    values = np.concatenate([np.linalg.solve(whiten, g), prior / _PRIOR_DEVIATION, [whole]])
    kept = _NOISE_KEPT * (1 - best) / pilot.unseen
    power = nnls(system, values - kept * system[:, -1], maxiter=100 * (count + 1))[0]
    power[-1] += kept
    return np.asarray(power)
