"""Norms, ranks and the exponent of a weight, from their definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import spikepool as sp
from spikepool.tables.measures import effective_rank, measure, power_law_exponent, stable_rank

RNG = np.random.default_rng(0)


def exponent(values):
    """The definition, one candidate after the other, sharing no code: smallest Kolmogorov-Smirnov distance."""
    x = sorted(v for v in values if v > 1e-5)
    found = []
    for i in range(len(x) - 1):
        tail = x[i:]
        n = len(tail)
        alpha = 1 + n / sum(np.log(v / x[i]) for v in tail)
        distance = max(abs(1 - (v / x[i]) ** (1 - alpha) - j / n) for j, v in enumerate(tail))
        found.append((distance, alpha))
    return min(found)[1]


def test_measures_of_a_weight_are_those_of_its_singular_values():
    W = RNG.standard_normal((300, 60)) * np.geomspace(1, 0.1, 60) + 0.7
    s = np.linalg.svd(W, compute_uv=False)
    found = sp.TableSpectrum(null_draws=0, repetitions=0).fit(W).measures_
    assert_allclose([found.frobenius, found.spectral], [np.linalg.norm(W), s[0]], rtol=1e-10)
    assert_allclose(found.stable_rank, np.sum(s**2) / s[0] ** 2, rtol=1e-10)
    share = s**2 / np.sum(s**2)
    assert_allclose(found.effective_rank, np.prod(share**-share), rtol=1e-10)
    assert_allclose(found.condition, np.linalg.cond(W), rtol=1e-8)
    assert_allclose(found.alpha, exponent(s**2), rtol=1e-8)


@pytest.mark.parametrize("true", [2.0, 3.5])
def test_the_exponent_of_a_power_law(true):
    values = np.sort((1 - RNG.random(4000)) ** (-1 / (true - 1)))[::-1]
    assert power_law_exponent(values) == pytest.approx(true, abs=4 * (true - 1) / np.sqrt(400))
    assert_allclose(power_law_exponent(values[:200]), exponent(values[:200]), rtol=1e-10)


def test_limits():
    assert_allclose([stable_rank(np.ones(7)), effective_rank(np.ones(7))], [7, 7])
    assert_allclose([stable_rank(np.array([3.0, 0.0])), effective_rank(np.array([3.0, 0.0]))], [1, 1])
    assert (stable_rank(np.zeros(3)), effective_rank(np.zeros(3))) == (0, 0)
    assert power_law_exponent(np.geomspace(1, 0.1, 19)) is None
    assert power_law_exponent(np.full(40, 1e-6)) is None
    assert power_law_exponent(np.ones(40)) is None, "equal values have no exponent"
    low = RNG.standard_normal((90, 40)) @ RNG.standard_normal((40, 60))
    assert measure(np.linalg.svd(low, compute_uv=False) ** 2).condition == np.inf
