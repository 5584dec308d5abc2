"""A stack of self-attention layers: its weights against the forward pass of whole vectors."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def forward(X, Q, M, layers, rho, causal, pool):
    """Pooled vectors (n, d) of tokens (n, T, d): every layer on the vectors themselves."""
    T = X.shape[1]
    for _ in range(layers):
        h = X @ Q
        S = np.einsum("ntp,pq,nsq->nts", h, M, h)
        if causal:
            S = np.where(np.arange(T)[None, :] > np.arange(T)[:, None], -np.inf, S)
        X = rho * X + (1 - rho) * softmax(S) @ X
    if pool == "mean":
        return X.mean(axis=1)
    if pool == "last":
        return X[:, -1]
    return np.einsum("nt,ntd->nd", softmax(M[0, 0] * (X @ Q)[..., 0]), X)


@pytest.mark.parametrize("pool", ["mean", "last", "query"])
@pytest.mark.parametrize(("layers", "residual", "causal"), [(1, 0.0, False), (2, 0.4, True), (3, 0.7, False)])
def test_weights_are_those_of_the_forward_pass(layers, residual, causal, pool):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, 9, 20))
    q = rng.standard_normal((20, 1))
    q /= np.linalg.norm(q)
    kernel = sp.self_attention(0.8, layers=layers, residual=residual, causal=causal, pool=pool)
    w = kernel((X @ q)[..., 0])
    np.testing.assert_allclose(w.sum(axis=1), 1.0, rtol=1e-12)
    pooled = forward(X, q, np.array([[0.8]]), layers, residual, causal, pool)
    np.testing.assert_allclose(np.einsum("nt,ntd->nd", w, X), pooled, atol=1e-12)


def test_several_directions():
    rng = np.random.default_rng(1)
    X, M = rng.standard_normal((5, 7, 12)), np.array([[0.5, 0.8], [-0.3, 0.1]])
    Q = np.linalg.qr(rng.standard_normal((12, 2)))[0]
    w = sp.self_attention(M, layers=2, residual=0.3)(X @ Q)
    np.testing.assert_allclose(np.einsum("nt,ntd->nd", w, X), forward(X, Q, M, 2, 0.3, False, "mean"), atol=1e-12)


def test_kernels_compare_and_bad_input_is_refused():
    assert sp.self_attention(0.5) == sp.self_attention(0.5) != sp.self_attention(0.6)
    assert hash(sp.self_attention(0.5)) == hash(sp.self_attention(0.5))
    with pytest.raises(sp.InvalidInputError):
        sp.self_attention(0.5, pool="max")
    with pytest.raises(sp.ShapeError):
        sp.self_attention([0.5, 0.6])
    with pytest.raises(sp.InvalidInputError):
        sp.self_attention(np.eye(2), pool="query")
    with pytest.raises(sp.ShapeError):
        sp.self_attention(np.eye(2))(np.zeros((3, 4)))
    with pytest.raises(sp.DomainError):
        sp.self_attention(0.5, residual=1.5)
