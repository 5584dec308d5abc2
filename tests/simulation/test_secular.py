"""The rank-two secular solver against dense eigendecompositions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spikepool.simulation.dense import top_pairs


def dense(theta, U, G, c, mu):
    cross = mu * np.outer(U, G)
    values, vectors = np.linalg.eigh(np.diag(theta) + cross + cross.T + mu**2 * c * np.outer(U, U))
    return values[::-1], vectors.T[::-1]


def problem(seed, n):
    rng = np.random.default_rng(seed)
    theta = np.sort(rng.random(n)) * rng.choice([1e-3, 1.0, 1e4])
    return theta, rng.standard_normal(n), rng.standard_normal(n) * rng.random() * theta[-1], rng.random() * theta[-1]


@given(seed=st.integers(0, 10_000), n=st.integers(2, 30), mu=st.floats(1e-3, 1e3))
def test_agrees_with_dense(seed, n, mu):
    theta, U, G, c = problem(seed, n)
    k = min(n, 4)
    values, vectors = top_pairs(theta, U, G, c, np.array([mu]), k)
    expected, basis = dense(theta, U, G, c, mu)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(values[0], expected[:k], atol=1e-12 * scale)
    gaps = np.abs(np.subtract.outer(expected, expected)) + np.diag(np.full(n, np.inf))
    clear = gaps.min(axis=1)[:k] > 1e-6 * scale
    overlap = np.abs(np.sum(vectors[0] * basis[:k], axis=1))
    assert np.all(overlap[clear] > 1 - 1e-6)


@pytest.mark.parametrize("mu", [0.0, 1e-300, 1e-14, 1e-9, 1e-6])
def test_vanishing_signal(mu):
    theta, U, G, c = problem(1, 20)
    values, vectors = top_pairs(theta, U, G, c, np.array([mu]), 3)
    expected, basis = dense(theta, U, G, c, mu)
    np.testing.assert_allclose(values[0], expected[:3], rtol=1e-12)
    np.testing.assert_allclose(np.abs(np.sum(vectors[0] * basis[:3], axis=1)), 1.0, atol=1e-9)


def test_all_mu_at_once_is_one_at_a_time():
    theta, U, G, c = problem(2, 15)
    mus = np.array([0.0, 0.3, 2.0, 1e-12, 7.0])
    together = top_pairs(theta, U, G, c, mus, 2)
    for i, mu in enumerate(mus):
        alone = top_pairs(theta, U, G, c, np.array([mu]), 2)
        np.testing.assert_allclose(together[0][i], alone[0][0], rtol=1e-14)
        np.testing.assert_allclose(together[1][i] ** 2, alone[1][0] ** 2, atol=1e-10)


def test_direction_orthogonal_to_some_eigenvectors():
    theta, U, G, c = problem(3, 12)
    U[-1] = G[-1] = U[4] = G[4] = 0.0  # these eigenvalues do not move
    values, _ = top_pairs(theta, U, G, c, np.array([0.01, 1.0]), 4)
    for row, mu in zip(values, (0.01, 1.0), strict=True):
        np.testing.assert_allclose(row, dense(theta, U, G, c, mu)[0][:4], atol=1e-12 * abs(row[0]))


@st.composite
def awkward_problems(draw):
    """Spectra with ties, without variance, over many orders; weights that vanish, or nearly; S(mu) is a covariance."""
    rng = np.random.default_rng(draw(st.integers(0, 100_000)))
    n = draw(st.integers(1, 60))
    kinds = [rng.random(n), rng.integers(0, 4, n).astype(float), np.exp(3 * rng.standard_normal(n)), np.zeros(n)]
    theta = np.sort(kinds[draw(st.integers(0, 3))])
    U = rng.standard_normal(n) * rng.choice([1, 0, 1e-8], n, p=[0.7, 0.15, 0.15]) + 1e-30
    U /= np.linalg.norm(U)
    G = 0.3 * rng.standard_normal(n) * np.sqrt(theta) * rng.choice([1, 0, 1e-9], n, p=[0.7, 0.15, 0.15])
    c = float(np.sum(G[theta > 0] ** 2 / theta[theta > 0])) + rng.random()
    scale = 10.0 ** draw(st.sampled_from([0, 0, 0, -60, 60]))
    mus = np.append(0.0, np.exp(rng.uniform(-18, 8, 6)))  # far apart in one call
    return theta * scale, U, G * scale, c * scale, mus, draw(st.integers(1, min(n, 4)))


@pytest.mark.slow
@given(awkward_problems())
def test_awkward_spectra(problem):
    theta, U, G, c, mus, k = problem
    values, vectors = top_pairs(theta, U, G, c, mus, k)
    for mu, found, basis in zip(mus, values, vectors, strict=True):
        cross = mu * np.outer(U, G)
        S = np.diag(theta) + cross + cross.T + mu**2 * c * np.outer(U, U)
        expected = np.linalg.eigvalsh(S)[::-1]
        scale = max(np.abs(expected).max(), 1e-300)
        np.testing.assert_allclose(found, expected[:k], rtol=0, atol=1e-12 * scale)
        assert np.abs(basis @ S - found[:, None] * basis).max() <= 1e-7 * scale
