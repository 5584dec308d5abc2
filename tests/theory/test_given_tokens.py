"""Predictions given the token usage: the measures behind them, consistency, limits and named errors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import spikepool as sp
from spikepool.theory.given_tokens import predict_exact, predict_tokens
from spikepool.theory.noise import Noise
from spikepool.theory.population_usage import group_tokens, population_usage
from spikepool.theory.token_usage import sample_usage
from spikepool.theory.usage_spectrum import UsageBulk, UsageSpectrum
from spikepool.world.frequencies import zipf_frequencies
from spikepool.world.pooling_matrix import Projection, token_matrix
from spikepool.world.tokens import draw_tokens

R = sp.prefix_correlation(T=10, L=3)


def model(**changes):
    return sp.SequenceModel(**{"d": 120, "V": 200, "N": 260, "R": R, "mu": 2.0, **changes})


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("class_centered", [True, False])
@pytest.mark.parametrize(("V", "N"), [(60, 90), (90, 60)])
@pytest.mark.parametrize("latent", [True, False])
def test_usage_measure_against_dense_matrices(centered, class_centered, V, N, latent):
    """Eigenvalues of B B' and b' f(B'B) b from B = sqrt(V/N) P W C written out."""
    rng = np.random.default_rng(0)
    tokens, w = rng.integers(0, V, (N, 4)), np.array([0.4, 0.3, 0.2, 0.1])
    signs = np.where(np.arange(V) % 3 == 0, 1, -1)
    a = rng.standard_normal(N) if latent else None
    W = np.zeros((V, N))
    for n in range(N):
        for t in range(4):
            W[tokens[n, t], n] += w[t]
    P, C = np.eye(V), np.eye(N)
    if class_centered:
        for c in (-1, 1):
            P -= np.outer(signs == c, signs == c) / np.sum(signs == c)
    if centered:
        C -= 1 / N
    B = np.sqrt(V / N) * P @ W @ C
    b = C @ (a if latent else W.T @ signs) / np.sqrt(N)
    usage = sample_usage(
        token_matrix(tokens, w, V),
        a,
        signs,
        centered=centered,
        project=Projection(signs if class_centered else None),
        rng=0,
    )
    found = np.concatenate([usage.top.values, usage.values])
    np.testing.assert_allclose(found, np.linalg.eigvalsh(B @ B.T)[::-1], atol=1e-10)
    assert usage.gain == pytest.approx(b @ b)
    # the top pairs one by one: eigenvectors of M, coordinates of b and squared cosines of the ones along B'x/sqrt(t)
    x, right = usage.top.vectors, B.T @ usage.top.vectors / np.sqrt(usage.top.values)
    np.testing.assert_allclose(B @ B.T @ x, x * usage.top.values, atol=1e-9)
    np.testing.assert_allclose(usage.top.signal, right.T @ b, atol=1e-10)
    np.testing.assert_allclose(usage.top.mean, np.mean(right, axis=0) ** 2 * N * (not centered), atol=1e-10)
    np.testing.assert_allclose(usage.remainder, B @ b - x @ (x.T @ B @ b), atol=1e-10)
    t, c = usage.signal_measure
    for e in (0.3, 2.0):
        expected = b @ np.linalg.solve(np.eye(N) + e * B.T @ B, b)
        assert (c[:, 0] ** 2) @ (1 / (1 + e * t)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("table", ["sampled", "class_centered"])
@pytest.mark.parametrize("token_weights", [None, "irregular"])
def test_population_usage_is_the_mean_of_w_w(centered, table, token_weights):
    """Grouped formula against the V x V expectation of V·w w' over the model's sequences, written out."""
    V, T = 12, 3
    correlation = sp.prefix_correlation(T, 2)
    f = zipf_frequencies(V, 1.0)
    a = None if token_weights is None else np.random.default_rng(0).uniform(0.2, 2.0, V)
    s = np.where(np.arange(V) % 2 == 0, 1.0, -1.0)
    w = np.array([0.5, 0.3, 0.2])
    M = np.zeros((V, V))
    for t in range(T):
        for u in range(T):
            joint = np.diag(f) if t == u else np.outer(f, f) * (1 + correlation[t, u] * np.outer(s, s))
            M += V * w[t] * w[u] * joint
    if centered:
        M -= V * np.outer(f, f)
    if a is not None:
        M *= np.outer(a, a)
    alpha, kappa = sp.gains(w, correlation)
    P = np.eye(V)
    if table == "class_centered":
        P -= (np.outer(s, s) + 1) / V
    usage = population_usage(
        f, s, alpha - kappa, kappa, token_weights=a, centered=centered, class_centered=table == "class_centered"
    )
    values = np.concatenate([usage.top.values, usage.values])
    weights = np.concatenate([np.full(len(usage.top), 1 / V), usage.weights])
    law = sp.AtomicLaw(np.where(values < 1e-12, 0, values), weights)
    eigenvalues = np.linalg.eigvalsh(P @ M @ P)
    for k in range(1, 6):
        assert law.moment(k) == pytest.approx(np.mean(eigenvalues**k), rel=1e-9)
    x = usage.top.vectors
    np.testing.assert_allclose(P @ M @ P @ x, x * usage.top.values, atol=1e-10)
    t, c = usage.signal_measure
    unit = s / np.sqrt(V)
    for e in (0.5, 3.0):
        # s'M(I + e P M)^{-1}s/V
        expected = unit @ M @ np.linalg.solve(np.eye(V) + e * P @ M, unit)
        assert (c[:, 0] ** 2) @ (1 / (1 + e * t)) == pytest.approx(expected, rel=1e-9)


def test_model_method_seed_and_fields():
    m, w = model(), sp.mean_weights(10)
    p = m.predict(w, exact=True, rng=4)
    q = m.predict(w, exact=True, rng=4)
    assert p.outliers == q.outliers
    assert p.outliers != m.predict(w, exact=True, rng=5).outliers
    assert (p.alpha, p.kappa) == pytest.approx(sp.gains(w, R))
    assert isinstance(p.bulk, sp.GeneralizedLaw)
    assert p.edge == p.bulk.support()[1]
    assert p.detectable
    assert p.outliers[0].kind == "signal"
    assert p.alignment == p.outliers[0].alignment
    assert p.mu_population <= p.mu_sample < m.mu


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("table", ["sampled", "class_centered"])
def test_tokens_of_a_model_give_the_prediction_of_the_model(centered, table):
    m, w = model(centered=centered, table=table), sp.causal_weights(10)
    tokens, _ = draw_tokens(m, 7)
    p = predict_exact(m, w, rng=7)
    q = predict_tokens(tokens, m.V, w, m.signs, m.mu, m.d, centered=centered, table=table)
    for one, other in zip(p.outliers, q.outliers, strict=True):
        assert one.kind == other.kind
        assert other.eigenvalue == pytest.approx(one.eigenvalue, rel=1e-10)
        assert other.alignment == pytest.approx(one.alignment, rel=1e-8, abs=1e-12)
    assert q.mu_sample == pytest.approx(p.mu_sample, rel=1e-9)
    rows = np.tile(w, (m.N, 1))
    again = predict_tokens(tokens, m.V, rows, m.signs, m.mu, m.d, centered=centered, table=table)
    assert again.eigenvalue == pytest.approx(q.eigenvalue, rel=1e-12)


@pytest.mark.slow
def test_noise_as_law_diagonal_or_matrix():
    m, w = model(), sp.causal_weights(10)
    tokens, _ = draw_tokens(m, 1)
    A = np.linspace(0.4, 1.6, m.d)
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((m.d, m.d)))[0]
    arguments = (tokens, m.V, w, m.signs, m.mu, m.d)
    diagonal = predict_tokens(*arguments, noise=A)
    matrix = predict_tokens(*arguments, noise=(rotation * A) @ rotation.T)
    law = predict_tokens(*arguments, noise=sp.AtomicLaw(A))
    for other in (matrix, law):
        assert other.eigenvalue == pytest.approx(diagonal.eigenvalue, rel=1e-9)
        assert other.alignment == pytest.approx(diagonal.alignment, rel=1e-8)
    along = [predict_tokens(*arguments, noise=A, direction=np.eye(m.d)[k]).alignment for k in (0, m.d - 1)]
    turned = predict_tokens(*arguments, noise=(rotation * A) @ rotation.T, direction=rotation[:, 0]).alignment
    # noise along u adds to the variance along u, which draws the eigenvector towards it
    assert along[0] < diagonal.alignment < along[1]
    assert turned == pytest.approx(along[0], rel=1e-8)


def test_population_limit_is_the_closed_form():
    """Uniform tokens: the limit of infinitely many sequences is that of the closed form, up to terms of order 1/V."""
    for changes in ({}, {"table": "class_centered"}, {"latent": "gaussian"}, {"centered": False}):
        m = model(V=2000, d=1250, N=2500, **changes)
        w = sp.mean_weights(10)
        alpha, kappa = sp.gains(w, R)
        usage = population_usage(
            np.full(m.V, 1 / m.V),
            m.signs,
            alpha - kappa,
            kappa,
            latent_gain=alpha if m.latent == "gaussian" else None,
            centered=m.centered,
            class_centered=m.table == "class_centered",
        )
        found = UsageSpectrum(UsageBulk(usage, Noise(None, m.d, None)), m.mu)
        closed = m.predict(w)
        kinds = found.kinds()
        assert kinds == [o.kind for o in closed.outliers]
        for ours, theirs in zip(found.outliers, closed.outliers, strict=True):
            assert ours.eigenvalue == pytest.approx(theirs.population_eigenvalue, rel=5 / m.V)
            assert ours.overlaps[0] == pytest.approx(theirs.population_alignment, abs=5 / m.V)
        assert found.threshold == pytest.approx(closed.mu_population, abs=0.02)


def test_not_detectable_is_said_not_computed_as_nan():
    weak = model(mu=0.05, table="class_centered").predict(sp.mean_weights(10), exact=True, rng=0)
    assert not weak.detectable
    assert weak.outliers == ()
    assert weak.alignment == 0.0
    assert weak.eigenvalue == weak.edge
    none = model(mu=0.0).predict(sp.causal_weights(10), exact=True, rng=0)
    assert none.alignment == 0.0


def test_heavy_tokens_make_outliers_of_their_own():
    m = model(frequencies=zipf_frequencies(200, 1.0), mu=0.0, R=np.eye(1))
    p = m.predict(sp.mean_weights(1), exact=True, rng=0)
    assert "usage" in [o.kind for o in p.outliers]
    assert p.alignment == 0.0


def test_zipf_frequencies():
    f = zipf_frequencies(1000, 1.2)
    assert f.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(f[0::2], f[1::2])
    assert f[0] / f[6] == pytest.approx(4**1.2)
    np.testing.assert_allclose(zipf_frequencies(10, 0.0), 0.1)
    for V, s, error in ((0, 1.0, sp.SizeError), (7, 1.0, sp.SizeError), (8, -1.0, sp.DomainError)):
        with pytest.raises(error):
            zipf_frequencies(V, s)
    with pytest.raises(sp.NonFiniteError):
        zipf_frequencies(8, np.nan)


GOOD = {
    "tokens": np.arange(12).reshape(4, 3) % 6,
    "V": 6,
    "weights": np.ones(3) / 3,
    "signs": np.array([1, -1, 1, -1, 1, -1]),
    "mu": 1.0,
    "d": 5,
}


@pytest.mark.parametrize(("N", "V", "d"), [(1, 5, 3), (2, 5, 3), (30, 1, 4), (5, 50, 200), (50, 5, 200), (3, 3, 1)])
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("table", ["sampled", "class_centered"])
def test_tiny_corpora_give_numbers_or_a_named_error(N, V, d, centered, table):
    signs = np.where(np.arange(V) % 2 == 0, 1, -1)
    tokens = np.random.default_rng(N).integers(0, V, (N, 3))
    corpus = (tokens, V, [0.5, 0.3, 0.2], signs, 1.0, d)
    W = np.zeros((V, N))
    for n in range(N):
        for t in range(3):
            W[tokens[n, t], n] += corpus[2][t]
    if centered:
        W -= W.mean(axis=1, keepdims=True)
    if table == "class_centered":
        for c in (-1, 1):
            if (signs == c).any():
                W[signs == c] -= W[signs == c].mean(axis=0)
    if np.abs(W).max() < 1e-12:
        with pytest.raises(sp.TokenError, match="nothing to analyse"):
            predict_tokens(*corpus, centered=centered, table=table)
        return
    p = predict_tokens(*corpus, centered=centered, table=table)
    assert np.isfinite(p.edge)
    assert 0 <= p.alignment <= 1
    assert all(o.eigenvalue > p.edge for o in p.outliers)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"tokens": np.array([[0, 1, 6]])}, sp.TokenError),
        ({"tokens": np.array([[0, -1, 2]])}, sp.TokenError),
        ({"tokens": np.array([[0.5, 1, 2]])}, sp.TokenError),
        ({"tokens": np.empty((0, 3), int)}, sp.ShapeError),
        ({"tokens": np.arange(3)}, sp.ShapeError),
        ({"signs": np.ones(5)}, sp.ShapeError),
        ({"weights": np.ones(3), "centered": False}, sp.WeightsError),
        ({"weights": np.zeros(3)}, sp.WeightsError),
        ({"token_weights": np.ones(5)}, sp.WeightsError),
        ({"token_weights": -np.ones(6)}, sp.WeightsError),
        ({"token_weights": np.zeros(6)}, sp.WeightsError),
        ({"weights": np.ones(4) / 4}, sp.WeightsError),
        ({"weights": np.ones((2, 3)) / 3}, sp.WeightsError),
        ({"weights": np.ones((4, 3)), "centered": False}, sp.WeightsError),
        ({"weights": np.array([np.nan, 0, 1])}, sp.NonFiniteError),
        ({"mu": -1.0}, sp.DomainError),
        ({"mu": np.nan}, sp.NonFiniteError),
        ({"d": 0}, sp.SizeError),
        ({"V": 0}, sp.SizeError),
        ({"noise": -np.ones(5)}, sp.InvalidInputError),
        ({"noise": np.ones(4)}, sp.ShapeError),
        ({"noise": np.diag([1.0, 1, 1, 1, -1])}, sp.CorrelationError),
        ({"noise": sp.AtomicLaw([1.0]), "direction": np.ones(5)}, sp.InvalidInputError),
        ({"direction": np.zeros(5)}, sp.ShapeError),
        ({"centered": "yes"}, sp.InvalidInputError),
        ({"table": "other"}, sp.InvalidInputError),
    ],
)
def test_bad_corpora_are_named_errors(changes, error):
    with pytest.raises(error):
        predict_tokens(**{**GOOD, **changes})


@pytest.mark.parametrize("centered", [True, False])
def test_tokens_of_equal_counts_are_bulk(centered):
    # one token per sequence: the usage is diagonal with many equal eigenvalues, none of which has a distinct direction
    model = sp.SequenceModel(120, 200, 240, np.eye(1), 0.5, centered=centered)
    prediction = model.predict([1.0], exact=True, rng=0)
    top = model.simulate([1.0], trials=6, k=1, rng=1).eigenvalues.mean()
    assert len(prediction.outliers) <= 3
    assert prediction.eigenvalue == pytest.approx(top, rel=0.12)  # tokens differ from draw to draw: d^(-2/3) at d = 120


def test_more_values_of_the_weights_than_groups_are_binned_and_stay_positive(monkeypatch):
    """Binned values made the eigenvalue that centring leaves at zero negative, and the prediction an error."""
    p = sp.zipf_frequencies(900, 1.2)
    a = np.random.default_rng(1).uniform(0.5, 1.5, 900)
    model = sp.SequenceModel(
        d=60, V=900, N=50, R=sp.prefix_correlation(12, 4), mu=1.2, frequencies=p, token_weights=a / (p @ a)
    )
    binned = model.predict(sp.mean_weights(12), exact=True, rng=1)
    monkeypatch.setattr("spikepool.theory.population_usage.group_tokens", partial(group_tokens, limit=10**6))
    whole = model.predict(sp.mean_weights(12), exact=True, rng=1)
    assert binned.mu_population == pytest.approx(whole.mu_population, rel=1e-5)
    assert binned.alignment == pytest.approx(whole.alignment, abs=1e-9)
