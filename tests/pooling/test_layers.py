"""Several layers, weights of candidates, probabilities, and weights of rows and classes."""

from itertools import product

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import spikepool as sp
from spikepool.errors import InvalidInputError, ShapeError
from spikepool.pooling.judging import Classes

HEADS = ("logistic", "ridge")


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


def test_attention_in_middle_layers_is_weighed_against_the_mean_of_the_last(stacked, tmp_path):
    """The scores are the weighted sum of the parts: linear maps on attention in layers."""
    X, y, mask = stacked
    fitted = sp.LearnedPoolingClassifier(max_steps=5).fit(X[:240], y[:240], mask=mask[:240])
    assert (fitted.prediction_, fitted.decision_, fitted.layer_) == ("weighted", "attention", 1)
    compared = [("mean", 2), ("attention", 0), ("attention", 1), ("attention", 2)]
    assert [((c.name, c.layer), c.head) for c in fitted.candidates_] == list(product(compared, HEADS))
    weights = {k: sum(c.weight for c in fitted.candidates_[2:] if c.layer == k) for k in range(3)}
    assert weights[1] > max(0.5, weights[2])
    places = [(part.layer, part.pooling.name) for part in fitted.fitted_.parts]
    assert len(set(places)) == len(places)  # two heads on the same features are one linear map
    scores = 0
    for part in fitted.fitted_.parts:
        C = part.pooling.features(np.where(mask[..., None], X[:, part.layer], 0.0), mask)
        scores = scores + part.weight * (C @ part.linear.coef + part.linear.intercept)
    np.testing.assert_allclose(fitted.predict_proba(X, mask=mask), softmax(scores, axis=1), atol=1e-12)
    assert "Attention pooling helps: +" in fitted.summary()
    assert fitted.score(X[240:], y[240:], mask=mask[240:]) == pytest.approx(fitted.accuracy_, abs=0.12)
    last = sp.LearnedPoolingClassifier(pooling="mean").fit(X[:240, 2], y[:240], mask=mask[:240])
    gain = fitted.score(X[240:], y[240:], mask=mask[240:]) - last.score(X[240:, 2], y[240:], mask=mask[240:])
    assert gain > 0.1
    expected = fitted.predict_proba(X, mask=mask)
    fitted.save(tmp_path / "model")
    np.testing.assert_array_equal(sp.load(tmp_path / "model").predict_proba(X, mask=mask), expected)
    fitted.keep_layers()
    assert set(fitted.layers_) == {part.layer for part in fitted.fitted_.parts}


def test_a_pooling_by_name_is_compared_over_layers(stacked):
    X, y, mask = stacked
    fitted = sp.LearnedPoolingClassifier(pooling="mean").fit(X, y, mask=mask)
    assert [(c.layer, c.head) for c in fitted.candidates_] == list(product([2, 1, 0], HEADS))
    assert fitted.layer_ == 1
    one = sp.LearnedPoolingClassifier(pooling="queries", max_steps=2).fit(X[:, 1], y, mask=mask)
    same = sp.LearnedPoolingClassifier(pooling="attention", max_steps=2).fit(X[:, 1], y, mask=mask)
    assert one.decision_ == same.decision_ == "attention"
    np.testing.assert_array_equal(one.predict_proba(X[:, 1], mask=mask), same.predict_proba(X[:, 1], mask=mask))


def test_the_mean_of_the_last_layer_is_kept_where_attention_adds_nothing():
    """Only the mean of the last layer knows the class; earlier layers are noise."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    X = rng.normal(size=(240, 5, 4, 8))
    X[:, 4] += 0.8 * np.eye(8)[y][:, None]
    fitted = sp.LearnedPoolingClassifier(max_steps=2).fit(X, y)
    assert (fitted.prediction_, fitted.decision_, fitted.layer_) == ("mean", "mean", 4)
    assert "Attention pooling does not help here" in fitted.summary()
    assert fitted.improvement_ == 0.0
    alone = sp.LearnedPoolingClassifier(pooling="mean").fit(X[:, 4], y)
    np.testing.assert_allclose(fitted.predict_proba(X), alone.predict_proba(X[:, 4]), atol=1e-12)


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
    assert np.mean(losses) < 1.03 * np.log(K)


@pytest.mark.slow
def test_many_rows_leave_some_folds_out_only_and_heads_see_all_rows(stacked):
    X, y, mask = (np.concatenate([part] * 4) for part in stacked)
    X = X + 1e-3 * np.random.default_rng(1).normal(size=X.shape)
    fitted = sp.LearnedPoolingClassifier(max_steps=2).fit(X, y, mask=mask)
    assert sum(row.support for row in fitted.class_scores_) == 1080  # three folds of four
    part = sp.LearnedPoolingClassifier(max_steps=2, max_samples=700).fit(X, y, mask=mask)
    assert part.score(X, y, mask=mask) == pytest.approx(fitted.score(X, y, mask=mask), abs=0.03)


def test_the_candidate_that_knows_the_class_has_the_weight():
    """Only the last layer knows the class: equal weights would share with the others."""
    rng = np.random.default_rng(0)
    y = np.arange(192) % 32
    X = rng.normal(size=(192, 7, 3, 8))
    X[:, 6] += 2 * rng.normal(size=(32, 8))[y][:, None]
    fitted = sp.LearnedPoolingClassifier(max_steps=1).fit(X, y)
    assert [(c.layer, c.head) for c in fitted.candidates_] == list(product([6, 3, 4, 5], HEADS))
    assert sum(c.weight for c in fitted.candidates_ if c.layer == 6) > 0.9
    noise = sp.LearnedPoolingClassifier(max_steps=1).fit(rng.normal(size=(192, 7, 3, 8)), y)
    p = noise.predict_proba(rng.normal(size=(300, 7, 3, 8)))
    assert log_loss(np.arange(300) % 32, p, labels=np.arange(32)) < 1.03 * np.log(32)


def test_weights_have_the_largest_likelihood_with_random_rows():
    """No small change improves the likelihood with r²/n further rows of random classes; found by its definition."""
    rng = np.random.default_rng(0)
    codes, weights = np.arange(60) % 4, rng.random(60)
    scores = [rng.normal(size=(60, 4)) + np.eye(4)[codes] * s for s in (2.0, 1.0, 0.0)]
    objective = Classes(codes, 4)
    v = objective.weigh(scores, weights)

    def gain(v):
        logs = np.log(softmax(sum(a * b for a, b in zip(v, scores, strict=True)), axis=1))
        return weights @ (logs[np.arange(60), codes] + (16 / 60) ** 2 * logs.mean(axis=1))

    for j in range(3):
        for step in (-0.05, 0.05):
            other = v.copy()
            other[j] = max(other[j] + step, 0)
            assert gain(v) >= gain(other) - 1e-6
    free = Classes(codes, 4, random_rows=0.0).weigh(scores[:1], weights)[0]
    assert objective.weigh(scores[:1], weights)[0] < free  # pulled to zero


def test_few_rows_move_the_weights_to_equal_ones_of_the_contenders():
    rng = np.random.default_rng(0)
    codes = np.arange(16) % 2
    scores = [rng.normal(size=(16, 2)) + np.eye(2)[codes] for _ in range(4)]
    contenders = np.array([False, True, False, True])
    few = Classes(codes, 2).shrunk(np.array([3.0, 0, 0, 0]), scores, np.ones(16), contenders)
    assert few[1] == few[3] > 0
    assert few[0] == few[2] == 0
    many = Classes(np.tile(codes, 20), 2)
    v = np.array([3.0, 0.0, 0.0, 0.0])
    stack = [np.tile(one, (20, 1)) for one in scores]
    moved = many.shrunk(v, stack, np.ones(320), contenders)
    assert moved[0] == pytest.approx((1 - 50 / 320) * 3.0)
    assert moved[1] == moved[3] > 0


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


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "queries", "flat"])
def test_rows_of_weight_two_are_rows_that_come_twice(pooling):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4, 5)), rng.integers(0, 3, 60)
    weights = rng.integers(0, 3, 60)
    given = {"pooling": pooling, "max_steps": 3}
    one = sp.LearnedPoolingClassifier(**given).fit(X, y, sample_weight=weights)
    other = sp.LearnedPoolingClassifier(**given).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-9)
    plain = sp.LearnedPoolingClassifier(**given).fit(X, y)
    assert np.abs(one.decision_function(X) - plain.decision_function(X)).max() > 0.01
    for bad in (np.ones(59), -weights, np.zeros(60), np.full(60, 1e-300), np.where(weights, 1, 1e-300)):
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
    assert sum(s.support for s in plain.class_scores_) == 500  # every fold
    with pytest.raises(InvalidInputError, match="class_weight"):
        sp.LearnedPoolingClassifier(class_weight="even").fit(X, y)
    with pytest.raises(InvalidInputError, match="multilabel"):
        sp.LearnedPoolingClassifier().fit(X, np.ones((500, 2)))


def test_groups_count_once_among_the_rows_left_out():
    """Twenty groups of 100 rows: one fold would judge by five groups, so that every fold is left out."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 100)
    y = groups % 2
    X = rng.normal(size=(2000, 2, 3)) + 0.3 * y[:, None, None]
    fitted = sp.LearnedPoolingClassifier(pooling="mean").fit(X, y, groups=groups)
    assert sum(s.support for s in fitted.class_scores_) == 2000
    free = sp.LearnedPoolingClassifier(pooling="mean").fit(X, y)
    assert sum(s.support for s in free.class_scores_) == 1000  # two folds of four hold 750 rows
