"""The leading candidate of a comparison, refitted without rows left out."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.pooling.heads import LogisticHead, RidgeHead
from spikepool.pooling.refitted import RefittedClassifier, leading_candidate, leading_words


@pytest.fixture(scope="module")
def tokens():
    """The class is in one token of five, at a random place."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 5, 8))
    X[np.arange(300), rng.integers(0, 5, 300)] += 4 * np.eye(8)[y] + 3 * np.eye(8)[7]
    return X, y


def test_it_predicts_as_the_pooling_and_head_asked_for_by_name(tokens):
    X, y = tokens
    fitted = sp.LearnedPoolingClassifier(max_steps=5).fit(X[:200], y[:200])
    again = leading_candidate(fitted)
    assert isinstance(again, RefittedClassifier)
    assert (again.pooling, again.head) == (fitted.decision_, fitted._leading_head)
    again.fit(X[:200], y[:200])
    named = sp.LearnedPoolingClassifier(max_steps=5, pooling=again.pooling, head=again.head).fit(X[:200], y[:200])
    np.testing.assert_array_equal(again.predict(X), named.predict(X))
    named.fit(X[:200], y[:200][::-1])
    again.fit(X[:200], y[:200][::-1])  # scores of the same rows are kept until then
    np.testing.assert_array_equal(again.predict(X), named.predict(X))
    again.fit(X[:200], y[:200])
    assert again.class_scores_ == ()  # nothing was left out
    assert again.score(X[200:], y[200:]) == pytest.approx(fitted.accuracy_, abs=0.15)


def test_a_regressor_keeps_its_penalty(tokens):
    X, _ = tokens
    y = X[:, 2, 0] + 0.1 * X[:, 1, 1]
    fitted = sp.LearnedPoolingRegressor(max_steps=2).fit(X[:200], y[:200])
    again = leading_candidate(fitted).fit(X[:200], y[:200])
    assert isinstance(again.head, RidgeHead)
    assert again.head.penalty is not None
    alone = sp.LearnedPoolingRegressor(max_steps=2, pooling=again.pooling).fit(X[:200], y[:200])
    np.testing.assert_allclose(again.predict(X), alone.predict(X), atol=1e-6)


@pytest.mark.slow
def test_words_say_what_is_forecast(tokens):
    X, y = tokens
    fitted = sp.LearnedPoolingClassifier(max_steps=2, pooling="attention", head=LogisticHead()).fit(X, y)
    assert leading_words(fitted) == "attention pooling with logistic regression"
    plan = sp.report(X, y, random_state=0).plan
    assert plan.result.estimator in plan.verdict.lower()
    assert "pooling" in plan.result.estimator
