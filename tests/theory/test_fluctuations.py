"""Standard deviations of outliers: exact finite-size identities, a classical limit, and refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import spikepool as sp
from spikepool.theory import spikes
from spikepool.theory.fluctuations import (
    _transform_derivatives,
    eigenvalue_std,
    fluctuations,
    latent_kurtosis,
    spike_alignment_std,
)


def test_outlier_equation_and_alignment_are_exact_at_finite_size() -> None:
    """The two equations the delta method starts from hold for one matrix, not only in the limit."""
    rng = np.random.default_rng(0)
    d, N, tau = 12, 17, 9.0
    B = rng.standard_normal((d, N)) / np.sqrt(N)
    u, v = rng.standard_normal(d), rng.standard_normal(N)
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    left, sizes, _ = np.linalg.svd(np.sqrt(tau) * np.outer(u, v) + B)
    lam = sizes[0] ** 2
    K = np.linalg.inv(lam * np.eye(d) - B @ B.T)
    K2 = np.linalg.inv(lam * np.eye(N) - B.T @ B)
    g, h, f = u @ K @ u, v @ K2 @ v, u @ K @ B @ v
    gap = 1 / np.sqrt(tau) - f
    assert lam * g * h == pytest.approx(gap**2, rel=1e-9)
    slope = g * h - lam * ((u @ K @ K @ u) * h + g * (v @ K2 @ K2 @ v)) - 2 * gap * (u @ K @ K @ B @ v)
    assert (u @ left[:, 0]) ** 2 == pytest.approx(-g / (tau * slope), rel=1e-9)


@pytest.mark.parametrize(
    ("delta", "gamma", "x"), [(0.625, 0.5, 2.0), (1.5, 0.3, 4.0), (0.4, 2.0, 3.5), (1.0, 1.0, 6.0)]
)
def test_transforms_agree_with_the_bulk_law(delta: float, gamma: float, x: float) -> None:
    """g, g~ and three derivatives, against Cauchy's integral formula on the law's own Stieltjes transform."""
    lam, g, companion = _transform_derivatives(x, delta, gamma)
    law = sp.FreeProductLaw(delta=delta, gamma=gamma)
    radius = 0.5 * (lam - law.support()[1])
    circle = np.exp(2j * np.pi * (np.arange(400) + 0.5) / 400)
    values = -np.array([law.stieltjes(z) for z in lam + radius * circle])
    companion_values = gamma * values + (1 - gamma) / (lam + radius * circle)
    for order in range(4):
        scale = math.factorial(order) / radius**order
        assert g[order] == pytest.approx((values * circle**-order).mean().real * scale, rel=1e-8)
        assert companion[order] == pytest.approx((companion_values * circle**-order).mean().real * scale, rel=1e-8)


@pytest.mark.parametrize(("x", "gamma"), [(2.0, 0.5), (1.2, 1.0), (5.0, 2.0), (0.6, 0.1)])
def test_infinite_vocabulary_gives_the_classical_spiked_covariance(x: float, gamma: float) -> None:
    """delta = 0, Gaussian latents: N Var(lambda) = 2 l² (1 − gamma/(l−1)²) with l = 1 + x (Paul 2007, Theorem 3)."""
    d = 1000
    N = d / gamma
    spread = eigenvalue_std(x, 0.0, gamma, 1.0, d, strength_std=math.sqrt(2 / N))
    assert N * spread**2 == pytest.approx(2 * (1 + x) ** 2 * (1 - gamma / x**2), rel=1e-10)


def test_scales_as_the_inverse_root_of_the_dimension_and_linearly_in_kappa() -> None:
    base = eigenvalue_std(3.0, 0.6, 0.5, 1.0, 100, strength_std=0.1)
    assert eigenvalue_std(3.0, 0.6, 0.5, 1.0, 400, strength_std=0.05) == pytest.approx(base / 2, rel=1e-12)
    assert eigenvalue_std(3.0, 0.6, 0.5, 0.3, 100, strength_std=0.1) == pytest.approx(0.3 * base, rel=1e-12)
    a = spike_alignment_std(3.0, 0.6, 0.5, 100, strength_std=0.1)
    assert spike_alignment_std(3.0, 0.6, 0.5, 400, strength_std=0.05) == pytest.approx(a / 2, rel=1e-12)


def test_strength_enters_through_the_derivative_of_the_outlier_map() -> None:
    """For directions held fixed, a change of theta moves lambda along lambda(x) and A along A(x)."""
    x, delta, gamma, h = 3.0, 0.6, 0.5, 1e-5
    tau = x + delta
    large = 1e6  # the strength's share then drowns the directions'
    slope = (spikes.sample_outlier(x + h, delta, gamma) - spikes.sample_outlier(x - h, delta, gamma)) / (2 * h)
    assert eigenvalue_std(x, delta, gamma, 1.0, 100, strength_std=large) == pytest.approx(tau * slope * large, rel=1e-6)
    slope = (spikes.total_alignment(x + h, delta, gamma) - spikes.total_alignment(x - h, delta, gamma)) / (2 * h)
    assert spike_alignment_std(x, delta, gamma, 100, strength_std=large) == pytest.approx(tau * slope * large, rel=1e-6)


def test_kurtosis_of_blocks_equals_enumeration() -> None:
    R = sp.prefix_correlation(7, 3)
    w = np.array([0.3, 0.1, -0.2, 0.25, 0.25, 0.2, 0.1])
    signs = np.array(list(itertools.product([-1, 1], repeat=5)))
    a = signs @ np.array([0.2, 0.25, 0.25, 0.2, 0.1])
    assert latent_kurtosis(R, w) == pytest.approx(np.mean(a**4) / np.mean(a**2) ** 2, rel=1e-12)


def test_kurtosis_of_a_chain_equals_enumeration() -> None:
    T, rho = 8, 0.6
    signs = np.array(list(itertools.product([-1, 1], repeat=T)))
    same = (1 + rho * signs[:, 1:] * signs[:, :-1]) / 2
    probability = 0.5 * same.prod(axis=1)
    a = signs @ sp.causal_weights(T)
    exact = (probability @ a**4) / (probability @ a**2) ** 2
    assert latent_kurtosis(sp.markov_correlation(T, rho), sp.causal_weights(T)) == pytest.approx(exact, rel=0.015)


def test_reports_the_point_it_scatters_around() -> None:
    R = sp.prefix_correlation(10, 3)
    model = sp.SequenceModel(d=500, V=800, N=1000, R=R, mu=1.6)
    w = sp.mean_weights(10)
    scatter, signal = fluctuations(model, w), model.predict(w).signal
    assert signal is not None
    assert scatter.detectable
    assert scatter.eigenvalue == pytest.approx(signal.eigenvalue, rel=1e-12)
    assert scatter.alignment == pytest.approx(signal.alignment, rel=1e-12)
    assert scatter.eigenvalue_std is not None
    assert 0 < scatter.eigenvalue_std < 0.1 * signal.eigenvalue


def test_signal_below_threshold_is_said_not_computed() -> None:
    model = sp.SequenceModel(d=500, V=800, N=1000, R=sp.prefix_correlation(10, 3), mu=0.1)
    scatter = fluctuations(model, sp.mean_weights(10))
    assert not scatter.detectable
    assert scatter.eigenvalue_std is None
    assert scatter.alignment_std is None


def test_alignment_at_zero_signal_is_that_of_a_random_direction() -> None:
    """mu = 0, outlier made of the table's own class means: (u'v)² has standard deviation sqrt(2)/d."""
    model = sp.SequenceModel(d=400, V=400, N=4000, R=sp.prefix_correlation(10, 8), mu=0.0)
    scatter = fluctuations(model, sp.mean_weights(10))
    assert scatter.alignment == 0
    assert scatter.alignment_std == pytest.approx(math.sqrt(2) / 400, rel=1e-12)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, 0.0, 0.5])
def test_excess_outside_the_domain_is_refused(bad: float) -> None:
    with pytest.raises(sp.InvalidInputError):
        eigenvalue_std(bad, 0.6, 0.5, 1.0, 100)


def test_other_bad_input_is_refused() -> None:
    with pytest.raises(sp.DomainError):
        eigenvalue_std(3.0, 0.6, 0.5, 0.0, 100)
    with pytest.raises(sp.SizeError):
        eigenvalue_std(3.0, 0.6, 0.5, 1.0, 0)
    with pytest.raises(sp.DomainError):
        spike_alignment_std(3.0, 0.6, 0.5, 100, strength_std=-1.0)
    with pytest.raises(sp.DomainError):
        latent_kurtosis(np.ones((2, 2)) * [[1, -1], [-1, 1]], [0.5, 0.5])
    model = sp.SequenceModel(d=5, V=8, N=10, R=np.eye(2), mu=3.0, covariance=np.ones(5))
    with pytest.raises(sp.InvalidInputError):
        fluctuations(model, [0.5, 0.5])


@pytest.mark.parametrize(("delta", "gamma"), [(0.02, 0.2), (0.0, 1.5), (5.0, 0.3), (1.0, 50.0)])
def test_deviations_of_strong_spikes_go_on_where_the_formula_loses_its_digits(delta: float, gamma: float) -> None:
    unit = max(1.0, delta, gamma)
    below, above = (eigenvalue_std(x * unit, delta, gamma, 1.0, 100) for x in (0.999e4, 1.001e4))
    assert above == pytest.approx(below * math.sqrt(1.001 / 0.999), rel=1e-4)
    below, above = (spike_alignment_std(x * unit, delta, gamma, 100) for x in (0.999e4, 1.001e4))
    assert above == pytest.approx(below * 0.999 / 1.001, rel=1e-4)
    for x in (1e8, 1e12, 1e16):
        assert eigenvalue_std(x * unit, delta, gamma, 1.0, 100) > 0
        assert spike_alignment_std(x * unit, delta, gamma, 100) > 0
