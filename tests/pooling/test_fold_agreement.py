"""What the folds found, together: averages of weights, queries that agree, and the end of a fit nobody had compared."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.data.tokens import TokenForm, token_input
from spikepool.pooling import pooled_loss
from spikepool.pooling.fold_agreement import agreeing_pooling, agreement
from spikepool.pooling.learning_rows import assign_folds, read_learning_rows, tie
from spikepool.pooling.poolings import QueryPooling
from spikepool.pooling.selection import Learner


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5, 4))
    mask = np.arange(5) < rng.integers(1, 6, 60)[:, None]
    return read_learning_rows(token_input(X, mask, TokenForm(5, 4, None)), 4, None), X, mask


def queries(data, *vectors):
    return [QueryPooling(np.array([v], dtype=float), data.space) for v in vectors]


def test_agreement_is_the_cosine_of_departures_from_equal_weights(rows):
    data, _, mask = rows
    q = np.array([1.0, -0.5, 0.2, 0.0])
    found = agreement(queries(data, q, 0.1 * q, -0.1 * q, 0 * q, 0 * q), data)
    np.testing.assert_array_equal(np.diag(found), 1)
    assert found[0, 1] > 0.9
    assert found[1, 2] < -0.9
    np.testing.assert_array_equal(found[3, [0, 1, 2, 4]], [0, 0, 0, 1])  # equal weights agree with each other alone
    # the definition, token by token
    weights = []
    for query in (q, -0.1 * q):
        rms = np.sqrt((data.z**2).mean(axis=2))
        scores = np.exp(np.where(mask, data.z @ query / np.where(mask, rms, 1), -np.inf))
        weights.append((scores / scores.sum(axis=1, keepdims=True) - mask / mask.sum(axis=1, keepdims=True)).ravel())
    expected = weights[0] @ weights[1] / np.sqrt(weights[0] @ weights[0] * (weights[1] @ weights[1]))
    assert found[0, 2] == pytest.approx(expected)


A, B, C = np.eye(4)[:3]


@pytest.mark.parametrize(
    ("found", "whole", "gains", "used"),
    [
        ((A, A, A, A), A, (1, 1, 1, 1), "01234"),
        ((A, A, A, -A), A, (1, 1, 1, 0), "0124"),
        # the fit on all rows found something else: nobody has judged it
        ((A, A, A, -A), -A, (1, 1, 1, 0), "012"),
        # one fold gained more than three together: unseen rows decide, and not the number of votes
        ((A, A, A, B), B, (0.2, 0.1, 0.2, 0.9), "34"),
        ((A, A, A, B), C, (0.4, 0.3, 0.4, 0.9), "012"),
        ((A, B), C, (0.4, 0.5), "1"),
    ],
)
def test_the_fits_that_agree_and_gained_most_are_averaged(rows, found, whole, gains, used):
    data, X, mask = rows
    fits = queries(data, *found, whole)
    folds = np.arange(60) % len(found)
    pooling = agreeing_pooling(fits[:-1], fits[-1], data, np.take(gains, folds), folds)
    used = [min(int(i), len(found)) for i in used]
    expected = np.mean([fits[i].weights(X, mask) for i in used], axis=0)
    np.testing.assert_allclose(pooling.weights(X, mask), expected, atol=1e-15)


def test_heads_are_averaged_head_by_head(rows):
    data, X, mask = rows
    Y = X[:, 0, :2] + 0.1
    learner = Learner(3, 5, None)
    folds = np.arange(60) % 2
    fits = [learner.learn("positions", data, Y, np.flatnonzero(folds != k)) for k in (0, 1, 2)]
    pooling = agreeing_pooling(fits[:2], fits[2], data, np.ones(60), folds)
    assert pooling.heads == ("head1", "head2", "head3")
    np.testing.assert_allclose(
        pooling.weights(X, mask), np.mean([f.weights(X, mask) for f in fits], axis=0), atol=1e-15
    )


@pytest.fixture(scope="module")
def stress(from_benchmarks):
    return from_benchmarks("learned_stress")


def scores_of_few_rows(stress):
    """Accuracies from 200 rows of 1,024 features, and the choice."""
    rng = np.random.default_rng([1, 21, 4])
    X, mask, y = stress.sequences(rng, 1200, T=12, d=1024, signal="keyword", strength=0.45)
    accuracy = {}
    for pooling in ("mean", "query", "auto"):
        fitted = sp.LearnedPoolingClassifier(pooling=pooling).fit(X[:200], y[:200], mask=mask[:200])
        accuracy[pooling] = fitted.score(X[200:], y[200:], mask=mask[200:])
    assert fitted.decision_ == "query"
    return accuracy


def test_a_query_that_the_folds_did_not_find_is_not_used(stress, monkeypatch):
    """Learned once on all rows, under whatever penalty the mean asks for, the query loses 14 points on new ones."""
    monkeypatch.setattr(pooled_loss, "MOST_PENALTY", np.inf)
    accuracy = scores_of_few_rows(stress)
    assert accuracy["query"] < accuracy["mean"] - 0.1
    assert accuracy["auto"] > accuracy["mean"] + 0.2


def test_a_bounded_penalty_finds_the_query_at_once(stress):
    accuracy = scores_of_few_rows(stress)
    assert min(accuracy["query"], accuracy["auto"]) > accuracy["mean"] + 0.3


def test_what_was_compared_is_what_is_used():
    """The weights in use are the average of those of the folds and of all rows, learned here one by one."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 6, 8))
    where = rng.integers(0, 6, 300)
    X[np.arange(300), where, 0] += 6.0
    X[np.arange(300), where, 1 + y] += 2.0
    fitted = sp.LearnedPoolingClassifier().fit(X, y)
    assert fitted.decision_ == "query"
    data = read_learning_rows(token_input(X, None, TokenForm(6, 8, None)), 32, None)
    folds = assign_folds(y, tie(data.copies, None), 4, fitted._seed())
    Y = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    weights = [
        Learner(4, 25, None).learn("query", data, Y, np.flatnonzero(folds != k)).weights(X, np.ones((300, 6), bool))
        for k in range(5)  # nothing is in a fifth fold
    ]
    np.testing.assert_allclose(fitted.token_weights(X), np.mean(weights, axis=0), atol=1e-12)
