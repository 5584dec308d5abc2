"""Logistic heads: the row space, rows beyond the comparison, and when the mean is kept after all."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import spikepool as sp
from spikepool.data.folds import balanced_rows, seen_elsewhere
from spikepool.pooling import logistic
from spikepool.pooling.learned_report import BY_LIKELIHOOD
from spikepool.pooling.logistic import LogisticFeatures, logistic_rows


def many_classes(n: int, seed: int, K: int = 12, T: int = 6, d: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Sequences whose mean carries one of K classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    centres = 0.45 * np.random.default_rng(99).normal(size=(K, d))
    return rng.normal(size=(n, T, d)) + centres[y][:, None], y


@pytest.mark.parametrize("F", [10, 200])
def test_scores_are_those_of_logistic_regression_on_standardised_features(F, monkeypatch):
    """F = 200 > n is worked out in the row space, F = 10 is not; single precision leaves .003 of scores up to 4."""
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-6)
    monkeypatch.setattr(logistic, "STEPS", 2000)
    rng = np.random.default_rng(0)
    n, K = 60, 3
    C = (rng.normal(size=(n, F)) * rng.uniform(0.5, 2, F) + 3).astype(np.float32)
    codes = (C[:, 0] + rng.normal(size=n) > 3).astype(int) + (C[:, 1] > 3.5)
    S = (C - C.mean(axis=0, dtype=float)) / C.std(axis=0, dtype=float)
    train, test = np.arange(40), np.arange(40, n)
    plain = LogisticRegression(tol=1e-8, max_iter=5000).fit(S[train], codes[train])
    ours = LogisticFeatures(C.copy(), np.ones(n)).scores(train, test, codes, K)
    np.testing.assert_allclose(ours, plain.decision_function(S[test]), atol=1e-2)
    everything = LogisticRegression(tol=1e-8, max_iter=5000).fit(S, codes)
    fit = LogisticFeatures(C.copy(), np.ones(n)).fit(codes, K)
    np.testing.assert_allclose(fit.predict(C.astype(float)), everything.decision_function(S), atol=1e-2)


def test_rows_that_are_nearly_dependent_have_a_row_space():
    """One direction holds nearly everything: single precision leaves products that are not positive definite."""
    rng = np.random.default_rng(3)
    C = (rng.normal(size=(80, 1)) + 1e-3 * rng.normal(size=(80, 400))).astype(np.float32)
    C[40:] = C[:40]
    codes = np.tile((C[:40, 0] > 0).astype(int), 2)
    found = LogisticFeatures(C.copy(), np.ones(80))
    assert (found.fit(codes, 2).predict(C).argmax(axis=1) == codes).mean() > 0.9
    assert np.isfinite(found.Z).all()


def test_constant_features_have_a_row_space():
    found = LogisticFeatures(np.ones((10, 30), dtype=np.float32), np.ones(10)).fit(np.arange(10) % 2, 2)
    np.testing.assert_allclose(found.predict(np.ones((3, 30))), 0.0, atol=1e-6)


@pytest.mark.slow
def test_heads_are_fitted_to_all_rows_beyond_the_comparison():
    X, y = many_classes(900, 0)
    fitted = sp.LearnedPoolingClassifier(max_samples=300).fit(X, y)
    (part,) = [part for part in fitted._logistic if part[2].name == "mean"]
    share, _, _, head = part
    assert share > 0
    C = X.mean(axis=1)
    direct = LogisticFeatures(C.astype(np.float32), np.ones(900)).fit(y, 12)
    np.testing.assert_allclose(head.predict(C), direct.predict(C), atol=1e-3)
    new, labels = many_classes(1500, 1)
    whole, few = fitted.score(new, labels), sp.LearnedPoolingClassifier().fit(X[:300], y[:300]).score(new, labels)
    assert whole > few
    # with less memory the head is fitted to fewer rows
    sources, _ = fitted._read(X, y, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logistic, "MOST_BYTES", 4 * 30 * 350)  # 350 rows of 30 features
        assert logistic_rows(30, 12, 4) == 350
        ((_, _, _, bounded),) = fitted._logistic_on_all((part,), sources, y, np.ones(900))
    rows = balanced_rows(y, np.ones(900), 350, fitted._seed())
    direct = LogisticFeatures(C.astype(np.float32)[rows], np.ones(350)).fit(y[rows], 12)
    np.testing.assert_allclose(bounded.coef, direct.coef, atol=1e-3)
    assert not np.allclose(head.coef, direct.coef, atol=0.02)


@pytest.mark.slow
def test_the_mean_is_kept_when_its_own_classifier_is_as_good():
    """A second token statistic helps ridge on the mean, but not logistic regression on it: many classes, few rows."""
    kept = by_likelihood = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        K, d = 40, 60
        y = rng.integers(0, K, 100)
        centres = np.random.default_rng(7).normal(size=(K, d))
        X = rng.normal(size=(100, 5, d)) + centres[y][:, None]
        fitted = sp.LearnedPoolingClassifier(random_state=seed).fit(X, y)
        mean = sp.LearnedPoolingClassifier(pooling="mean", random_state=seed).fit(X, y)
        if fitted.prediction_ == "mean":
            kept += 1
            np.testing.assert_allclose(fitted.predict_proba(X), mean.predict_proba(X), rtol=1e-10)
            assert fitted.head_shares_ == mean.head_shares_
            assert ("likelihood" in fitted.summary()) == (fitted.reason_ == BY_LIKELIHOOD)
            by_likelihood += fitted.reason_ == BY_LIKELIHOOD
            assert [row.weight for row in fitted.candidates_] == [1.0] + [0.0] * (len(fitted.candidates_) - 1)
    assert kept > by_likelihood >= 1


def test_classes_seen_in_other_folds():
    strata, folds = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 0, 1])
    assert seen_elsewhere(strata, folds).tolist() == [True, True, False, False, False]


def test_heads_of_two_layers_are_named_saved_and_exported(tmp_path):
    """The best candidate lies in layer a, and logistic regression on the mean of the last layer, b, adds to it."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    rng = np.random.default_rng(0)
    n, T, d, K = 400, 6, 40, 30
    y = rng.integers(0, K, n)
    first, last = rng.normal(size=(K, d)), rng.normal(size=(K, d))
    A = rng.normal(size=(n, T, d))
    A[:, 2] += 1.2 * first[y]
    B = rng.normal(size=(n, T, d)) + 0.3 * last[y][:, None]
    X = {"a": A * np.geomspace(1, 8, d), "b": B * np.geomspace(1, 8, d)}
    fitted = sp.LearnedPoolingClassifier().fit(X, y)
    assert fitted.layer_ == "a"
    assert {part[1] for part in fitted._logistic} == {"a", "b"}
    assert len(fitted.head_shares_) == 1 + len(fitted._logistic)
    expected = fitted.predict_proba(X)
    fitted.save(tmp_path / "model")
    np.testing.assert_allclose(sp.load(tmp_path / "model").predict_proba(X), expected, atol=1e-12)
    fitted.to_onnx(tmp_path / "model.onnx")
    tokens = np.stack([X[layer] for layer in fitted.layers_], axis=1).astype(np.float32)
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    found = session.run(None, {"tokens": tokens, "mask": np.ones((n, T), dtype=bool)})
    np.testing.assert_allclose(found[1], expected, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*classes:UserWarning")  # from scikit-learn 1.7 on
@pytest.mark.parametrize("layers", [1, 2])
def test_classes_of_one_row_keep_the_mean(layers):
    """Every class is missing in the folds that its row is predicted from: nothing can be compared."""
    rng = np.random.default_rng(0)
    tokens = {k: rng.normal(size=(40, 4, 6)) for k in range(layers)}
    X = tokens if layers > 1 else tokens[0]
    fitted = sp.LearnedPoolingClassifier().fit(X, np.arange(40))
    assert fitted.decision_ == "mean"
    assert "no class is in two folds" in fitted.summary()
    assert np.isfinite(fitted.predict_proba(X)).all()


def test_a_reference_is_logistic_regression_with_the_penalty_of_largest_likelihood():
    """Folds left out one at a time, rows with fold −1 only train; scikit-learn on features standardised by hand."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 120)
    C = rng.normal(size=(120, 10)) + rng.normal(size=(3, 10))[codes]
    folds = rng.integers(-1, 3, 120)
    p = logistic.tuned_logistic(C, codes, folds, 3)
    S = (C - C.mean(axis=0)) / C.std(axis=0)
    likelihoods, expected = [], []
    for inverse in logistic.REFERENCE_PENALTIES:
        q = np.full((120, 3), np.nan)
        for k in range(3):
            model = LogisticRegression(C=inverse, tol=1e-8, max_iter=1000).fit(S[folds != k], codes[folds != k])
            q[folds == k] = model.predict_proba(S[folds == k])
        here = folds >= 0
        likelihoods.append(np.log(q[here, codes[here]]).sum())
        expected.append(q)
    best = expected[int(np.argmax(likelihoods))]
    np.testing.assert_allclose(p[folds >= 0], best[folds >= 0], atol=5e-3)
