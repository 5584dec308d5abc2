"""The covariance that is not centred: the best weights, and when the top eigenvector is the signal's."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from scipy.optimize import minimize

import spikepool as sp
from spikepool.theory.uncentred import _Curve, leading_threshold

SIZES = {"d": 300, "V": 480, "N": 600}


def random_correlation(T, seed):
    A = np.random.default_rng(seed).standard_normal((T, T + 2))
    A /= np.linalg.norm(A, axis=1)[:, None]
    return A @ A.T


@pytest.mark.parametrize(
    "R",
    [
        random_correlation(6, 0),
        random_correlation(5, 1),
        sp.prefix_correlation(6, 2),
        sp.markov_correlation(6, -0.5),
        np.eye(5),
        sp.equicorrelation(6, 0.3),
    ],
)
@pytest.mark.parametrize("times", [1.05, 1.5, 4.0])
def test_smallest_norm_for_a_given_signal_gain(R, times):
    """Against a general solver from many starts; the curve also meets both constraints exactly."""
    T = len(R)
    alpha = times * R.mean()
    w = _Curve(R).weights(alpha)
    assert w.sum() == pytest.approx(1, abs=1e-10)
    assert w @ R @ w == pytest.approx(alpha, rel=1e-8)
    constraints = [
        {"type": "eq", "fun": lambda x: x.sum() - 1},
        {"type": "eq", "fun": lambda x: x @ R @ x - alpha, "jac": lambda x: 2 * R @ x},
    ]
    rng = np.random.default_rng(0)
    found = [
        minimize(lambda x: x @ x, 1 / T + rng.standard_normal(T), jac=lambda x: 2 * x, constraints=constraints)
        for _ in range(12)
    ]
    assert w @ w <= min(f.fun for f in found if f.success) + 1e-7


def test_centred_models_keep_the_top_eigenvector():
    for R in (sp.prefix_correlation(10, 3), sp.markov_correlation(10, 0.5)):
        model = sp.SequenceModel(**SIZES, R=R, mu=1.0)
        np.testing.assert_array_equal(model.optimal_weights(), sp.optimal_weights(R))
        class_centred = model.replace(centered=False, table="class_centered")
        np.testing.assert_array_equal(class_centred.optimal_weights(), sp.optimal_weights(R))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("R", "mu"),
    [
        (np.eye(10), 1.8),
        (sp.prefix_correlation(10, 6), 0.8),
        (sp.markov_correlation(10, 0.6), 1.2),
        (sp.markov_correlation(10, -0.6), 1.2),
        (sp.equicorrelation(8, 0.3), 1.0),
    ],
)
def test_no_other_weights_align_better_in_draws(R, mu):
    model = sp.SequenceModel(**SIZES, R=R, mu=mu, centered=False)
    T = len(R)
    others = {"mean": sp.mean_weights(T), "causal": sp.causal_weights(T)}
    with contextlib.suppress(sp.SpikepoolError):
        others["centred optimum"] = sp.optimal_weights(R)
    best = model.simulate(model.optimal_weights(), trials=24, k=1, rng=0).alignment
    for w in others.values():
        paired = best - model.simulate(w, trials=24, k=1, rng=0).alignment
        assert paired.mean() > -2 * paired.std(ddof=1) / np.sqrt(24) - 0.01
    assert best.mean() > 0.3


def test_equal_gain_and_different_alignment():
    """R = I: every weighting has alpha/kappa = 1; alpha decides whether the mean is in front."""
    model = sp.SequenceModel(d=500, V=800, N=1000, R=np.eye(10), mu=1.8, centered=False)
    mean, causal = (
        model.simulate(w(10), trials=12, k=1, rng=0).alignment for w in (sp.mean_weights, sp.causal_weights)
    )
    assert mean.mean() < 0.05
    assert causal.mean() > 0.5
    centred = model.replace(centered=True)
    assert centred.predict(sp.mean_weights(10)).alignment == pytest.approx(
        centred.predict(sp.causal_weights(10)).alignment
    )


@pytest.mark.parametrize("R", [np.eye(10), sp.prefix_correlation(10, 3)])
def test_the_top_eigenvector_changes_hands_at_the_leading_threshold(R):
    w = sp.mean_weights(10)
    model = sp.SequenceModel(d=500, V=800, N=1000, R=R, mu=1.0, centered=False)
    threshold = leading_threshold(model, *model.gains(w))
    assert threshold > model.predict(w).mu_sample
    below, above = (
        model.replace(mu=factor * threshold).simulate(w, trials=8, k=2, rng=0).alignments.mean(axis=0)
        for factor in (0.8, 1.3)
    )
    assert below[0] < 0.15 < 0.3 < below[1]  # the signal is the second eigenvector
    assert above[1] < 0.15 < 0.5 < above[0]
    centred = model.replace(centered=True)
    assert leading_threshold(centred, *centred.gains(w)) == centred.predict(w).mu_sample
