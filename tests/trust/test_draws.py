"""Draws of the simulated world: the three routes have one law, and overlaps are what their definition says."""

import numpy as np
import pytest

from spikepool.trust import draws
from spikepool.trust.draws import World, covariance, eigenvalues, leading, overlaps, overlaps_with_axes
from spikepool.trust.population import population_spectrum

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


def moments(world, n, draw, repeats=400):
    """Means and standard errors of the diagonal of a covariance and of its squared entries."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(repeats):
        S = draw(world, n, rng)
        found.append([S[0, 0], S[-1, -1], np.trace(S), S[0, 1] ** 2, S[0, 0] ** 2, np.sum(S**2)])
    found = np.array(found)
    return found.mean(axis=0), found.std(axis=0) / np.sqrt(repeats)


def gram(world, n, rng):
    x = draws.gram_rows(world, n, rng)
    return x.T @ x


def test_the_three_routes_agree_across_the_switch(monkeypatch):
    rng = np.random.default_rng(0)
    d, n = 6, 400
    scales = rng.gamma(2.0, size=n)
    world = World(1 / np.arange(1.0, d + 1), scales / scales.mean())
    direct, error_direct = moments(world, n, covariance) if n < draws.BARTLETT_RATIO * d else (None, None)
    if direct is None:
        monkeypatch.setattr(draws, "BARTLETT_RATIO", 10**9)
        direct, error_direct = moments(world, n, covariance)
        monkeypatch.setattr(draws, "BARTLETT_RATIO", 16)
    bartlett, error_bartlett = moments(world, n, covariance)
    rows, error_rows = moments(world, n, gram)
    # four standard errors, and one per cent for groups of nearly equal scale
    assert np.all(np.abs(bartlett - direct) < 4 * np.hypot(error_direct, error_bartlett) + 0.01 * direct)
    assert np.all(np.abs(rows - direct) < 4 * np.hypot(error_direct, error_rows))


def test_the_mean_covariance_is_the_population():
    rng = np.random.default_rng(3)
    scales = rng.gamma(2.0, size=60)
    world = World(np.array([4.0, 2.0, 1.0, 0.5]), scales / scales.mean())
    mean = np.mean([covariance(world, 60, rng) for _ in range(3000)], axis=0)
    assert np.diag(mean) == pytest.approx(world.tau, rel=0.03)
    assert np.abs(mean - np.diag(np.diag(mean))).max() < 0.05


@pytest.mark.parametrize(("n", "d"), [(30, 50), (51, 50), (900, 50)])
def test_values_and_vectors_belong_together(n, d):
    world = World(np.linspace(5, 1, d), np.ones(n))
    values = eigenvalues(world, n, np.random.default_rng(5))
    vectors = leading(world, n, 3, np.random.default_rng(5))
    assert len(values) == d
    assert np.all(np.diff(values) <= 0)
    assert np.count_nonzero(values > 1e-9) == min(n - 1, d)
    assert vectors.T @ vectors == pytest.approx(np.eye(3), abs=1e-9)


def test_population_spectrum_undoes_the_spread_of_the_sample():
    rng = np.random.default_rng(0)
    d, n = 80, 160
    tau = 10 / np.arange(1.0, d + 1)
    x = rng.standard_normal((n, d)) * np.sqrt(tau)
    values = np.linalg.eigvalsh(np.cov(x.T))[::-1]
    fitted = population_spectrum(values, np.ones(n), n, rng)
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
    fitted = population_spectrum(values, np.ones(n), n, rng)
    assert fitted.shape == (d,)
    assert fitted.sum() == pytest.approx(values.sum())
    assert fitted[-1] > 0
