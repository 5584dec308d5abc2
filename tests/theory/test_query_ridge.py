"""Ridge on vectors pooled by a query, against ridge on drawn tokens."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from content_oracle import Setting, draw_tokens, mean_and_error
from spikepool.theory.query_ridge import ridge_numbers

CELLS = [
    (Setting("scattered", 10, 2), 1.0, 1.2, 1.0, "softmax", 0.8, 300, 0.1),
    (Setting("scattered", 10, 2), 1.0, 1.2, 0.7, "softmax", 0.5, 90, 0.05),
    (Setting("scattered", 10, 3), 0.7, 1.5, 1.0, "sigmoid", 1.5, 400, 1.0),
    (Setting("span", 12, 3), 1.2, 0.8, 1.0, "sigmoid", 0.8, 150, 0.01),
    (Setting("chain", 10, 3, 3.0), 0.9, 1.0, 1.0, "softmax", 0.0, 250, 0.3),
    (Setting("scattered", 12, 1), 2.0, 2.0, 0.9, "softmax", 1.8, 200, 0.5),
]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("setting", "mu", "nu", "m", "kernel", "beta", "n", "ridge"), CELLS)
def test_ridge_on_drawn_tokens(setting, mu, nu, m, kernel, beta, n, ridge):
    """Accuracy on 2,000 new sequences and squared cosine with u: 3 standard errors, and 1/d."""
    d, T, L, s = 80, setting.T, setting.L, nu * m
    rows = []

    def pooled(rng, count):
        X, q, y, _ = draw_tokens(rng, setting, d=d, n=count, mu=mu, nu=nu, m=m)
        h = X @ q
        w = np.exp(beta * h) if kernel == "softmax" else 1 / (1 + np.exp(-beta * (h - s / 2)) * (T - L) / L)
        C = np.einsum("nt,ntd->nd", w / w.sum(axis=1, keepdims=True), X)
        return C - np.outer(C @ q, q), y

    for i in range(16):
        rng = np.random.default_rng([7, i])
        C, y = pooled(rng, n)
        centre = C.mean(axis=0)
        b = np.linalg.solve((C - centre).T @ (C - centre) / n + ridge * np.eye(d), (C - centre).T @ y / n)
        new, label = pooled(rng, 2000)
        rows.append((np.mean(np.sign((new - centre) @ b) == label), b[0] ** 2 / (b @ b)))
    mean, error = mean_and_error(rows)
    fields = {"run": setting.run, "relevance": setting.kind, "kernel": kernel, "beta": beta, "overlap": m}
    model = sp.QueryModel(d=d, N=500, T=T, L=L, mu=mu, nu=nu, **fields)
    found = ridge_numbers(model, ridge, n)
    assert np.all(np.abs(np.array(found) - mean) <= [0.006, 0.0125] + 3 * error), (found, mean, error)
    assert model.ridge_accuracy(ridge, n) == found[0]


def test_limits_of_the_accuracy():
    """No signal: one half. Many sequences: the sign of u·c, E Phi(mu A/sqrt(kappa)); more sequences never hurt."""
    model = sp.QueryModel(d=60, N=300, T=8, L=2, mu=1.0, nu=1.5)
    assert model.replace(mu=0.0).ridge_accuracy() == pytest.approx(0.5)
    accuracies = [model.ridge_accuracy(0.1, n) for n in (60, 240, 960, 10**7)]
    assert np.all(np.diff(accuracies) > 0)
    rng = np.random.default_rng(1)
    r = np.zeros((200_000, 8))
    r[:, :2] = 1
    w = np.exp(model.slope * (rng.standard_normal(r.shape) + 1.5 * r))
    w /= w.sum(axis=1, keepdims=True)
    signs = np.sign((w * r).sum(axis=1) + np.sqrt((w**2).sum(axis=1)) * rng.standard_normal(len(w)))
    assert accuracies[-1] == pytest.approx(np.mean(signs > 0), abs=0.005)


def test_bad_input_is_refused():
    model = sp.QueryModel(d=60, N=300, T=8, L=2, mu=1.0, nu=1.5)
    with pytest.raises(sp.DomainError):
        model.ridge_accuracy(0.0)
    with pytest.raises(sp.InvalidInputError, match="never repeat"):
        model.replace(V=400).ridge_accuracy()
