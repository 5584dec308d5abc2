"""Identities of the limiting joint ridge loss: derivatives, limits, symmetry, and what learning chooses."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import spikepool as sp
from spikepool.theory.learned_attention import given_tokens_loss, profile_loss

WORLD = {"alpha": 0.5, "kappa": 0.3, "covariance": 0.6, "strength": 2.0, "delta": 0.6, "ratio": 0.47, "ridge": 0.3}


@pytest.mark.parametrize("changes", [{}, {"delta": 1.7}, {"ratio": 3.0, "ridge": 0.01}, {"kappa": 1.0, "alpha": 1.0}])
def test_derivatives(changes):
    world = WORLD | changes
    found = profile_loss(**world)
    step = 1e-6
    for name, slope in (("covariance", found.by_covariance), ("alpha", found.by_alpha), ("kappa", found.by_kappa)):
        high, low = (profile_loss(**(world | {name: world[name] + s})).value for s in (step, -step))
        assert slope == pytest.approx((high - low) / (2 * step), rel=1e-6, abs=1e-9)


def test_against_integrals_in_forty_digits():
    mpmath.mp.dps = 30
    w = {name: mpmath.mpf(value) for name, value in WORLD.items()}
    low, high = ((1 - s * mpmath.sqrt(w["delta"])) ** 2 for s in (1, -1))

    def mean(f):
        """Over kappa·MP_delta, delta < 1."""
        density = lambda x: mpmath.sqrt((high - x) * (x - low)) / (2 * mpmath.pi * w["delta"] * x)  # noqa: E731
        return mpmath.quad(lambda x: f(w["kappa"] * x) * density(x), [low, (low + high) / 2, high])

    m = mpmath.findroot(lambda m: m * (w["ridge"] + w["ratio"] * mean(lambda s: s / (1 + m * s))) - 1, (0.5, 2.5))
    q = m * w["strength"] * mean(lambda s: 1 / (1 + m * s))
    expected = w["ridge"] * m * (1 - w["covariance"] ** 2 * q / (1 + w["alpha"] * q))
    assert profile_loss(**WORLD).value == pytest.approx(float(expected), rel=1e-10)


def test_limits():
    assert profile_loss(**(WORLD | {"ridge": 1e9})).value == pytest.approx(1, abs=1e-8)
    # without noise dimensions: one-dimensional ridge of y on a·sqrt(strength) with its kappa ignored
    plain = profile_loss(**(WORLD | {"ratio": 1e-12, "delta": 1e-12, "kappa": 1e-12}))
    signal = WORLD["strength"]
    expected = 1 - WORLD["covariance"] ** 2 * signal / (WORLD["ridge"] + WORLD["alpha"] * signal)
    assert plain.value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("table", ["sampled", "class_centered"])
@pytest.mark.parametrize("latent", ["signs", "gaussian"])
def test_gradient_given_the_tokens(table, latent):
    model = sp.SequenceModel(d=40, V=60, N=80, R=sp.markov_correlation(5, 0.5), mu=0.7, table=table, latent=latent)
    objective = given_tokens_loss(model, 0.3, 80, np.array([1]), 0)
    w = np.random.default_rng(0).dirichlet(np.ones(5))
    slopes = [(objective(w + 1e-5 * e)[0] - objective(w - 1e-5 * e)[0]) / 2e-5 for e in np.eye(5)]
    np.testing.assert_allclose(objective(w)[1], slopes, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_the_prefix_is_found_and_a_label_of_one_position_is_not_shared():
    prefix = sp.SequenceModel(d=300, V=500, N=640, R=sp.prefix_correlation(10, 3), mu=2.0)
    found = prefix.learned_weights()
    np.testing.assert_allclose(found.weights, sp.optimal_weights(prefix.R), atol=1e-4)
    assert found.best_gain == pytest.approx(1, abs=1e-6)
    chain = sp.SequenceModel(d=300, V=500, N=640, R=sp.markov_correlation(10, 0.6), mu=2.0)
    found = chain.learned_weights(label=3, exact=True)
    assert found.weights[3] > 0.9
    assert found.best_gain < 0.4
    assert found.accuracy > chain.ridge_accuracy(sp.optimal_weights(chain.R), label=3) + 0.15


def test_a_majority_label_spreads_the_weights():
    model = sp.SequenceModel(d=200, V=400, N=500, R=np.eye(5), mu=2.0)
    found = model.learned_weights(label=[0, 2, 4])
    np.testing.assert_allclose(found.weights[[0, 2, 4]], 1 / 3, atol=1e-3)
    record = found.to_dict()
    assert record["validity"]["ok"] is found.validity.ok
    assert record["weights"] == pytest.approx(found.weights.tolist())


def test_without_a_signal_one_position_takes_all_and_validity_says_that_runs_differ():
    model = sp.SequenceModel(d=300, V=500, N=640, R=sp.prefix_correlation(10, 3), mu=0.0)
    found = model.learned_weights()
    assert found.weights.max() == pytest.approx(1, abs=1e-6)
    assert any("runs find either" in reason for reason in found.validity.reasons)
    prefix = np.repeat([1 / 3, 0.0], [3, 7])
    assert found.accuracy_range == pytest.approx((found.accuracy, model.ridge_accuracy(prefix, label=[0])), abs=1e-9)


def test_where_runs_find_one_solution_the_range_is_its_accuracy():
    found = sp.SequenceModel(d=300, V=500, N=640, R=sp.prefix_correlation(10, 3), mu=2.0).learned_weights()
    assert found.validity.ok
    assert found.accuracy_range == (found.accuracy, found.accuracy)


def test_what_is_refused():
    model = sp.SequenceModel(
        d=30, V=40, N=50, R=sp.prefix_correlation(4, 2), mu=1.0, frequencies=sp.zipf_frequencies(40, 1)
    )
    with pytest.raises(sp.SpikepoolError, match="uniform token frequencies"):
        model.learned_weights()
    with pytest.raises(ValueError, match="ridge"):
        model.replace(frequencies=None).learned_weights(ridge=0.0)
