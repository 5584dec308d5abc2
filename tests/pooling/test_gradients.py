"""Learned pooling: the loss from its definition, gradients from differences, weights from loops."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from spikepool.pooling.places import places, rule_weights, without_first
from spikepool.pooling.pooled_loss import PooledRidgeLoss
from spikepool.pooling.scores import PositionScores, QueryScores, position_start, softmax_weights


def problem(kind, n=40, T=6, p=3, k=2, heads=3, rho=0.01, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, T, p))
    observed = rng.random((n, T)) < 0.7
    observed[np.arange(n), rng.integers(T, size=n)] = True
    z[~observed] = 0.0
    Y = rng.normal(size=(n, k)) + z[:, 0, :k]
    scores = QueryScores(z) if kind == "query" else PositionScores.of(observed, heads)
    loss = PooledRidgeLoss(z, observed, Y, scores, rho)
    return loss, z, observed, Y, 0.7 * rng.normal(size=scores.start().size)


def slow_weights(kind, theta, z, observed, heads):
    """Softmax of the scores, token by token."""
    n, T, _ = z.shape
    P = np.zeros((n, heads, T))
    for i in range(n):
        seen = np.flatnonzero(observed[i])
        for h in range(heads):
            for rank, t in enumerate(seen):
                if kind == "query":
                    s = theta @ z[i, t] / np.sqrt((z[i, t] ** 2).mean())
                else:
                    a, b = theta.reshape(heads, 2, T)[h]
                    s = a[rank] + b[len(seen) - 1 - rank]
                P[i, h, t] = np.exp(s)
        P[i] /= P[i].sum(axis=1, keepdims=True)
    return P


@pytest.mark.parametrize("kind", ["query", "positions"])
def test_loss_is_that_of_its_definition(kind):
    loss, z, observed, Y, theta = problem(kind)
    heads = 1 if kind == "query" else 3
    P = slow_weights(kind, theta, z, observed, heads)
    np.testing.assert_allclose(loss.pooled(theta)[0], P, atol=1e-12)
    C = np.concatenate([np.einsum("nt,ntp->np", P[:, h], z) for h in range(heads)], axis=1)
    C -= C.mean(axis=0)
    Y = (Y - Y.mean(axis=0)) / np.sqrt(((Y - Y.mean(axis=0)) ** 2).sum() / len(Y))
    lam = loss.c * (C**2).sum() / C.shape[1]
    ridge = Ridge(alpha=lam, fit_intercept=False, solver="svd").fit(C, Y)
    # the minimum of the ridge problem, written as a sum of squares
    expected = ((Y - ridge.predict(C)) ** 2).sum() / len(Y) + lam * (ridge.coef_**2).sum() / len(Y)
    assert loss.evaluate(theta)[0] == pytest.approx(expected + 0.01 * theta @ theta, rel=1e-10)


@pytest.mark.parametrize("kind", ["query", "positions"])
@pytest.mark.parametrize("at", ["start", "anywhere"])
def test_gradient_agrees_with_finite_differences(kind, at):
    loss, *_, theta = problem(kind)
    if at == "start":
        theta = loss.model.start()
    step = 1e-5
    numerical = np.empty_like(theta)
    for j in range(len(theta)):
        up, down = theta.copy(), theta.copy()
        up[j] += step
        down[j] -= step
        numerical[j] = (loss.evaluate(up)[0] - loss.evaluate(down)[0]) / (2 * step)
    gradient = loss.evaluate(theta)[1]
    assert np.abs(gradient).max() > 1e-3  # there is something to agree about
    np.testing.assert_allclose(gradient, numerical, atol=1e-9)


@pytest.mark.parametrize("kind", ["query", "positions"])
def test_minimising_lowers_the_loss_to_a_stationary_point(kind):
    loss, *_ = problem(kind)
    few, many = loss.minimise(5), loss.minimise(500)
    values = [loss.evaluate(theta)[0] for theta in (loss.model.start(), few, many)]
    assert values[0] > values[1] > values[2]
    assert np.abs(loss.evaluate(many)[1]).max() < 1e-4


def test_tokens_that_do_not_vary_leave_the_start():
    z = np.zeros((20, 4, 2))
    observed = np.ones((20, 4), dtype=bool)
    loss = PooledRidgeLoss(z, observed, np.arange(20.0)[:, None], QueryScores(z), 1e-3)
    np.testing.assert_array_equal(loss.minimise(10), np.zeros(2))


def test_places_do_not_see_padding_on_either_side_or_holes():
    full = np.ones((1, 3), dtype=bool)
    start, end = places(full)
    for pattern in ([1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [1, 0, 1, 0, 1]):
        observed = np.array([pattern], dtype=bool)
        s, e = places(observed)
        np.testing.assert_array_equal(s[observed], start[full])
        np.testing.assert_array_equal(e[observed], end[full])


def test_fixed_rules_by_hand():
    observed = np.array([[False, True, True, True], [True, False, False, False], [False, False, False, False]])
    third = 1 / 3
    for rule, row in {
        "mean": [0, third, third, third],
        "last": [0, 0, 0, 1],
        "first": [0, 1, 0, 0],
        "ramp": [0, 1 / 6, 2 / 6, 3 / 6],
    }.items():
        expected = np.array([row, [1, 0, 0, 0], [0, 0, 0, 0]], dtype=float)
        np.testing.assert_allclose(rule_weights(rule, observed), expected, err_msg=rule)
    np.testing.assert_array_equal(
        without_first(observed), [[False, False, True, True], [True, False, False, False], [False] * 4]
    )


def test_heads_start_at_mean_last_first_and_ramp():
    observed = np.ones((1, 10), dtype=bool)
    scores = PositionScores.of(observed, 6)
    P = softmax_weights(scores.scores(scores.start()), observed)[0]
    np.testing.assert_allclose(P[0], 0.1)
    assert P[1, -1] > 0.7
    assert P[2, 0] > 0.7
    np.testing.assert_allclose(P[3], np.arange(1, 11) / 55)
    assert (P[4:].argmax(axis=1) > 0).all()
    assert len({tuple(row.round(6)) for row in P}) == 6  # no two heads start as one: they would stay one
    assert position_start(1, 4).shape == (1, 2, 4)


def test_softmax_survives_huge_scores_and_empty_rows():
    observed = np.array([[True, True, False], [False, False, False]])
    scores = np.array([[[1e4, -1e4, 1e308]], [[1.0, 2.0, 3.0]]])
    np.testing.assert_array_equal(softmax_weights(scores, observed)[:, 0], [[1, 0, 0], [0, 0, 0]])
