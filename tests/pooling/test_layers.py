"""Several layers, probabilities, and weights of rows and classes."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import spikepool as sp
from spikepool.errors import InvalidInputError, ShapeError
from spikepool.pooling import logistic
from spikepool.pooling.logistic import STRENGTH, score_weights
from spikepool.pooling.stacking import fit_scale, probabilities


@pytest.fixture(scope="module")
def stacked():
    """Three layers; the label is in every token of layer 1, more noisily in the others."""
    rng = np.random.default_rng(0)
    n, T, d = 360, 5, 6
    y = rng.integers(0, 3, n)
    signal = np.eye(6)[y][:, None, :]
    X = np.stack([scale * signal + rng.normal(size=(n, T, d)) for scale in (0.1, 0.8, 0.3)], axis=1)
    mask = np.arange(T) < rng.integers(2, T + 1, n)[:, None]
    return X, y, mask


def test_the_best_layer_is_found_and_combined(stacked):
    X, y, mask = stacked
    fitted = sp.LearnedPoolingClassifier(max_steps=5, effort="full").fit(X[:240], y[:240], mask=mask[:240])
    assert fitted.layer_ == 1
    assert fitted.layers_ == (0, 1, 2)
    means = {c.layer: c for c in fitted.candidates_ if c.name == "mean"}
    assert set(means) == {0, 1, 2}
    assert fitted.candidates_[0] is means[2]  # gains are over the mean of the last layer
    assert {c.layer for c in fitted.candidates_ if c.name == "flat"} == {1, 2}  # the best two, of which one is the last
    last = sp.LearnedPoolingClassifier(pooling="mean").fit(X[:240, 2], y[:240], mask=mask[:240])
    gain = fitted.score(X[240:], y[240:], mask=mask[240:]) - last.score(X[240:, 2], y[240:], mask=mask[240:])
    assert gain > 0.1
    assert "of layer 1" in fitted.summary()
    assert f"{fitted.decision_} @ 1" in fitted.summary()
    features = fitted.transform(X[240:], mask=mask[240:])
    assert features.shape == (120, fitted.n_features_out_)


def test_screened_layers_average_logistic_regressions(stacked, tmp_path, monkeypatch):
    """The scores are the scaled average of logistic regressions on queries of the middle layers, 1 and 2 of three."""
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-6)
    X, y, mask = stacked
    fitted = sp.LearnedPoolingClassifier(max_steps=5).fit(X[:240], y[:240], mask=mask[:240])
    assert (fitted.prediction_, fitted.decision_, fitted.layer_) == ("average", "queries", 1)
    assert [(c.name, c.layer) for c in fitted.candidates_] == [("mean", 2), ("queries", 1), ("queries", 2)]
    assert [c.weight for c in fitted.candidates_] == [0.0, 0.5, 0.5]
    scores = 0
    for share, layer, pooling, _ in fitted._logistic:
        C = pooling.features(np.where(mask[..., None], X[:, layer], 0.0), mask)
        S = (C - C[:240].mean(axis=0)) / C[:240].std(axis=0)
        plain = LogisticRegression(C=STRENGTH / C.shape[1], tol=1e-8, max_iter=5000).fit(S[:240], y[:240])
        scores = scores + share * plain.decision_function(S)
    np.testing.assert_allclose(fitted.predict_proba(X, mask=mask), softmax(scores, axis=1), atol=5e-3)
    # the scale has seen rows left out alone: about as likely as new rows
    logs = np.log(fitted.predict_proba(X[240:], mask=mask[240:]))
    assert -logs[np.arange(120), y[240:]].mean() < np.log(3) - 0.2
    assert fitted.score(X[240:], y[240:], mask=mask[240:]) == pytest.approx(fitted.accuracy_, abs=0.12)
    expected = fitted.predict_proba(X, mask=mask)
    fitted.save(tmp_path / "model")
    fitted.keep_layers()
    assert fitted.layers_ == (1, 2)
    np.testing.assert_allclose(sp.load(tmp_path / "model").predict_proba(X, mask=mask), expected, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 4])
def test_few_rows_without_a_signal_have_equal_probabilities(K):
    """Labels at random, 8 rows of each class: the log loss of new rows is hardly above log K."""
    losses = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(8 * K + 200, 3, 4, 10))
        y = np.arange(len(X)) % K
        fitted = sp.LearnedPoolingClassifier(max_steps=5, random_state=seed).fit(X[: 8 * K], y[: 8 * K])
        losses.append(log_loss(y[8 * K :], fitted.predict_proba(X[8 * K :])))
    assert fitted.prediction_ == "average"
    assert np.mean(losses) < 1.03 * np.log(K)


@pytest.mark.slow
def test_many_rows_leave_some_folds_out_only_and_streamed_heads_see_all_rows(stacked):
    X, y, mask = (np.concatenate([part] * 4) for part in stacked)
    X = X + 1e-3 * np.random.default_rng(1).normal(size=X.shape)
    fitted = sp.LearnedPoolingClassifier(max_steps=2).fit(X, y, mask=mask)
    assert sum(row.support for row in fitted.class_scores_) == 360  # one fold of four
    part = sp.LearnedPoolingClassifier(max_steps=2, max_samples=700).fit(X, y, mask=mask)
    assert part.score(X, y, mask=mask) == pytest.approx(fitted.score(X, y, mask=mask), abs=0.03)


def test_heads_of_many_classes_have_the_weights_of_largest_likelihood():
    """Only the last layer knows the class: its mean has the weight, which an average would share with the others."""
    rng = np.random.default_rng(0)
    y = np.arange(192) % 32
    X = rng.normal(size=(192, 7, 3, 8))
    X[:, 6] += 2 * rng.normal(size=(32, 8))[y][:, None]
    fitted = sp.LearnedPoolingClassifier(max_steps=1).fit(X, y)
    assert [(c.name, c.layer) for c in fitted.candidates_] == [("mean", 6), ("queries", 4), ("queries", 5)]
    assert fitted.candidates_[0].weight > 0.9
    assert fitted.accuracy_ >= fitted.candidates_[0].score - 0.02
    noise = sp.LearnedPoolingClassifier(max_steps=1).fit(rng.normal(size=(192, 7, 3, 8)), y)
    p = noise.predict_proba(rng.normal(size=(300, 7, 3, 8)))
    assert log_loss(np.arange(300) % 32, p, labels=np.arange(32)) < 1.03 * np.log(32)


def test_random_rows_pull_the_scale_to_zero():
    """The largest likelihood with r further rows of random classes, found on a grid."""
    rng = np.random.default_rng(0)
    values, codes = rng.normal(size=(30, 3)), rng.integers(0, 3, 30)
    values[np.arange(30), codes] += 1.0
    grid = np.geomspace(0.02, 5, 4000)
    logs = np.log(softmax(grid[:, None, None] * values, axis=2))
    gain = logs[:, np.arange(30), codes].sum(axis=1) + 16 / 30 * logs.mean(axis=2).sum(axis=1)
    best = grid[gain.argmax()]
    assert fit_scale(values, codes, np.ones(30), 16.0) == pytest.approx(best, rel=2e-3)
    assert best < fit_scale(values, codes, np.ones(30))


@pytest.mark.slow
def test_mappings_stores_and_tensors_of_layers_agree(stacked, tmp_path):
    X, y, mask = stacked
    one = sp.LearnedPoolingClassifier(max_steps=3).fit(X, y, mask=mask)
    expected = one.predict_proba(X, mask=mask)
    names = {f"layer {k}": X[:, k] for k in range(3)}
    by_name = sp.LearnedPoolingClassifier(max_steps=3).fit(names, y, mask=mask)
    assert by_name.layer_ == "layer 1"
    np.testing.assert_allclose(by_name.predict_proba(names, mask=mask), expected, atol=1e-9)
    # layers that are not used need not be there in another order, but must be there
    with pytest.raises(ShapeError, match="layer 2"):
        by_name.predict({"layer 1": X[:, 1]}, mask=mask)
    with pytest.raises(ShapeError, match="saw layers"):
        one.predict(X[:, 1], mask=mask)
    with pytest.raises(InvalidInputError, match="without layers"):
        sp.LearnedPoolingClassifier().fit({}, y)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    stored = sp.LearnedPoolingClassifier(max_steps=3).fit(mapped, y, mask=mask)
    np.testing.assert_allclose(stored.predict_proba(mapped, mask=mask), expected, atol=1e-7)


def test_probabilities_are_calibrated_on_rows_left_out():
    """Labels drawn from known probabilities: the log loss is near that of the truth, and bins contain their share."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4, 5))
    truth = 1 / (1 + np.exp(-2.5 * X.mean(axis=1) @ np.array([1.5, -1, 0.5, 0, 0])))
    y = (rng.random(3000) < truth).astype(int)
    fitted = sp.LearnedPoolingClassifier(max_steps=3).fit(X[:1000], y[:1000])
    p = fitted.predict_proba(X[1000:])
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(X[1000:]))
    logistic = LogisticRegression().fit(X[:1000].mean(axis=1), y[:1000]).predict_proba(X[1000:].mean(axis=1))
    best = log_loss(y[1000:], truth[1000:])
    assert log_loss(y[1000:], p) - best < 0.02
    assert log_loss(y[1000:], p) < log_loss(y[1000:], logistic) + 0.015
    bins = np.digitize(p[:, 1], np.linspace(0, 1, 6)[1:-1])
    for b in np.unique(bins):
        rows = bins == b
        expected = p[rows, 1].mean()
        error = np.sqrt(expected * (1 - expected) / rows.sum())
        assert abs(y[1000:][rows].mean() - expected) < 4 * error + 0.04


def test_logistic_heads_are_added_where_they_help():
    """Scores by their definition, and weights that no small change improves."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3, 6))
    y = (3 * X[:, 0] @ rng.normal(size=(6, 12)) / 2 + rng.gumbel(size=(400, 12))).argmax(axis=1)
    fitted = sp.LearnedPoolingClassifier(pooling="flat").fit(X, y)
    assert set(fitted.head_shares_) >= {"ridge", "logistic flat"}
    scores = fitted.head_shares_["ridge"] * fitted.scale_ * fitted._predict_values(X, None)
    for weight, _, pooling, head in fitted._logistic:
        scores = scores + weight * (pooling.features(X, np.ones((400, 3), dtype=bool)) @ head.coef + head.intercept)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(fitted.predict_proba(X), p / p.sum(axis=1, keepdims=True), atol=1e-10)
    assert "logistic flat" in fitted.summary()
    stacked = [rng.normal(size=(60, 4)) + np.eye(4)[np.arange(60) % 4] * s for s in (2.0, 1.0, 0.0)]
    codes, weights = np.arange(60) % 4, rng.random(60)
    v = score_weights(stacked, codes, weights)

    def loss(v):
        total = sum(a * b for a, b in zip(v, stacked, strict=True))
        return weights @ (np.log(np.exp(total).sum(axis=1)) - total[np.arange(60), codes])

    for j in range(3):
        for step in (-0.05, 0.05):
            other = v.copy()
            other[j] = max(other[j] + step, 0)
            assert loss(v) <= loss(other) + 1e-6


def test_classes_of_a_single_row_do_not_hide_what_a_logistic_head_is_worth():
    """Left out, such a row has a class that no fit knows: it must not count against the heads."""
    rng = np.random.default_rng(0)
    y = np.r_[np.repeat(np.arange(20), 8), 20 + np.arange(30)]
    X = rng.normal(size=(50, 24))[y][:, None, :] + 1.2 * rng.normal(size=(len(y), 4, 24))
    fitted = sp.LearnedPoolingClassifier(pooling="mean").fit(X, y)
    assert fitted.head_shares_.get("logistic mean", 0.0) > 0.3


def test_the_scale_maximises_the_likelihood():
    rng = np.random.default_rng(0)
    values, codes, weights = rng.normal(size=(50, 4)), rng.integers(0, 4, 50), rng.random(50)
    values[np.arange(50), codes] += 1.5

    def loss(a):
        p = probabilities(values, a)
        return -weights @ np.log(p[np.arange(50), codes])

    a = fit_scale(values, codes, weights)
    assert loss(a) <= min(loss(0.9 * a), loss(1.1 * a))
    two = rng.normal(size=(9, 1))
    np.testing.assert_allclose(probabilities(two, 1.3)[:, 1], 1 / (1 + np.exp(-2.6 * two[:, 0])))


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "queries", "flat"])
def test_rows_of_weight_two_are_rows_that_come_twice(pooling):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4, 5)), rng.integers(0, 3, 60)
    weights = rng.integers(0, 3, 60)
    given = {"pooling": pooling, "ridge": 0.3, "max_steps": 3}
    one = sp.LearnedPoolingClassifier(**given).fit(X, y, sample_weight=weights)
    other = sp.LearnedPoolingClassifier(**given).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-9)
    plain = sp.LearnedPoolingClassifier(**given).fit(X, y)
    assert np.abs(one.decision_function(X) - plain.decision_function(X)).max() > 0.01
    for bad in (np.ones(59), -weights, np.zeros(60)):
        with pytest.raises(InvalidInputError):
            sp.LearnedPoolingClassifier(**given).fit(X, y, sample_weight=bad)


def test_class_weights_raise_the_recall_of_a_rare_class():
    rng = np.random.default_rng(0)
    y = np.array(["rare" if u < 0.08 else "common" for u in rng.random(500)])
    X = rng.normal(size=(500, 4, 5)) + 0.5 * (y == "rare")[:, None, None]
    plain = sp.LearnedPoolingClassifier(pooling="mean").fit(X, y)
    balanced = sp.LearnedPoolingClassifier(pooling="mean", class_weight="balanced").fit(X, y)
    recall = [next(s for s in m.class_scores_ if s.label == "rare").recall for m in (plain, balanced)]
    assert recall[1] > recall[0] + 0.3
    by_hand = sp.LearnedPoolingClassifier(pooling="mean", class_weight={"rare": 9.0, "common": 1.0}).fit(X, y)
    assert by_hand.predict(X).tolist().count("rare") > plain.predict(X).tolist().count("rare")
    assert sum(s.support for s in plain.class_scores_) == 500
    with pytest.raises(InvalidInputError, match="class_weight"):
        sp.LearnedPoolingClassifier(class_weight="even").fit(X, y)
    with pytest.raises(InvalidInputError, match="multilabel"):
        sp.LearnedPoolingClassifier().fit(X, np.ones((500, 2)))
