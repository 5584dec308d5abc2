"""Identities behind the errata that no other test covers."""

import mpmath as mp
import numpy as np
import pytest

import spikepool as sp
from spikepool.theory import spikes


@pytest.mark.parametrize("delta", [0.01, 0.625, 1.0, 7.0])
def test_population_condition_is_a_perfect_square(delta):
    rho = np.linspace(delta + 0.01, 4 * (delta + np.sqrt(delta)) + 1, 50)
    cleared = rho * (rho - delta + 1) - (1 + np.sqrt(delta)) ** 2 * (rho - delta)
    np.testing.assert_allclose(cleared, (rho - delta - np.sqrt(delta)) ** 2, atol=1e-10)
    # so the outlier formula exceeds the edge on both sides of the threshold, and only the branch decides
    below = delta + 0.5 * np.sqrt(delta)
    assert spikes.population_outlier(below - delta, delta) > (1 + np.sqrt(delta)) ** 2
    assert spikes.population_alignment(below - delta, delta) == 0


@pytest.mark.parametrize(("delta", "gamma", "x"), [(0.625, 0.5, 1.9), (0.2, 2.0, 3.0), (3.0, 0.1, 2.5)])
def test_quadratic_has_the_two_mirrored_roots(delta, gamma, x):
    kappa = 0.3
    beta = spikes.population_outlier(x, delta, kappa)
    assert spikes.population_outlier(delta / x, delta, kappa) == pytest.approx(beta)
    quadratic = [
        delta * kappa,
        -(beta**2) * gamma + beta * kappa * (gamma * (1 + delta) - 2 * delta),
        beta**2 * (beta * gamma + kappa * (1 - gamma) * (delta - gamma)),
    ]
    roots = np.sort(np.roots(quadratic))
    assert roots[0] == pytest.approx(beta * (1 + gamma / x))
    assert roots[1] == pytest.approx(beta * (1 + gamma * x / delta))
    assert spikes.sample_outlier(x, delta, gamma, kappa) == pytest.approx(roots[0])


def test_the_larger_root_is_not_the_papers_own_number():
    model = sp.SequenceModel(500, 800, 1000, sp.prefix_correlation(10, 3), 2.5, table="class_centered")
    p = model.predict(sp.mean_weights(10))
    x = p.alpha * model.mu**2 / p.kappa - model.delta
    beta = spikes.population_outlier(x, model.delta, p.kappa)
    assert beta * (1 + model.gamma / x) == pytest.approx(1.17, abs=5e-3)
    assert beta * (1 + model.gamma * x / model.delta) == pytest.approx(9.41, abs=5e-3)


def test_mean_pooling_ratio_tends_to_one():
    for L in (2, 5):
        ratios = [np.divide(*sp.prefix_mean_gains(T, L)) for T in (10, 100, 10_000)]
        np.testing.assert_allclose(ratios, [1 + L * (L - 1) / T for T in (10, 100, 10_000)])


def test_printed_derivative_of_the_population_transform():
    # m′ at m = −1/rho is (rho−delta)²/((rho−delta)²−delta)/rho²: checked by differentiating the branch numerically
    delta, rho = mp.mpf("0.625"), mp.mpf("2.3")
    z = rho * (rho - delta + 1) / (rho - delta)

    def m(t):
        b = t + delta - 1
        return (-b + mp.sqrt(b * b - 4 * delta * t)) / (2 * delta * t)

    assert m(z) == pytest.approx(-1 / rho)
    expected = (rho - delta) ** 2 / ((rho - delta) ** 2 - delta) / rho**2
    assert float(mp.diff(m, z)) == pytest.approx(float(expected), rel=1e-9)
