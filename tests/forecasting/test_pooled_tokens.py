"""The map that carries a fold's features to those of the whole fit."""

import numpy as np
import pytest

from spikepool.forecasting.pooled_tokens import _carried


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
