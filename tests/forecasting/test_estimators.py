"""Forecasts of any estimator and score."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.metrics import get_scorer, make_scorer
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import spikepool as sp
from spikepool.data.folds import fold_blocks
from spikepool.forecasting.cross_validation import measure_sizes
from spikepool.forecasting.pilot_input import FOLDS, read_pilot
from spikepool.forecasting.score_scale import ScoreScale


@pytest.mark.slow
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
    with pytest.raises(AttributeError, match="f1_macro"):
        f.accuracy  # noqa: B018
    assert len(f.measured_n) >= 4
    assert f.measured_n[0] == 240


@pytest.mark.slow
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
    with pytest.warns(UserWarning, match="at chance"):
        own = sp.forecast(X, y, n=[400], estimator=KNeighborsRegressor(), scoring=make_scorer(lambda a, b: 0.5))
    assert own.score[0] == pytest.approx(0.5, abs=0.02)


@pytest.mark.slow
def test_curve_of_ridge_guides_other_estimators(digits):
    """An estimator that is ridge rises about as ridge is forecast to rise."""
    X, y = digits
    gaps = []
    for start in (0, 200, 400):
        rows = slice(start, start + 200)
        f = sp.forecast(X[rows], y[rows], n=[1600], estimator=RidgeClassifierCV(np.logspace(-3, 3, 13)))
        alone = f.curve.to_score(replace(f.curve, guide=None).band([1600], 0.9)[0])[0]
        before, after = f.curve.guide(np.array([f.measured_n[0], 1600.0]))
        ridge = f.curve.to_score(f.curve.scale.to_z(f.measured_score[:1]) + after - before)[0]
        gaps.append((abs(f.score[0] - ridge), abs(alone - ridge)))
    guided, alone = np.mean(gaps, axis=0)
    assert guided < 0.5 * alone


@pytest.mark.slow
def test_ridge_guides_models_with_coefficients_alone(digits):
    X, y = digits
    for model, linear in ((KNeighborsClassifier(5), False), (SVC(), False), (SVC(kernel="linear"), True)):
        f = sp.forecast(X[:100], y[:100], n=[200], estimator=make_pipeline(StandardScaler(), model))
        assert (f.curve.guide is not None) == linear


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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_small_and_perfect_pilots_and_scorers_that_do_not_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 5))
    y = np.array(["a", "b"])[(X[:, 0] > 0).astype(int)]
    assert len(sp.forecast(X[:25], y[:25], estimator=LogisticRegression()).measured_n) >= 4
    perfect = sp.forecast(X + 20 * (y == "b")[:, None], y, n=[240], estimator=LogisticRegression())
    assert perfect.score[0] > 0.99
    assert 0.8 < perfect.interval[0, 0] < 0.995  # none wrong of 120 rows does not mean an accuracy of one
    with pytest.raises(sp.SizeError, match="predict_proba"):
        sp.forecast(X, y, estimator=LinearSVC(), scoring="neg_log_loss")
    with pytest.raises(sp.SizeError, match="pos_label"):
        sp.forecast(X, y, estimator=LogisticRegression(), scoring="f1")


def test_folds_keep_groups_and_classes():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 40, 200)
    order, ends = fold_blocks(groups, None, FOLDS, rng)
    blocks = np.split(order, ends[:-1])
    assert sorted(order) == list(range(200))
    assert len(blocks) == 5
    for i, block in enumerate(blocks):
        assert not any(set(groups[block]) & set(groups[other]) for other in blocks[:i])
        assert abs(len(block) - 40) <= np.bincount(groups).max()
    labels = np.repeat([0, 1, 2], [20, 60, 120])
    order, ends = fold_blocks(np.arange(200), labels, FOLDS, rng)
    for block in np.split(order, ends[:-1]):
        np.testing.assert_allclose(np.bincount(labels[block]), [4, 12, 24], atol=1)


@pytest.mark.slow
def test_scores_are_those_of_all_rows_at_once(digits):
    """The pooled score equals that of predictions put together by hand, and the jackknife that of a mean."""
    X, y = digits
    pilot = read_pilot(X[:200], y[:200] > 4)
    model, y = LogisticRegression(max_iter=50), pilot.classes[pilot.labels]
    options = {"n_jobs": None, "progress": False, "name": "x"}
    found = measure_sizes(model, get_scorer("accuracy"), pilot.X, y, pilot, np.random.default_rng(0), **options)
    order, ends = fold_blocks(pilot.groups, pilot.labels, FOLDS, np.random.default_rng(0))
    right, size = np.empty(200), int(found.n[-1])
    for block, end in zip(np.split(order, ends[:-1]), ends, strict=True):
        train = order[np.arange(end, end + size) % 200]
        right[block] = model.fit(pilot.X[train], y[train]).predict(pilot.X[block]) == y[block]
    assert found.score[-1] == right.mean()
    left = found.without[-1] - found.without[-1].mean()
    # delete-a-part jackknife of a mean over rows: its binomial variance, to the accuracy of 30 parts (1/4)
    assert 29 / 30 * left @ left == pytest.approx(right.var() / 199, rel=0.8)
    # at four fifths of the rows the training sets overlap so much that they are nearly one of all rows
    assert found.reuse[-1] == pytest.approx(1.0, abs=0.05)
    assert found.reuse[0] == pytest.approx(2.0, abs=0.1)  # five sets of a tenth each, without a common row
    covariance = found.curve(ScoreScale()).covariance
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert covariance[-1, -1] > right.var() / 200
    auc = measure_sizes(model, get_scorer("roc_auc"), pilot.X, y, pilot, np.random.default_rng(0), **options)
    assert 0.8 < auc.score[-1] < 1


@pytest.mark.slow
@pytest.mark.statistical
def test_covariance_of_sizes_is_that_over_pilots():
    """Nearest centroids of two Gaussian classes over 40 pilots: levels vary together, differences little."""

    def right(model, X, y):
        return float(np.mean(model.predict(X) == y))

    rng = np.random.default_rng(0)
    scores, stated = [], []
    for _ in range(40):
        y = rng.integers(0, 2, 100)
        X = rng.standard_normal((100, 8)) + 0.5 * y[:, None]
        options = {"n_jobs": None, "progress": False, "name": "x"}
        found = measure_sizes(NearestCentroid(), right, X, y, read_pilot(X, y), rng, **options)
        scores.append(found.score)
        stated.append(found.curve(ScoreScale()).covariance)
    truth, C = np.cov(np.array(scores).T), np.mean(stated, axis=0)
    binomial = np.mean(scores, axis=0) * (1 - np.mean(scores, axis=0)) / 100
    # standard errors of variances over 40 pilots are 22 %; rho of this steady classifier is below the stated one
    assert binomial[-1] < truth[-1, -1] < C[-1, -1] < 4 * truth[-1, -1]
    assert 1.2 * binomial[0] < truth[0, 0] < C[0, 0] < 4 * truth[0, 0]  # small training sets add to the binomial part
    for M in (truth, C):  # neighbours differ by much less than the level errs
        assert M[-1, -1] + M[-2, -2] - 2 * M[-1, -2] < 0.6 * M[-1, -1]


@pytest.mark.slow
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


@pytest.mark.slow
def test_log_losses_are_guided_by_the_share_of_wrong_answers_of_ridge():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 240)
    X = rng.standard_normal((240, 20)) + 1.5 * np.eye(20)[y]
    n = np.array([100.0, 240.0, 960.0])
    of_accuracy, of_loss = (
        sp.forecast(X, y, n=[480], estimator=LogisticRegression(), scoring=scoring, progress=False).curve.guide(n)
        for scoring in ("accuracy", "neg_log_loss")
    )
    np.testing.assert_allclose(of_loss, -np.log(1 - norm.cdf(of_accuracy)), rtol=1e-9)
    assert np.all(np.diff(of_loss) > 0)
