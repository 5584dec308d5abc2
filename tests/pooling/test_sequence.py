"""Features that keep positions apart: the kernel from its definition, products in blocks, lengths and masks."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.data.tokens import TokenForm, TokenInput
from spikepool.pooling import sequence
from spikepool.pooling.heads import RidgeHead, register_head, unregister_head
from spikepool.pooling.learning_rows import LearningRows
from spikepool.pooling.sequence import KERNEL_LENGTH, SequencePooling, packed_places, position_importance


def rows(n=30, T=7, d=4, *, padded, dtype=np.float64, seed=0, components=32):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, T, d)).astype(dtype) + 2
    mask = np.arange(T) < rng.integers(1, T + 1, n)[:, None] if padded else None
    if padded:
        mask[0] = True
    source = TokenInput(X, mask, TokenForm(T, d, None))
    return X, mask, LearningRows(source, np.ones(n) / n, components, None)


def pooling_of(data, T, rho, *, aligned, components=0):
    return SequencePooling("positions", data.space, T, rho, aligned, components)


@pytest.mark.parametrize("rho", [0.0, np.exp(-1 / KERNEL_LENGTH), 0.95])
@pytest.mark.parametrize("padded", [False, True])
def test_products_of_features_are_the_kernel_of_the_definition(rho, padded):
    X, mask, data = rows(padded=padded)
    pooling = pooling_of(data, 7, rho, aligned=not padded)
    mask = np.ones(X.shape[:2], dtype=bool) if mask is None else mask
    mean = X[mask].mean(axis=0)
    expected = np.zeros((30, 30))
    for side in ("start", "end") if padded else ("start",):
        packed = np.zeros_like(X)
        for i, (x, m) in enumerate(zip(X, mask, strict=True)):
            tokens = (x[m] - mean) if side == "start" else (x[m] - mean)[::-1]
            packed[i, : len(tokens)] = tokens
        lag = np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
        k = np.where(lag == 0, 1.0, rho**lag)
        expected += np.einsum("ts,itd,jsd->ij", k, packed, packed)
    C = pooling.features(np.where(mask[..., None], X, 0.0), mask)
    np.testing.assert_allclose(C @ C.T, expected, atol=1e-9)
    np.testing.assert_allclose(pooling.products(data), expected, atol=1e-9)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("components", [0, 2])
def test_blocks_of_positions_give_the_features(monkeypatch, padded, components):
    X, mask, data = rows(padded=padded, components=2)
    pooling = pooling_of(data, 7, 0.6, aligned=not padded, components=components)
    observed = np.ones(X.shape[:2], dtype=bool) if mask is None else mask
    C = pooling.features(np.where(observed[..., None], X, 0.0), observed)
    assert C.shape[1] == pooling.size == len(pooling.feature_names(4))
    for block in (1, 30 * 4 * 2, 1 << 22):
        monkeypatch.setattr(sequence, "BLOCK", block)
        np.testing.assert_allclose(pooling.products(data), C @ C.T, atol=1e-9)
        alpha = np.random.default_rng(1).normal(size=(30, 3))
        coef, centre = pooling.coefficients(data, alpha)
        np.testing.assert_allclose(coef, C.T @ alpha, atol=1e-9)
        np.testing.assert_allclose(centre, C.mean(axis=0), atol=1e-9)


def test_coefficients_on_features_are_coefficients_on_tokens():
    X, mask, data = rows(padded=True)
    pooling = pooling_of(data, 7, 0.6, aligned=False)
    coef = np.random.default_rng(0).normal(size=(pooling.size, 2))
    B = pooling.position_coefficients(coef)
    expected = pooling.features(np.where(mask[..., None], X, 0.0), mask) @ coef
    found = np.zeros_like(expected)
    for side, name in enumerate(pooling.sides):
        index, used = packed_places(mask, 7, name)
        z = np.take_along_axis(X, index[..., None], axis=1) - data.space.mean
        found += np.einsum("ntd,tdk->nk", z * used[..., None], B[side])
    np.testing.assert_allclose(found, expected, atol=1e-9)
    importance = position_importance(pooling, coef)
    assert importance.sum() == pytest.approx(1)
    weights = pooling.token_importance(importance, X, mask)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert (weights[~mask] == 0).all()


@pytest.fixture
def fixed_ridge():
    register_head(RidgeHead(0.1, "fixed"))
    yield
    unregister_head("fixed")


@pytest.mark.usefixtures("fixed_ridge")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pooling", ["flat", "positions"])
def test_primal_and_dual_forms_predict_the_same(monkeypatch, pooling, dtype):
    """12 features per row and 20 or 11 rows: both sides of the switch; and against the other form at the same size."""
    rng = np.random.default_rng(0)
    for n in (40, 11):
        X = rng.normal(size=(n, 3, 4)).astype(dtype)
        y = X[:, 1, 0] + 0.1 * rng.normal(size=n)
        one = sp.LearnedPoolingRegressor(pooling=pooling, head="fixed").fit(X, y)
        monkeypatch.setattr(SequencePooling, "size", property(lambda s, n=n: 10**9 if n == 40 else 0))
        other = sp.LearnedPoolingRegressor(pooling=pooling, head="fixed")
        if n == 40:
            monkeypatch.setattr(SequencePooling, "coefficients", _coefficients)
        other.fit(X, y)
        monkeypatch.undo()
        np.testing.assert_allclose(other.predict(X), one.predict(X), atol=1e-4 if dtype == np.float32 else 1e-9)


def _coefficients(self, rows, alpha):
    C = rows.features(self)
    return C.T @ alpha, rows.shares @ C


@pytest.mark.parametrize(
    "pooling", ["mean", "max", "ramp", "concat", "std", "covariance", "queries", "flat", "positions"]
)
def test_any_length_padded_on_either_side(pooling):
    """Rows cut or padded to other lengths are predicted as they are alone."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6, 5))
    lengths = rng.integers(2, 7, 80)
    mask = np.arange(6) < lengths[:, None]
    y = (X[:, 0, 0] > 0).astype(int)
    fitted = sp.LearnedPoolingClassifier(pooling=pooling).fit(X, y, mask=mask)
    expected = fitted.predict_proba(X, mask=mask)
    for T, side in ((9, "right"), (9, "left"), (6, "left"), (17, "right")):
        moved, seen = np.zeros((80, T, 5)), np.zeros((80, T), dtype=bool)
        for i, length in enumerate(lengths):
            where = slice(0, length) if side == "right" else slice(T - length, T)
            moved[i, where], seen[i, where] = X[i, :length], True
        np.testing.assert_allclose(fitted.predict_proba(moved, mask=seen), expected, atol=1e-10, err_msg=f"{T} {side}")
        assert fitted.transform(moved, mask=seen).shape == (80, fitted.n_features_out_)
    long = rng.normal(size=(3, 20, 5))
    assert np.isfinite(fitted.predict_proba(long, mask=np.ones((3, 20), dtype=bool))).all()
    with pytest.raises(sp.errors.ShapeError, match="expecting 5 features per token"):
        fitted.predict(long[..., :4], mask=np.ones((3, 20), dtype=bool))


def test_long_sequences_are_cut_to_components_and_it_is_said(monkeypatch):
    monkeypatch.setattr(sequence, "MOST_FEATURES", 60)
    monkeypatch.setattr("spikepool.pooling.learning_rows.MOST_FEATURES", 60)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6, 20))
    X[..., 0] *= 4
    y = (X[:, 2, 0] > 0).astype(int)
    fitted = sp.LearnedPoolingClassifier(pooling="flat", n_components=3).fit(X, y)
    assert fitted.n_features_out_ == 60
    assert "cut to 10 components" in fitted.summary()
    assert fitted.score(X, y) > 0.9
