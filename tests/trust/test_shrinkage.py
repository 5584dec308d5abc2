"""Shrunken eigenvalues, and the spectrum that is fitted from them."""

import numpy as np
import pytest
from scipy.integrate import quad

from spikepool.trust.draws import Draw
from spikepool.trust.effort import FITTED
from spikepool.trust.population import population_spectrum
from spikepool.trust.shrinkage import _hilbert, _kernel, shrunken_eigenvalues

SPECTRA = {
    "1/rank": 1 / np.arange(1.0, 101),
    "exponential": np.exp(-np.arange(60) / 10),
    "flat": np.ones(100),
    "over twelve decades": np.arange(1.0, 101) ** -6,
}


def sample(tau, n, seed=0):
    """Descending eigenvalues and components of n Gaussian rows."""
    x = np.random.default_rng(seed).standard_normal((n, len(tau))) * np.sqrt(tau)
    values, vectors = np.linalg.eigh(np.cov(x.T))
    return values[::-1], vectors[:, ::-1]


@pytest.mark.parametrize("name", SPECTRA)
def test_they_are_the_variances_along_the_samples_components(name):
    tau = SPECTRA[name]
    values, vectors = sample(tau, 400)
    along = tau @ vectors**2
    error = np.abs(np.log(shrunken_eigenvalues(values, 400) / along)).mean()
    assert error < 0.1
    assert error < 0.5 * np.abs(np.log(values / along)).mean()


def test_units_do_not_matter():
    values, _ = sample(SPECTRA["1/rank"], 300)
    assert shrunken_eigenvalues(1e6 * values, 300) == pytest.approx(1e6 * shrunken_eigenvalues(values, 300))


@pytest.mark.parametrize("x", [0.3, 1.7, 3.0, 50.0, 220.0, 230.0, 1e5])
def test_hilbert_transform_is_the_principal_value(x):
    edge = np.sqrt(5)
    if x < edge:
        expected = quad(lambda t: float(_kernel(np.array(t))), -edge, edge, weight="cauchy", wvar=x)[0]
    else:
        expected = quad(lambda t: float(_kernel(np.array(t))) / (t - x), -edge, edge)[0]
    found = _hilbert(np.array([x, -x]))
    assert found == pytest.approx(np.array([expected, -expected]) / np.pi, rel=1e-6)


@pytest.mark.parametrize("name", ["1/rank", "exponential"])
def test_the_fitted_spectrum_is_the_populations(name):
    """Root mean square of the log error: .11 to .13 when the fit started from the sample's eigenvalues."""
    tau = SPECTRA[name]
    for seed in range(3):
        values, _ = sample(tau, 400, seed)
        rng = np.random.default_rng(seed)
        draws = [Draw(np.ones(400), 400, len(tau), rng) for _ in range(FITTED.round_draws)]
        found = population_spectrum(values, 400, draws, FITTED.rounds, FITTED.fitted)
        assert np.sqrt(np.mean(np.log(found / tau) ** 2)) < 0.09
