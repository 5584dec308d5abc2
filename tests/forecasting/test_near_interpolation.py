"""Estimators near interpolation, scores without a known chance level, and classes too rare to be predicted."""

import zlib
from dataclasses import replace

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.neighbors import KNeighborsClassifier

import spikepool as sp
from spikepool.forecasting.cross_validation import measure_sizes, noise_fits
from spikepool.forecasting.pilot_input import read_pilot
from spikepool.forecasting.score_scale import ScoreScale


def two_classes(seed, rows, features, distance, share=0.5):
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < share).astype(int)
    x = rng.standard_normal((rows, features))
    x[:, 0] += distance * y
    return x, y


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("model", "scoring"),
    [(LinearDiscriminantAnalysis(), None), (LogisticRegression(C=1000, max_iter=300), "neg_log_loss")],
)
def test_double_descent_is_refused(model, scoring):
    """60 rows of 50 features: accuracies of .76 were forecast for .95, log losses of 5.4 for .58."""
    x, y = two_classes(1, 60, 50, 2.0)
    with pytest.raises(sp.SizeError, match="near interpolation"):
        sp.forecast(x, y, estimator=model, scoring=scoring)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_weak_penalty_whose_measured_curve_rises_is_warned_of():
    """One pilot of forty: log losses of .12, .08 and .06 were forecast for 4.0, .54 and .45, without a warning."""
    rng = np.random.default_rng([zlib.crc32(b"50 features, 60 rows, weak penalty, log loss"), 130])
    y = (rng.random(60) < 0.5).astype(int)
    x = rng.standard_normal((60, 50))
    x[:, 0] += 2 * (y - 0.5)
    f = sp.forecast(x, y, estimator=LogisticRegression(C=1000, max_iter=300), scoring="neg_log_loss", random_state=130)
    assert any("not far from interpolation" in text for text in f.warnings)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_log_losses_of_neighbours_are_large_and_not_near_interpolation():
    """Five neighbours that all have the other label cost 36: a large loss from noise, from few neighbours."""
    x, y = two_classes(1, 100, 20, 1.5)
    f = sp.forecast(x, y, estimator=KNeighborsClassifier(), scoring="neg_log_loss")
    assert not any("interpolation" in text for text in f.warnings)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_shrinkage_takes_the_same_model_away_from_interpolation():
    x, y = two_classes(1, 60, 50, 2.0)
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    f = sp.forecast(x, y, estimator=model)
    assert not any("interpolation" in text for text in f.warnings)


def test_least_squares_amplifies_noise_as_its_formula_says():
    """n rows of d > n isotropic features: training rows are met, new rows vary n/(d − n) times as much."""
    rng = np.random.default_rng(0)
    n, d = 120, 360
    x, y = rng.standard_normal((n + 200, d)), rng.standard_normal(n + 200)
    tasks = [(np.arange(n), np.arange(n, n + 200))]
    ratio, _, nothing = noise_fits(LinearRegression(fit_intercept=False), get_scorer("r2"), x, y, None, tasks)
    assert ratio == pytest.approx(n / (d - n), rel=0.25)
    assert nothing == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scoring", ["roc_auc", "f1", "neg_log_loss", "matthews_corrcoef"])
def test_every_score_has_a_chance_level(scoring):
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((100, 10)), rng.integers(0, 2, 100)
    nothing = sp.forecast(x, y, estimator=LogisticRegression(), scoring=scoring)
    assert nothing.verdict == "at chance"
    x[:, 0] += 3 * y
    something = sp.forecast(x, y, estimator=LogisticRegression(), scoring=scoring)
    assert something.verdict == "learning"
    known = {"roc_auc": 0.5, "matthews_corrcoef": 0.0}
    if scoring in known:
        assert something.chance == known[scoring]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_class_that_is_never_predicted_is_named_and_does_not_narrow_the_interval():
    """Seven per cent of positives: at small sizes all rows are called negative, and the score does not vary."""
    x, y = two_classes(4, 300, 20, 2.5, 0.07)
    f = sp.forecast(x, y, estimator=LogisticRegression(), scoring="f1_macro")
    assert any("predicts the same for every row" in text for text in f.warnings)
    pilot, scorer = read_pilot(x, y), get_scorer("f1_macro")
    options = {"n_jobs": None, "progress": False, "name": "x"}
    points = measure_sizes(LogisticRegression(), scorer, x, y, pilot, np.random.default_rng(0), **options)
    assert not points.varied.all()
    error, counted = (
        np.sqrt(np.diag(found.curve(ScoreScale()).covariance))[-1] for found in (points, replace(points, varied=None))
    )
    assert error == pytest.approx(f.measured_error[0])
    assert error > 1.05 * counted  # where the sizes without a predicted positive count
