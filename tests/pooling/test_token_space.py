"""Leading components of tokens and attention sinks."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.pooling.token_space import fit_token_space


def sequences(n=200, T=6, d=12, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, T, d)) * np.linspace(3, 1, d) + rng.normal(size=d)
    observed = np.arange(T) < rng.integers(2, T + 1, size=n)[:, None]
    x[~observed] = 0.0
    return x, observed


@pytest.mark.parametrize("d", [12, 600])  # all eigenvectors at once, and the iteration for a few
def test_components_are_those_of_the_observed_tokens(d):
    x, observed = sequences(d=d)
    space = fit_token_space(lambda: [(x[:70], observed[:70]), (x[70:], observed[70:])], d, 5, False)
    tokens = x[observed]
    U, s, Vt = np.linalg.svd(tokens - tokens.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(np.abs(np.einsum("kd,dk->k", Vt[:5], space.directions)), 1, atol=1e-6)
    z = space.coordinates(x, observed)
    np.testing.assert_allclose(np.abs(z[observed]), np.abs(U[:, :5] * s[:5]), atol=1e-5 * s[0])
    assert not z[~observed].any()


def test_a_sink_is_found_by_its_norm_and_constancy_and_left_out():
    x, observed = sequences()
    plain = fit_token_space(lambda: [(x, observed)], 12, 4, None)
    assert not plain.sink
    assert 0.8 < plain.sink_ratio < 1.25
    rng = np.random.default_rng(1)
    sunk = x.copy()
    sunk[:, 0] = 500 * np.r_[1.0, np.zeros(11)] + rng.normal(size=(200, 12))
    space = fit_token_space(lambda: [(sunk, observed)], 12, 4, None)
    assert space.sink
    assert space.sink_ratio > 50
    without = observed.copy()
    without[:, 0] = False
    rest = fit_token_space(lambda: [(sunk, without)], 12, 4, False)
    np.testing.assert_allclose(space.directions, rest.directions, atol=1e-9)
    np.testing.assert_array_equal(space.usable(sunk, observed), without)
    assert not fit_token_space(lambda: [(sunk, observed)], 12, 4, False).sink  # the user's word counts
    varying = x.copy()
    varying[:, 0] *= 100  # as large, but different in every row: it may be the message
    assert not fit_token_space(lambda: [(varying, observed)], 12, 4, None).sink


def test_a_sink_behind_left_padding_is_found():
    x, observed = sequences()
    x[:, 0] = 500 * np.r_[1.0, np.zeros(11)]
    left, seen = np.zeros_like(x), np.zeros_like(observed)
    for i, length in enumerate(observed.sum(axis=1)):
        left[i, -length:], seen[i, -length:] = x[i, :length], True
    space = fit_token_space(lambda: [(left, seen)], 12, 4, None)
    assert space.sink
    assert (space.usable(left, seen).sum(axis=1) == seen.sum(axis=1) - 1).all()


@pytest.mark.slow
def test_a_sink_hides_nothing_from_a_query():
    """The message is in tokens whose content marks them; a constant first token of enormous norm must not matter."""
    rng = np.random.default_rng(0)
    n, T, d = 900, 7, 10
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, T, d))
    where = rng.integers(1, T, n)
    x[np.arange(n), where, 0] += 6.0
    x[np.arange(n), where, 1] += np.where(y == 1, 2.5, -2.5)
    x[:, 0] = 2000 * np.r_[np.zeros(d - 1), 1.0] + rng.normal(size=(n, d))
    assert sp.LearnedPoolingClassifier().fit(x[:600], y[:600]).decision_ in ("query", "attention")
    fitted = sp.LearnedPoolingClassifier(pooling="query").fit(x[:600], y[:600])
    assert fitted.sink_
    assert "masked as a sink" in fitted.summary()
    weights = fitted.token_weights(x[600:])[:, 0]
    np.testing.assert_array_equal(weights[:, 0], 0)
    assert (weights.argmax(axis=1) == where[600:]).mean() > 0.9
    assert fitted.score(x[600:], y[600:]) > 0.9


def test_sinks_elsewhere_and_rows_of_sinks_only_do_not_dwarf_the_rest():
    """One row in fifty has a second sink, a few rows hold nothing but the sink: the others must not notice."""
    rng = np.random.default_rng(0)
    n, T, d = 900, 7, 10
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, T, d))
    where = rng.integers(1, T, n)
    x[np.arange(n), where, 0] += 6.0
    x[np.arange(n), where, 1] += np.where(y == 1, 2.5, -2.5)
    sink = 2000 * np.r_[np.zeros(d - 2), 1.0, 1.0]
    x[:, 0] = sink + rng.normal(size=(n, d))
    mask = np.ones((n, T), dtype=bool)
    again = np.arange(0, n, 50)
    x[again, np.where(where[again] == 3, 4, 3)] = sink
    mask[::150, 1:] = False
    fitted = sp.LearnedPoolingClassifier(pooling="query").fit(x[:600], y[:600], mask=mask[:600])
    pooled = fitted.transform(x, mask=mask)
    assert np.abs(pooled).max() < 20
    np.testing.assert_allclose(pooled[::150], np.tile(pooled[0], (6, 1)))
    assert fitted.score(x[600:], y[600:], mask=mask[600:]) > 0.9
