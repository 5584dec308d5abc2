"""The ridge classifier without a table, against the classifier itself on the completed one."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.simulation import ridge as ridge_undrawn
from spikepool.simulation.ridge import held_out_scores
from spikepool.simulation.undrawn import UndrawnSource

R = sp.prefix_correlation(T=6, L=3)
W = sp.causal_weights(6)
RIDGES = np.array([0.05, 1.0, 20.0])


def world(**options):
    return sp.SequenceModel(**{"d": 60, "V": 100, "N": 220, "R": R, "mu": 1.2, **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"table": "class_centered"},
        {"latent": "gaussian"},
        {"covariance": np.linspace(0.2, 2.0, 60)},
        {"frequencies": 1 / np.arange(1, 101)},
        {"d": 150},
        {"V": 20},
        {"mu": 0.0},
    ],
)
def test_scores_are_those_of_the_classifier_on_the_completed_table(options):
    m, n = world(**options), 140
    draw = UndrawnSource(m).draw(np.random.SeedSequence(2))
    y = np.sign(draw.latent[:, 0]).astype(float)
    scores = held_out_scores(draw, W, y[:n], RIDGES)
    C = draw.sample().pooled(W).T
    for found, ridge in zip(scores, RIDGES, strict=True):
        classifier = sp.RidgeClassifier(ridge).fit(C[:n], y[:n])
        np.testing.assert_allclose(found, classifier.decision_function(C[n:]), atol=1e-7 * np.abs(found).max())


@pytest.mark.slow
def test_without_convergence_the_table_is_completed(monkeypatch):
    usual = sp.simulate_ridge(world(), W, [1e-4, 1.0], n_train=100, n_test=500, trials=30, rng=0)
    monkeypatch.setattr(ridge_undrawn, "KRYLOV_LIMIT", 5)
    dense = sp.simulate_ridge(world(), W, [1e-4, 1.0], n_train=100, n_test=500, trials=30, rng=0)
    error = np.sqrt((usual.var(axis=0) + dense.var(axis=0)) / 30)
    assert np.all(np.abs(usual.mean(axis=0) - dense.mean(axis=0)) < 4 * error)


@pytest.mark.slow
def test_accuracy_is_that_of_the_drawn_route():
    m = world(d=120, V=200)
    lazy = sp.simulate_ridge(m, W, n_train=250, n_test=2000, trials=60, rng=0)
    drawn = sp.simulate_ridge(m, W, n_train=250, n_test=2000, trials=60, rng=1, table_drawn=True)
    assert abs(lazy.mean() - drawn.mean()) < 3 * np.sqrt((lazy.var() + drawn.var()) / 60)
    assert lazy.std() == pytest.approx(drawn.std(), rel=0.35)  # three standard errors of their ratio


def test_route_and_refusals():
    m = world(noise="uniform")
    assert sp.simulate_ridge(m, W, n_train=50, n_test=50, trials=1, rng=0).shape == (1,)
    with pytest.raises(sp.InvalidInputError, match="uniform"):
        sp.simulate_ridge(m, W, table_drawn=False)
