"""Limits given the scores: their order, closed cases, and PCA of token pairs and message passing on drawn tokens."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import spikepool as sp
from content_oracle import Setting, configurations, draw_relevance, draw_tokens, enumerate_posterior, mean_and_error
from spikepool.theory.limits import column_alignment

DECAY = tuple(float(x) for x in 0.5 * np.exp(-np.arange(9) / 4) + 0.02)
SETTINGS = [
    (Setting("scattered", 9, 2), 1.2, 1.2, 1.0),
    (Setting("scattered", 12, 1), 2.0, 1.0, 1.0),
    (Setting("span", 18, 4), 0.9, 0.8, 1.0),
    (Setting("span", 12, 3), 1.3, 0.0, 1.0),
    (Setting("chain", 9, 3, 3.0), 0.8, 1.0, 0.8),
    (Setting("scattered", 9, 2, None, DECAY), 1.1, 1.3, 0.7),
]
D, N = 120, 480


def model_of(setting, **fields):
    relevance = {"run": setting.run, "prior": setting.prior, "relevance": setting.kind}
    return sp.QueryModel(**{"d": D, "N": N, "T": setting.T, "L": setting.L, **relevance, **fields})


def random_model(seed):
    rng = np.random.default_rng([8, seed])
    T = int(rng.integers(4, 16))
    L = int(rng.integers(1, max(2, T // 2)))
    kind = ["scattered", "span", "chain", "prior"][seed % 4]
    fields = {"d": 60, "N": int(rng.integers(60, 400)), "T": T, "L": L, "mu": float(rng.uniform(0.3, 2.5))}
    fields |= {"nu": float(rng.uniform(0, 2.5)), "overlap": float(rng.uniform(0.3, 1.0))}
    if kind == "prior":
        fields["prior"] = rng.uniform(0.01, 0.7, T)
    else:
        fields |= {"relevance": kind, "run": L / (T - L) + 1 + rng.exponential(2.0) if kind == "chain" else None}
    return sp.QueryModel(**fields)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_no_kernel_is_below_the_best_pooling(block):
    """mu_pairs <= mu_pooling <= the threshold of every kernel, in 50 random models; alignments in their order."""
    for seed in range(10 * block, 10 * block + 10):
        model = random_model(seed)
        limits = model.limits()
        assert limits.mu_pairs <= limits.mu_pooling <= limits.mu_mean * (1 + 1e-9)
        assert limits.alignment_pooling <= limits.alignment_pairs + 0.002
        assert limits.alignment_pairs <= limits.alignment_bayes
        kernels = [{"kernel": k} for k in ("softmax", "sigmoid", "linear", "posterior", "optimal")]
        kernels += [{"kernel": "softmax", "window": 2}, {"kernel": sp.self_attention(0.5)}]
        for kernel in kernels:
            threshold = model.replace(**kernel).predict().mu_sample
            assert limits.mu_pooling <= threshold * (1 + 1e-9), (seed, kernel, limits.mu_pooling, threshold)


def test_without_scores_the_limits_are_closed():
    """nu = 0, exactly L of T: R is one matrix, with eigenvalues L²/T and (L/T)(1 − L/T) T/(T − 1)."""
    T, L, gamma = 10, 3, 119 / 480
    limits = model_of(Setting("scattered", T, L), mu=1.3, nu=0.0).limits()
    first, rest = L**2 / T, L / T * (T - L) / (T - 1)
    assert limits.mu_mean == pytest.approx((gamma / first**2) ** 0.25, rel=1e-9)
    assert limits.mu_pooling == pytest.approx(limits.mu_mean, rel=1e-9)
    assert limits.mu_pairs == pytest.approx((gamma / (first**2 + (T - 1) * rest**2)) ** 0.25, rel=1e-9)


@pytest.mark.parametrize(("setting", "mu", "nu", "m"), SETTINGS)
def test_thresholds_by_enumeration(setting, mu, nu, m):
    """mu⁴ (N/d) E[lambda²] = 1 for the best pooling and mu⁴ (N/d) E[tr R²] = 1 for pairs, R of scores drawn here.

    Relative standard errors of a mean of squares count a quarter in a threshold; another seed of the library's own
    draws gives theirs.
    """
    n, s = 6000, nu * m
    rng = np.random.default_rng(5)
    r = draw_relevance(rng, setting, n)
    h = rng.standard_normal(r.shape) + s * r
    values = np.linalg.eigvalsh(enumerate_posterior(setting, s * h - s**2 / 2)[2])
    model = model_of(setting, mu=mu, nu=nu, overlap=m)
    found, again = model.limits(), model.limits(rng=1)
    for name, squares in (("mu_pooling", values[:, -1] ** 2), ("mu_pairs", (values**2).sum(axis=1))):
        expected = ((D - 1) / N / squares.mean()) ** 0.25
        error = expected / 4 * squares.std(ddof=1) / squares.mean() / np.sqrt(n)
        mine, other = getattr(found, name), getattr(again, name)
        assert abs(mine - expected) <= 3 * np.hypot(error, mine - other) + 1e-9, (name, mine, other, expected, error)


def test_one_kind_of_column_is_the_usual_spike():
    """All lambda equal: PCA of columns of one noise, (1 − g/t²)/(1 + g/t) at strength t = mu² lambda."""
    mu, value, gamma = 1.4, 0.8, 0.3
    t = mu**2 * value
    expected = (1 - gamma / t**2) / (1 + gamma / t)
    assert column_alignment(np.full((50, 1), value), mu, gamma) == pytest.approx(expected, rel=1e-9)
    assert column_alignment(np.full((50, 1), value), 0.5, gamma) == 0.0


@pytest.mark.slow
def test_the_kernel_optimal_reaches_the_best_pooling():
    for setting, mu, nu, m in SETTINGS:
        model = model_of(setting, mu=mu, nu=nu, overlap=m)
        found = model.replace(kernel="optimal").predict().alignment
        assert found == pytest.approx(model.limits().alignment_pooling, abs=0.004)


def test_limits_need_white_tokens_that_never_repeat():
    model = model_of(SETTINGS[0][0], mu=1.0, nu=1.0)
    with pytest.raises(sp.InvalidInputError, match="never repeat"):
        model.replace(V=500).limits()
    with pytest.raises(sp.InvalidInputError, match="white"):
        model.replace(noise=np.linspace(0.5, 1.5, D)).simulate(pairs=True)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("setting", "mu", "nu", "m"), SETTINGS)
def test_pairs_and_message_passing_on_drawn_tokens(setting, mu, nu, m):
    """PCA of sum E'Phi E with Phi by enumeration, and approximate message passing: 3 standard errors + .015."""
    model = model_of(setting, mu=mu, nu=nu, overlap=m)
    limits = model.limits()
    rows = []
    for i in range(12):
        X, q, _, _ = draw_tokens(np.random.default_rng([4, i]), setting, d=D, n=N, mu=mu, nu=nu, m=m)
        evidence = nu * m * (X @ q) - (nu * m) ** 2 / 2
        E = np.delete(X - (X @ q)[..., None] * q, [1, 2], axis=2)  # off q and k
        R = enumerate_posterior(setting, evidence)[2]
        Phi = R @ np.linalg.inv(np.eye(setting.T) + mu**2 * R)
        M = np.einsum("ntd,nte->de", np.einsum("nst,nsd->ntd", Phi, E), E, optimize=True)
        v = np.linalg.eigh(M)[1][:, -1]
        rows.append((v[0] ** 2, amp(setting, E, evidence, mu, v)))
    mean, error = mean_and_error(rows)
    bias = 0.015 + 1 / (D * ((mu / limits.mu_pairs - 1) ** 2 + D ** (-2 / 3)))
    assert abs(mean[0] - limits.alignment_pairs) <= bias + 3 * error[0], (limits, mean, error)
    assert abs(mean[1] - limits.alignment_bayes) <= bias + 3 * error[1], (limits, mean, error)
    ours = model.simulate(12, rng=0, pairs=True).alignment
    assert abs(ours.mean() - mean[0]) <= 4 * np.hypot(error[0], ours.std(ddof=1) / np.sqrt(12))


def amp(setting, E, evidence, mu, start, rounds=12):
    """Bayes-optimal message passing for tokens E = (mu/sqrt(d)) x U' + noise, x = xi r, from the spectral estimate."""
    rows, chance = configurations(setting)
    rows, log_chance = rows[chance > 0], np.log(chance[chance > 0])
    d = E.shape[2]
    U, x, spread = start * np.sqrt(d) * 0.9, np.zeros(E.shape[:2]), 0.1
    for _ in range(rounds):
        A = mu**2 / d * float(U @ U)
        field = mu / np.sqrt(d) * (E @ U) - mu**2 * spread * x
        signed = [(evidence + s * field - A / 2) @ rows.T + log_chance for s in (1, -1)]
        top = np.maximum(signed[0].max(axis=1), signed[1].max(axis=1))[:, None]
        plus, minus = np.exp(signed[0] - top), np.exp(signed[1] - top)
        total = (plus.sum(axis=1) + minus.sum(axis=1))[:, None]
        x, second = (plus - minus) @ rows / total, (plus + minus) @ rows / total
        A = mu**2 / d * float((x**2).sum())
        field = mu / np.sqrt(d) * np.einsum("ntd,nt->d", E, x) - mu**2 / d * float((second - x**2).sum()) * U
        U, spread = field / (1 + A), 1 / (1 + A)
    return U[0] ** 2 / (U @ U)


def test_the_oracle_gate_is_a_sigmoid():
    """Independent tokens: enumeration gives sigma(l + logit pi)."""
    setting = SETTINGS[-1][0]
    evidence = np.random.default_rng(0).standard_normal((5, 9))
    logit = np.log(DECAY) - np.log1p(-np.array(DECAY))
    np.testing.assert_allclose(enumerate_posterior(setting, evidence)[1], expit(evidence + logit), atol=1e-13)
