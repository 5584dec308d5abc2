"""A mask that was passed to fit must be passed to transform."""

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import spikepool as sp

ESTIMATORS = {
    "spectral": sp.SpectralPooling,
    "classifier": lambda: sp.LearnedPoolingClassifier(pooling="positions", n_heads=2),
    "regressor": lambda: sp.LearnedPoolingRegressor(pooling="concat"),
}


@pytest.fixture(scope="module")
def padded():
    """Sequences of unequal length whose padding is garbage, not zeros."""
    rng = np.random.default_rng(0)
    n, T, d = 300, 7, 4
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, T, d)) + np.where(y == 1, 0.5, -0.5)[:, None, None]
    mask = np.arange(T) < rng.integers(2, T + 1, size=n)[:, None]
    return np.where(mask[..., None], X, 9.0), mask, y


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_fit_with_a_mask_refuses_calls_without_one(padded, kind):
    X, mask, y = padded
    fitted = ESTIMATORS[kind]().fit(X, y, mask=mask)
    calls = [fitted.transform] if kind == "spectral" else [fitted.transform, fitted.predict]
    for call in calls:
        with pytest.raises(sp.InvalidInputError, match="enable_metadata_routing"):
            call(X)
        assert len(call(X, mask=mask)) == len(X)
        assert len(call(X, mask=np.ones_like(mask))) == len(X)  # nothing missing is said, not assumed
    if kind != "spectral":
        with pytest.raises(sp.InvalidInputError, match="without one"):
            fitted.score(X, y)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_mask_that_hides_nothing_is_not_required_later(padded, kind):
    X, mask, y = padded
    fitted = ESTIMATORS[kind]().fit(X, y, mask=np.ones_like(mask))
    assert len(fitted.transform(X)) == len(X)
    again = fitted.fit(X, y, mask=mask).fit(X, y)  # a new fit forgets the old one
    assert len(again.transform(X)) == len(X)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("form", ["tokens", "flat", "both"])
def test_masked_arrays_bring_their_mask(padded, kind, form):
    X, mask, y = padded
    expected = ESTIMATORS[kind]().fit(X, y, mask=mask).transform(X, mask=mask)
    hidden = np.broadcast_to(~mask[..., None], X.shape)
    estimator = ESTIMATORS[kind]()
    extra = {}
    if form == "tokens":
        masked = np.ma.array(X, mask=hidden)
    elif form == "flat":
        masked = np.ma.array(X.reshape(len(X), -1), mask=hidden.reshape(len(X), -1))
        estimator.set_params(n_positions=7)
    else:  # half of it from each
        odd = np.arange(len(X))[:, None, None] % 2 == 1
        masked = np.ma.array(X, mask=hidden & odd)
        extra = {"mask": mask | odd[..., 0]}
    found = estimator.fit(masked, y, **extra).transform(masked, **extra)
    np.testing.assert_array_equal(np.asarray(found), expected)
    if not extra:
        with pytest.raises(sp.InvalidInputError, match="without one"):
            estimator.transform(np.ma.getdata(masked))


def test_masked_ids_and_partly_masked_tokens():
    rng = np.random.default_rng(0)
    ids, table = rng.integers(0, 20, (80, 5)), rng.normal(size=(20, 3))
    mask = rng.random((80, 5)) < 0.7
    mask[:, 0] = True
    masked = np.ma.array(ids, mask=~mask)
    a = sp.SpectralPooling("mean", table=table).fit(masked).transform(masked)
    np.testing.assert_allclose(a, (table[ids] * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True))
    X = np.ma.array(table[ids], mask=False)
    X[3, 2, 1] = np.ma.masked
    with pytest.raises(sp.InvalidInputError, match="row 3, position 2"):
        sp.SpectralPooling().fit(X)


def test_a_pipeline_without_routing_stops_and_with_routing_is_right(padded):
    X, mask, y = padded
    direct = sp.SpectralPooling("mean").fit(X, mask=mask).transform(X, mask=mask)
    expected = RidgeClassifier().fit(direct, y).predict(direct)
    pipe = make_pipeline(sp.SpectralPooling("mean"), RidgeClassifier())
    with pytest.raises(sp.InvalidInputError, match="without one"):
        pipe.fit(X, y, spectralpooling__mask=mask).predict(X)
    with sklearn.config_context(enable_metadata_routing=True):  # nothing else: the mask is asked for by default
        np.testing.assert_array_equal(pipe.fit(X, y, mask=mask).predict(X, mask=mask), expected)
        learned = sp.LearnedPoolingClassifier(pooling="mean")
        routed = cross_val_score(learned, X, y, params={"mask": mask}, cv=3)
    assert routed.mean() > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("side", ["right", "left", "holes"])
def test_padding_is_not_computed_with(side):
    """The same sequences with three times as many positions, most of them empty: the same model."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(120, 5, 6)), rng.integers(0, 2, 120)
    X[np.arange(120), rng.integers(0, 5, 120), 0] += 4 * y
    mask = np.arange(5) < rng.integers(2, 6, 120)[:, None]
    where = {"right": np.arange(5), "left": np.arange(10, 15), "holes": np.arange(0, 15, 3)}[side]
    wide, seen = np.full((120, 15, 6), 1e6), np.zeros((120, 15), dtype=bool)
    wide[:, where], seen[:, where] = X, mask
    short, long = (sp.LearnedPoolingClassifier().fit(x, y, mask=m) for x, m in ((X, mask), (wide, seen)))
    assert short.decision_ == long.decision_
    np.testing.assert_allclose(long.predict_proba(wide, mask=seen), short.predict_proba(X, mask=mask), atol=1e-6)
    np.testing.assert_allclose(long.transform(wide, mask=seen), short.transform(X, mask=mask), atol=1e-6)
