import numpy as np
import pytest
from coloured import log_uniform, rows, sample_eigenvalues

from spikepool.errors import SizeError
from spikepool.laws.bulk_edge import find_edge
from spikepool.laws.free_product import MarchenkoPastur
from spikepool.tables.heldout import gaussian_eigenvalues
from spikepool.tables.population import TablePopulation, fit_population, plug_in
from spikepool.tables.screenot import impute, screenot_threshold


def test_edge_of_an_exact_square_root_bulk():
    """Eigenvalues placed at e − σ a_j return e and σ; one beyond is counted, its distance in units of σ."""
    j = np.arange(1, 201)
    bulk = 7.0 - 0.02 * (3 * np.pi * (4 * j - 3) / 8) ** (2 / 3)
    found = find_edge(bulk)
    assert (found.n_outliers, found.edge, found.scale) == (0, pytest.approx(7.0), pytest.approx(0.02))
    found = find_edge(np.concatenate([[7.5, 7.3, 7.2], bulk]))
    assert found.n_outliers == 3
    assert found.statistics[2] == pytest.approx(0.2 / 0.02)
    assert 7 < found.threshold < 7.2


def test_max_outliers_and_small_bulks():
    values = np.concatenate([[9.0, 8.0], np.linspace(1, 0.5, 100)])
    assert find_edge(values).n_outliers == 2
    assert find_edge(values, max_outliers=1).n_outliers <= 1
    assert find_edge(values, max_outliers=0).n_outliers == 0
    with pytest.raises(SizeError, match="at least 30"):
        find_edge(values[:20])


def test_scale_does_not_matter():
    rng = np.random.default_rng(0)
    values = np.concatenate([[12.0, 9.0], gaussian_eigenvalues(log_uniform(150, rng), 1500, rng)])
    one, other = find_edge(values), find_edge(values * 1e-6)
    assert one.n_outliers == other.n_outliers == 2
    np.testing.assert_allclose(one.statistics, other.statistics, rtol=1e-9)
    a, b = (fit_population(v[2:], 150, 1500, e.edge) for v, e in ((values, one), (values * 1e-6, other)))
    np.testing.assert_allclose(a.atoms, b.atoms * 1e6, rtol=1e-6)


@pytest.mark.slow
def test_bartlett_has_the_law_of_drawn_rows():
    rng = np.random.default_rng(1)
    atoms = np.geomspace(0.5, 4, 12)
    for n in (8, 40):
        quick = np.array([gaussian_eigenvalues(atoms, n, rng) for _ in range(2000)])
        slow = np.array(
            [
                np.linalg.svd(rng.standard_normal((n, 12)) * np.sqrt(atoms), compute_uv=False)[: min(n, 12)] ** 2 / n
                for _ in range(2000)
            ]
        )
        error = np.sqrt(quick.var(axis=0) + slow.var(axis=0)) / np.sqrt(2000)
        assert np.all(np.abs(quick.mean(axis=0) - slow.mean(axis=0)) < 4.5 * error)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("ratio", [0.01, 0.1, 0.5, 1.5])
def test_inversion_predicts_better_than_the_sample_itself(ratio):
    """The law fitted to one sample is closer to the mean spectrum than the sample, and than the paper's plug-in."""
    d, rng = 200, np.random.default_rng(2)
    n = round(d / ratio)
    truth = TablePopulation(log_uniform(d), n)
    mean = truth.expected()
    fitted, raw, naive, edges = [], [], [], []
    for _ in range(12):
        sample = gaussian_eigenvalues(truth.atoms, n, rng)
        population = fit_population(sample, d, n, find_edge(sample).edge)
        fitted.append(np.mean(np.abs(population.expected() - mean)))
        raw.append(np.mean(np.abs(sample - mean)))
        naive.append(np.mean(np.abs(plug_in(sample, d, n).expected() - mean)))
        edges.append(population.edge)
    assert np.mean(fitted) < np.mean(raw)
    # at d/V = .01 sampling has hardly moved the eigenvalues, and the plug-in is no worse than 3 times the fit
    assert np.mean(fitted) < np.mean(naive) / (1 if ratio < 0.05 else 3)
    # the edge: within four Tracy-Widom scales, the error of the regression that sets it
    assert abs(np.mean(edges) - truth.edge) < 4 * truth.scale


@pytest.mark.parametrize("ratio", [0.05, 0.5, 1.5])
def test_exact_law_is_inverted(ratio):
    """Fed with the law's own quantiles, the inversion returns the population: moments to 1 %."""
    d = 400
    truth = TablePopulation(log_uniform(d), round(d / ratio))
    got = fit_population(truth.expected(), d, truth.n, truth.edge)
    for power in (1, 2, 3):
        assert np.mean(got.atoms**power) == pytest.approx(np.mean(truth.atoms**power), rel=0.01 * power)
    assert got.edge == pytest.approx(truth.edge, rel=1e-3)


def test_white_noise_gives_a_narrow_population():
    rng = np.random.default_rng(3)
    sample = gaussian_eigenvalues(np.full(200, 3.0), 1000, rng)
    population = fit_population(sample, 200, 1000, find_edge(sample).edge)
    assert np.quantile(population.atoms, 0.05) > 2.2
    assert np.quantile(population.atoms, 0.95) < 3.9


def test_screenot_on_white_noise_is_the_known_threshold():
    """For square white noise the optimal hard threshold is 4/sqrt(3) (Donoho and Gavish 2014)."""
    levels = (np.arange(4000)[::-1] + 0.5) / 4000

    def formula(b):  # theirs, for aspect ratio b
        return np.sqrt(2 * (b + 1) + 8 * b / ((b + 1) + np.sqrt(b**2 + 14 * b + 1)))

    assert formula(1.0) == pytest.approx(4 / np.sqrt(3))
    for ratio in (1.0, 0.5, 0.1):
        singular = np.sqrt(MarchenkoPastur(ratio).ppf(levels))
        assert screenot_threshold(singular, ratio, 0) == pytest.approx(formula(ratio), rel=2e-3)


def test_screenot_imputation():
    values = np.array([100.0, 50.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    got = impute(values, 2)
    np.testing.assert_array_equal(got[2:], values[2:])
    step = (5.0 - 3.0) / (2 ** (2 / 3) - 1)
    assert got[0] == pytest.approx(5.0 + step)
    assert got[1] == pytest.approx(5.0 + step * (1 - 0.5 ** (2 / 3)))
    np.testing.assert_array_equal(impute(values, 0), values)


def test_rows_helper_is_centred_by_the_svd():
    E = rows(np.ones(5), 50, np.random.default_rng(4), rotate=True)
    assert len(sample_eigenvalues(E)) == 5
