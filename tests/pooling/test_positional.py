"""Positional moments, shrinkage, weights and the decision, against slow definitions."""

from itertools import combinations

import numpy as np
import pytest

import spikepool as sp
from spikepool.data import tokens as token_data
from spikepool.data.tokens import TokenForm, TokenInput, relative_labels
from spikepool.pooling import positional
from spikepool.pooling.positional import N_FOLDS, PositionalGram, best_nonnegative, leading_gram, shrink
from spikepool.pooling.positional_gain import Antisymmetry, antisymmetry, weigh
from spikepool.pooling.spectral import ProbeRows, probe_stride

OFF = ~np.eye(10, dtype=bool)


def tokens(model, seed):
    """Tokens of a draw, centred by position, and the labels of positions."""
    sample = model.sample(rng=seed)
    x = sample.table.T[sample.tokens]
    return x - x.mean(axis=0), np.tile(np.arange(model.T), (model.N, 1))


@pytest.mark.parametrize("bins", [None, 3])
def test_sums_within_directions_equal_the_definition(bins):
    """Loops over rows and pairs of different tokens."""
    rng = np.random.default_rng(0)
    x, observed = rng.normal(size=(7, 5, 4)), rng.random((7, 5)) > 0.3
    x[~observed] = 0.0
    labels = np.tile(np.arange(5), (7, 1)) if bins is None else relative_labels(observed, bins)
    P = bins or 5
    U = np.linalg.qr(rng.normal(size=(4, 2)))[0]
    member = (labels[..., None] == np.arange(P)) * observed[..., None].astype(float)
    sums, pairs, signal = positional._products_within(U, x, member)
    slow, count = np.zeros((P, P)), np.zeros((P, P))
    for row, seen, label in zip(x @ U, observed, labels, strict=True):
        for t, s in np.argwhere(np.outer(seen, seen) & ~np.eye(5, dtype=bool)):
            slow[label[t], label[s]] += row[t] @ row[s]
            count[label[t], label[s]] += 1
    np.testing.assert_allclose(sums, slow, atol=1e-12)
    np.testing.assert_array_equal(pairs, count)
    along, total = (np.sum((x[observed] @ V) ** 2) / observed.sum() for V in (U, np.eye(4)))
    assert signal == pytest.approx((along - total / 2) / (1 - 1 / 2))


def test_leading_directions_by_iteration_are_the_exact_ones(monkeypatch):
    rng = np.random.default_rng(0)
    M = rng.normal(size=(60, 60))
    M = M + M.T + 40 * np.diag(np.r_[1.0, 0.8, np.zeros(58)])
    exact = positional._leading(M)
    monkeypatch.setattr(positional, "DENSE_FEATURES", 10)
    found = positional._leading(M)
    assert found.shape == exact.shape == (60, 2)
    np.testing.assert_allclose(found @ found.T, exact @ exact.T, atol=1e-5)


def test_gram_is_the_correlation_times_the_signal():
    model = sp.SequenceModel(d=40, V=400, N=4000, R=sp.markov_correlation(10, 0.6), mu=3.0, table="class_centered")
    x, labels = tokens(model, 1)
    gram = leading_gram(x, np.ones(x.shape[:2], bool), labels, 10)
    G, _ = gram.average()
    # an entry of R is known to sqrt(1 + R²)/sqrt(N) <= .025, with the noise along the direction; five of them
    np.testing.assert_allclose(G[OFF] / gram.signal.mean(), model.R[OFF], atol=5 * 0.025)


def test_leading_directions_find_what_all_directions_drown():
    model = sp.SequenceModel(d=200, V=320, N=1000, R=sp.prefix_correlation(10, 3), mu=1.3)
    x, labels = tokens(model, 3)
    gram = leading_gram(x, np.ones((1000, 10), bool), labels, 10)
    alpha, kappa = sp.gains(best_nonnegative(shrink(gram).gram), model.R)
    assert alpha / kappa > 0.95 * 3
    # signal of a token within the direction: mu² + delta, less what the direction misses
    assert 0.5 * (1.3**2 + 0.625) < gram.signal.mean() < 1.4 * (1.3**2 + 0.625)


def exact_gram(G, pairs=1000.0):
    counts = np.where(~np.eye(len(G), dtype=bool), pairs, 0.0)
    return PositionalGram(np.stack([G * counts] * N_FOLDS), np.stack([counts] * N_FOLDS), np.ones(N_FOLDS))


def test_without_sampling_error_nothing_is_shrunk():
    R = sp.prefix_correlation(10, 3)
    np.testing.assert_allclose(shrink(exact_gram(R)).gram[OFF], R[OFF], atol=1e-12)


def test_pure_noise_is_shrunk_to_the_exchangeable_structure():
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(40):
        noise = rng.normal(size=(N_FOLDS, 10, 10))
        gram = exact_gram(np.zeros((10, 10)))
        noise = np.where(gram.pairs > 0, noise + noise.transpose(0, 2, 1), 0) * np.sqrt(1000)
        shrunk = shrink(PositionalGram(noise, gram.pairs, gram.signal))
        G = noise.sum(axis=0) / gram.pairs.sum(axis=0).clip(1)
        kept.append(np.std(shrunk.gram[OFF]) / np.std(G[OFF]))
    # the spread between entries is all sampling error: nearly nothing of it is left
    assert np.mean(kept) < 0.15


def test_unobserved_pairs_take_the_common_value():
    gram = exact_gram(np.full((4, 4), 0.3))
    sums, pairs = gram.sums.copy(), gram.pairs.copy()
    sums[:, 0, 3] = sums[:, 3, 0] = pairs[:, 0, 3] = pairs[:, 3, 0] = 0
    shrunk = shrink(PositionalGram(sums, pairs, gram.signal))
    assert shrunk.gram[0, 3] == pytest.approx(0.3)
    assert np.isinf(shrunk.error[0, 3])


@pytest.mark.parametrize("seed", range(30))
def test_nonnegative_weights_are_the_best_over_all_supports(seed):
    """The maximiser over w >= 0 is the top eigenvector of some principal block, positive there: try them all."""
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(5, 5))
    G = G + G.T
    np.fill_diagonal(G, 0.0)
    best = -np.inf
    for size in range(1, 6):
        for support in combinations(range(5), size):
            values, vectors = np.linalg.eigh(G[np.ix_(support, support)])
            v = vectors[:, -1]
            if (v >= 0).all() or (v <= 0).all():
                best = max(best, values[-1])
    w = best_nonnegative(G)
    assert w.min() >= 0
    assert w.sum() == pytest.approx(1)
    assert w @ G @ w / (w @ w) == pytest.approx(best, rel=1e-9)


def test_exchangeable_matrices_give_exactly_the_mean():
    for level in (0.4, 0.01, 0.0):
        np.testing.assert_allclose(best_nonnegative(np.full((7, 7), level)), 1 / 7, atol=1e-12)


def test_probe_keeps_evenly_spread_rows_whatever_the_blocks(monkeypatch):
    x = np.arange(1000, dtype=float)[:, None, None]
    form = TokenForm(1, 1, None)
    assert probe_stride(1000, form) == 1
    assert probe_stride(5_000_000, form) == 2442  # 2,048 rows
    assert probe_stride(1000, TokenForm(512, 4096, None)) == 8  # 128 rows, whatever their size
    for rows in (1000, 500, 13):
        monkeypatch.setattr(token_data, "BLOCK_BYTES", 8 * rows)
        whole = ProbeRows("error", 8)
        whole.read(TokenInput(x, None, form), show=False)
        np.testing.assert_array_equal(whole.rows()[0].ravel(), np.arange(0, 1000, 8))


def test_antisymmetric_energy_of_a_known_order():
    """x_2 = B x_1 with B a rotation by 90 degrees: C_12 = B' is wholly antisymmetric, energy 2·‖B‖² = 2d, share 1."""
    rng = np.random.default_rng(0)
    d, m = 6, 4000
    B = np.kron(np.eye(d // 2), [[0.0, -1.0], [1.0, 0.0]])
    first = rng.normal(size=(m, d))
    found = antisymmetry(np.stack([first, first @ B.T], axis=1))
    assert abs(found.energy - 2 * d) < 4 * found.error
    assert found.error < 1
    assert found.energy / found.whole == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("part", [0.0, 0.3, 0.5, 1.0])
def test_antisymmetric_share_is_that_of_the_matrix(part):
    """C_21 = B with a known antisymmetric part: its energy by definition, ‖(B − B')/2‖² over ‖B‖²."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(5, 5))
    symmetric, odd = (A + A.T) / np.linalg.norm(A + A.T), (A - A.T) / np.linalg.norm(A - A.T)
    B = np.sqrt(1 - part) * symmetric + np.sqrt(part) * odd
    assert np.linalg.norm((B - B.T) / 2) ** 2 == pytest.approx(part)  # ‖B‖ is one
    first = rng.normal(size=(6000, 5))
    found = antisymmetry(np.stack([first, first @ B.T], axis=1))
    assert found.energy / 2 == pytest.approx(part, abs=4 * found.error / 2)
    assert found.energy / found.whole == pytest.approx(part, abs=0.06)


@pytest.mark.slow
def test_antisymmetric_energy_of_a_shared_latent_is_zero():
    rng = np.random.default_rng(1)
    zs = []
    for _ in range(30):
        latent = rng.normal(size=(400, 1, 1))
        found = antisymmetry(2 * latent * np.eye(1, 60)[None] + rng.normal(size=(400, 4, 60)))
        zs.append(found.energy / found.error)
    assert abs(np.mean(zs)) < 4 / np.sqrt(30)
    assert np.std(zs) < 1.6  # the standard error is not too small


QUIET = Antisymmetry(0.0, 1e-6, 0.0)


def decide(R, asymmetry=QUIET, min_gain=0.02, noise=0.0):
    gram = exact_gram(R)
    scatter = noise * np.random.default_rng(0).standard_normal(gram.sums.shape) * gram.pairs
    sums = gram.sums + scatter + scatter.transpose(0, 2, 1)
    return weigh(PositionalGram(sums, gram.pairs, gram.signal), asymmetry, confidence=0.95, min_gain=min_gain)


def test_decision_accepts_clear_structure_and_reports_its_gain():
    evidence = decide(sp.prefix_correlation(10, 3))
    assert evidence.accepted
    assert evidence.gain == pytest.approx(3 / 1.6)
    np.testing.assert_allclose(evidence.correlation, sp.prefix_correlation(10, 3), atol=1e-12)
    np.testing.assert_allclose(evidence.weights, sp.optimal_weights(sp.prefix_correlation(10, 3)), atol=1e-9)


def test_decision_turns_down_order():
    """An antisymmetric share of a third is order, one of a twentieth is not, nor one that is not significant."""
    for asymmetry, accepted in (
        (Antisymmetry(0.45, 0.01, 1.0), False),
        (Antisymmetry(0.3, 0.01, 1.0), False),
        (Antisymmetry(0.05, 0.001, 1.0), True),
        (Antisymmetry(0.3, 0.15, 1.0), True),
    ):
        evidence = decide(sp.prefix_correlation(10, 3), asymmetry)
        assert evidence.accepted is accepted
        assert accepted or "order" in evidence.reason


def test_reasons_say_the_reason():
    """A gain that is significant but too small is not called insignificant."""
    R = sp.markov_correlation(10, 0.5)
    small = decide(R, min_gain=0.1)
    assert 1 < small.interval[0] < 1.1
    assert not small.accepted
    assert "significant but may be below the 1.1 that min_gain asks for" in small.reason
    assert "no significant" not in small.reason
    none = decide(np.eye(10), min_gain=0.1)
    assert none.interval[0] <= 1
    assert none.reason == "no significant gain over the mean"
    assert decide(R, min_gain=0.0).accepted


def test_decision_turns_down_what_gains_nothing():
    evidence = decide(sp.equicorrelation(10, 0.3))
    assert not evidence.accepted
    assert evidence.gain == pytest.approx(1.0)
    assert "gain" in evidence.reason


def test_gains_that_are_reported_are_not_those_of_lucky_draws():
    """Accepted because they are large: the closer to the bound, the more of a gain is taken for luck."""
    far = decide(sp.prefix_correlation(10, 3), min_gain=0.0, noise=0.3)
    plain = decide(sp.prefix_correlation(10, 3), min_gain=5.0, noise=0.3)
    lower = plain.interval[0] - 1
    near = decide(sp.prefix_correlation(10, 3), min_gain=0.98 * lower, noise=0.3)
    assert far.accepted
    assert near.accepted
    assert near.interval[0] <= far.interval[0]
    assert 1 <= near.interval[0] <= near.gain < near.interval[1]
    assert near.gain < far.gain < plain.gain + 1e-9


@pytest.mark.parametrize("n", [2, 3, 10, 29])
def test_a_handful_of_sequences_tells_no_positions_apart(n):
    """Of two sequences of noise nearly all draws had weights of their own, with a gain of three."""
    for seed in range(10):
        fitted = sp.SpectralPooling().fit(np.random.default_rng(seed).standard_normal((n, 16, 20)))
        assert fitted.decision_ == "mean"
        assert "too few" in fitted.reason_


def test_entries_beyond_single_precision_are_named():
    with pytest.raises(sp.DomainError, match="below"):
        sp.SpectralPooling().fit(1e60 * np.random.default_rng(0).standard_normal((50, 4, 5)))
