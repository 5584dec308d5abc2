"""Forecasts of a classifier of tokens, all it learns included."""

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import spikepool as sp
from spikepool.forecasting.token_rows import OverTokens, TokenRows


def sequences(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three classes in one of six positions, and padding."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 6, 5))
    X[:, 2] += 1.2 * np.eye(3, 5)[y]
    mask = np.arange(6) < rng.integers(3, 7, n)[:, None]
    X[~mask] = np.nan  # never read
    return X, mask, y


@pytest.mark.slow
def test_the_whole_classifier_is_forecast():
    X, mask, y = sequences(1400)
    model = sp.LearnedPoolingClassifier()
    f = sp.forecast(X[:240], y[:240], n=[480, 960], mask=mask[:240], estimator=model, target=0.6)
    assert f.estimator == "LearnedPoolingClassifier"
    assert f.dimension == 5
    assert f.pilot_rows == 240
    for n, (low, high) in zip(f.n, f.interval, strict=True):
        found = model.fit(X[:n], y[:n], mask=mask[:n]).score(X[960:], y[960:], mask=mask[960:])
        assert low < found < high
    mean = sp.forecast(
        X[:240], y[:240], n=[960], mask=mask[:240], estimator=sp.LearnedPoolingClassifier(pooling="mean")
    )
    assert f.score[-1] > mean.score[-1] + 0.05


@pytest.mark.slow
def test_probabilities_of_tokens_can_be_scored_and_groups_are_kept():
    X, mask, y = sequences(160)
    groups = np.repeat(np.arange(80), 2)
    f = sp.forecast(
        X,
        y,
        n=[320],
        mask=mask,
        groups=groups,
        scoring="neg_log_loss",
        estimator=sp.LearnedPoolingClassifier(pooling="flat"),
    )
    assert -1.2 < f.score[0] < 0


def test_rows_are_looked_up_and_not_copied():
    X, mask, y = sequences(90)
    given = TokenRows(X, mask, None)
    model = OverTokens(sp.LearnedPoolingClassifier(pooling="mean"), given)
    assert clone(model).given is given
    assert copy.deepcopy(given) is given
    train, test = train_test_split(np.arange(90), random_state=0)
    fitted = model.fit(train[:, None], y[train])
    plain = sp.LearnedPoolingClassifier(pooling="mean").fit(X[train], y[train], mask=mask[train])
    np.testing.assert_array_equal(fitted.predict(test[:, None]), plain.predict(X[test], mask=mask[test]))
    np.testing.assert_allclose(fitted.predict_proba(test[:, None]), plain.predict_proba(X[test], mask=mask[test]))
    assert not hasattr(OverTokens(LogisticRegression, given), "unknown")


def test_a_mask_of_another_shape_is_named():
    X, mask, y = sequences(60)
    with pytest.raises(sp.errors.ShapeError, match="mask"):
        sp.forecast(X, y, mask=mask[:, :4], estimator=sp.LearnedPoolingClassifier())
