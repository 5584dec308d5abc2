"""Planted outliers. benchmarks/studies/planted.py runs the same with 100 draws and more sizes."""

import numpy as np
import pytest
from coloured import detection_threshold, log_uniform, rows

import spikepool as sp
from spikepool.laws.bulk_edge import find_edge

MULTIPLES = np.array([1.5, 2.0, 3.0])


def eigenvalues(population, V, rng):
    """Centred covariance of V Gaussian rows: V − 1 independent rows, by Bartlett's factor when there are more."""
    d, n = len(population), V - 1
    if n >= d:
        factor = np.tril(rng.standard_normal((d, d)), -1)
        factor[np.diag_indices(d)] = np.sqrt(rng.chisquare(n - np.arange(d)))
    else:
        factor = rng.standard_normal((d, n))
    factor *= np.sqrt(population)[:, None]
    return np.linalg.svd(factor, compute_uv=False) ** 2 / V


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("ratio", "d"), [(0.01, 300), (0.1, 300), (0.5, 300), (1.5, 300)])
def test_none_found_without_spikes(ratio, d):
    rng = np.random.default_rng(int(1000 * ratio))
    draws = 60
    false = sum(find_edge(eigenvalues(log_uniform(d, rng), round(d / ratio), rng)).n_outliers > 0 for _ in range(draws))
    # at most 1 in 100 on average; 3 or more of 60 happen once in 40 runs of a rule at that level
    assert false <= 2


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("ratio", "d", "draws"), [(0.01, 300, 40), (0.1, 300, 40), (0.5, 300, 40), (1.5, 900, 10)])
def test_three_found(ratio, d, draws):
    rng = np.random.default_rng(int(1000 * ratio) + 1)
    right = 0
    for _ in range(draws):
        noise = log_uniform(d - 3, rng)
        spikes = MULTIPLES * detection_threshold(noise, ratio)
        right += find_edge(eigenvalues(np.concatenate([spikes, noise]), round(d / ratio), rng)).n_outliers == 3
    assert right >= 0.95 * draws


@pytest.mark.statistical
def test_whole_path_from_the_table():
    """d = 300, V = 3000, in rotated coordinates with a mean: count, population spikes, directions."""
    rng = np.random.default_rng(7)
    noise = log_uniform(297, rng)
    spikes = MULTIPLES[::-1] * detection_threshold(noise, 0.1)
    fit = sp.TableSpectrum(null_draws=1, repetitions=0).fit(rows(np.concatenate([spikes, noise]), 3000, rng, True))
    assert fit.n_outliers_ == 3
    got = np.array([outlier.population_eigenvalue for outlier in fit.outliers_])
    # standard deviation of a sample eigenvalue: sqrt(2/V) of it; sampling shifts it up by 8 % at the weakest
    np.testing.assert_allclose(got, spikes, rtol=4 * np.sqrt(2 / 3000))
    # the null most tools use takes the colour of the noise for signal
    assert fit.counts_["white"] > 60
    assert fit.counts_["coloured"] == 3


@pytest.mark.statistical
def test_below_the_threshold_nothing_is_claimed():
    rng = np.random.default_rng(8)
    found = []
    for _ in range(30):
        noise = log_uniform(197, rng)
        spikes = 0.9 * detection_threshold(noise, 0.5) * np.ones(3)
        found.append(find_edge(eigenvalues(np.concatenate([spikes, noise]), 400, rng)).n_outliers)
    assert np.count_nonzero(found) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("d", "V", "planted"), [(200, 4000, 25), (120, 2000, 13), (100, 2000, 40)])
def test_more_than_a_tenth_of_the_directions_planted(d, V, planted):
    """The scan for outliers does not stop at a tenth of the eigenvalues, nor does ScreeNOT's null."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((V, d))
    table[:, :planted] *= np.sqrt(50)
    fit = sp.TableSpectrum(null_draws=1, repetitions=19).fit(table)
    assert fit.n_outliers_ == planted
    assert fit.counts_["screenot"] == planted
    assert fit.stable_
    assert "second group" in fit.verdict_
