"""Posteriors of the relevant places against enumeration, and draws against their law."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from content_oracle import Setting, configurations, enumerate_posterior
from spikepool.world.relevance import Chain, Independent, Scattered, Span, prior_moments, top_pair

CASES = [
    (Setting("scattered", 8, 3), Scattered(8, 3)),
    (Setting("scattered", 9, 1), Scattered(9, 1)),
    (Setting("scattered", 7, 6), Scattered(7, 6)),
    (Setting("scattered", 5, 5), Scattered(5, 5)),
    (Setting("span", 9, 4), Span(9, 4)),
    (Setting("span", 7, 1), Span(7, 1)),
    (Setting("span", 6, 6), Span(6, 6)),
    (Setting("chain", 8, 2, 3.0), Chain(8, 2 / 8, 3.0)),
    (Setting("chain", 7, 4, 4 / 3), Chain(7, 4 / 7, 4 / 3)),
    (Setting("chain", 5, 4, 4.0), Chain(5, 4 / 5, 4.0)),  # an irrelevant token is never followed by another
    (Setting("scattered", 7, 1, None, (0.1, 0.9, 0.5, 0.02, 0.3, 0.6, 0.2)), None),
]
CASES[-1] = (CASES[-1][0], Independent(np.array(CASES[-1][0].prior)))


@pytest.mark.parametrize("scale", [0.0, 0.3, 3.0, 40.0])
@pytest.mark.parametrize(("setting", "law"), CASES)
def test_posterior_is_enumeration(setting, law, scale):
    """log E[exp(l'r)], p and R to 1e-12, from no evidence to one that decides everything."""
    rng = np.random.default_rng(3)
    evidence = scale * rng.standard_normal((30, setting.T))
    log_mean, p, R = enumerate_posterior(setting, evidence)
    found, marginals = law.posterior(evidence)
    np.testing.assert_allclose(found, log_mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(marginals, p, rtol=0, atol=1e-12)
    np.testing.assert_allclose(law.moments(evidence), R, rtol=0, atol=1e-12)
    w = rng.standard_normal(evidence.shape)
    np.testing.assert_allclose(law.quadratic(evidence, w), np.einsum("ns,nst,nt->n", w, R, w), atol=1e-11)


@pytest.mark.parametrize(("setting", "law"), CASES)
def test_draws_follow_the_law(setting, law):
    """Second moments of 20,000 draws: 5 standard errors."""
    r = law.draw(20_000, np.random.default_rng(1)).astype(float)
    rows, chance = configurations(setting)
    expected = np.einsum("c,cs,ct->st", chance, rows, rows)
    np.testing.assert_allclose(prior_moments(law), expected, atol=1e-13)
    error = np.sqrt(expected * (1 - expected) / len(r))
    assert np.all(np.abs(r.T @ r / len(r) - expected) <= 5 * error + 1e-12)


def test_evidence_of_any_size_is_finite():
    evidence = np.random.default_rng(0).standard_normal((20, 30)) * 5000
    for law in (Scattered(30, 4), Span(30, 4), Chain(30, 0.2, 3.0), Independent(np.full(30, 0.1))):
        log_mean, p = law.posterior(evidence)
        assert np.all(np.isfinite(log_mean))
        assert np.all((p >= 0) & (p <= 1))
        assert np.all(np.isfinite(law.moments(evidence)))
    exact = Scattered(30, 4).posterior(evidence)[1]
    np.testing.assert_allclose(exact.sum(axis=1), 4.0, rtol=1e-12)
    largest = np.argsort(-evidence, axis=1)[:, :4]
    np.testing.assert_allclose(np.take_along_axis(exact, largest, axis=1), 1.0, atol=1e-9)


def test_one_relevant_token_is_softmax_at_slope_nu():
    """L = 1: p is softmax(nu h), and R is its diagonal."""
    h = np.random.default_rng(5).standard_normal((50, 12))
    q = sp.QueryModel(d=50, N=100, T=12, L=1, mu=0.0, nu=1.7, kernel="posterior")
    softmax = q.replace(kernel="softmax", beta=1.7).weights(h)
    np.testing.assert_allclose(q.weights(h), softmax, atol=1e-13)
    hard = q.replace(kernel="optimal").weights(h)
    assert np.array_equal(np.argmax(hard, axis=1), np.argmax(h, axis=1))
    np.testing.assert_allclose(np.sort(hard, axis=1)[:, :-1], 0.0, atol=1e-7)


@pytest.mark.parametrize(
    ("T", "L", "nu", "m"),
    [(12, 3, 1.1, 1.0), (30, 5, 0.6, 0.7), (9, 1, 2.0, 0.9), (8, 8, 1.0, 1.0), (40, 8, 0.5, 1.0), (7, 6, 1.6, 0.8)],
)
def test_two_layers_are_the_span_posterior(T, L, nu, m):
    """A window of L and the default slope: L times the weights are the posterior probabilities, to 1e-10."""
    h = 2 * np.random.default_rng(2).standard_normal((200, T))
    q = sp.QueryModel(d=50, N=100, T=T, L=L, mu=0.0, nu=nu, overlap=m, relevance="span", window=L)
    posterior = q.replace(kernel="posterior", window=None).weights(h)
    np.testing.assert_allclose(L * q.weights(h), posterior, rtol=0, atol=1e-10)
    assert q.slope == pytest.approx(nu * m * L)


def test_scales_of_the_kernels():
    """Squared norms: sum p²/(1 + mu² sum p²) of the posterior, lambda/(1 + mu² lambda) of the top eigenvector."""
    h = np.random.default_rng(4).standard_normal((40, 10))
    q = sp.QueryModel(d=50, N=100, T=10, L=2, mu=1.3, nu=1.0, relevance="chain", run=2.0)
    p = q.relevance_law.posterior(q.evidence(h))[1]
    square = (p**2).sum(axis=1)
    w = q.replace(kernel="posterior").weights(h)
    np.testing.assert_allclose((w**2).sum(axis=1), square / (1 + 1.69 * square), rtol=1e-12)
    value, vector = top_pair(q.relevance_law.moments(q.evidence(h)))
    best, second = q.replace(kernel="optimal").weights_and_square(h)
    np.testing.assert_allclose((best**2).sum(axis=1), value / (1 + 1.69 * value), rtol=1e-12)
    np.testing.assert_allclose(second, value**2 / (1 + 1.69 * value), rtol=1e-12)
    assert np.all(vector >= -1e-12)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"relevance": "block"}, sp.InvalidInputError),
        ({"relevance": "chain"}, sp.InvalidInputError),
        ({"run": 2.0}, sp.InvalidInputError),
        ({"relevance": "chain", "run": 0.5}, sp.DomainError),
        ({"relevance": "chain", "run": 1.2, "L": 8}, sp.DomainError),
        ({"relevance": "chain", "run": 20.0, "L": 10}, sp.SizeError),
        ({"prior": [0.1] * 9}, sp.ShapeError),
        ({"prior": [1.1] * 10}, sp.ShapeError),
        ({"prior": [0.1] * 10, "relevance": "span"}, sp.InvalidInputError),
        ({"window": 11}, sp.SizeError),
        ({"window": 2, "kernel": "sigmoid"}, sp.InvalidInputError),
        ({"overlap": (0.8, 0.8)}, sp.DomainError),
        ({"overlap": (0.6, 0.6)}, sp.InvalidInputError),
        ({"matched": True}, sp.InvalidInputError),
        ({"noise": np.ones(7)}, sp.ShapeError),
        ({"noise": np.zeros(50)}, sp.DomainError),
    ],
)
def test_bad_fields_are_refused(changes, error):
    with pytest.raises(error):
        sp.QueryModel(**{"d": 50, "N": 100, "T": 10, "L": 2, "mu": 1.0, "nu": 1.0, **changes})


def test_models_with_arrays_compare_and_hash():
    prior = np.linspace(0.1, 0.5, 10)
    one = sp.QueryModel(d=50, N=100, T=10, L=2, mu=1.0, nu=1.0, prior=prior, noise=np.linspace(0.5, 2, 50))
    assert one == one.replace()
    assert hash(one) == hash(one.replace())
    assert one != one.replace(prior=prior[::-1])
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 50)))[0]
    rotated = one.replace(noise=turned @ np.diag(np.linspace(0.5, 2, 50)) @ turned.T)
    np.testing.assert_allclose(rotated.noise, one.noise, rtol=1e-9)
