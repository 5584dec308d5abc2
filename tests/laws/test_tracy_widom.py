"""The Tracy-Widom law against published numbers, its tail, and its scale at the edge of laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

import spikepool as sp
from spikepool.errors import DomainError
from spikepool.laws.tracy_widom import MEAN, VARIANCE, edge_amplitude, tracy_widom_cdf, tracy_widom_isf, tracy_widom_sf


def test_moments_are_the_published_ones():
    """Mean and variance by Gauss-Legendre from the distribution function: E = b − ∫F, E² likewise."""
    nodes, weights = np.polynomial.legendre.leggauss(120)
    low, high = -9.0, 9.0
    x, w = low + (high - low) * (nodes + 1) / 2, weights * (high - low) / 2
    F = tracy_widom_cdf(x)
    mean = high - w @ F
    variance = high**2 - 2 * (w @ (x * F)) - mean**2
    assert mean == pytest.approx(MEAN, abs=1e-9)
    assert variance == pytest.approx(VARIANCE, abs=1e-7)


@pytest.mark.parametrize(
    ("quantile", "s"), [(0.05, -3.1804), (0.5, -1.2686), (0.9, 0.4501), (0.95, 0.9793), (0.99, 2.0234)]
)
def test_published_quantiles(quantile, s):
    assert tracy_widom_cdf(s) == pytest.approx(quantile, abs=5e-5)
    assert tracy_widom_isf(1 - quantile) == pytest.approx(s, abs=2e-4)


def test_tail_keeps_its_digits():
    """1 − F = tr K/… to leading order: the integral of Ai over (s, ∞), halved; far below the rounding unit."""
    from scipy.integrate import quad
    from scipy.special import airy

    for s in (8.0, 12.0, 20.0):
        expected = quad(lambda x: airy(x)[0], s, s + 12, epsabs=0, epsrel=1e-10)[0] / 2
        assert tracy_widom_sf(s) == pytest.approx(expected, rel=1e-6)
    assert tracy_widom_sf(-20.0) == 1
    assert tracy_widom_cdf(-20.0) == 0
    np.testing.assert_allclose(tracy_widom_sf([0.0, 1.0]) + tracy_widom_cdf([0.0, 1.0]), 1, atol=1e-14)


def test_levels_out_of_range_are_refused():
    with pytest.raises(DomainError):
        tracy_widom_isf(1e-320)


def test_amplitude_at_the_edge():
    """Marchenko-Pastur in closed form; the free product from the curvature of its outlier map."""
    ratio = 0.4
    edge, low = (1 + np.sqrt(ratio)) ** 2, (1 - np.sqrt(ratio)) ** 2
    assert edge_amplitude(sp.MarchenkoPastur(ratio)) == pytest.approx(
        np.sqrt(edge - low) / (2 * ratio * edge), rel=1e-8
    )
    from spikepool.theory.spikes import critical_excess

    for delta, gamma, kappa in ((0.625, 0.5, 0.1), (2.0, 0.5, 1.0), (0.01, 0.5, 1.0)):
        x = critical_excess(delta, gamma)
        q, r0 = delta * gamma, delta + gamma + delta * gamma
        curvature = kappa * (2 * r0 / x**3 + 6 * q / x**4)
        slope = (q - x**2) / (kappa * ((x + delta) * (x + gamma)) ** 2)
        expected = abs(slope) * np.sqrt(2 / curvature)
        assert edge_amplitude(sp.FreeProductLaw(delta, gamma, kappa)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.slow
def test_goe_edge():
    """The largest eigenvalue of Gaussian orthogonal matrices, drawn plainly."""
    n, rng = 120, np.random.default_rng(0)
    largest = []
    for _ in range(300):
        A = rng.standard_normal((n, n))
        largest.append(np.linalg.eigvalsh((A + A.T) / np.sqrt(2 * n))[-1])
    s = (np.array(largest) - 2) * n ** (2 / 3)
    assert kstest(s, tracy_widom_cdf).pvalue > 0.001
