"""Learned queries: the loss from its definition, gradients from differences, weights from loops."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from spikepool.errors import InvalidInputError
from spikepool.pooling.places import places, rule_weights, without_first
from spikepool.pooling.query import start_queries
from spikepool.pooling.query_loss import PooledRidgeLoss, softmax_weights
from spikepool.pooling.rules import token_covariances


def problem(n=40, T=6, p=3, k=2, heads=2, rho=0.01, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, T, p))
    observed = rng.random((n, T)) < 0.7
    observed[np.arange(n), rng.integers(T, size=n)] = True
    z[~observed] = 0.0
    Y = rng.normal(size=(n, k)) + z[:, 0, :k]
    weights = rng.random(n) + 0.5
    loss = PooledRidgeLoss(z, observed, Y, weights, rho)
    return loss, z, observed, Y, weights, 0.7 * rng.normal(size=(heads, p))


def slow_weights(queries, z, observed):
    """Softmax of the scores, token by token."""
    n, T, _ = z.shape
    P = np.zeros((n, len(queries), T))
    for i in range(n):
        for h, q in enumerate(queries):
            for t in np.flatnonzero(observed[i]):
                P[i, h, t] = np.exp(q @ z[i, t] / np.sqrt((z[i, t] ** 2).mean()))
        P[i] /= P[i].sum(axis=1, keepdims=True)
    return P


def test_loss_is_that_of_its_definition():
    loss, z, observed, Y, weights, queries = problem()
    P = slow_weights(queries, z, observed)
    assert len(loss.groups) > 1  # sequences of different length
    assert sorted(np.concatenate([group.rows for group in loss.groups])) == list(range(len(z)))
    for group, found in zip(loss.groups, loss.pooled(queries)[0], strict=True):
        for row, mine, used in zip(group.rows, found, group.usable, strict=True):
            np.testing.assert_allclose(mine[:, used], P[row][:, observed[row]], atol=1e-12)
            assert not mine[:, ~used].any()
    mean = np.stack([x[o].mean(axis=0) for x, o in zip(z, observed, strict=True)])
    C = np.concatenate([np.einsum("nt,ntp->np", P[:, h], z) for h in range(len(queries))] + [mean], axis=1)
    share, root = weights / weights.sum(), np.sqrt(weights / weights.mean())[:, None]
    C, Y = root * (C - share @ C), root * (Y - share @ Y)
    Y = Y / np.sqrt((Y**2).sum() / len(Y))
    lam = loss.c * (C**2).sum() / C.shape[1]
    ridge = Ridge(alpha=lam, fit_intercept=False, solver="svd").fit(C, Y)
    # the minimum of the ridge problem, written as a sum of squares
    expected = ((Y - ridge.predict(C)) ** 2).sum() / len(Y) + lam * (ridge.coef_**2).sum() / len(Y)
    assert loss.evaluate(queries)[0] == pytest.approx(expected + 0.01 * (queries**2).sum(), rel=1e-9)
    assert loss.value(queries) == pytest.approx(loss.evaluate(queries)[0], rel=1e-12)


@pytest.mark.parametrize("at", ["zero", "anywhere"])
def test_gradient_agrees_with_finite_differences(at):
    loss, *_, queries = problem()
    if at == "zero":
        queries = np.zeros_like(queries)
    step = 1e-5
    numerical = np.empty_like(queries)
    for j in np.ndindex(*queries.shape):
        up, down = queries.copy(), queries.copy()
        up[j] += step
        down[j] -= step
        numerical[j] = (loss.value(up) - loss.value(down)) / (2 * step)
    gradient = loss.evaluate(queries)[1]
    assert np.abs(gradient).max() > 1e-3  # there is something to agree about
    np.testing.assert_allclose(gradient, numerical, atol=1e-9)


def test_minimising_lowers_the_loss_to_a_stationary_point():
    loss, *_, queries = problem()
    few, many = loss.minimise(queries, 5), loss.minimise(queries, 500)
    values = [loss.value(q) for q in (queries, few, many)]
    assert values[0] > values[1] > values[2]
    assert np.abs(loss.evaluate(many)[1]).max() < 1e-4


def test_the_start_finds_the_direction_of_the_marked_token():
    """One token of each row is marked in component 0 and has the label in component 1: queries begin at component 0."""
    rng = np.random.default_rng(0)
    n, T, p = 600, 12, 5
    z = rng.normal(size=(n, T, p))
    y = rng.choice([-1.0, 1.0], n)
    where = rng.integers(0, T, n)
    z[np.arange(n), where, 0] += 4.0
    z[np.arange(n), where, 1] += 1.5 * y
    z -= z.mean(axis=(0, 1))
    usable = np.ones((n, T), dtype=bool)
    loss = PooledRidgeLoss(z, usable, y[:, None], np.ones(n))
    start = start_queries(loss, token_covariances(z, usable), 2)
    leading = np.abs(start) / np.linalg.norm(start, axis=1, keepdims=True)
    assert leading[:, :2].max(axis=1).min() > 0.6  # components 0 and 1, whose covariance has the label
    assert loss.value(start) < loss.value(np.zeros((2, p)))


def test_tokens_that_do_not_vary_leave_nothing_to_learn():
    z = np.zeros((20, 4, 2))
    loss = PooledRidgeLoss(z, np.ones((20, 4), dtype=bool), np.arange(20.0)[:, None], np.ones(20))
    np.testing.assert_allclose(loss.minimise(np.ones((1, 2)), 10), 0, atol=1e-6)  # the penalty alone


def test_covariances_within_a_sequence_by_hand():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(7, 5, 3))
    usable = np.arange(5) < rng.integers(1, 6, 7)[:, None]
    z[~usable] = 0.0
    for row, x, u in zip(token_covariances(z, usable), z, usable, strict=True):
        expected = np.cov(x[u].T, bias=True) if u.sum() > 1 else np.zeros((3, 3))
        np.testing.assert_allclose(row, expected[np.triu_indices(3)], atol=1e-12)


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
    with pytest.raises(InvalidInputError, match="median"):
        rule_weights("median", observed)


def test_softmax_survives_huge_scores_and_empty_rows():
    observed = np.array([[True, True, False], [False, False, False]])
    scores = np.array([[[1e4, -1e4, 1e308]], [[1.0, 2.0, 3.0]]])
    np.testing.assert_array_equal(softmax_weights(scores, observed)[:, 0], [[1, 0, 0], [0, 0, 0]])
