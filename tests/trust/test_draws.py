"""Draws of the simulated world: the three routes have one law, and overlaps are what their definition says."""

import numpy as np
import pytest

from spikepool.trust import draws
from spikepool.trust.draws import Draw, overlaps, overlaps_with_axes
from spikepool.trust.population import corrected, population_spectrum

KS = np.array([1, 2, 5])


def projected(u, v, k):
    """Overlap of the top k by projectors, which share nothing with the cumulated sums."""
    return np.trace(u[:, :k] @ u[:, :k].T @ v[:, :k] @ v[:, :k].T) / k


def test_overlaps_are_traces_of_projectors():
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.standard_normal((12, 5)))[0] for _ in range(2))
    spans, single = overlaps(u, v, KS)
    assert spans == pytest.approx([projected(u, v, k) for k in KS], rel=1e-12)
    assert single == pytest.approx([(u[:, i] @ v[:, i]) ** 2 for i in range(5)], rel=1e-12)
    with_axes, _ = overlaps_with_axes(u, KS)
    assert with_axes == pytest.approx([projected(u, np.eye(12), k) for k in KS], rel=1e-12)


def moments(tau, scales, n, repeats=400):
    """Means and standard errors of the eigenvalues of draws, and of the squared entries of their first vector."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(repeats):
        draw = Draw(scales, n, len(tau), rng)
        values, first = draw.eigenvalues(tau), draw.leading(tau, 1)[:, 0]
        found.append([*values[:2], values.sum(), (values**2).sum(), *first[:2] ** 2])
    found = np.array(found)
    return found.mean(axis=0), found.std(axis=0) / np.sqrt(repeats)


def some_scales(n, seed=0):
    scales = np.random.default_rng(seed).gamma(2.0, size=n)
    return scales / scales.mean()


def test_the_two_routes_of_many_rows_agree(monkeypatch):
    tau, n = 1 / np.arange(1.0, 7), 400
    scales = some_scales(n)
    bartlett, error_bartlett = moments(tau, scales, n)
    monkeypatch.setattr(draws, "BARTLETT_RATIO", 10**9)
    direct, error_direct = moments(tau, scales, n)
    # four standard errors, and one per cent for groups of nearly equal scale
    assert np.all(np.abs(bartlett - direct) < 4 * np.hypot(error_direct, error_bartlett) + 0.01 * direct)


def test_rows_fewer_than_dimensions_have_the_same_law():
    """At n = d the rows are kept, at d + 1 their moments: two neighbouring sizes hardly differ."""
    tau, scales = 1 / np.arange(1.0, 31), some_scales(60)
    wide, error_wide = moments(tau, scales, 30)
    tall, error_tall = moments(tau, scales, 31)
    assert np.all(np.abs(wide - tall) < 4 * np.hypot(error_wide, error_tall) + 0.04 * tall)


def test_draws_are_those_of_rows():
    """Against rows that are drawn and centred, by numpy alone."""
    tau, n = np.array([4.0, 2.0, 1.0, 0.5]), 40
    scales = some_scales(n)
    mean, error = moments(tau, scales, n)
    rng = np.random.default_rng(2)
    found = []
    for _ in range(400):
        x = rng.standard_normal((n, 4)) * np.sqrt(tau) * np.sqrt(scales)[:, None]
        values, vectors = np.linalg.eigh(np.cov(x.T))
        found.append([*values[:1:-1], values.sum(), (values**2).sum(), *vectors[:2, -1] ** 2])
    expected, error_rows = np.mean(found, axis=0), np.std(found, axis=0) / 20
    # centring takes a little more than one row when their scales differ
    assert np.all(np.abs(mean - expected) < 4 * np.hypot(error, error_rows) + 0.02 * expected)


@pytest.mark.parametrize(("n", "d"), [(30, 50), (51, 50), (900, 50)])
def test_values_and_vectors_belong_together(n, d):
    tau = np.linspace(5, 1, d)
    draw = Draw(np.ones(n), n, d, np.random.default_rng(5))
    values, vectors = draw.eigenvalues(tau), draw.leading(tau, 3)
    assert len(values) == d
    assert np.all(np.diff(values) <= 0)
    assert np.count_nonzero(values > 1e-9) == min(n - 1, d)
    assert vectors.T @ vectors == pytest.approx(np.eye(3), abs=1e-9)
    # the same draw under twice the spectrum
    assert draw.eigenvalues(2 * tau) == pytest.approx(2 * values, rel=1e-9, abs=1e-12)
    assert np.abs(np.sum(draw.leading(2 * tau, 3) * vectors, axis=0)) == pytest.approx(np.ones(3), rel=1e-6)


def test_population_spectrum_undoes_the_spread_of_the_sample():
    rng = np.random.default_rng(0)
    d, n = 80, 160
    tau = 10 / np.arange(1.0, d + 1)
    x = rng.standard_normal((n, d)) * np.sqrt(tau)
    values = np.linalg.eigvalsh(np.cov(x.T))[::-1]
    fitted = population_spectrum(values, n, [Draw(np.ones(n), n, d, rng) for _ in range(2)])
    assert fitted.sum() == pytest.approx(values.sum())
    assert np.all(np.diff(fitted) <= 0)

    def error(spectrum):
        return np.abs(np.log(spectrum / tau)).mean()

    assert error(fitted) < 0.5 * error(values)


def test_population_tail_keeps_the_trace_when_rows_are_few():
    rng = np.random.default_rng(0)
    d, n = 200, 60
    x = rng.standard_normal((n, d)) * np.sqrt(1 / np.arange(1.0, d + 1))
    values = np.concatenate([np.linalg.eigvalsh(np.cov(x))[::-1][: n - 1], np.zeros(d - n + 1)])
    fitted = population_spectrum(values, n, [Draw(np.ones(n), n, d, rng) for _ in range(2)])
    assert fitted.shape == (d,)
    assert fitted.sum() == pytest.approx(values.sum())
    assert fitted[-1] > 0


def test_redrawn_spectra_scatter_as_fits_do():
    """Spread of the log of a redrawn eigenvalue, against that of spectra fitted to independent samples."""
    rng = np.random.default_rng(0)
    d, n = 40, 300
    tau, scales = 10 / np.arange(1.0, d + 1), np.ones(n)

    def fitted(values):
        return population_spectrum(values, n, [Draw(scales, n, d, rng) for _ in range(4)])

    samples = [Draw(scales, n, d, rng).eigenvalues(tau) for _ in range(60)]
    spread = np.std([np.log(fitted(values)[:5]) for values in samples], axis=0)
    base = fitted(samples[0])
    redrawn = [np.log(corrected(base, samples[0], Draw(scales, n, d, rng).eigenvalues(base), n)[:5]) for _ in range(60)]
    # each is known to nine per cent; a fit also has the noise of four draws
    assert np.std(redrawn, axis=0) / spread == pytest.approx(np.full(5, 0.95), abs=0.35)
