"""Learned pooling: the estimators, what they find, and their fallback to the mean."""

import csv
import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import spikepool as sp
from spikepool.pooling.catalogue import candidate_names
from spikepool.pooling.design import of_features
from spikepool.pooling.heads import LogisticHead

SPLICE = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "splice.csv.gz"


# scikit-learn 1.6.0 passes sparse rows to estimators that are tagged as not taking them
SPARSE = {"check_sample_weight_equivalence_on_sparse_data": "sparse rows are refused by name"}


@pytest.mark.slow
@parametrize_with_checks(
    [sp.LearnedPoolingClassifier(), sp.LearnedPoolingRegressor()], expected_failed_checks=lambda _: SPARSE
)
def test_scikit_learn_conventions(estimator, check):
    parameters = estimator.get_params()
    check(estimator)  # raises where a convention is broken
    assert estimator.get_params() == parameters


@pytest.fixture(scope="module")
def prefix():
    model = sp.SequenceModel(d=30, V=60, N=900, R=sp.prefix_correlation(8, 2), mu=1.0)
    sample = model.sample(rng=2)
    return sample.tokens, sample.table.T, sample.latent[:, 0]


@pytest.fixture(scope="module")
def splice():
    """3-mers of the first and the last 700 sequences, one-hot; every class is there."""
    with gzip.open(SPLICE, "rt") as file:
        records = list(csv.DictReader(file))
    y = np.array([r["label"] for r in records])
    bases = np.array([["ACGT".find(base) for base in r["sequence"].strip()] for r in records]).clip(0)
    order = np.random.default_rng(0).permutation(len(y))[:1400]
    return (16 * bases[:, :-2] + 4 * bases[:, 1:-1] + bases[:, 2:])[order], np.eye(64), y[order]


@pytest.fixture(scope="module")
def marked():
    """Labels in the one token of each row whose content marks it: no position is special."""
    rng = np.random.default_rng(0)
    n, T, d = 900, 6, 8
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, T, d))
    where = rng.integers(0, T, n)
    X[np.arange(n), where, 0] += 6.0
    X[np.arange(n), where, 1 + y] += 2.0
    return X, y, where


def mean_accuracy(X, y, train, test):
    """Mean pooling, scaler and ridge, all by scikit-learn; the best of many penalties on the test rows."""
    C = X.mean(axis=1)
    scaled = StandardScaler().fit(C[train])
    Y = np.where(y[:, None] == np.unique(y), 1.0, -1.0)
    best = 0.0
    for alpha in np.logspace(-2, 5, 15):
        ridge = Ridge(alpha=alpha).fit(scaled.transform(C[train]), Y[train])
        found = np.unique(y)[ridge.predict(scaled.transform(C[test])).argmax(axis=1)]
        best = max(best, float((found == y[test]).mean()))
    return best


@pytest.mark.slow
def test_positions_are_found_in_splice_junctions(splice):
    ids, table, y = splice
    fitted = sp.LearnedPoolingClassifier(table=table, folds=3).fit(ids[:1000], y[:1000])
    assert fitted.decision_ in ("flat", "positions")
    assert fitted.score(ids[1000:], y[1000:]) > mean_accuracy(table[ids], y, slice(1000), slice(1000, None)) + 0.25
    assert fitted.improvement_ > 0.25
    # the junction lies between bases 30 and 31: the coefficients are large there
    assert 26 <= fitted.weights_.argmax() <= 33
    np.testing.assert_allclose(fitted.token_weights(ids[:3])[1, 0], fitted.weights_)
    # and ridge on the flattened sequence, two lines of scikit-learn, is not better
    flat = table[ids].reshape(len(ids), -1)
    codes = np.unique(y, return_inverse=True)[1]
    best = max(
        (
            Ridge(alpha).fit(flat[:1000], np.eye(3)[codes[:1000]]).predict(flat[1000:]).argmax(axis=1) == codes[1000:]
        ).mean()
        for alpha in (10, 30, 100, 300)
    )
    assert fitted.score(ids[1000:], y[1000:]) >= best - 0.02


@pytest.mark.slow
def test_positions_are_found_in_the_rows_of_digits():
    digits = load_digits()
    X, y = digits.images, digits.target
    fitted = sp.LearnedPoolingClassifier().fit(X[:1200], y[:1200])
    assert fitted.decision_ in ("flat", "positions")
    best = max(
        sp.LearnedPoolingClassifier(pooling=rule).fit(X[:1200], y[:1200]).score(X[1200:], y[1200:])
        for rule in ("mean", "last", "first", "ramp", "max", "concat")
    )
    assert fitted.score(X[1200:], y[1200:]) > best + 0.08
    assert fitted.prediction_ in ("single", "weighted")


@pytest.mark.slow
def test_a_query_is_found_where_content_and_not_position_tells(marked):
    X, y, where = marked
    fitted = sp.LearnedPoolingClassifier().fit(X[:600], y[:600])
    assert fitted.decision_ in ("query", "attention")
    fitted = sp.LearnedPoolingClassifier(pooling="query").fit(X[:600], y[:600])
    weights = fitted.token_weights(X[600:])
    assert weights.shape == (300, 2, 6)
    centred = X[600] - fitted.token_mean_
    raw = (centred @ fitted.queries_.T)[:, 0] / np.sqrt(((centred @ fitted.components_) ** 2).mean(axis=1))
    np.testing.assert_allclose(weights[0, 0], np.exp(raw) / np.exp(raw).sum())
    np.testing.assert_allclose(weights.sum(axis=2), 1)
    assert (weights[:, 0].argmax(axis=1) == where[600:]).mean() > 0.9
    assert fitted.score(X[600:], y[600:]) > mean_accuracy(X, y, slice(600), slice(600, None)) + 0.1


@pytest.mark.slow
def test_a_query_is_found_where_the_mean_holds_nothing():
    """One token of 128 has the label; cross-validation at the mean asks for all the penalty there is."""
    rng = np.random.default_rng(3)
    n, T, d = 600, 128, 64
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, T, d))
    place = rng.integers(0, T, n)
    X[np.arange(n), place, 0] += 5.0
    X[np.arange(n), place, 1] += 2.0 * (2 * y - 1)
    half = n // 2
    scores = {
        pooling: sp.LearnedPoolingClassifier(pooling=pooling).fit(X[:half], y[:half]).score(X[half:], y[half:])
        for pooling in ("mean", "query")
    }
    assert scores["mean"] < 0.6
    assert scores["query"] > 0.85


@pytest.mark.slow
def test_classifier_learns_where_positions_differ(prefix):
    ids, table, y = prefix
    learned = sp.LearnedPoolingClassifier(table=table).fit(ids[:600], y[:600])
    assert learned.decision_ in ("flat", "positions", "first")  # either token of the prefix has the label
    assert learned.weights_[:2].sum() > 0.6  # the prefix; the mean gives it a quarter
    side_by_side = sp.LearnedPoolingClassifier(pooling="flat", table=table).fit(ids[:600], y[:600])
    assert learned.score(ids[600:], y[600:]) >= side_by_side.score(ids[600:], y[600:]) - 0.01
    assert learned.score(ids[600:], y[600:]) > mean_accuracy(table[ids], y, slice(600), slice(600, None)) + 0.03


def test_regressor_learns_where_positions_differ():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6, 5))
    y = X[:, :2].sum(axis=1) @ rng.normal(size=5) + 0.5 * rng.normal(size=500)
    learned = sp.LearnedPoolingRegressor().fit(X[:400], y[:400])
    assert learned.decision_ in ("flat", "positions")
    mean = Ridge(alpha=1e-3).fit(X[:400].mean(axis=1), y[:400]).score(X[400:].mean(axis=1), y[400:])
    assert learned.score(X[400:], y[400:]) > mean + 0.2
    alone = sp.LearnedPoolingRegressor(pooling=learned.decision_).fit(X[:400], y[:400])
    np.testing.assert_allclose(alone.predict(X), alone.transform(X) @ alone.coef_ + alone.intercept_, atol=1e-12)
    np.testing.assert_allclose(alone.coef_, learned.coef_, atol=1e-12)
    # scores are R²: the cross-validated one is what the rows kept aside give, up to their number
    chosen = next(c for c in learned.candidates_ if c.name == learned.decision_)
    assert chosen.score == pytest.approx(learned.score(X[400:], y[400:]), abs=0.1)


def test_fallback_is_mean_pooling_to_the_last_digit():
    """Labels that depend on all tokens alike, with noise: nothing to learn, and then nothing may differ."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5, 6))
    lengths = rng.integers(1, 6, size=300)
    mask = np.arange(5) < lengths[:, None]
    pooled = (X * mask[..., None]).sum(axis=1) / lengths[:, None]
    y = (pooled @ rng.normal(size=(6, 3)) + 1.5 * rng.normal(size=(300, 3))).argmax(axis=1)
    learned = sp.LearnedPoolingClassifier().fit(X, y, mask=mask)
    assert learned.decision_ == "mean"
    assert learned.prediction_ == "mean"
    np.testing.assert_array_equal(learned.weights_, np.full(5, 0.2))
    by_name = sp.LearnedPoolingClassifier(pooling="mean").fit(X, y, mask=mask)
    np.testing.assert_array_equal(learned.coef_, by_name.coef_)
    np.testing.assert_array_equal(learned.decision_function(X, mask=mask), by_name.decision_function(X, mask=mask))
    np.testing.assert_array_equal(learned.predict_proba(X, mask=mask), by_name.predict_proba(X, mask=mask))
    np.testing.assert_allclose(learned.transform(X, mask=mask), pooled, atol=1e-14)
    assert "does not help here" in learned.summary()
    assert learned.improvement_ == 0.0


@pytest.mark.slow
def test_random_labels_cost_nothing():
    """Accuracy on new rows minus that of the mean, averaged over draws without a signal: at most .2 points below."""
    lost = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(1000, 4, 5)), rng.integers(0, 3, 1000)
        auto, mean = (sp.LearnedPoolingClassifier(pooling=p).fit(X[:200], y[:200]) for p in ("auto", "mean"))
        lost.append(auto.score(X[200:], y[200:]) - mean.score(X[200:], y[200:]))
    assert np.mean(lost) > -0.002 - 2 * np.std(lost) / 5
    assert lost.count(0.0) >= 15  # the mean is kept in most of them


@pytest.mark.parametrize("rule", ["mean", "last", "first", "ramp", "max", "concat"])
def test_fixed_rules_by_name_pool_what_they_say(rule):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5, 3))
    mask = np.arange(5) < rng.integers(1, 6, size=40)[:, None]
    fitted = sp.LearnedPoolingClassifier(pooling=rule).fit(X, np.arange(40) % 2, mask=mask)
    rows = []
    for x, m in zip(X, mask, strict=True):
        seen = x[m]
        ramp = np.arange(1, len(seen) + 1)
        rows.append(
            {
                "mean": seen.mean(axis=0),
                "last": seen[-1],
                "first": seen[0],
                "ramp": ramp @ seen / ramp.sum(),
                "max": seen.max(axis=0),
                "concat": np.concatenate([seen.mean(axis=0), seen[-1], seen[0]]),
            }[rule]
        )
    np.testing.assert_allclose(fitted.transform(X, mask=mask), rows, atol=1e-12)
    assert fitted.decision_ == rule
    assert fitted.candidates_ == ()
    assert fitted.summary().startswith(f"{rule} pooling: asked for\naccuracy ")
    names = fitted.get_feature_names_out()
    assert len(names) == len(set(names)) == fitted.n_features_out_ == np.shape(rows)[1]
    assert names[0] == ("mean_0" if rule == "concat" else "pooled0")


@pytest.mark.parametrize(
    ("pooling", "features", "heads"),
    [
        ("query", 16, 2),
        ("attention", 24, 3),
        ("positions", 48, 1),
        ("flat", 48, 1),
        ("std", 16, 1),
        ("covariance", 44, 1),
    ],
)
def test_poolings_by_name_are_used_without_a_contest(marked, pooling, features, heads):
    X, y, _ = marked
    fitted = sp.LearnedPoolingClassifier(pooling=pooling, n_heads=2).fit(X[:200], y[:200])
    assert fitted.decision_ == pooling
    assert fitted.candidates_ == ()
    assert fitted.transform(X).shape == (900, features)
    assert len(set(fitted.get_feature_names_out())) == fitted.n_features_out_ == features
    assert fitted.head_weights_.shape == (heads, 6)
    np.testing.assert_allclose(fitted.head_weights_.sum(axis=1), 1)
    np.testing.assert_allclose(fitted.token_weights(X[:7]).sum(axis=2), 1)
    if pooling == "attention":
        np.testing.assert_allclose(fitted.transform(X[:3])[:, :8], (fitted.token_weights(X[:3])[:, :1] @ X[:3])[:, 0])
    if pooling == "flat":
        np.testing.assert_allclose(
            fitted.transform(X[:3]) + np.tile(X[:200].mean(axis=(0, 1)), 6), X[:3].reshape(3, -1)
        )
    values = fitted.transform(X) @ fitted.coef_.T + fitted.intercept_
    np.testing.assert_allclose(fitted.decision_function(X), fitted.fitted_.parts[0].weight * values, atol=1e-10)
    assert np.isnan(fitted.improvement_)


@pytest.mark.slow
def test_forms_of_input_agree(prefix, tmp_path):
    ids, table, y = prefix
    X = table[ids]
    mask = np.random.default_rng(0).random(ids.shape) < 0.8
    mask[:, 0] = True
    a = sp.LearnedPoolingClassifier().fit(X, y, mask=mask)
    pooled = a.transform(X, mask=mask)
    np.save(tmp_path / "X.npy", X)
    others = {
        "ids": (sp.LearnedPoolingClassifier(table=table), ids, mask),
        "flat": (sp.LearnedPoolingClassifier(n_positions=8), X.reshape(900, -1), mask),
        "padding": (sp.LearnedPoolingClassifier(table=table, padding=-7), np.where(mask, ids, -7), None),
        "masked array": (
            sp.LearnedPoolingClassifier(),
            np.ma.array(X, mask=np.broadcast_to(~mask[..., None], X.shape)),
            None,
        ),
        "memory map": (sp.LearnedPoolingClassifier(), np.load(tmp_path / "X.npy", mmap_mode="r"), mask),
        "list": (sp.LearnedPoolingClassifier(), list(X), mask),
    }
    for name, (estimator, X_form, m_form) in others.items():
        other = estimator.fit(X_form, y, mask=m_form)
        assert other.decision_ == a.decision_, name
        np.testing.assert_allclose(other.weights_, a.weights_, atol=1e-8, err_msg=name)
        np.testing.assert_allclose(other.coef_, a.coef_, atol=1e-7, err_msg=name)
        np.testing.assert_allclose(np.asarray(other.transform(X_form, mask=m_form)), pooled, atol=1e-8, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["auto", "queries", "positions", "flat", "covariance", "concat", "max"])
def test_padding_on_either_side_gives_the_same_fit(marked, pooling):
    X, y, _ = marked
    X, y = X[:300], y[:300]
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 7, size=300)
    right, left = np.arange(6) < lengths[:, None], np.arange(6) >= 6 - lengths[:, None]
    moved = np.full_like(X, np.nan)  # nobody looks at what is masked
    moved[left] = X[right]
    a = sp.LearnedPoolingClassifier(pooling=pooling).fit(X, y, mask=right)
    b = sp.LearnedPoolingClassifier(pooling=pooling).fit(moved, y, mask=left)
    assert a.decision_ == b.decision_
    np.testing.assert_allclose(a.transform(X, mask=right), b.transform(moved, mask=left), atol=1e-7)
    np.testing.assert_array_equal(a.predict(X, mask=right), b.predict(moved, mask=left))


@pytest.mark.slow
def test_large_data_are_learned_on_a_subset_but_fitted_on_all(prefix):
    ids, table, y = prefix
    learned = sp.LearnedPoolingClassifier(table=table, max_samples=200).fit(ids, y)
    pooled = learned.transform(ids)
    scaled = learned.decision_ not in ("flat", "positions")
    whole = of_features(pooled.astype(np.float32), np.ones(900), scaled=scaled)
    used = {p.pooling.name: p for p in learned.fitted_.parts}[learned.decision_]
    scores = [
        whole.back(*LogisticHead((s,)).fit(whole.Z, (y > 0).astype(int), np.ones(900), 2))(pooled)
        for s in LogisticHead().strengths
    ]
    assert min(np.abs(one - used.linear(pooled)).max() for one in scores) < 1e-3
    assert round(learned.candidates_[0].score * 200) == pytest.approx(learned.candidates_[0].score * 200)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_targets_are_predicted_with_mean_weights(value):
    X = np.random.default_rng(0).standard_normal((60, 5, 8))
    fitted = sp.LearnedPoolingRegressor().fit(X, np.full(60, value))
    np.testing.assert_allclose(fitted.weights_, 0.2)
    np.testing.assert_allclose(fitted.predict(X), value, atol=1e-12)
    assert "do not vary" in fitted.summary()


@pytest.mark.slow
def test_bad_input_is_named(prefix):
    ids, table, y = prefix
    X = table[ids]
    with pytest.raises(sp.InvalidInputError, match="one class"):
        sp.LearnedPoolingClassifier().fit(X, np.ones(900))
    mask = np.ones(ids.shape, dtype=bool)
    mask[4] = False
    with pytest.raises(sp.InvalidInputError, match="no observed token: 4"):
        sp.LearnedPoolingClassifier(pooling="mean").fit(X, y, mask=mask)
    kept = sp.LearnedPoolingClassifier(empty="zero").fit(X, y, mask=mask)
    assert kept.predict(X, mask=mask).shape == (900,)
    np.testing.assert_array_equal(kept.transform(X, mask=mask)[4], 0)
    for parameters in (
        {"head": "svm"},
        {"head": 3},
        {"folds": 1},
        {"max_steps": 0},
        {"max_samples": 0},
        {"pooling": "median"},
        {"n_heads": 0},
        {"n_components": 0},
        {"sink": "yes"},
        {"sink": 2},
        {"empty": "drop"},
        {"random_state": "seed"},
    ):
        with pytest.raises(sp.InvalidInputError):
            sp.LearnedPoolingClassifier(**parameters).fit(X, y)
    with pytest.raises(sp.NonFiniteError):
        sp.LearnedPoolingRegressor().fit(X, np.where(np.arange(900) == 3, np.nan, 1.0))


def test_the_table_is_printed_with_the_choice_marked(marked):
    X, y, _ = marked
    fitted = sp.LearnedPoolingClassifier().fit(X[:400], y[:400])
    lines = fitted.summary().splitlines()
    names = list(candidate_names())
    assert names[0] == "mean"
    # every column and every name that does not explain itself
    legend = [line.split(":")[0].strip() for line in lines if line.startswith("  ")]
    assert legend[:2] == ["gain, s.e.", "loss"]
    assert sorted(legend[2:]) == sorted(name for name in names if name not in ("mean", "last", "first"))
    assert lines[-1] == f"X is read as {X.shape[1]} tokens with {X.shape[2]} features each per row"
    lines = [line for line in lines if not line.startswith(("accuracy", "X is read", "  "))]
    # all of them with ridge regression, the mean and the best with logistic regression first
    assert sorted(c.name for c in fitted.candidates_ if c.head == "ridge") == sorted(names)
    assert fitted.candidates_[0].label == "mean"
    assert [c.head for c in fitted.candidates_][:5] == ["logistic"] * 5
    assert [line.split("  ")[0].strip() for line in lines[1:-1]] == [c.label for c in fitted.candidates_]
    marked_lines = {line.split()[0].rstrip(",") for line in lines if line.endswith("<")}
    assert marked_lines == {fitted.decision_}
    best = min(fitted.candidates_, key=lambda c: c.loss if c.weight else np.inf)
    assert best.name == fitted.decision_
    assert sum(c.weight for c in fitted.candidates_) == pytest.approx(1)
    gain = f"{100 * fitted.improvement_:+.1f} ± {100 * fitted.improvement_error_:.1f} points over the mean"
    assert lines[-1].startswith("Attention pooling helps: ")
    assert gain in lines[-1]
    html = fitted._repr_html_()
    assert f"{best.gain:+.4f}" in html
    assert "<table>" not in sp.LearnedPoolingClassifier()._repr_html_()


@pytest.mark.slow
def test_pipelines_grid_search_pickle_and_frames(prefix):
    pytest.importorskip("pandas")
    ids, table, y = prefix
    learned = sp.LearnedPoolingClassifier(table=table).fit(ids, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(learned)).predict(ids), learned.predict(ids))
    frame = sp.LearnedPoolingClassifier(table=table, pooling="concat").set_output(transform="pandas")
    assert list(frame.fit_transform(ids, y).columns[[0, 30, 60]]) == ["mean_0", "last_0", "first_0"]
    pipe = make_pipeline(sp.LearnedPoolingClassifier(table=table), LogisticRegression(max_iter=500)).fit(
        ids[:600], y[:600]
    )
    assert pipe.score(ids[600:], y[600:]) > mean_accuracy(table[ids], y, slice(600), slice(600, None)) + 0.03
    mask = np.ones(ids.shape, dtype=bool)
    mask[:, 5:] = False
    with sklearn.config_context(enable_metadata_routing=True):
        # the mask is asked for by default
        estimator = sp.LearnedPoolingClassifier(table=table, pooling="mean")
        search = GridSearchCV(estimator, {"head": ["ridge", "logistic"], "pooling": ["mean", "positions"]}, cv=3)
        search.fit(ids, y, mask=mask)
    assert search.best_params_["pooling"] == "positions"
    assert search.best_estimator_.weights_.shape == (8,)


@pytest.mark.slow
def test_the_mean_stays_where_labels_are_random():
    """Weights that were found count against the likelihood; without that half of these draws leave the mean."""
    left = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        n, T, d, K = [(60, 6, 8, 2), (100, 5, 20, 3), (200, 8, 16, 2)][seed % 3]
        X, y = rng.normal(size=(n, T, d)), rng.integers(0, K, n)
        left += sp.LearnedPoolingClassifier().fit(X, y).prediction_ != "mean"
    assert left <= 6
