"""Query models with known relevance, several layers and coloured noise, against tokens drawn one by one."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from content_oracle import (
    Setting,
    draw_relevance,
    draw_tokens,
    enumerate_posterior,
    mean_and_error,
    top_pair,
)

pytestmark = [pytest.mark.slow, pytest.mark.statistical]

D, N, TRIALS = 100, 400, 16
DECAY = tuple(float(x) for x in 0.6 * np.exp(-np.arange(10) / 3) + 0.01)


def model_of(setting, **fields):
    fields = {"d": D, "N": N, **fields}
    relevance = {"run": setting.run, "prior": setting.prior, "relevance": setting.kind}
    return sp.QueryModel(T=setting.T, L=setting.L, **relevance, **fields)


def bias(mu, threshold, d=D):
    """Finite-size bias of an alignment: of order 1/(d e²) at relative distance e from the threshold."""
    return 0.003 + 1 / (d * ((mu / threshold - 1) ** 2 + d ** (-2 / 3)))


SETTINGS = [
    (Setting("scattered", 9, 2), 1.5, 1.2, 1.0),
    (Setting("scattered", 12, 1), 2.0, 1.5, 0.8),
    (Setting("span", 24, 5), 1.0, 0.8, 1.0),
    (Setting("span", 16, 2), 1.3, 1.2, 0.8),
    (Setting("chain", 10, 3, 3.0), 0.8, 1.0, 1.0),
    (Setting("chain", 9, 2, 5.0), 1.1, 1.4, 0.7),
    (Setting("scattered", 10, 2, None, DECAY), 1.2, 1.1, 1.0),
    (Setting("scattered", 9, 2, None, (0.5,) * 3 + (0.06,) * 6), 1.3, 0.9, 1.0),
    (Setting("scattered", 10, 2, None, tuple(0.04 * t for t in range(1, 11))), 1.2, 1.4, 0.8),
    (Setting("scattered", 8, 2, None, (0.05, 0.6) * 4), 1.1, 1.2, 1.0),
    (Setting("scattered", 10, 1, None, (0.1,) * 10), 2.2, 1.6, 1.0),
    (Setting("scattered", 9, 2, None, (0.3, 0.02, 0.02) * 3), 1.8, 1.3, 0.9),
]


@pytest.mark.parametrize(("setting", "mu", "nu", "m"), SETTINGS)
def test_posterior_and_optimal_kernels(setting, mu, nu, m):
    """Weights by enumeration on drawn tokens: p/sqrt(1 + mu² sum p²), and the scaled top eigenvector of R."""
    posterior, optimal = [], []
    for i in range(TRIALS):
        X, q, _, _ = draw_tokens(np.random.default_rng([1, i]), setting, d=D, n=N, mu=mu, nu=nu, m=m)
        _, p, R = enumerate_posterior(setting, nu * m * (X @ q) - (nu * m) ** 2 / 2)
        w = p / np.sqrt(1 + mu**2 * (p**2).sum(axis=1, keepdims=True))
        posterior.append(top_pair(np.einsum("nt,ntd->nd", w, X), q))
        values, vectors = np.linalg.eigh(R)
        v = vectors[:, :, -1] * np.sign(vectors[:, :, -1].sum(axis=1, keepdims=True))
        w = v * np.sqrt(values[:, -1:] / (1 + mu**2 * values[:, -1:]))
        optimal.append(top_pair(np.einsum("nt,ntd->nd", w, X), q))
    model = model_of(setting, mu=mu, nu=nu, overlap=m)
    for kernel, rows in (("posterior", posterior), ("optimal", optimal)):
        check_pair(model.replace(kernel=kernel), rows)


def check_pair(model, rows):
    p = model.predict()
    mean, error = mean_and_error(rows)
    gap = bias(model.mu, p.mu_sample, model.d) + 3 * error[1]
    assert abs(p.alignment - mean[1]) <= gap, (model.kernel, p.alignment, mean, error, gap)
    assert abs(p.eigenvalue - mean[0]) <= 6 / model.d * p.eigenvalue + 3 * error[0], (p.eigenvalue, mean, error)
    return p


@pytest.mark.parametrize(
    ("T", "L", "window", "nu", "mu", "m"),
    [
        (24, 4, 4, 1.0, 1.0, 1.0),
        (24, 4, 2, 1.0, 1.2, 1.0),
        (24, 3, 6, 1.3, 1.6, 1.0),
        (15, 5, 5, 0.7, 1.0, 0.8),
        (30, 2, 2, 1.6, 2.0, 0.9),
        (12, 3, 1, 1.2, 1.6, 1.0),
    ],
)
def test_two_layers(T, L, window, nu, mu, m):
    """Local means of the drawn tokens, then softmax of their scores: vectors, not weights, are pooled."""
    rows = []
    for i in range(TRIALS):
        X, q, _, _ = draw_tokens(np.random.default_rng([2, i]), Setting("span", T, L), d=D, n=N, mu=mu, nu=nu, m=m)
        means = np.stack([X[:, j : j + window].mean(axis=1) for j in range(T - window + 1)], axis=1)
        a = np.exp(nu * m * window * (means @ q))
        rows.append(top_pair(np.einsum("nj,njd->nd", a / a.sum(axis=1, keepdims=True), means), q))
    check_pair(model_of(Setting("span", T, L), mu=mu, nu=nu, overlap=m, window=window), rows)


def test_two_layers_of_scattered_tokens():
    """Relevant tokens are drawn anywhere, not next to each other, also where a window looks at neighbours."""
    setting, rows = Setting("scattered", 16, 3), []
    for i in range(TRIALS):
        X, q, _, _ = draw_tokens(np.random.default_rng([6, i]), setting, d=D, n=N, mu=1.6, nu=1.2)
        means = np.stack([X[:, j : j + 3].mean(axis=1) for j in range(14)], axis=1)
        a = np.exp(1.5 * (means @ q))
        rows.append(top_pair(np.einsum("nj,njd->nd", a / a.sum(axis=1, keepdims=True), means), q))
    check_pair(model_of(setting, mu=1.6, nu=1.2, window=3, beta=1.5), rows)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


STACKS = [
    ({"beta": 0.5}, 1.5, 2.0, 1.0),
    ({"beta": 0.4, "residual": 0.3, "causal": True}, 1.8, 2.0, 1.0),
    ({"beta": 0.3, "layers": 2, "residual": 0.5}, 1.5, 2.0, 0.8),
    ({"beta": 0.5, "layers": 2, "residual": 0.6, "pool": "query"}, 1.8, 1.5, 1.0),
    ({"beta": 0.3, "layers": 3, "residual": 0.4, "causal": True, "pool": "last"}, 2.6, 1.8, 1.0),
    ({"beta": 0.7, "layers": 1, "residual": 0.2, "pool": "last"}, 3.0, 1.8, 0.9),
]


@pytest.mark.parametrize(("stack", "mu", "nu", "m"), STACKS)
def test_stacks_of_self_attention(stack, mu, nu, m):
    """Whole vectors go through the layers; alignment off q, and the eigenvalue along q where it is left in."""
    setting = Setting("scattered", 14, 3)
    rho, causal = stack.get("residual", 0.0), stack.get("causal", False)
    rows, along = [], []
    for i in range(TRIALS):
        X, q, _, _ = draw_tokens(np.random.default_rng([3, i]), setting, d=D, n=N, mu=mu, nu=nu, m=m)
        for _ in range(stack.get("layers", 1)):
            h = X @ q
            S = stack["beta"] * h[:, :, None] * h[:, None, :]
            S = np.where(np.arange(14)[None, :] > np.arange(14)[:, None], -np.inf, S) if causal else S
            X = rho * X + (1 - rho) * softmax(S) @ X
        pool = stack.get("pool", "mean")
        C = X.mean(axis=1) if pool == "mean" else X[:, -1]
        C = np.einsum("nt,ntd->nd", softmax(stack["beta"] * (X @ q)), X) if pool == "query" else C
        rows.append(top_pair(C, q))
        values, vectors = np.linalg.eigh(np.cov(C.T, bias=True))
        along.append(values[np.argmax((q @ vectors) ** 2)])
    p = check_pair(model_of(setting, mu=mu, nu=nu, overlap=m, kernel=sp.self_attention(**stack)), rows)
    mean, error = mean_and_error(along)
    assert p.query is not None
    assert abs(p.query.eigenvalue - mean) <= 0.06 * mean + 3 * error, (p.query.eigenvalue, mean, error)


@pytest.mark.parametrize(
    ("overlap", "pool", "layers", "rho", "setting", "nu"),
    [
        ((0.7, 0.5), "mean", 1, 0.0, Setting("scattered", 14, 3), 2.0),
        ((0.6, -0.4), "last", 1, 0.0, Setting("scattered", 14, 3), 2.0),
        ((0.2, 0.9), "mean", 1, 0.0, Setting("scattered", 14, 3), 2.0),
        ((0.5, 0.6), "mean", 2, 0.5, Setting("scattered", 12, 3), 1.8),
        ((0.9, 0.1), "mean", 1, 0.3, Setting("span", 16, 4), 1.5),
        ((0.4, 0.7), "mean", 3, 0.6, Setting("scattered", 10, 2), 2.2),
    ],
)
def test_several_score_directions(overlap, pool, layers, rho, setting, nu):
    """Two orthonormal directions and scores h_t'M h_s; the largest eigenvalue along their span."""
    M = np.array([[0.3, 0.4], [0.1, 0.3]])
    mu = 1.6 if pool == "mean" else 3.0
    rows, along = [], []
    for i in range(TRIALS):
        X, _, _, _ = draw_tokens(np.random.default_rng([4, i]), setting, d=D, n=N, mu=mu, nu=nu)
        Q = directions(overlap)
        for _ in range(layers):
            h = X @ Q
            X = rho * X + (1 - rho) * softmax(np.einsum("ntp,pq,nsq->nts", h, M, h)) @ X
        C = X.mean(axis=1) if pool == "mean" else X[:, -1]
        values, vectors = np.linalg.eigh(np.cov(C.T, bias=True))
        along.append(values[np.argmax(((Q.T @ vectors) ** 2).sum(axis=0))])
        off = np.cov((C - (C @ Q) @ Q.T).T, bias=True)
        values, vectors = np.linalg.eigh(off)
        rows.append((values[-1], vectors[0, -1] ** 2))
    kernel = sp.self_attention(M, pool=pool, layers=layers, residual=rho)
    p = check_pair(model_of(setting, mu=mu, nu=nu, overlap=overlap, kernel=kernel), rows)
    mean, error = mean_and_error(along)
    assert p.query is not None
    assert abs(p.query.eigenvalue - mean) <= 0.06 * mean + 3 * error, (p.query.eigenvalue, mean, error)


def directions(overlap):
    """Orthonormal q_1, q_2 (d, 2) with these overlaps with k = e_2, orthogonal to u = e_1."""
    a, b = overlap
    Q = np.zeros((D, 2))
    Q[1] = a, b
    Q[2, 0] = np.sqrt(1 - a**2)
    Q[2, 1] = -a * b / Q[2, 0]
    Q[3, 1] = np.sqrt(1 - b**2 - Q[2, 1] ** 2)
    return Q


def coloured(rng, values, setting, *, n, mu, nu, m, matched):
    """Tokens with noise diag(values), the unit-noise query and u orthogonal to it.

    The directions have entries of equal size whose signs are random in pairs of neighbouring variances: v'f(S)v is the
    mean of f, which is the statement of the theory, without the scatter of directions at random.
    """
    d = len(values)
    pair = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]])
    u, q, g = np.concatenate([pair * rng.choice([-1.0, 1.0], 4) for _ in range(d // 4)], axis=1) / np.sqrt(d)
    k = m * q + np.sqrt(1 - m**2) * g
    query = q / values if matched else q
    query = query / np.sqrt(np.sum(values * query**2))
    basis = np.linalg.qr(np.column_stack([k, query]))[0]
    u = u - basis @ (basis.T @ u)
    u /= np.linalg.norm(u)
    r, xi = draw_relevance(rng, setting, n), rng.choice([-1.0, 1.0], n)
    X = rng.standard_normal((n, setting.T, d)) * np.sqrt(values)
    X += (mu * xi[:, None] * r)[..., None] * u + (nu * r)[..., None] * k
    return X, query, u


SPECTRA = {
    "two": np.repeat([1.6, 0.4], D // 2),
    "uniform": np.linspace(0.2, 1.8, D),
    "root": 1 / np.sqrt(np.arange(1, D + 1)) / np.mean(1 / np.sqrt(np.arange(1, D + 1))),
}


@pytest.mark.parametrize(
    ("spectrum", "matched", "mu", "nu", "m"),
    [
        ("two", False, 1.7, 1.5, 1.0),
        ("two", True, 1.3, 1.2, 1.0),
        ("two", True, 1.5, 2.0, 0.7),
        ("uniform", False, 1.7, 1.5, 0.8),
        ("uniform", True, 1.5, 1.2, 1.0),
        ("root", True, 2.5, 1.2, 1.0),
    ],
)
def test_coloured_noise(spectrum, matched, mu, nu, m):
    """Pooled vectors regressed on their scores, and PCA of whitened tokens turned back to token space."""
    values, setting = SPECTRA[spectrum], Setting("scattered", 12, 2)
    model = model_of(setting, mu=mu, nu=nu, overlap=m, noise=values, matched=matched, kernel="sigmoid")
    s = model.strength
    rows, whitened = [], []
    for i in range(TRIALS):
        rng = np.random.default_rng([5, i])
        X, q, u = coloured(rng, values, setting, n=N, mu=mu, nu=nu, m=m, matched=matched)
        w = 1 / (1 + np.exp(-s * (X @ q - s / 2)) * 10 / 2)
        w /= w.sum(axis=1, keepdims=True)
        C = np.einsum("nt,ntd->nd", w, X)
        C -= C.mean(axis=0)
        f = C @ q
        rest = C - np.outer(f, f @ C / (f @ f))
        top, vectors = np.linalg.eigh(rest.T @ rest / N)
        rows.append((top[-1], (u @ vectors[:, -1]) ** 2))
        white = rest / np.sqrt(values)
        direction = np.linalg.eigh(white.T @ white)[1][:, -1] * np.sqrt(values)
        whitened.append((u @ direction) ** 2 / (direction @ direction))
    p = model.predict()
    mean, error = mean_and_error(rows)
    assert abs(p.alignment - mean[1]) <= bias(mu, p.mu_sample) + 3 * error[1], (p.alignment, mean, error)
    assert abs(p.eigenvalue - mean[0]) <= 0.08 * p.eigenvalue + 3 * error[0], (p.eigenvalue, mean, error)
    white = model.whitened()
    predicted = model.token_alignment(white.predict().alignment)
    mean, error = mean_and_error(whitened)
    assert abs(predicted - mean) <= bias(white.mu, white.predict().mu_sample) + 3 * error


@pytest.mark.parametrize("V", [None, 200])
def test_scores_that_say_nothing_leave_one_token_at_any_place(V):
    """At nu = 0 and L = 1 every unit vector is a top eigenvector of R = I/T: one token is relevant in one of T rows."""
    model = sp.QueryModel(d=60, N=600, T=5, L=1, mu=3.0, nu=0.0, kernel="optimal", V=V)
    p, s = model.predict(), model.simulate(trials=10, rng=0).alignment
    assert p.alpha / p.kappa == pytest.approx(1 / 5, rel=0.1)
    assert p.alignment == pytest.approx(s.mean(), abs=3 * s.std() / np.sqrt(10) + 0.01)


def test_relevant_tokens_without_weight_in_a_vocabulary():
    model = sp.QueryModel(
        d=60, N=600, T=5, L=2, mu=3.0, nu=30.0, kernel=lambda h: (h < 5) * 1.0, normalize=False, V=200
    )
    p = model.predict()
    assert p.alpha == 0
    assert p.alignment == 0
