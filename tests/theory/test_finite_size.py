"""The mean alignment at finite d: three routes to its constants, and draws below, at and above the threshold."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from spikepool.theory import spikes
from spikepool.theory.finite_size import (
    Threshold,
    beyond,
    closed_blur,
    closed_threshold,
    numerical_blur,
    numerical_threshold,
)
from spikepool.world.frequencies import zipf_frequencies

R = sp.prefix_correlation(T=10, L=3)
MEAN = sp.mean_weights(10)


@pytest.mark.parametrize(("delta", "gamma", "gain", "zeta"), [(0.625, 0.5, 1.6, 0.625), (0.2, 1.5, 3.0, 0.0)])
def test_constants_are_the_derivatives_along_the_curve(delta, gamma, gain, zeta):
    star = float(spikes.critical_excess(delta, gamma))
    step = 1e-4
    x = star + step * np.arange(3)
    m = -x / ((x + delta) * (x + gamma))
    found = numerical_threshold(
        gain / (x + delta - zeta * gain), m, m, (x + 1) * (x + delta) * (x + gamma) / x**2, step
    )
    closed = closed_threshold(gain, delta, gamma, star, zeta)
    assert found.square == pytest.approx(closed.square, rel=1e-12)
    assert found.turn == pytest.approx(closed.turn, rel=1e-6)
    assert found.own == 1
    assert found.slope == pytest.approx(closed.slope, rel=1e-5)
    # the blur of the edge is that of the threshold: u = (R − 1)/eps next to it
    z = (x + 1) * (x + delta) * (x + gamma) / x**2
    blur = numerical_blur(m, z, step)
    assert blur == pytest.approx(closed_blur(delta, gamma, star), rel=1e-5)
    excess = 1e-3
    ahead = star + excess * (star + delta - zeta * gain)  # R = 1 + excess
    height = (ahead + 1) * (ahead + delta) * (ahead + gamma) / ahead**2 - z[0]
    assert np.sqrt(height / blur) == pytest.approx(excess / (2 * closed.turn / closed.slope) ** (1 / 3), rel=1e-2)
    # and the slope is that of the alignment
    step = 1e-6
    ahead = sp.predict_arrays(
        mu=np.sqrt(closed.square * (1 + step)),
        alpha=gain,
        kappa=1.0,
        delta=delta,
        gamma=gamma,
        table="sampled" if zeta else "class_centered",
    ).alignment
    assert float(ahead) / step == pytest.approx(closed.slope, rel=1e-4)


def test_floor_far_below_is_one_over_d_and_the_crossover_is_continuous():
    threshold = Threshold(1.0, 2.0, 0.7)
    assert threshold.draws(1e-6, 10**5).mean == pytest.approx(1e-5, rel=1e-6)

    def draws(mu):  # the outlier of slope .7 at d = 500, in the units in which eps = (2 turn/(slope d))^(1/3) gives u
        eps = (2 * 2.0 / 0.7) ** (1 / 3)
        return threshold.draws(mu, 500) if mu <= 1 else beyond(0.7 * (mu**2 - 1), ((mu**2 - 1) / eps) ** 2, 500)

    below, above = (draws(1 + e) for e in (-1e-9, 1e-5))
    assert below.mean == pytest.approx(above.mean, rel=1e-3)
    assert below.scatter == pytest.approx(above.scatter, rel=0.05)
    assert np.all(np.diff([draws(mu).mean for mu in np.linspace(0.05, 1.5, 60)]) > 0)


def test_given_the_tokens_and_for_uniform_frequencies_it_is_that_of_the_closed_form():
    base = sp.SequenceModel(d=200, V=400, N=400, R=R, mu=1.0)
    for factor in (0.5, 0.95, 1.2):
        model = base.replace(mu=factor * base.predict(MEAN).mu_sample)
        found = model.predict(MEAN).finite_size_alignment
        assert model.replace(frequencies=np.full(400, 1 / 400)).predict(MEAN).finite_size_alignment == pytest.approx(
            found, rel=1e-5
        )
        drawn = [model.predict(MEAN, exact=True, rng=i).finite_size_alignment for i in range(4)]
        assert np.mean(drawn) == pytest.approx(found, rel=0.35)


@pytest.mark.parametrize("table", ["sampled", "class_centered"])
@pytest.mark.parametrize("factor", [0.3, 0.6, 0.8, 0.95])
def test_draws_below_the_threshold_have_the_floor(table, factor):
    base = sp.SequenceModel(d=100, V=160, N=200, R=R, mu=1.0, table=table)
    model = base.replace(mu=factor * base.predict(MEAN).mu_sample)
    expected = model.predict(MEAN)
    assert expected.alignment == 0
    seen = model.simulate(MEAN, trials=150, k=1, rng=1).alignment
    # terms of order d^(-2/3) of the floor remain
    assert abs(seen.mean() - expected.finite_size_alignment) < 3 * seen.std() / np.sqrt(150) + 0.15 * seen.mean()
    assert expected.finite_size_alignment > 1 / 150


@pytest.mark.parametrize("factor", [1.0, 1.2])
def test_draws_next_to_the_threshold(factor):
    base = sp.SequenceModel(d=100, V=160, N=200, R=R, mu=1.0, table="class_centered")
    model = base.replace(mu=factor * base.predict(MEAN).mu_sample)
    expected = model.predict(MEAN)
    seen = model.simulate(MEAN, trials=150, k=1, rng=1).alignment
    assert abs(seen.mean() - expected.finite_size_alignment) < 3 * seen.std() / np.sqrt(150) + 0.02
    if factor == 1.0:
        assert seen.mean() > 0.1 > expected.alignment


@pytest.mark.slow
@pytest.mark.parametrize(("N", "mu"), [(60, 2.6), (120, 2.6), (120, 1.6)])
def test_draws_of_which_few_carry_the_signal(N, mu):
    """Chains of one relevant token in ten: the gain scatters over N sequences, and the mean alignment is lower."""
    rare = sp.QueryModel(d=100, N=N, T=10, L=1, mu=mu, nu=1.5, relevance="chain", run=6.0)
    expected = rare.predict()
    seen = rare.simulate(150, rng=1).alignment
    assert expected.finite_size_alignment < expected.alignment - 0.005
    assert abs(seen.mean() - expected.finite_size_alignment) < 3 * seen.std() / np.sqrt(150) + 0.015


@pytest.mark.slow
@pytest.mark.parametrize(("overlap", "nu"), [(0.4, 2.2), (0.6, 2.0)])
def test_draws_in_which_the_key_mixes_with_the_signal(overlap, nu):
    """A strong mark that the query half misses takes a share of the signal's eigenvector by chance."""
    base = sp.QueryModel(d=80, N=160, T=8, L=2, mu=1.0, nu=nu, overlap=overlap)
    model = base.replace(mu=2.2 * base.predict().mu_sample)
    expected = model.predict()
    seen = model.simulate(200, rng=1).alignment
    error = abs(seen.mean() - expected.finite_size_alignment)
    assert error < 3 * seen.std() / np.sqrt(200) + 0.5 * abs(expected.finite_size_alignment - expected.alignment) + 0.01


def test_scatter_of_single_draws():
    """At the threshold a draw scatters as much as its mean, far below by sqrt(2) of it (a squared normal variable)."""
    threshold = Threshold(1.0, 2.0, 0.7)
    at, below = threshold.draws(1.0, 500), threshold.draws(0.3, 5000)
    assert at.scatter == pytest.approx(at.mean, rel=0.25)
    assert below.scatter == pytest.approx(np.sqrt(2) * below.mean)


@pytest.mark.parametrize(("side", "factor"), [(0, 0.1), (0, 0.4), (1, 0.1), (1, 0.4)])
def test_floor_in_coloured_noise_depends_on_where_u_lies(side, factor):
    """Half of the directions have a variance of .3, half one of 1.7, and u lies in one half."""
    variances = np.repeat([0.3, 1.7], 50)
    u = (np.arange(100) // 50 == side) / np.sqrt(50)
    base = sp.SequenceModel(d=100, V=160, N=200, R=R, mu=1.0, table="class_centered", covariance=variances, direction=u)
    model = base.replace(mu=factor * base.predict(MEAN, exact=True, rng=0).mu_sample)
    expected = np.mean([model.predict(MEAN, exact=True, rng=i).finite_size_alignment for i in range(4)])
    seen = model.simulate(MEAN, trials=150, k=1, rng=1).alignment
    assert abs(seen.mean() - expected) < 3 * seen.std() / np.sqrt(150) + 0.15 * seen.mean()
    assert abs(seen.mean() - 0.01) > 0.005, "that of a typical direction is about 1/d"


@pytest.mark.parametrize("exact", [False, True])
def test_an_outlier_without_a_threshold_at_the_edge(exact):
    """The class means of the table stand out at any mu, and u holds more of a draw's outlier than in the limit."""
    model = sp.SequenceModel(d=90, V=60, N=300, R=sp.prefix_correlation(T=6, L=4), mu=0.3)
    w = sp.mean_weights(6)
    found = [model.predict(w, exact=True, rng=i) for i in range(6)] if exact else [model.predict(w)]
    assert all(p.mu_sample == 0 for p in found)
    limit, expected = np.mean([(p.alignment, p.finite_size_alignment) for p in found], axis=0)
    seen = model.simulate(w, trials=300, k=1, rng=1).alignment
    error = seen.std() / np.sqrt(300)
    assert abs(seen.mean() - expected) < 3 * error + 0.1 * seen.mean()
    assert seen.mean() > limit + 3 * error


@pytest.mark.parametrize("power", [0.9, 1.1])
def test_a_strong_signal_under_heavy_token_weights(power):
    """Rare tokens of large weight carry signal and noise together: the loss is derived, without a fit."""
    p = zipf_frequencies(600, 0.8)
    model = sp.SequenceModel(
        d=150,
        V=600,
        N=200,
        R=sp.prefix_correlation(T=8, L=5),
        mu=2.5,
        frequencies=p,
        token_weights=p**-power / 100,
        table="class_centered",
    )
    w = sp.mean_weights(8)
    found = model.predict(w)
    seen = model.simulate(w, trials=150, k=1, rng=1).alignment
    (reason,) = found.validity.reasons
    assert "sequences of large token weights" in reason
    loss = found.alignment - seen.mean()
    assert abs(loss - found.validity.error) < 3 * seen.std() / np.sqrt(150) + 0.2 * loss
