"""SpectralPooling: input forms, missing tokens, bad input and scikit-learn conventions."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import spikepool as sp
from spikepool.data import tokens as _pooled_input
from spikepool.kit.progress import Progress
from spikepool.pooling import spectral


@parametrize_with_checks([sp.SpectralPooling(), sp.SpectralPooling("mean"), sp.SpectralPooling("causal")])
def test_scikit_learn_conventions(estimator, check):
    parameters = estimator.get_params()
    check(estimator)  # raises where a convention is broken
    assert estimator.get_params() == parameters


@pytest.fixture(scope="module")
def world():
    """Token ids, their table and the dense array, from the prefix model."""
    model = sp.SequenceModel(d=30, V=60, N=600, R=sp.prefix_correlation(8, 3), mu=2.0)
    sample = model.sample(rng=0)
    return sample.tokens, sample.table.T, sample.table.T[sample.tokens]


@pytest.fixture(scope="module")
def mask():
    lengths = np.random.default_rng(1).integers(1, 9, size=600)
    return np.arange(8) < lengths[:, None]


def fitted(*arguments, mask=None, **parameters):
    return sp.SpectralPooling(**parameters).fit(*arguments, mask=mask)


def assert_same(a, b, tolerance=1e-10):
    assert a.decision_ == b.decision_
    np.testing.assert_allclose(a.weights_, b.weights_, atol=tolerance)
    np.testing.assert_allclose(a.correlation_, b.correlation_, atol=tolerance)
    np.testing.assert_allclose(a.gain_, b.gain_, atol=tolerance)
    np.testing.assert_allclose(a.gain_interval_, b.gain_interval_, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("masked", [False, True])
def test_every_input_form_gives_the_same_estimate_and_features(world, mask, masked, tmp_path):
    ids, table, X = world
    m = mask if masked else None
    dense = fitted(X, mask=m)
    features = dense.transform(X, mask=m)
    np.save(tmp_path / "X.npy", X)
    forms = {
        "flat": (X.reshape(600, -1), {"n_positions": 8}, m),
        "ids": (ids, {"table": table}, m),
        "memory map": (np.load(tmp_path / "X.npy", mmap_mode="r"), {}, m),
        "list": (list(X), {}, m),
    }
    for X_form, parameters, m_form in forms.values():
        other = fitted(X_form, mask=m_form, **parameters)
        assert_same(other, dense)
        np.testing.assert_allclose(np.asarray(other.transform(X_form, mask=m_form)), features, atol=1e-10)


def test_float32_tables_agree_with_their_dense_array(world):
    ids, table, _ = world
    small = table.astype(np.float32)
    assert_same(fitted(ids, table=small), fitted(small[ids]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.int16, np.uint8, np.uint64])
def test_ids_of_any_integer_type_are_looked_up(world, kind):
    ids, table, X = world
    assert_same(fitted(ids.astype(kind), table=table), fitted(X))


def test_finds_the_prefix_and_says_so(world):
    pooling = fitted(world[2])
    assert pooling.decision_ == "spectral"
    alpha, kappa = sp.gains(pooling.weights_, sp.prefix_correlation(8, 3))
    assert alpha / kappa > 0.97 * 3
    assert pooling.gain_interval_[0] < pooling.gain_ < pooling.gain_interval_[1]
    assert "spectral" in pooling.summary()
    assert "\n" not in pooling.summary()


def test_falls_back_to_the_mean_and_says_why():
    X = np.random.default_rng(0).normal(size=(400, 6, 10))
    pooling = fitted(X)
    assert pooling.decision_ == "mean"
    np.testing.assert_array_equal(pooling.weights_, np.full(6, 1 / 6))
    assert pooling.gain_ == 1.0
    assert "no significant gain" in pooling.summary()
    np.testing.assert_allclose(pooling.transform(X), X.mean(axis=1), atol=1e-14)


def test_grammar_is_not_taken_for_signal():
    """Each token determines the next by a rotation: strong cross-position structure, none of it symmetric."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    X = rng.normal(size=(1500, 6, 20))
    for t in (1, 2):
        X[:, t] = 0.9 * X[:, t - 1] @ Q + 0.44 * X[:, t] + 0.35 * X[:, t - 1]
    pooling = fitted(X)
    assert pooling.evidence_.interval[0] > 1.02  # it would have been accepted on strength alone
    assert pooling.decision_ == "mean"
    assert "order" in pooling.summary()


@pytest.mark.parametrize("rule", ["mean", "causal", "array"])
def test_fixed_weights(world, mask, rule):
    _, _, X = world
    given = np.random.default_rng(0).dirichlet(np.ones(8))
    weights = given if rule == "array" else rule
    expected = {"mean": sp.mean_weights(8), "causal": sp.causal_weights(8), "array": given}[rule]
    pooling = fitted(X, weights=weights)
    np.testing.assert_allclose(pooling.transform(X), np.einsum("t,ntd->nd", expected, X), atol=1e-13)
    W = mask * expected
    W /= W.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(pooling.transform(X, mask=mask), np.einsum("nt,ntd->nd", W, X), atol=1e-13)


def test_padding_is_a_mask(world, mask):
    ids, table, X = world
    padded = np.where(mask, ids, -1)
    a = fitted(padded, table=table, padding=-1)
    b = fitted(X, mask=mask)
    assert_same(a, b)
    np.testing.assert_allclose(a.transform(padded), b.transform(X, mask=mask), atol=1e-12)


def test_what_is_masked_plays_no_part(world, mask):
    _, _, X = world
    spoiled = np.where(mask[..., None], X, np.nan)
    a, b = fitted(X, mask=mask), fitted(spoiled, mask=mask)
    np.testing.assert_array_equal(a.weights_, b.weights_)
    np.testing.assert_array_equal(a.transform(X, mask=mask), b.transform(spoiled, mask=mask))


def test_rows_seen_only_where_weights_vanish_get_their_mean(world):
    _, _, X = world
    m = np.ones((600, 8), dtype=bool)
    m[0, :4] = False
    pooling = fitted(X, weights=np.r_[np.full(4, 0.25), np.zeros(4)])
    np.testing.assert_allclose(pooling.transform(X, mask=m)[0], X[0, 4:].mean(axis=0), atol=1e-14)


def test_relative_positions_follow_the_length():
    """A prefix third in sequences of any length: bins find it, and transform takes other lengths."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(6, 13, size=1500)
    m = np.arange(12) < lengths[:, None]
    early = np.arange(12) < lengths[:, None] / 3
    latent = np.where(early, rng.choice([-1, 1], size=(1500, 1)), rng.choice([-1, 1], size=(1500, 12)))
    X = latent[..., None] * np.r_[2.0, np.zeros(9)] + rng.normal(size=(1500, 12, 10))
    pooling = fitted(X, mask=m, positions="relative", n_bins=3)
    assert pooling.decision_ == "spectral"
    assert pooling.weights_[0] > 0.9
    short = pooling.transform(X[:, :9], mask=m[:, :9])
    assert short.shape == (1500, 10)


def test_empty_rows_are_named_or_zero(world, mask):
    _, _, X = world
    m = mask.copy()
    m[[3, 77]] = False
    with pytest.raises(sp.InvalidInputError, match="3, 77"):
        fitted(X, mask=m)
    pooled = fitted(X, mask=m, empty="zero").transform(X, mask=m)
    np.testing.assert_array_equal(pooled[[3, 77]], 0.0)
    w = fitted(X, mask=m, empty="zero").weights_
    for row in (0, 4, 599):  # rows beside the empty ones are pooled as ever
        seen = w * m[row]
        np.testing.assert_allclose(pooled[row], seen / seen.sum() @ X[row], atol=1e-12)


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (sp.NonFiniteError, lambda X, m: (np.where(np.arange(8)[:, None] == 2, np.nan, X), m)),
        (sp.NonFiniteError, lambda X, m: (np.where(np.arange(8)[:, None] == 0, np.inf, X), m)),
        (sp.ShapeError, lambda X, m: (X, m[:, :3])),
        (sp.InvalidInputError, lambda X, m: (X, m * 2)),
        (sp.ShapeError, lambda X, m: (X[:0], m[:0])),
        (sp.InvalidInputError, lambda X, m: (X.astype(str), m)),
    ],
)
def test_bad_values_are_refused(world, mask, error, change):
    X, m = change(world[2], mask)
    with pytest.raises(error):
        fitted(X, mask=m)


@pytest.mark.parametrize(
    ("error", "parameters"),
    [
        (sp.InvalidInputError, {"weights": "median"}),
        (sp.InvalidInputError, {"weights": None}),
        (sp.WeightsError, {"weights": np.ones(8)}),
        (sp.WeightsError, {"weights": np.ones(3) / 3}),
        (sp.InvalidInputError, {"positions": "circular"}),
        (sp.SizeError, {"positions": "relative", "n_bins": 0}),
        (sp.DomainError, {"confidence": 1.0}),
        (sp.DomainError, {"min_gain": -0.1}),
        (sp.InvalidInputError, {"empty": "drop"}),
        (sp.InvalidInputError, {"padding": 0}),
        (sp.ShapeError, {"n_positions": 7}),
        (sp.InvalidInputError, {"n_positions": np.arange(3)}),
        (sp.InvalidInputError, {"n_bins": "many"}),
        (sp.ShapeError, {"table": [[1.0, 2.0], [3.0]]}),
    ],
)
def test_bad_parameters_are_refused(world, error, parameters):
    with pytest.raises(error):
        fitted(world[2], **parameters)


def test_ids_outside_the_table_are_located(world):
    ids, table, _ = world
    bad = ids.copy()
    bad[5, 2] = 60
    with pytest.raises(sp.TokenError, match="row 5, position 2"):
        fitted(bad, table=table)
    with pytest.raises(sp.TokenError, match="integers"):
        fitted(ids + 0.5, table=table)
    with pytest.raises(sp.NonFiniteError):
        fitted(ids, table=np.where(table > 2, np.nan, table))


def test_weights_of_both_signs_are_refused_only_where_they_would_blow_up(world, mask):
    _, _, X = world
    w = np.r_[2.0, -1.0, np.zeros(6)]
    pooling = fitted(X, weights=w)
    np.testing.assert_allclose(pooling.transform(X), 2 * X[:, 0] - X[:, 1], atol=1e-13)
    with pytest.raises(sp.WeightsError, match="both signs"):
        pooling.transform(X, mask=mask)


@pytest.mark.parametrize("shape", [(50, 1, 4), (3, 9, 4), (1, 5, 2), (2, 2, 1)])
def test_tiny_shapes_fall_back_to_the_mean(shape):
    X = np.random.default_rng(0).normal(size=shape)
    pooling = fitted(X)
    assert pooling.decision_ == "mean"
    np.testing.assert_allclose(pooling.transform(X), X.mean(axis=1), atol=1e-14)


def test_equal_tokens_fall_back_to_the_mean():
    pooling = fitted(np.full((100, 4, 3), 2.5))
    assert pooling.decision_ == "mean"
    assert np.isfinite(pooling.correlation_).all()
    assert np.isfinite(pooling.weights_).all()


def test_transform_refuses_other_shapes(world):
    _, _, X = world
    pooling = fitted(X)
    with pytest.raises(ValueError, match="features"):
        pooling.transform(X[:, :5])
    with pytest.raises(sklearn.exceptions.NotFittedError):
        sp.SpectralPooling().transform(X)


def test_clone_pickle_and_size(world):
    _, _, X = world
    pooling = fitted(X)
    copy = pickle.loads(pickle.dumps(pooling))
    np.testing.assert_array_equal(copy.transform(X), pooling.transform(X))
    assert len(pickle.dumps(pooling)) < 20_000  # the sums of the fit do not travel
    assert clone(sp.SpectralPooling("causal", n_bins=3)).get_params()["n_bins"] == 3


def test_feature_names_and_pandas_output(world):
    pytest.importorskip("pandas")
    flat = world[2].reshape(600, -1)
    pooling = sp.SpectralPooling(n_positions=8).set_output(transform="pandas")
    frame = pooling.fit_transform(flat)
    assert list(frame.columns[:2]) == ["pooled0", "pooled1"]
    assert len(frame.columns) == 30
    assert list(pooling.get_feature_names_out()) == list(frame.columns)


@pytest.mark.slow
def test_pipeline_and_grid_search(world):
    ids, table, _ = world
    y = ids[:, 0] % 2
    pipe = make_pipeline(sp.SpectralPooling(table=table), RidgeClassifier())
    search = GridSearchCV(pipe, {"spectralpooling__weights": ["mean", "spectral"]}, cv=3).fit(ids, y)
    assert search.best_params_ == {"spectralpooling__weights": "spectral"}
    assert search.best_score_ > 0.9


def test_mask_is_routed_through_a_pipeline(world, mask):
    _, _, X = world
    y = world[0][:, 0] % 2
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(sp.SpectralPooling(), RidgeClassifier()).fit(X, y, mask=mask)
        routed = pipe.predict(X, mask=mask)
    plain = fitted(X, mask=mask)
    expected = RidgeClassifier().fit(plain.transform(X, mask=mask), y).predict(plain.transform(X, mask=mask))
    np.testing.assert_array_equal(routed, expected)


def test_long_work_reports_its_progress(world, monkeypatch):
    counted = []

    class Recorder(Progress):
        def advance(self, steps=1):
            counted.append((self.description, self.total))
            super().advance(steps)

    monkeypatch.setattr(_pooled_input, "Progress", Recorder)
    monkeypatch.setattr(spectral, "Progress", Recorder)
    monkeypatch.setattr(_pooled_input, "BLOCK_BYTES", 100 * 8 * 8 * 30)  # 100 rows a block
    pooling = fitted(world[2])
    assert counted == [("tokens", 6)] * 6
    pooling.transform(world[2])
    assert counted[6:] == [("pooling", 6)] * 6


def test_nothing_observed_and_entries_too_large_are_named():
    X = np.random.default_rng(0).standard_normal((20, 4, 3))
    with pytest.raises(sp.InvalidInputError, match="no token"):
        sp.SpectralPooling(empty="zero").fit(X, mask=np.zeros((20, 4), dtype=bool))
    for estimator in (sp.SpectralPooling(), sp.LearnedPoolingClassifier()):
        with pytest.raises(sp.DomainError, match="Rescale"):
            estimator.fit(X * 1e200, np.arange(20) % 2)


def sunk(X, norm=300.0):
    """The same sequences with a constant first token of enormous norm in front."""
    sink = np.zeros((len(X), 1, X.shape[2]))
    sink[..., 0] = norm
    sink += 0.1 * np.random.default_rng(5).normal(size=sink.shape)
    return np.concatenate([sink, X], axis=1)


def test_an_attention_sink_is_named_and_masking_it_gives_the_weights_without_it(world):
    _, _, X = world
    Z = sunk(X)
    kept = fitted(Z)
    assert kept.sink_
    assert kept.sink_ratio_ > 40
    assert kept.decision_ == "mean"
    assert "attention sink (norm ratio" in kept.summary()
    mask = np.ones(Z.shape[:2], dtype=bool)
    mask[:, 0] = False
    masked, plain = fitted(Z, mask=mask), fitted(X)
    assert not plain.sink_
    assert masked.decision_ == plain.decision_ == "spectral"
    w = masked.weights_[1:] / masked.weights_[1:].sum()
    found, expected = (np.divide(*sp.gains(v, sp.prefix_correlation(8, 3))) for v in (w, plain.weights_))
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.slow
def test_gains_of_a_few_percent_are_not_taken():
    sample = sp.SequenceModel(d=30, V=60, N=4000, R=sp.markov_correlation(8, 0.5), mu=2.0).sample(rng=0)
    X = sample.table.T[sample.tokens]
    cautious, eager = fitted(X), fitted(X, min_gain=0.0)
    assert eager.decision_ == "spectral"
    assert cautious.decision_ == "mean"
    assert "min_gain" in cautious.summary()
    assert 1 < cautious.evidence_.interval[0] < 1.1


def test_a_notebook_shows_the_decision_and_the_weights():
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the plot extra is not installed")
    X = np.random.default_rng(0).standard_normal((200, 4, 6))
    fitted = sp.SpectralPooling().fit(X)
    assert fitted.decision_ + " pooling" in fitted._html_repr()
    assert "<pre>mean pooling" not in sp.SpectralPooling()._html_repr()
    heights = [patch.get_height() for patch in fitted.plot().patches]
    np.testing.assert_allclose(heights, fitted.weights_)
    pyplot.close("all")
