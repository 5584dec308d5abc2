"""Forecasts of any estimator and score, and plans in rounds."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spikepool as sp
from spikepool.forecasting.estimator_curve import _split


def test_any_classifier_and_score(digits):
    X, y = digits
    model = make_pipeline(StandardScaler(), KNeighborsClassifier())
    f = sp.forecast(X[:300], y[:300], n=[300, 900], estimator=model, scoring="f1_macro", target=0.95)
    truth = KNeighborsClassifier().fit(*((X[:900] - X[:900].mean(0)) / (X[:900].std(0) + 1e-9), y[:900]))
    rest = (X[900:] - X[:900].mean(0)) / (X[:900].std(0) + 1e-9)
    assert f.interval[1, 0] < (truth.predict(rest) == y[900:]).mean() < f.interval[1, 1]
    assert f.estimator == "KNeighborsClassifier"
    assert f.score_name == "f1_macro"
    assert "KNeighborsClassifier on these features" in f.target_line()
    assert "f1_macro" in str(f)
    assert f.plot().get_ylabel().startswith("f1_macro")
    with pytest.raises(AttributeError, match="f1_macro"):
        f.accuracy  # noqa: B018
    assert len(f.measured_n) >= 4
    assert f.measured_n[0] > 250


def test_scores_that_need_probabilities_and_regressions(digits):
    X, y = digits
    f = sp.forecast(X[:300], y[:300], n=[600], estimator=LogisticRegression(max_iter=100), scoring="neg_log_loss")
    assert f.interval[0, 0] < f.score[0] < f.interval[0, 1] < 0
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    y = X[:, 0] + 0.3 * rng.standard_normal(200)
    r = sp.forecast(X, y, n=[400], estimator=KNeighborsRegressor())
    assert r.score_name == "R²"
    np.testing.assert_allclose(r.r2, r.score)
    m = sp.forecast(X, y, n=[400], estimator=KNeighborsRegressor(), scoring="neg_mean_absolute_error")
    assert m.score[0] < 0
    own = sp.forecast(X, y, n=[400], estimator=KNeighborsRegressor(), scoring=make_scorer(lambda a, b: 0.5))
    assert own.score[0] == pytest.approx(0.5, abs=0.02)


def test_default_is_ridge_and_bad_arguments_are_named(digits):
    X, y = digits
    plain = sp.forecast(X[:200], y[:200], n=[400])
    named = sp.forecast(X[:200], y[:200], n=[400], scoring="accuracy")
    assert plain.estimator == "ridge"
    np.testing.assert_array_equal(plain.score, named.score)
    with pytest.raises(sp.InvalidInputError, match="scorer"):
        sp.forecast(X[:200], y[:200], scoring="accurate")
    with pytest.raises(sp.InvalidInputError, match="estimator"):
        sp.forecast(X[:200], y[:200], estimator="svm")
    with pytest.raises(sp.InvalidInputError, match="other kind"):
        sp.forecast(X[:200], y[:200], estimator=KNeighborsRegressor())


def test_splits_keep_groups_and_classes():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 40, 200)
    train, test = _split(groups, None, 80, rng)
    assert not set(groups[train]) & set(groups[test])
    assert abs(len(train) - 80) <= np.bincount(groups).max()
    labels = np.repeat([0, 1, 2], [20, 60, 120])
    train, test = _split(np.arange(200), labels, 100, rng)
    assert sorted([*train, *test]) == list(range(200))
    np.testing.assert_allclose(np.bincount(labels[train]), [10, 30, 60], atol=1)


def test_rounds_meet_the_target_as_often_as_they_say():
    n = np.array([32, 64, 128, 256, 512])
    f = sp.forecast_curve(n, 0.95 - 0.9 * n**-0.4, target=0.93)
    plan = f.rounds(rounds=3, probability=0.9, cost_per_row=2.0)
    assert plan.next_rows > 0
    assert plan.next_total == plan.next_rows + 512
    assert plan.probability >= 0.85
    assert plan.one_shot is None or plan.expected_total < plan.one_shot
    assert plan.cost == pytest.approx(2 * (plan.expected_total - 512))
    assert "3 rounds" in str(plan)
    assert plan.to_dict()["next_rows"] == plan.next_rows
    once = f.rounds(rounds=1)
    assert once.next_total >= plan.next_total
    assert f.rounds(rounds=3, random_state=0) == f.rounds(rounds=3, random_state=0)
    with pytest.raises(sp.UnreachableError, match="limit"):
        f.rounds(0.9999)


def test_forecast_stays_below_the_best_possible_accuracy():
    """Two Gaussian classes of one shape: no linear rule does better than Phi(1.5) = .933."""
    rng = np.random.default_rng(0)
    found, covered = [], 0
    for _ in range(4):
        y = rng.integers(0, 2, 600)
        X = rng.standard_normal((600, 300))
        X[:, 0] += 3 * (y - 0.5)
        f = sp.forecast(X, y, n=[2400, 4800, 9600])
        found.append(f.accuracy)
        truth = np.array([0.9223, 0.9275, 0.9311])  # ridge on five draws of each size
        covered += int(((f.interval[:, 0] <= truth) & (truth <= f.interval[:, 1])).sum())
    assert covered >= 8  # of 12, in four draws
    assert np.mean(found, axis=0)[2] < 0.945


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_shuffled_groups_with_random_labels_are_at_chance():
    """Groups of four rows correlated by .94: without their near copies left-out rows are as good as any."""
    rng = np.random.default_rng(0)
    g = np.arange(400) // 4
    X = np.sqrt(0.94) * rng.standard_normal((400, 100))[g] + np.sqrt(0.06) * rng.standard_normal((400, 100))
    y, order = rng.integers(0, 2, 400)[g], rng.permutation(400)
    f = sp.forecast(X[order], y[order])
    assert f.interval[0, 0] < 0.5 < f.interval[0, 1]
    assert any("near copy" in text for text in f.warnings)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_report_on_a_handful_of_noise_answers():
    plan = sp.report(np.random.default_rng(0).standard_normal((24, 5)), np.arange(24) % 2).plan
    assert plan.result is not None
    assert "escale" not in plan.advice
