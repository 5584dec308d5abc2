import numpy as np
import pytest
from coloured import detection_threshold, log_uniform

from spikepool.laws.free_product import MarchenkoPastur
from spikepool.tables import population as silverstein
from spikepool.tables.population import TablePopulation

RATIOS = [0.01, 0.1, 0.5, 0.97, 1.03, 1.5, 5.0]


def uniform_weights(atoms):
    return np.full(len(atoms), 1 / len(atoms))


@pytest.mark.parametrize("ratio", RATIOS)
def test_one_atom_is_marchenko_pastur(ratio):
    atoms, weights = np.array([2.0]), np.ones(1)
    law = MarchenkoPastur(ratio, scale=2.0)
    x, density, cdf = silverstein.density_curve(atoms, weights, ratio)
    inside = (x > x[0] + 1e-6) & (x < x[-1] - 1e-6)
    np.testing.assert_allclose(density[inside], law.pdf(x[inside]), rtol=1e-6)
    np.testing.assert_allclose(cdf, law.cdf(x), atol=1e-9)
    assert x[-1] == pytest.approx(2 * (1 + np.sqrt(ratio)) ** 2, rel=1e-12)
    assert x[0] == pytest.approx(2 * (1 - np.sqrt(ratio)) ** 2, rel=1e-9)


@pytest.mark.parametrize("ratio", RATIOS)
def test_white_edge_and_johnstone_scale(ratio):
    n = 1000
    edge, critical, scale = silverstein.right_edge(np.array([3.0]), np.ones(1), ratio, n)
    root = np.sqrt(ratio)
    assert edge == pytest.approx(3 * (1 + root) ** 2, rel=1e-12)
    assert critical == pytest.approx(3 * (1 + root), rel=1e-12)
    p = ratio * n  # Johnstone (2001): (sqrt n + sqrt p)(1/sqrt n + 1/sqrt p)^(1/3), of the unnormalised matrix
    johnstone = 3 * (np.sqrt(n) + np.sqrt(p)) * (1 / np.sqrt(n) + 1 / np.sqrt(p)) ** (1 / 3) / n
    assert scale == pytest.approx(johnstone, rel=1e-12)


@pytest.mark.parametrize("ratio", RATIOS)
def test_equation_holds_along_the_curve(ratio):
    """The density and distribution function belong to a solution of Silverstein's equation."""
    atoms = log_uniform(50)
    weights = uniform_weights(atoms)
    x, density, cdf = silverstein.density_curve(atoms, weights, ratio, points=4000)
    assert cdf[0] == pytest.approx(max(0, 1 - 1 / ratio), abs=1e-9)
    assert cdf[-1] == pytest.approx(1, abs=1e-12)
    # m(z) from the distribution function, at points off the axis, must satisfy m = ∫ dH / (t(1 - c - c z m) - z).
    jumps = np.diff(cdf, prepend=0.0)
    middles = np.concatenate([[0.0 if ratio > 1 else x[0]], (x[1:] + x[:-1]) / 2])
    for z in (-1.0, 0.5 + 1j, 3 + 2j, 20.0 + 0.5j):
        m = np.sum(jumps / (middles - z))
        right = np.mean(1 / (atoms * (1 - ratio - ratio * z * m) - z))
        assert abs(m - right) < 2e-5 * abs(m)
    assert np.trapezoid(density, x) == pytest.approx(min(1, 1 / ratio), abs=0.02)


@pytest.mark.parametrize("ratio", [0.02, 0.5, 1.5])
def test_agrees_with_the_general_engine(ratio):
    atoms = log_uniform(120)
    population = TablePopulation(atoms, round(120 / ratio))
    law = population.law()
    x, density, cdf = population.curve()
    pick = np.arange(10, len(x) - 10, 25)
    np.testing.assert_allclose(density[pick], law.pdf(x[pick]), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(cdf[pick], law.cdf(x[pick]), atol=1e-9)
    assert population.edge == pytest.approx(law.support()[1], rel=1e-9)


@pytest.mark.parametrize("ratio", RATIOS)
def test_critical_value_is_where_the_spike_map_turns(ratio):
    atoms = log_uniform(200)
    edge, critical, _ = silverstein.right_edge(atoms, uniform_weights(atoms), ratio, 1000)
    assert critical == pytest.approx(detection_threshold(atoms, ratio), rel=1e-4)
    assert edge < silverstein.spike_map(1.2 * critical, atoms, uniform_weights(atoms), ratio)


def test_resolved_bands_keep_their_mass():
    """Three far atoms at a tiny ratio: three bands, a third of the mass in each."""
    atoms = np.array([1.0, 10.0, 100.0])
    x, density, cdf = silverstein.density_curve(atoms, uniform_weights(atoms), 1e-3)
    for border, mass in ((3.0, 1 / 3), (30.0, 2 / 3)):
        assert np.interp(border, x, cdf) == pytest.approx(mass, abs=1e-9)
        assert np.interp(border, x, density) == 0


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("ratio", [0.05, 0.5, 1.5])
def test_expected_eigenvalues_are_the_mean_of_samples(ratio):
    """Bias O(1/d): halves when the size doubles, and is under 2/d of the mean eigenvalue."""
    errors = []
    for d in (60, 120):
        n = round(d / ratio)
        atoms = log_uniform(d)
        rng = np.random.default_rng(0)
        draws = []
        for _ in range(60):
            Z = rng.standard_normal((n, d)) * np.sqrt(atoms)
            draws.append(np.sort(np.linalg.svd(Z, compute_uv=False) ** 2 / n)[::-1])
        mean = np.mean(draws, axis=0)
        errors.append(np.mean(np.abs(TablePopulation(atoms, n).expected() - mean)) / mean.mean())
        assert errors[-1] < 2 / d
    assert errors[1] < 0.75 * errors[0]
