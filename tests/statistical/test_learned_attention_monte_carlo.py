"""The limit of jointly learned weights against weights learned on drawn sequences, by independent code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import spikepool as sp

D, V, N, T, N_TEST = 150, 250, 320, 8, 4000


def block_correlation(sizes, inner):
    """Blocks of positions that share a correlation, independent of each other."""
    R = np.eye(sum(sizes))
    start = 0
    for size in sizes:
        R[start : start + size, start : start + size] += inner * (1 - np.eye(size))
        start += size
    return R


def random_correlation(seed):
    """Correlation of thresholded Gaussian signs with random loadings: some positions follow the first, some do not."""
    loadings = np.random.default_rng(seed).uniform(-0.2, 1.0, T)
    loadings[0] = 0.95
    gaussian = np.outer(loadings, loadings)
    np.fill_diagonal(gaussian, 1.0)
    return 2 / np.pi * np.arcsin(gaussian)


PREFIX, MARKOV = sp.prefix_correlation(T, 3), sp.markov_correlation(T, 0.6)
BLOCK, RANDOM = block_correlation([4, 4], 0.5), random_correlation(1)

# correlation, position of the label, penalty, mu; all away from the transition
SETTINGS = [
    *((PREFIX, 0, ridge, mu) for ridge, mu in ((1.0, 1.5), (1.0, 3.0), (0.1, 1.5), (0.01, 1.5))),
    *((MARKOV, label, ridge, 2.0) for label, ridge in ((0, 1.0), (4, 1.0), (4, 0.1))),
    *((BLOCK, label, ridge, 2.0) for label, ridge in ((0, 1.0), (5, 0.1), (0, 0.01))),
    *((RANDOM, 0, ridge, 2.0) for ridge in (1.0, 0.1, 0.01)),
]


def learn(X, y, ridge, rng):
    """Minimise the joint loss over softmax weights, plainly: L-BFGS from the mean and from random starts."""
    n, length, d = X.shape

    def loss(phi):
        w = np.exp(phi - phi.max())
        w /= w.sum()
        C = np.einsum("ntd,t->nd", X, w)
        beta = np.linalg.solve(C.T @ C + ridge * n * np.eye(d), C.T @ y)
        residual = y - C @ beta
        gradient = -2 / n * residual @ (X @ beta)
        return residual @ y / n, w * (gradient - gradient @ w)

    starts = [np.zeros(length), rng.standard_normal(length)]
    best = min((minimize(loss, s, jac=True, method="L-BFGS-B") for s in starts), key=lambda f: f.fun)
    w = np.exp(best.x - best.x.max())
    return w / w.sum(), best.fun


def experiment(R, label, ridge, mu, runs):
    """Weights, loss and test accuracy of `runs` tables."""
    draw, found = sp.sign_sampler(R), []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        u = rng.standard_normal(D)
        u /= np.linalg.norm(u)
        signs = np.repeat([1, -1], V // 2)
        table = rng.standard_normal((V, D)) + mu * signs[:, None] * u
        xi = draw(N + N_TEST, rng=rng)
        tokens = rng.integers(0, V // 2, xi.shape) + np.where(xi > 0, 0, V // 2)
        y = np.sign(xi[:, np.atleast_1d(label)].sum(axis=1)).astype(float)
        X = table[tokens[:N]]
        w, loss = learn(X, y[:N], ridge, rng)
        C = np.einsum("ntd,t->nd", X, w)
        beta = np.linalg.solve(C.T @ C + ridge * N * np.eye(D), C.T @ y[:N])
        scores = (table @ beta)[tokens[N:]] @ w
        found.append((w, loss, np.mean(scores * y[N:] > 0)))
    return tuple(np.array(column) for column in zip(*found, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("R", "label", "ridge", "mu"), SETTINGS)
def test_learned_weights_their_loss_and_accuracy(R, label, ridge, mu):
    """Within three standard errors and a bias of order T/n: each run fits the noise in its training set.

    Given the tokens everywhere; the closed form where its validity says that it holds.
    """
    model = sp.SequenceModel(d=D, V=V, N=N, R=R, mu=mu, centered=False)
    weights, losses, accuracies = experiment(R, label, ridge, mu, runs=8)
    limits = [model.learned_weights(ridge=ridge, label=label)]
    assert limits[0].validity.ok == (label == 0 and R is PREFIX)  # the others end at one effective token
    if not limits[0].validity.ok:
        limits = [model.learned_weights(ridge=ridge, label=label, exact=True, rng=seed) for seed in (0, 1)]
        assert all(limit.validity.ok for limit in limits)

    def close(values, predicted, bias):
        error = np.sqrt(np.var(values, axis=0, ddof=1) * (1 / len(values) + (len(predicted) > 1) / len(predicted)))
        np.testing.assert_array_less(np.abs(np.mean(values, axis=0) - np.mean(predicted, axis=0)), 3 * error + bias)

    close(weights, [limit.weights for limit in limits], 2 * T / N)
    close(losses, [limit.loss for limit in limits], 2 * T / N * limits[0].loss)
    close(accuracies, [limit.accuracy for limit in limits], 0.5 / D)


def test_next_to_the_transition_single_runs_differ_and_validity_says_so():
    model = sp.SequenceModel(d=D, V=V, N=N, R=PREFIX, mu=0.3, centered=False)
    limit = model.learned_weights()
    assert not limit.validity.ok
    weights, _, _ = experiment(PREFIX, 0, 1.0, 0.3, runs=6)
    # half of the runs put most of their weight on one position, of which the limit says nothing
    assert np.sum(weights.max(axis=1) > 0.6) >= 2


@pytest.mark.slow
def test_one_position_of_each_block_is_a_rival_of_the_mean():
    """Three pairs of equal signs, the label their majority: runs find weights between the mean and one of each pair."""
    R, label = np.kron(np.eye(3), np.ones((2, 2))), [0, 2, 4]
    model = sp.SequenceModel(d=D, V=V, N=N, R=R, mu=2.0, centered=False)
    limit = model.learned_weights(ridge=0.1, label=label)
    np.testing.assert_allclose(limit.weights, 1 / 6, atol=1e-6)
    assert not limit.validity.ok
    assert "0.33 at position 0" in limit.validity.reasons[0]
    weights, _, accuracies = experiment(R, label, 0.1, 2.0, runs=6)
    rival = model.ridge_accuracy(np.array([1, 0, 1, 0, 1, 0]) / 3, 0.1, label=label)
    error = np.std(accuracies, ddof=1) / np.sqrt(len(accuracies))
    assert rival - 3 * error < np.mean(accuracies) < limit.accuracy - 3 * error
    # the larger share of a pair's weight is on one of its positions
    assert np.median(weights.reshape(-1, 3, 2).max(axis=2) / weights.reshape(-1, 3, 2).sum(axis=2)) > 0.6
