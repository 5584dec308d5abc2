"""The map that carries a fold's features to those of the whole fit, and what a fold may decide by itself."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import spikepool as sp
from spikepool.forecasting.token_rows import _carried, pool_pilot


class _Undecided(ClassifierMixin, BaseEstimator):
    """Takes the last token from a hundred rows on and the mean below, unless told."""

    def __init__(self, pooling="auto"):
        self.pooling = pooling

    def fit(self, X, y):
        self.decision_ = self.pooling if self.pooling != "auto" else "last" if len(X) >= 100 else "mean"
        return self

    def transform(self, X):
        return X[:, -1] if self.decision_ == "last" else X.mean(axis=1)


def test_folds_keep_the_choice_of_the_whole_pilot():
    rng = np.random.default_rng(4)
    tokens, labels = rng.standard_normal((100, 6, 5)), rng.integers(0, 2, 100)
    features = pool_pilot(_Undecided(), tokens, labels)
    np.testing.assert_allclose(features, tokens[:, -1], atol=1e-6)
    features = pool_pilot(_Undecided(), tokens[:99], labels[:99])
    np.testing.assert_allclose(features, tokens[:99].mean(axis=1), atol=1e-6)
    features = pool_pilot(_Undecided("mean"), tokens, labels)
    np.testing.assert_allclose(features, tokens.mean(axis=1), atol=1e-6)


def test_an_exact_relation_is_found():
    rng = np.random.default_rng(0)
    features, turn, new = rng.standard_normal((60, 6)), rng.standard_normal((6, 4)), rng.standard_normal((5, 6))
    np.testing.assert_allclose(_carried(features, features @ turn + 2, new), new @ turn + 2, atol=1e-4)
    same = rng.standard_normal((4, 60))  # fewer rows than features: nothing to learn a map from, and nothing to learn
    np.testing.assert_allclose(_carried(same[:3], same[:3], same[3:]), same[3:])
    np.testing.assert_allclose(_carried(np.ones((20, 3)), np.full((20, 2), 5.0), np.ones((4, 3))), 5.0)


@pytest.mark.parametrize("width", [60, 120])
def test_what_differs_by_chance_is_not_carried(width):
    """Two fits see the same few latent features with noise of their own: least squares carries the noise as well."""
    rng = np.random.default_rng(1)
    n, latent = 100, 5
    turns = rng.standard_normal((2, latent, width))

    def views(rows):
        z = rng.standard_normal((rows, latent))
        own, other = (z @ turn + 2 * rng.standard_normal((rows, width)) for turn in turns)
        return own, other, z @ turns[1]

    seen, common, _ = views(n)
    unseen, _, clean = views(2000)
    error = ((_carried(seen, common, unseen) - clean) ** 2).mean()
    linear = np.linalg.lstsq(seen - seen.mean(axis=0), common - common.mean(axis=0), rcond=1e-6)[0]
    exact = (unseen - seen.mean(axis=0)) @ linear + common.mean(axis=0)
    assert error < 0.5 * ((exact - clean) ** 2).mean()
    assert error < 0.8 * (clean**2).mean()  # and something is carried


def test_a_masked_array_carries_its_mask_and_bad_poolings_are_named():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 4, 6)), np.arange(80) % 2
    observed = rng.random((80, 4)) > 0.4
    observed[:, 0] = True
    spoiled = np.where(observed[..., None], X, 1e3)
    masked = np.ma.array(spoiled, mask=np.broadcast_to(~observed[..., None], X.shape))
    for pooling in (sp.SpectralPooling(weights="mean"), sp.LearnedPoolingClassifier(pooling="mean")):
        carried = pool_pilot(pooling, masked, y)
        told = pool_pilot(pooling, X, y, mask=observed)
        np.testing.assert_allclose(carried, told, atol=1e-9)
    with pytest.raises(sp.InvalidInputError, match="estimator"):
        pool_pilot(sp.SpectralPooling, X, y)
    with pytest.raises(sp.RaggedError):
        pool_pilot(sp.SpectralPooling(), [row[: 1 + i % 4] for i, row in enumerate(X)], y)
    with pytest.raises(sp.InvalidInputError, match="groups"):
        sp.forecast(X[:, 0], y, groups=np.where(np.arange(80) < 2, np.nan, np.arange(80)))
