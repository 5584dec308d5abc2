"""Families of learners: which estimators belong to which, and what the family changes."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import spikepool as sp
from spikepool.forecasting import damped_slope as cp
from spikepool.forecasting.learner_families import FAMILIES, learner_family


class Tuned(LogisticRegression):
    """A subclass defined elsewhere."""


@pytest.mark.parametrize(
    ("model", "family"),
    [
        (GaussianNB(), "generative"),
        (QuadraticDiscriminantAnalysis, "generative"),
        (LinearDiscriminantAnalysis(), "linear"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "linear"),
        (Tuned(), "linear"),
        (GridSearchCV(make_pipeline(StandardScaler(), GaussianNB()), {}), "generative"),
        (make_pipeline(StandardScaler(), OneVsRestClassifier(RandomForestClassifier())), "flexible"),
        (SVC(kernel="rbf"), "linear"),
        (KNeighborsClassifier(), "flexible"),
        (NearestCentroid(), "generative"),
        (HistGradientBoostingClassifier(), "flexible"),
        (MLPClassifier, "flexible"),
        ("RandomForestClassifier", "flexible"),
        ("MultinomialNB", "generative"),
        ("the model", None),
        ("XGBClassifier", None),
        (sp.LearnedPoolingClassifier(), None),
        (object(), None),
    ],
)
def test_family_of(model, family):
    assert learner_family(model) == family


@pytest.mark.parametrize("family", [*FAMILIES, None])
def test_weights_of_a_family_are_a_distribution(family):
    weights = [weight for _, _, weight in cp.prior(family)]
    assert min(weights) > 0
    assert sum(weights) == pytest.approx(1.0, abs=2e-3)


def test_unknown_family_is_the_mean_of_all():
    mean = dict.fromkeys(((tau, b) for tau, b, _ in cp.PRIOR), 0.0)
    for family in FAMILIES:
        for tau, b, weight in cp.prior(family):
            mean[tau, b] += weight / len(FAMILIES)
    assert {(tau, b): weight for tau, b, weight in cp.prior(None)} == pytest.approx(mean)


def test_flexible_learners_are_expected_to_rise_further():
    """The same noisy, slowly rising points: the forecast rises with the family's expected slope."""
    n = 2.0 ** np.arange(6, 11)
    scores = np.linspace(0.70, 0.74, 5)[:, None] + 0.01 * np.array([-1.0, 0.0, 1.0])
    named = {
        name: sp.forecast_curve(n, scores, at=[8192], estimator=name)
        for name in ("GaussianNB", "LogisticRegression", "RandomForestClassifier", "the model")
    }
    rise = {name: float(f.score[0]) for name, f in named.items()}
    assert rise["GaussianNB"] < rise["LogisticRegression"] < rise["RandomForestClassifier"]
    assert rise["GaussianNB"] < rise["the model"] < rise["RandomForestClassifier"]
    given = sp.forecast_curve(n, scores, at=[8192], estimator=RandomForestClassifier())
    assert given.score[0] == rise["RandomForestClassifier"]
    assert given.estimator == "RandomForestClassifier"
    assert "RandomForestClassifier" in str(given)


@pytest.mark.slow
def test_forecast_of_an_estimator_uses_its_family(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 160)
    X = rng.standard_normal((160, 6)) + y[:, None]
    seen = []
    plain = cp.prior
    monkeypatch.setattr(cp, "prior", lambda family: seen.append(family) or plain(family))
    for model in (GaussianNB(), KNeighborsClassifier(), LogisticRegression()):
        sp.forecast(X, y, n=[320], estimator=model, progress=False)
    assert list(dict.fromkeys(seen)) == ["generative", "flexible", "linear"]
