"""Matrix-free products against the matrices they stand for."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import spikepool as sp
from spikepool.kit.threads import threaded_map
from spikepool.simulation import dense as _dense_gram
from spikepool.simulation.pooled_noise import PooledNoise
from spikepool.world import pooling_matrix
from spikepool.world.pooling_matrix import PoolingMatrix
from spikepool.world.sampling import draw_sample

R = sp.prefix_correlation(T=6, L=3)
W = sp.causal_weights(6)


def sample(dtype=np.float64, **options):
    return draw_sample(
        sp.SequenceModel(**{"d": 30, "V": 50, "N": 40, "R": R, "mu": 1.5, **options}), rng=0, dtype=dtype
    )


def dense_matrix(tokens, w, V):
    """W' from the definition, token by token."""
    N, T = tokens.shape
    matrix = np.zeros((N, V))
    for n in range(N):
        for t in range(T):
            matrix[n, tokens[n, t]] += w[t] if w.ndim == 1 else w[n, t]
    return matrix


@pytest.fixture(params=["one piece", "many pieces"])
def pieces(request, monkeypatch):
    if request.param == "many pieces":
        monkeypatch.setattr(pooling_matrix, "_PANEL_ELEMENTS", 100)
    return request.param


@pytest.mark.parametrize("per_sequence", [False, True])
def test_pooling_matrix(pieces, per_sequence):
    s = sample()
    w = s.attention_weights() if per_sequence else W
    matrix, expected = PoolingMatrix(s.tokens, w, 50), dense_matrix(s.tokens, w, 50)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(50), rng.standard_normal(40)
    np.testing.assert_allclose(matrix.pool(x), expected @ x, atol=1e-13)
    np.testing.assert_allclose(matrix.spread(y), expected.T @ y, atol=1e-13)
    np.testing.assert_allclose(matrix.rows(s.noise, slice(7, 29)), (expected @ s.noise)[7:29], atol=1e-13)


def test_tokens_are_shared_not_copied():
    s = sample()
    matrix = PoolingMatrix(s.tokens, W, 50)
    assert all(np.shares_memory(block.indices, s.tokens) for block in matrix._blocks)


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("latent", ["signs", "gaussian"])
def test_covariance(pieces, centered, latent):
    s = sample(centered=centered, latent=latent)
    C = s.pooled(W)
    if centered:
        C = C - C.mean(axis=1, keepdims=True)
    S = C @ C.T / 40
    noise = PooledNoise(s, W)
    identity = np.eye(30)
    np.testing.assert_allclose([noise.covariance(x, 1.5) for x in identity], S, atol=1e-13)
    np.testing.assert_allclose(_dense_gram.spectrum(noise, 1.5), np.linalg.eigvalsh(S), atol=1e-13)
    theta, U, G = _dense_gram.measure(noise, 1.5)
    np.testing.assert_allclose(theta, np.linalg.eigvalsh(S), atol=1e-12)
    assert pytest.approx(1.0) == U @ U
    Y = C - 1.5 * np.outer(s.direction, noise.b)
    np.testing.assert_allclose(np.linalg.norm(G), np.linalg.norm(Y @ noise.b) / 40, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_number_of_threads_does_not_change_a_bit(monkeypatch, dtype):
    monkeypatch.setattr(pooling_matrix, "_PANEL_ELEMENTS", 100)
    s = sample(dtype)
    x = np.random.default_rng(0).standard_normal(30)
    alone = PooledNoise(s, W).covariance(x, 1.5)
    for threads in (2, 5):
        with ThreadPoolExecutor(threads) as pool:
            np.testing.assert_array_equal(alone, PooledNoise(s, W, run=threaded_map(pool)).covariance(x, 1.5))


def test_smaller_gram_side():
    s = sample(d=45, N=12)
    noise = PooledNoise(s, W)
    C = s.pooled(W)
    C = C - C.mean(axis=1, keepdims=True)
    values = _dense_gram.spectrum(noise, 1.5)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(C @ C.T / 12), atol=1e-12)
    theta, U, _ = _dense_gram.measure(noise, 1.5)
    assert len(theta) == 12  # 11 of the centred columns, and the null space
    assert pytest.approx(1.0) == U @ U
    vectors = np.linalg.svd(C)[0]
    np.testing.assert_allclose(np.abs(U[::-1][:5]), np.abs(s.direction @ vectors[:, :5]), atol=1e-10)
