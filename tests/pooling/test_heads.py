"""Heads: their features against scikit-learn, rows left out, penalties, and heads of one's own."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge

import spikepool as sp
from spikepool.answers.evaluations import tuned_logistic
from spikepool.kit.threads import serial_map
from spikepool.pooling.design import of_features
from spikepool.pooling.heads import Head, LogisticHead, RidgeHead, register_head, unregister_head
from spikepool.pooling.judging import Classes, Numbers, Task


def task(target, classes=None, folds=None, weights=None):
    n = len(target)
    objective = Numbers(target, float(target.var())) if classes is None else Classes(target, classes)
    folds = np.arange(n) % 3 if folds is None else folds
    weights = np.ones(n) if weights is None else weights
    return Task(objective, weights, folds, np.arange(n), np.where(folds >= 0, weights, 0.0))


@pytest.fixture(params=[10, 200])
def labelled(request):
    """Features of other scales than one, fewer and more than rows, and three classes."""
    rng = np.random.default_rng(0)
    C = rng.normal(size=(60, request.param)) * rng.uniform(0.5, 2, request.param) + 3
    codes = (C[:, 0] + rng.normal(size=60) > 3).astype(int) + (C[:, 1] > 3.5)
    return C, codes, (C - C.mean(axis=0)) / C.std(axis=0)


def test_logistic_scores_are_those_of_scikit_learn_on_standardised_features(labelled):
    """200 features of 60 rows are rotated first; single precision leaves .003 of scores up to 4."""
    C, codes, S = labelled
    head = LogisticHead((2.0,), steps=2000, tolerance=1e-6)
    given = task(codes, 3)  # of K = 3 classes: K²/(K − 1) = 4.5
    design = of_features(C.copy(), np.ones(60), scaled=True)
    found = head.judge(lambda _: design, given, serial_map)
    for k in range(3):
        train = given.folds != k
        inverse = 4.5 * 2.0 / (S[train] ** 2).sum(axis=1).mean()
        plain = LogisticRegression(C=inverse, tol=1e-8, max_iter=5000).fit(S[train], codes[train])
        np.testing.assert_allclose(found.scores[~train], plain.decision_function(S[~train]), atol=1e-2)
    plain = LogisticRegression(C=4.5 * 2.0 / C.shape[1], tol=1e-8, max_iter=5000).fit(S, codes)
    np.testing.assert_allclose(found.head.whole(design, given)(C), plain.decision_function(S), atol=1e-2)


def test_ridge_values_are_those_of_scikit_learn(labelled):
    C, _, S = labelled
    rng = np.random.default_rng(1)
    y, weights = C[:, 0] + rng.normal(size=60), rng.uniform(0.5, 2, 60)
    given = task(y, weights=weights)
    mean = np.average(C, axis=0, weights=weights)
    S = (C - mean) / np.sqrt(np.average((C - mean) ** 2, axis=0, weights=weights))
    design = of_features(C.copy(), weights, scaled=True)
    found = RidgeHead(0.5).judge(lambda _: design, given, serial_map)
    for k in range(3):
        train = given.folds != k
        plain = Ridge(0.5 * weights[train].sum(), solver="svd").fit(S[train], y[train], sample_weight=weights[train])
        np.testing.assert_allclose(found.scores[~train, 0], plain.predict(S[~train]), atol=1e-5)
    plain = Ridge(0.5 * weights.sum(), solver="svd").fit(S, y, sample_weight=weights)
    np.testing.assert_allclose(found.head.whole(design, given)(C)[:, 0], plain.predict(S), atol=1e-5)
    # without a penalty of one's own, the one of least squared error on the rows left out
    chosen = RidgeHead().judge(lambda _: design, given, serial_map)
    errors = [
        float(weights @ (RidgeHead(p).judge(lambda _: design, given, serial_map).scores[:, 0] - y) ** 2)
        for p in (chosen.head.penalty / 4, chosen.head.penalty * 4)
    ]
    assert float(weights @ (chosen.scores[:, 0] - y) ** 2) <= min(errors)


def test_nearly_dependent_rows_and_constant_features_have_a_design():
    """One direction holds nearly everything: single precision leaves products that are not positive definite."""
    rng = np.random.default_rng(3)
    C = (rng.normal(size=(80, 1)) + 1e-3 * rng.normal(size=(80, 400))).astype(np.float32)
    C[40:] = C[:40]
    codes = np.tile((C[:40, 0] > 0).astype(int), 2)
    design = of_features(C.copy(), np.ones(80), scaled=True)
    assert np.isfinite(design.Z).all()
    linear = design.back(*LogisticHead().fit(design.Z, codes, np.ones(80), 2))
    assert (linear(C).argmax(axis=1) == codes).mean() > 0.9
    flat = of_features(np.ones((10, 30)), np.ones(10), scaled=True)
    linear = flat.back(*LogisticHead().fit(flat.Z, np.arange(10) % 2, np.ones(10), 2))
    np.testing.assert_allclose(linear(np.ones((3, 30))), 0.0, atol=1e-6)


def test_the_strength_is_raised_while_the_rows_left_out_become_more_likely():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 120)
    C = rng.normal(size=(120, 10)) + rng.normal(size=(3, 10))[codes]
    folds = rng.integers(-1, 3, 120)
    given = task(codes, 3, folds=folds)
    design = of_features(C.copy(), np.ones(120), scaled=True)
    reached = []
    for strength in LogisticHead().strengths:
        scores = LogisticHead((strength,)).judge(lambda _: design, given, serial_map).scores
        scale = given.objective.weigh([scores], given.judging)[0]
        reached.append(given.objective.likelihood(scale * scores))
    chosen = LogisticHead().judge(lambda _: design, given, serial_map).head.strengths
    rises = [gain > error for gain, error in (given.paired(b - a) for a, b in pairwise(reached))]
    first_fall = 1 + next((k for k in range(2) if not rises[k]), 2)
    assert chosen == (LogisticHead().strengths[first_fall - 1],)
    # a reference of a report is the same head
    p = tuned_logistic(C, given.objective, folds)
    np.testing.assert_allclose(p[folds >= 0].sum(axis=1), 1)
    assert np.log(p[folds >= 0, codes[folds >= 0]]).mean() == pytest.approx(
        given.average(reached[first_fall - 1]), abs=1e-6
    )


class Discriminant(Head):
    """Linear discriminant analysis, with the covariance shrunk as Ledoit and Wolf do."""

    name = "discriminant"

    def fit(self, Z, target, weights, classes):
        model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(Z, target)
        coef, intercept = model.coef_.T, model.intercept_
        if len(model.classes_) == 2:
            coef, intercept = np.column_stack([-coef, coef]) / 2, np.r_[-intercept, intercept] / 2
        full, level = np.zeros((Z.shape[1], classes)), np.full(classes, -30.0)
        full[:, model.classes_], level[model.classes_] = coef, intercept
        return full, level


def test_a_head_of_ones_own_is_compared_saved_and_exported(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 4, 6)) + 0.8 * np.eye(6)[y][:, None]
    register_head(Discriminant())
    try:
        with pytest.raises(sp.InvalidInputError, match="registered already"):
            register_head(Discriminant())
        fitted = sp.LearnedPoolingClassifier(head="discriminant").fit(X[:200], y[:200])
        assert {c.head for c in fitted.candidates_ if c.weight} == {"discriminant"}
        assert fitted.score(X[200:], y[200:]) > 0.8
        expected = fitted.predict_proba(X)
    finally:
        unregister_head("discriminant")
    # what was fitted is a linear map: neither loading nor ONNX needs the class
    fitted.save(tmp_path / "model")
    np.testing.assert_array_equal(sp.load(tmp_path / "model").predict_proba(X), expected)
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    fitted.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    found = session.run(None, {"tokens": X.astype(np.float32), "mask": np.ones((300, 4), dtype=bool)})
    np.testing.assert_allclose(found[1], expected, atol=1e-5)
    with pytest.raises(sp.InvalidInputError, match="head"):
        sp.LearnedPoolingClassifier(head="discriminant").fit(X, y)
    with pytest.raises(sp.InvalidInputError, match="for classes"):
        sp.LearnedPoolingRegressor(head="logistic").fit(X, y)
