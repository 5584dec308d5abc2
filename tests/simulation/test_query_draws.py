"""Simulated query models: in law the same as sequences drawn token by token, and reproducible."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

import spikepool as sp
from spikepool.simulation.query import draw_columns

MODEL = sp.QueryModel(d=40, N=160, T=8, L=2, mu=2.0, nu=1.2, overlap=0.7, kernel="softmax", beta=0.8)


def token_by_token(rng, V):
    """Top eigenvalue off the query, its alignment with u, and the eigenvalue along q; every token is drawn."""
    d, n, T, L = 40, 160, 8, 2
    q = 0.7 * np.eye(d)[1] + np.sqrt(1 - 0.49) * np.eye(d)[2]
    xi = rng.choice([-1.0, 1.0], n)
    if V is None:
        X = rng.standard_normal((n, T, d))
        X[:, :L, 0] += 2.0 * xi[:, None]
        X[:, :L, 1] += 1.2
    else:
        table = rng.standard_normal((V, d))
        half = round(V * L / T / 2)
        table[:half, 0] += 2.0
        table[half : 2 * half, 0] -= 2.0
        table[: 2 * half, 1] += 1.2
        ids = np.hstack([rng.integers(0, half, (n, L)), rng.integers(2 * half, V, (n, T - L))])
        ids[:, :L] += np.where(xi > 0, 0, half)[:, None]
        X = table[ids]
    w = np.exp(0.8 * X @ q)
    C = np.einsum("nt,ntd->nd", w / w.sum(axis=1, keepdims=True), X)
    C = C - C.mean(axis=0)
    off = C - np.outer(C @ q, q)
    values, vectors = np.linalg.eigh(off.T @ off / n)
    raw, axes = np.linalg.eigh(C.T @ C / n)
    return values[-1], vectors[0, -1] ** 2, raw[np.argmax((axes.T @ q) ** 2)]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("V", [None, 120])
def test_same_law_as_tokens_drawn_one_by_one(V):
    drawn = MODEL.replace(V=V).simulate(trials=250, rng=1)
    direct = np.array([token_by_token(np.random.default_rng([7, i]), V) for i in range(250)])
    for ours, theirs in zip((drawn.eigenvalue, drawn.alignment, drawn.query_eigenvalue), direct.T, strict=True):
        assert ks_2samp(ours, theirs).pvalue > 0.001
    assert drawn.table_drawn is (V is not None)


@pytest.mark.parametrize("V", [None, 120])
def test_trials_do_not_depend_on_their_number(V):
    model = MODEL.replace(V=V)
    few, many = model.simulate(trials=2, k=3, rng=5), model.simulate(trials=4, k=3, rng=5)
    np.testing.assert_array_equal(few.eigenvalues, many.eigenvalues[:2])
    np.testing.assert_array_equal(few.query_overlap, many.query_overlap[:2])
    assert np.all(np.diff(many.eigenvalues, axis=1) <= 0)
    assert not np.array_equal(many.alignment[:2], many.alignment[2:])


def test_columns_have_the_coordinates_they_name():
    """Along q the pooled scores, along u the sign, along the missed part of k its strength."""
    C = draw_columns(MODEL.replace(N=20_000, mu=0.0), np.random.default_rng(0))
    A = np.mean(C[:, 2]) / MODEL.missed
    assert 0.25 < A < 0.6  # the mean weight of relevant tokens, above L/T
    assert abs(np.mean(C[:, 1])) < 0.02
    assert np.mean(C[:, 0]) > 0.5


def test_bad_input_is_refused():
    with pytest.raises(sp.SizeError, match="k must be at most"):
        MODEL.simulate(k=40)
    with pytest.raises(sp.SizeError):
        MODEL.simulate(trials=0)
