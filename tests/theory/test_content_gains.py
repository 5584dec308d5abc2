"""Closed gains of content attention against Monte Carlo of their definition, inside the range that they state."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import spikepool as sp
from content_oracle import Setting, draw_relevance, enumerate_posterior
from spikepool.theory import content_gains as gains


def scores(setting, s, n, seed):
    r = draw_relevance(np.random.default_rng([seed, 1]), setting, n)
    return r, np.random.default_rng([seed, 2]).standard_normal(r.shape) + s * r


def estimate(values, T, L):
    """Mean and standard error of T sum p²/L²."""
    x = values * T / L**2
    return x.mean(), x.std(ddof=1) / np.sqrt(len(x))


@pytest.mark.parametrize(
    ("s", "phi"), [(0.5, 0.1), (1.0, 0.3), (1.5, 0.05), (2.0, 0.2), (0.8, 0.5), (3.0, 0.1), (1.2, 0.02)]
)
def test_gate(s, phi):
    setting = Setting("scattered", 20, 1, None, (phi,) * 20)
    _, h = scores(setting, s, 60_000, 1)
    p = expit(s * h - s**2 / 2 + np.log(phi / (1 - phi)))
    mean, error = estimate((p**2).sum(axis=1), 20, 20 * phi)
    assert abs(gains.gate_gain(s, phi) - mean) <= 3 * error


def test_gate_limits():
    """e^{s²} for rare tokens, 1 where all are relevant, decreasing in between."""
    assert gains.gate_gain(0.9, 1e-9) == pytest.approx(np.exp(0.81), rel=1e-6)
    assert gains.gate_gain(0.9, 1.0) == pytest.approx(1.0)
    assert np.all(np.diff(gains.gate_gain(1.3, np.linspace(0.01, 1.0, 30))) < 0)
    with pytest.raises(sp.DomainError):
        gains.gate_gain(6.0, 0.1)


def span_squares(setting, s, n, seed):
    """Sum of p² of a span, by the sum over places."""
    _, h = scores(setting, s, n, seed)
    T, L = setting.T, setting.L
    total = np.stack([h[:, j : j + L].sum(axis=1) for j in range(T - L + 1)], axis=1)
    place = np.exp(s * (total - total.max(axis=1, keepdims=True)))
    place /= place.sum(axis=1, keepdims=True)
    p = np.stack([place[:, max(0, t - L + 1) : t + 1].sum(axis=1) for t in range(T)], axis=1)
    return (p**2).sum(axis=1)


@pytest.mark.parametrize(
    ("T", "L", "s"), [(600, 3, 0.5), (600, 2, 0.7), (400, 5, 0.3), (800, 4, 0.35), (500, 1, 1.0), (600, 6, 0.25)]
)
def test_dilute_span(T, L, s):
    """L e^{L s²} at most .02 T: 3 standard errors, 4 % for the density and 2 L/T for the ends."""
    assert L * np.exp(L * s**2) < 0.02 * T
    mean, error = estimate(span_squares(Setting("span", T, L), s, 6000, 2), T, L)
    formula = gains.span_gain_dilute(s, L)
    assert abs(formula - mean) <= 3 * error + (0.04 + 2 * L / T) * formula, (formula, mean, error)


@pytest.mark.parametrize(
    ("T", "L", "s"), [(20, 4, 0.7), (40, 2, 1.2), (40, 5, 0.5), (60, 3, 0.8), (100, 6, 0.5), (30, 3, 0.6)]
)
def test_blocks(T, L, s):
    """Blocks with known borders exactly; the span's gain lies below, by at most a fifth."""
    blocks, phi = 12, L / T
    rng = np.random.default_rng(3)
    r = rng.random((40_000, blocks)) < phi
    total = rng.standard_normal(r.shape) * np.sqrt(L) + s * L * r  # summed scores of a block
    p = expit(s * total - s**2 * L / 2 + np.log(phi / (1 - phi)))
    mean, error = estimate(L * (p**2).sum(axis=1), blocks * L, blocks * L * phi)
    formula = gains.block_gain(s, L, phi)
    assert abs(formula - mean) <= 3 * error
    span, error = estimate(span_squares(Setting("span", T, L), s, 20_000, 4), T, L)
    assert span - 3 * error <= formula <= 1.2 * span + 3 * error, (span, formula)


def chain_squares(setting, s, n, seed):
    """Sum of p² of a chain, by forward and backward messages in plain probabilities."""
    _, h = scores(setting, s, n, seed)
    phi, leave = setting.L / setting.T, 1 / setting.run
    P = np.array([[1 - phi / (1 - phi) * leave, phi / (1 - phi) * leave], [leave, 1 - leave]])
    like = np.stack([np.ones_like(h), np.exp(s * h - s**2 / 2)], axis=2)
    forward, backward = np.empty_like(like), np.ones_like(like)
    forward[:, 0] = like[:, 0] * [1 - phi, phi]
    for t in range(1, setting.T):
        forward[:, t] = forward[:, t - 1] @ P * like[:, t]
        forward[:, t] /= forward[:, t].sum(axis=1, keepdims=True)
    for t in reversed(range(setting.T - 1)):
        backward[:, t] = (like[:, t + 1] * backward[:, t + 1]) @ P.T
        backward[:, t] /= backward[:, t].sum(axis=1, keepdims=True)
    both = forward * backward
    return ((both[..., 1] / both.sum(axis=2)) ** 2).sum(axis=1)


@pytest.mark.parametrize(
    ("kind", "T", "L", "run", "s"),
    [
        ("span", 200, 3, None, 0.2),
        ("span", 300, 6, None, 0.12),
        ("span", 150, 2, None, 0.25),
        ("span", 250, 4, None, 0.18),
        ("span", 200, 8, None, 0.12),
        ("span", 120, 5, None, 0.2),
        ("chain", 150, 30, 3.0, 0.15),
        ("chain", 200, 20, 5.0, 0.12),
        ("chain", 100, 40, 4.0, 0.2),
        ("chain", 100, 10, 2.0, 0.2),
        ("chain", 120, 12, 4.0, 0.15),
        ("chain", 160, 48, 6.0, 0.12),
    ],
)
def test_weak_marks(kind, T, L, run, s):
    """The gain's excess over that of the prior to 12 % and 4 standard errors, for s² m_eff at most .2.

    A span covers the ends of a sequence less often, which is a gain of positions and not of content.
    """
    setting = Setting(kind, T, L, run)
    m_eff = gains.effective_neighbours_span(L) if kind == "span" else gains.effective_neighbours_chain(L / T, run)
    assert s**2 * m_eff <= 0.2
    squares = (span_squares if kind == "span" else chain_squares)(setting, s, 8000, 5)
    mean, error = estimate(squares, T, L)
    formula = gains.weak_gain(s, L / T, m_eff)
    ends = np.array([max(0, min(t, T - L) - max(0, t - L + 1) + 1) for t in range(T)]) / (T - L + 1)
    positions = T * np.sum(ends**2) / L**2 if kind == "span" else 1.0
    assert abs(formula - 1 - (mean - positions)) <= 0.12 * (formula - 1) + 3 * error, (formula, mean, error)
    model = sp.QueryModel(d=50, N=100, T=T, L=L, mu=1.0, nu=s, relevance=kind, run=run)
    assert gains.posterior_gain(model) == pytest.approx(mean, rel=0.02)


@pytest.mark.parametrize(
    ("prior", "s"),
    [
        (np.where(np.arange(12) < 3, 0.5, 0.1), 1.0),
        (0.4 * np.exp(-np.arange(20) / 4) + 0.01, 1.0),
        (0.3 * (1 - np.arange(15) / 15), 0.7),
        (0.05 * np.exp(-np.arange(30) / 8) + 0.003, 1.3),
        (np.full(10, 0.2), 1.5),
        (np.linspace(0.0, 0.9, 16), 0.8),
    ],
)
def test_positions_and_content(prior, s):
    """Weights pi, the gate of the mean prior at equal priors, and the gate with its own prior."""
    T, total = len(prior), prior.sum()
    found = gains.prior_gains(s, prior)
    assert found.position == pytest.approx(T * np.sum(prior**2) / total**2, rel=1e-12)
    assert found.position == pytest.approx(1 + np.var(prior) / np.mean(prior) ** 2)
    setting = Setting("scattered", T, 1, None, tuple(prior))
    _, h = scores(setting, s, 80_000, 6)
    with np.errstate(divide="ignore"):
        p = expit(s * h - s**2 / 2 + np.log(prior) - np.log1p(-prior))
    mean, error = estimate((p**2).sum(axis=1), T, total)
    assert abs(found.both - mean) <= 3 * error
    assert found.both <= found.position * gains.gate_gain(s, prior[prior > 0].min()) * (1 + 1e-9)
    assert found.content == pytest.approx(float(gains.gate_gain(s, prior.mean())))


@pytest.mark.parametrize(
    ("T", "L", "s"), [(9, 1, 1.4), (9, 2, 0.9), (10, 3, 1.3), (8, 4, 0.6), (12, 2, 2.0), (7, 5, 1.1)]
)
def test_exactly_L_of_T(T, L, s):
    """E sum p² T/L² of the posterior by enumeration of the places; that of the library is of 40,000 other draws."""
    setting = Setting("scattered", T, L)
    _, h = scores(setting, s, 20_000, 7)
    p = enumerate_posterior(setting, s * h - s**2 / 2)[1]
    mean, error = estimate((p**2).sum(axis=1), T, L)
    found = gains.posterior_gain(sp.QueryModel(d=50, N=100, T=T, L=L, mu=1.0, nu=s))
    assert abs(found - mean) <= 3 * np.sqrt(1.5) * error, (found, mean, error)
    assert 1 <= found <= T / L


@pytest.mark.parametrize(
    ("T", "L", "nu", "fields"),
    [
        (12, 2, 1.2, {}),
        (9, 1, 1.8, {}),
        (14, 5, 0.8, {}),
        (16, 3, 1.0, {"relevance": "span"}),
        (15, 4, 0.7, {"relevance": "chain", "run": 3.0}),
        (10, 2, 1.5, {"prior": np.linspace(0.05, 0.4, 10)}),
    ],
)
def test_no_kernel_is_above_the_posterior(T, L, nu, fields):
    """(E A)²/E kappa over the mean's, from scores drawn here, is at most the posterior's, up to Monte Carlo."""
    model = sp.QueryModel(d=50, N=2000, T=T, L=L, mu=0.0, nu=nu, **fields)
    prior = fields.get("prior")
    setting = Setting(model.relevance, T, L, fields.get("run"), None if prior is None else tuple(prior))
    r, h = scores(setting, nu, 20_000, 8)
    limit, phi = gains.posterior_gain(model), r.mean()
    for w in (
        np.exp(0.5 * nu * h),
        np.exp(nu * h),
        expit(nu * h - nu**2 / 2 + np.log(phi / (1 - phi))),
        1 + h * (h > 0),
    ):
        for weights in (w, w / w.sum(axis=1, keepdims=True)):
            A = (weights * r).sum(axis=1)
            ratio = A.mean() ** 2 / (weights**2).sum(axis=1).mean() / (T * phi**2)
            assert ratio <= limit * (1 + 6 * A.std() / A.mean() / np.sqrt(len(A))), (ratio, limit)
