"""Predictions given the token usage against simulation of the model from its definition.

In each case tokens are drawn once and the table's noise many times: theory conditions on the tokens and averages over
the noise. Tolerance: 3 standard errors plus a finite-size bias of 1.5/d relative for eigenvalues and 6/d for alignments
(an isolated eigenvalue has a bias of order 1/d times the inverse of its distance to the bulk, at most a few here).
"""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from spikepool.theory.given_tokens import predict_tokens
from spikepool.world.frequencies import zipf_frequencies
from spikepool.world.tokens import draw_tokens

pytestmark = pytest.mark.statistical

TRIALS = 30


def pooled_covariance(rng, tokens, w, V, d, mu, u, s, root, *, centered, class_centered, latent=None):
    """S from the definition: a table, sequences of its columns, weighted means."""
    Z = root @ rng.standard_normal((d, V))
    if class_centered:
        for c in (-1, 1):
            Z[:, s == c] -= Z[:, s == c].mean(axis=1, keepdims=True)
    signal = mu * np.outer(u, s) if latent is None else 0.0
    E = Z + signal
    C = sum(w[t] * E[:, tokens[:, t]] for t in range(len(w)))
    if latent is not None:
        C = C + mu * np.outer(u, latent)
    if centered:
        C = C - C.mean(axis=1, keepdims=True)
    return C @ C.T / C.shape[1]


def check(p, eigenvalues, alignments, d, index=0, name=""):
    """Compare outlier `index` with simulated values."""
    found = p.outliers[index]
    for value, sample, bias in (
        (found.eigenvalue, eigenvalues, 1.5 / d * found.eigenvalue),
        (found.alignment, alignments, 6 / d),
    ):
        error = sample.std(ddof=1) / np.sqrt(len(sample))
        print(f"{name}: predicted {value:.4f}, simulated {sample.mean():.4f} ± {error:.4f}, bias allowed {bias:.4f}")
        assert abs(value - sample.mean()) < 3 * error + bias


def simulate(rng, p, k, **arguments):
    u = arguments["u"]
    values, alignments = [], []
    for _ in range(TRIALS):
        S = pooled_covariance(rng, **arguments)
        w, v = np.linalg.eigh(S)
        values.append(w[::-1][:k])
        alignments.append((v[:, ::-1][:, :k].T @ u) ** 2)
    return np.array(values), np.array(alignments)


CASES = {
    "T = 1": {"T": 1, "L": 1, "weights": "mean", "mu": 2.2},
    "causal, T = 2": {"T": 2, "L": 2, "weights": "causal", "mu": 2.0},
    "causal, T = 5": {"T": 5, "L": 2, "weights": "causal", "mu": 1.8},
    "Zipf": {"T": 8, "L": 6, "weights": "mean", "mu": 2.5, "frequencies": 0.7},
    "anisotropic": {"T": 5, "L": 3, "weights": "causal", "mu": 2.0, "covariance": True},
    "direction": {"T": 5, "L": 3, "weights": "causal", "mu": 2.0, "covariance": True, "direction": True},
    "Zipf, anisotropic": {"T": 2, "L": 2, "weights": "causal", "mu": 4.0, "covariance": True, "frequencies": 0.7},
    "class-centred": {"T": 5, "L": 3, "weights": "causal", "mu": 2.0, "table": "class_centered"},
    "gaussian latent": {"T": 5, "L": 3, "weights": "causal", "mu": 2.0, "latent": "gaussian"},
    "more tokens than sequences": {"T": 4, "L": 3, "weights": "mean", "mu": 2.0, "V": 700, "N": 300},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_model_given_its_tokens(case):
    spec = CASES[case]
    d, V, N = 240, spec.get("V", 400), spec.get("N", 500)
    rng = np.random.default_rng(list(CASES).index(case))
    A = np.linspace(0.3, 1.7, d) if spec.get("covariance") else np.ones(d)
    u = rng.standard_normal(d)
    if spec.get("direction"):  # towards the noisier coordinates
        u *= np.linspace(0, 2, d)
    u /= np.linalg.norm(u)
    model = sp.SequenceModel(
        d,
        V,
        N,
        sp.prefix_correlation(spec["T"], spec["L"]),
        spec["mu"],
        table=spec.get("table", "sampled"),
        latent=spec.get("latent", "signs"),
        frequencies=zipf_frequencies(V, spec["frequencies"]) if "frequencies" in spec else None,
        covariance=A if spec.get("covariance") else None,
        direction=u if spec.get("direction") else None,
    )
    w = sp.mean_weights(spec["T"]) if spec["weights"] == "mean" else sp.causal_weights(spec["T"])
    p = model.predict(w, exact=True, rng=11)
    tokens, latent = draw_tokens(model, 11)
    assert p.outliers[0].kind == "signal"
    values, alignments = simulate(
        rng,
        p,
        1,
        tokens=tokens,
        w=w,
        V=V,
        d=d,
        mu=model.mu,
        u=u,
        s=model.signs,
        root=np.diag(np.sqrt(A)),
        centered=True,
        class_centered=model.table == "class_centered",
        latent=latent @ w if model.latent == "gaussian" else None,
    )
    check(p, values[:, 0], alignments[:, 0], d, name=case)


def test_mean_outlier_without_centring():
    d, V, N, T = 240, 400, 500, 10
    model = sp.SequenceModel(d, V, N, sp.prefix_correlation(T, 3), 3.0, centered=False)
    w = sp.mean_weights(T)
    p = model.predict(w, exact=True, rng=2)
    assert [o.kind for o in p.outliers[:2]] == ["signal", "mean"]
    tokens, _ = draw_tokens(model, 2)
    rng = np.random.default_rng(0)
    u = np.eye(d)[0]
    values, alignments = simulate(
        rng,
        p,
        2,
        tokens=tokens,
        w=w,
        V=V,
        d=d,
        mu=model.mu,
        u=u,
        s=model.signs,
        root=np.eye(d),
        centered=False,
        class_centered=False,
    )
    for k, name in enumerate(("signal", "mean")):
        check(p, values[:, k], alignments[:, k], d, index=k, name=name)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_corpus_with_unequal_classes(share):
    """Token ids of a made-up corpus: an odd vocabulary, classes of unequal size, uneven usage, any weights."""
    d, V, N, T, mu = 240, 401, 500, 6, 3.0
    rng = np.random.default_rng(8)
    s = np.where(rng.random(V) < share, 1, -1)
    likes = rng.random(N)[:, None]  # sequences differ in how often they use the first class
    plus, minus = np.flatnonzero(s == 1), np.flatnonzero(s == -1)
    tokens = np.where(rng.random((N, T)) < likes, rng.choice(plus, (N, T)), rng.choice(minus, (N, T)))
    w = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    p = predict_tokens(tokens, V=V, weights=w, signs=s, mu=mu, d=d)
    assert p.outliers[0].kind == "signal"
    u = np.eye(d)[0]
    values, alignments = simulate(
        rng,
        p,
        1,
        tokens=tokens,
        w=w,
        V=V,
        d=d,
        mu=mu,
        u=u,
        s=s,
        root=np.eye(d),
        centered=True,
        class_centered=False,
    )
    check(p, values[:, 0], alignments[:, 0], d, name=f"share {share}")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "T"), [("mean", 1), ("causal", 2), ("causal", 5)])
def test_spectrum_at_finite_length(name, T):
    """Kolmogorov–Smirnov distance of a spectrum at d = 2000 to the exact law, and to the free product law."""
    w = sp.mean_weights(T) if name == "mean" else sp.causal_weights(T)
    model = sp.SequenceModel(2000, 3200, 4000, np.eye(T), 0.0)
    p = model.predict(w, exact=True, rng=1)
    S = model.sample(rng=1).pooled(w)
    S -= S.mean(axis=1, keepdims=True)
    eigenvalues = np.linalg.eigvalsh(S @ S.T / model.N)

    def distance(law):
        n = len(eigenvalues)
        F = law.cdf(eigenvalues)
        return max(float((F - np.arange(n) / n).max()), float((np.arange(1, n + 1) / n - F).max()))

    exact, limit = distance(p.bulk), distance(model.predict(w).bulk)
    print(f"{name} T={T}: distance {exact:.4f} to the exact law, {limit:.4f} to the free product")
    assert exact < 0.004
    assert limit > 0.015


@pytest.mark.slow
def test_rank_two_with_spikes_of_noise_and_usage_and_error_that_shrinks():
    """Two signals, one isolated noise eigenvalue, one heavy token: outliers and overlaps, at two sizes."""
    from spikepool.theory.general_spikes import GeneralSpikes, Measure

    gaps = []
    for d, trials in ((300, 40), (900, 10)):
        rng = np.random.default_rng(3)
        V, N = int(1.6 * d), 2 * d
        a = np.concatenate([np.linspace(0.5, 1.5, d - 1), [7.0]])
        B = rng.standard_normal((V, N)) / np.sqrt(N)
        B[0] *= 4
        U = np.linalg.qr(np.column_stack([np.ones(d) / np.sqrt(d) + np.eye(d)[-1], np.eye(d)[0]]))[0]
        b = rng.standard_normal((N, 2)) / np.sqrt(N) * [3.0, 6.0]
        t, q = np.linalg.eigh(B @ B.T)
        inner = (q.T @ (B @ b)) / np.sqrt(t)[:, None]
        rest = np.linalg.cholesky(b.T @ b - inner.T @ inner + 1e-12 * np.eye(2)).T
        right = Measure(np.concatenate([t, [0.0, 0.0]]), np.vstack([inner, rest]))
        usage = sp.AtomicLaw(np.append(t[:-1], 0.0))
        bulk = sp.GeneralizedLaw(sp.AtomicLaw(a[:-1]), usage, (d - 1) / V)
        model = GeneralSpikes(bulk, Measure(a, U), right, noise_spikes=[7.0], usage_spikes=t[-1:])
        found = model.outliers()
        assert len(found) == 4
        values, overlaps = [], []
        for _ in range(trials):
            Y = np.sqrt(a)[:, None] * (rng.standard_normal((d, V)) @ B) / np.sqrt(V) + U @ b.T
            w, v = np.linalg.eigh(Y @ Y.T)
            values.append(w[::-1][:4])
            overlaps.append((v[:, ::-1][:, :4].T @ U) ** 2)
        values, overlaps = np.array(values), np.array(overlaps)
        for k, one in enumerate(found):
            error = values[:, k].std(ddof=1) / np.sqrt(trials)
            # neighbours repel, and a spike of one side has a share of about 7/d in the trace the other side sees
            assert abs(one.eigenvalue - values[:, k].mean()) < 3 * error + 15 / d * one.eigenvalue
            error = overlaps[:, k].std(axis=0, ddof=1) / np.sqrt(trials)
            # outliers at a distance D mix by variance/D², of order 27/d for the closest two here (24/d at d = 600)
            assert np.all(np.abs(one.overlaps - overlaps[:, k].mean(axis=0)) < 3 * error + 30 / d)
        gaps.append(np.abs([o.overlaps for o in found] - overlaps.mean(axis=0)).max())
    print(f"largest error of an overlap {gaps[0]:.4f} at d=300, {gaps[1]:.4f} at d=900")
    assert gaps[1] < 0.7 * gaps[0]
