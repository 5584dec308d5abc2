"""Predicted ridge accuracy against trained classifiers at the paper's size, over weights x mu x ridge."""

import numpy as np
import pytest
from references import prefix_signs

import spikepool as sp
from spikepool.simulation.ridge import simulate_ridge
from worlds import draw_table, draw_tokens, mean_and_error, pool

pytestmark = pytest.mark.statistical

D, V, TRAIN, TEST, TRIALS = 300, 500, 640, 3000, 16
R = sp.prefix_correlation(10, 3)
WEIGHTS = {"mean": sp.mean_weights(10), "causal": sp.causal_weights(10), "optimal": sp.optimal_weights(R)}
MUS = (0.0, 0.5, 1.0, 2.0)
RIDGES = (0.001, 0.01, 0.1, 1.0, 10.0)
# Bias of the closed form at T = 10, where the same tokens recur in training and test: it shrinks with ridge and is
# .012 at most (causal, mu = 1, ridge = .001). Given the token usage, what is left is the curvature of the
# accuracy in the scatter of the table, of order 1/d.
CLOSED_BIAS = {0.001: 0.014, 0.01: 0.012, 0.1: 0.008, 1.0: 0.006, 10.0: 0.006}
EXACT_BIAS = 0.004


def accuracies(rng, w, mus):
    """Accuracies (mu, ridge) of classifiers trained by the plain formula on one draw of the noise."""
    xi = prefix_signs(10, 3)(TRAIN + TEST, rng)
    tokens = draw_tokens(rng, xi, V)
    noise = pool(draw_table(rng, D, V, 0.0), tokens, w)
    y, gain = xi[:, 0], xi @ w
    result = np.empty((len(mus), len(RIDGES)))
    for i, mu in enumerate(mus):
        C = noise.copy()
        C[:, 0] += mu * gain
        train, test = C[:TRAIN], C[TRAIN:]
        values, vectors = np.linalg.eigh(train.T @ train)
        projected = vectors.T @ (train.T @ y[:TRAIN])
        for j, ridge in enumerate(RIDGES):
            beta = vectors @ (projected / (values + ridge * TRAIN))
            result[i, j] = np.mean(np.sign(test @ beta) == y[TRAIN:])
    return result


@pytest.fixture(scope="module")
def simulated():
    return {
        name: mean_and_error([accuracies(np.random.default_rng([4, t]), w, MUS) for t in range(TRIALS)])
        for name, w in WEIGHTS.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", list(WEIGHTS))
def test_closed_form_over_the_grid(simulated, name):
    mean, error = simulated[name]
    for i, mu in enumerate(MUS):
        model = sp.SequenceModel(D, V, TRAIN, R, mu)
        for j, ridge in enumerate(RIDGES):
            predicted = model.ridge_accuracy(WEIGHTS[name], ridge)
            assert abs(predicted - mean[i, j]) < 3 * error[i, j] + CLOSED_BIAS[ridge], (mu, ridge)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(WEIGHTS))
def test_given_the_usage_there_is_no_small_length_bias(simulated, name):
    mean, error = simulated[name]
    for i, mu in enumerate(MUS[:3]):
        model = sp.SequenceModel(D, V, TRAIN, R, mu)
        for j in (0, 2, 4):
            drawn = [model.ridge_accuracy(WEIGHTS[name], RIDGES[j], exact=True, rng=seed) for seed in range(4)]
            predicted, spread = mean_and_error(drawn)
            # the scatter over usages is part of the simulation's own scatter, hence no more than its error here
            tolerance = 3 * np.hypot(error[i, j], spread) + EXACT_BIAS
            assert abs(predicted - mean[i, j]) < tolerance, (mu, RIDGES[j])


@pytest.mark.slow
def test_other_worlds_given_the_usage():
    """Token frequencies, class-centred tables, Gaussian latents, another label and chains, in one sweep."""
    zipf = 1 / np.repeat(np.arange(1, 151), 2) ** 0.7
    chain = sp.markov_correlation(6, 0.6)
    w = sp.causal_weights(6)
    worlds = {
        "zipf": (sp.SequenceModel(200, 300, 400, sp.prefix_correlation(6, 3), 0.8, frequencies=zipf), 0),
        "class-centred": (sp.SequenceModel(200, 300, 400, sp.prefix_correlation(6, 3), 1.0, table="class_centered"), 0),
        "gaussian": (sp.SequenceModel(200, 300, 400, chain, 1.5, latent="gaussian"), 1),
        "chain": (sp.SequenceModel(200, 300, 400, chain, 0.7), [0, 1, 2]),
    }
    for name, (model, label) in worlds.items():
        trained = simulate_ridge(model, w, 0.05, n_test=2000, trials=16, label=label, rng=8)
        mean, error = mean_and_error(trained)
        drawn = [model.ridge_accuracy(w, 0.05, label=label, exact=True, draws=20_000, rng=seed) for seed in range(6)]
        predicted, spread = mean_and_error(drawn)
        # curvature of the accuracy in the scatter of the table: order 1/d, and d is 200 here
        assert abs(predicted - mean) < 3 * np.hypot(error, spread) + 0.006, name
