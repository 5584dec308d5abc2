"""A learned query against token PCA and gradient descent on drawn tokens, in plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from spikepool.theory.learned_query import pca_overlap


def draw(rng, d, n, T, L, mu, nu):
    """Tokens (n, T, d) with u and k along the first axes, and labels."""
    X = rng.standard_normal((n, T, d))
    y = rng.choice([-1.0, 1.0], n)
    relevant = np.argsort(rng.random((n, T)), axis=1) < L
    X[..., 0] += mu * y[:, None] * relevant
    X[..., 1] += nu * relevant
    return X, y


def attend(X, q, beta):
    w = np.exp(beta * X @ q)
    return w / w.sum(axis=1, keepdims=True)


def descend(rng, sizes, rounds, orthogonal, slope):
    """Overlaps, value alignments and accuracies of alternating steps on fresh tokens; the gradient of mean(y v·c)."""
    q, overlaps, values, accuracies = np.zeros(sizes["d"]), [0.0], [], []
    for i in range(rounds + 1):
        beta = slope(overlaps[-1]) if i else 0.0
        X, y = draw(rng, **sizes)
        v = np.mean(y[:, None] * np.einsum("nt,ntd->nd", attend(X, q, beta), X), axis=0)
        v = v - q * (q @ v) if orthogonal else v
        v /= np.linalg.norm(v)
        values.append(v[0] ** 2)
        X, y = draw(rng, **sizes)
        w = attend(X, q, beta)
        accuracies.append(np.mean(np.sign(np.einsum("nt,ntd,d->n", w, X, v, optimize=True)) == y))
        # d(v·c)/dq = sum_t w_t (v·e_t)(e_t − c), written with the softmax's derivative
        score = X @ v
        c = np.einsum("nt,ntd->nd", w, X)
        gradient = np.mean(
            y[:, None] * (np.einsum("nt,ntd->nd", w * score, X) - np.sum(w * score, axis=1, keepdims=True) * c), axis=0
        )
        gradient = gradient - v * (v @ gradient) if orthogonal else gradient
        q = gradient / np.linalg.norm(gradient)
        overlaps.append(q[1])
    return overlaps[: rounds + 1], values, accuracies


SETTINGS = [
    {"d": 100, "n": 400, "T": 12, "L": 2, "mu": 1.5, "nu": 1.5},
    {"d": 100, "n": 1600, "T": 12, "L": 2, "mu": 1.5, "nu": 1.5},
    {"d": 100, "n": 2400, "T": 12, "L": 2, "mu": 1.0, "nu": 1.0},
    {"d": 100, "n": 400, "T": 20, "L": 3, "mu": 2.0, "nu": 1.0},
    {"d": 150, "n": 600, "T": 12, "L": 1, "mu": 2.0, "nu": 2.0},
    {"d": 150, "n": 300, "T": 10, "L": 1, "mu": 1.5, "nu": 1.5},
]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("sizes", SETTINGS)
def test_overlap_against_gradient_descent(sizes):
    """Query, value and accuracy of three rounds: 3 standard errors and a bias of 2/d."""
    fields = {name: sizes[name] for name in ("d", "T", "L", "mu", "nu")}
    model = sp.QueryModel(N=sizes["n"], **fields)
    learned = model.learned()
    draws = np.array(
        [
            descend(np.random.default_rng([2, i]), sizes, 3, True, lambda m: model.replace(overlap=max(m, 0.0)).slope)
            for i in range(8)
        ]
    )
    predicted = np.array([learned.overlaps, learned.values, learned.accuracies])
    mean, error = draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(8)
    assert np.all(np.abs(mean - predicted) <= 2 / sizes["d"] + 3 * error), (predicted, mean, error)
    assert learned.first_step == learned.overlaps[1]
    assert learned.overlap >= learned.first_step


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("sizes", SETTINGS[:4])
def test_first_step_of_a_gradient_that_is_not_projected(sizes):
    fields = {name: sizes[name] for name in ("d", "T", "L", "mu", "nu")}
    learned = sp.QueryModel(N=sizes["n"], **fields).learned(rounds=1, orthogonal=False)
    assert learned.overlap < sp.QueryModel(N=sizes["n"], **fields).learned(rounds=1).overlap
    draws = [descend(np.random.default_rng([5, i]), sizes, 1, False, lambda m: 0.0)[0][1] for i in range(12)]
    error = np.std(draws, ddof=1) / np.sqrt(12)
    assert abs(np.mean(draws) - learned.overlap) <= 2 / sizes["d"] + 3 * error


def test_first_step_in_closed_form():
    """Uniform attention: s² = (1/T)(1 − 1/T + a² phi (1 − phi)), K = nu phi (1 − phi)."""
    d, n, T, L, mu, nu = 200, 1000, 15, 3, 1.3, 0.8
    phi = L / T
    learned = sp.QueryModel(d=d, N=n, T=T, L=L, mu=mu, nu=nu).learned(rounds=1)
    value = (mu * phi) ** 2 / ((mu * phi) ** 2 + d / n / T)
    s2 = mu**2 * nu**2 * value * phi**2 * (1 - phi) ** 2
    noise = d / (n * T) * (1 - 1 / T + mu**2 * value * phi * (1 - phi))
    assert learned.values[0] == pytest.approx(value, rel=1e-12)
    assert learned.overlap == pytest.approx(np.sqrt(s2 / (s2 + noise)), rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "mu", "nu"), [(100, 0.5, 1.5), (400, 0.5, 1.5), (100, 2.0, 1.0)])
def test_token_pca(n, mu, nu):
    """Components along k and u of the covariance of all tokens: 3 standard errors and 2/d."""
    d, T, L = 100, 12, 3
    learned = sp.QueryModel(d=d, N=n, T=T, L=L, mu=mu, nu=nu).learned()
    key, signal = [], []
    for i in range(12):
        X = draw(np.random.default_rng([4, i]), d, n, T, L, mu, nu)[0].reshape(-1, d)
        vectors = np.linalg.eigh(np.cov(X.T))[1]
        key.append(np.max(vectors[1, -2:] ** 2))
        signal.append(np.max(vectors[0, -2:] ** 2))
    for draws, predicted in ((key, learned.token_pca**2), (signal, learned.token_pca_signal)):
        error = np.std(draws, ddof=1) / np.sqrt(12)
        if predicted > 0.2:  # below it the largest of two components is not the one meant
            assert abs(np.mean(draws) - predicted) <= 2 / d + 3 * error, (np.mean(draws), predicted, error)
    assert max(learned.token_pca**2, learned.token_pca_signal) > 0.2


def test_pca_transition():
    assert pca_overlap(0.1, 0.0101) == pca_overlap(0.0, 1.0) == 0.0
    assert 0 < pca_overlap(0.1, 0.0099) < 0.05
    assert pca_overlap(0.3, 0.0) == 1.0


def test_tokens_beat_the_mean_where_few_are_relevant():
    """Thresholds: mu² L/T against sqrt(d/(N T)) for PCA of the tokens, mu² L²/T against sqrt(d/N) for the mean.

    So the mean is better where L > sqrt(T), and PCA of the tokens where L < sqrt(T).
    """
    few = sp.QueryModel(d=100, N=900, T=36, L=3, mu=1.3, nu=1.0).learned(900)
    many = sp.QueryModel(d=100, N=900, T=36, L=12, mu=0.5, nu=1.0).learned(900)
    assert few.token_pca_signal > few.mean_alignment
    assert many.mean_alignment > many.token_pca_signal


def test_a_better_query_comes_from_more_sequences():
    model = sp.QueryModel(d=100, N=400, T=12, L=2, mu=1.5, nu=1.5)
    overlaps = [model.learned(n).overlap for n in (50, 200, 800, 3200)]
    assert np.all(np.diff(overlaps) > 0)
    n = model.required_training(overlap=0.6)
    assert model.learned(n).overlap >= 0.6 > model.learned(int(0.98 * n)).overlap
    assert model.learned(800).alignment > model.learned(800).mean_alignment


def test_bad_input_is_refused():
    model = sp.QueryModel(d=100, N=400, T=12, L=2, mu=1.5, nu=1.5)
    with pytest.raises(sp.InvalidInputError, match="softmax"):
        model.replace(kernel="sigmoid").learned()
    with pytest.raises(sp.InvalidInputError, match="never repeat"):
        model.replace(V=600).learned()
    with pytest.raises(sp.UnreachableError):
        model.replace(mu=0.0).required_training()
    assert not model.replace(T=40).learned(orthogonal=False).validity.ok
    assert not model.replace(mu=1.4).learned(20_000).validity.ok  # k and u are of nearly equal strength
