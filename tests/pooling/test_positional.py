"""Positional moments, shrinkage, weights and the decision, against slow definitions."""

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
import pytest

import spikepool as sp
from spikepool.data.tokens import TokenBlock, label_block, relative_labels
from spikepool.kit.threads import threaded_map
from spikepool.pooling import positional
from spikepool.pooling import probe as _probe
from spikepool.pooling.cross_sums import CrossSums
from spikepool.pooling.positional import N_FOLDS, PositionalGram, PositionalMoments
from spikepool.pooling.positional_evidence import weigh
from spikepool.pooling.positional_weights import best_nonnegative, shrink
from spikepool.pooling.probe import Antisymmetry, DirectionalGram, ProbeRows, antisymmetry, directional_gram


def random_tokens(n=47, T=5, d=4, missing=0.3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, T, d)) + 3 * rng.normal(size=(T, d))  # large position means: centring must be exact
    observed = rng.random((n, T)) > missing
    observed[np.arange(n), rng.integers(T, size=n)] = True
    x[~observed] = 0.0
    return x, observed


def moments_of(x, observed, bins=None, cuts=()):
    P = x.shape[1] if bins is None else bins
    moments = PositionalMoments(P, x.shape[2])
    for part in np.split(np.arange(len(x)), cuts):
        moments.add(*label_block(TokenBlock(x[part], observed[part]), bins))
    return moments.finish()


def slow_gram(x, observed, labels, P):
    """Sums over pairs of different tokens by loops over rows and positions, straight from the definition."""
    n, T, d = x.shape
    means = np.stack([x[observed & (labels == p)].mean(axis=0) for p in range(P)])
    sums, pairs = np.zeros((N_FOLDS, P, P)), np.zeros((N_FOLDS, P, P))
    for i in range(n):
        for t in range(T):
            for s in range(T):
                if t != s and observed[i, t] and observed[i, s]:
                    a, b = labels[i, t], labels[i, s]
                    sums[i % N_FOLDS, a, b] += (x[i, t] - means[a]) @ (x[i, s] - means[b]) / d
                    pairs[i % N_FOLDS, a, b] += 1
    return sums, pairs, means


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("bins", [None, 3])
def test_moments_equal_the_definition(missing, bins):
    x, observed = random_tokens(missing=missing)
    labels = np.tile(np.arange(x.shape[1]), (len(x), 1)) if bins is None else relative_labels(observed, bins)
    sums, pairs, means = slow_gram(x, observed, labels, x.shape[1] if bins is None else bins)
    gram = moments_of(x, observed, bins)
    np.testing.assert_allclose(gram.sums, sums, atol=1e-11)
    np.testing.assert_array_equal(gram.pairs, pairs)
    np.testing.assert_allclose(gram.means, means, atol=1e-13)


def test_shards_give_the_sums_of_one_pass():
    x, observed = random_tokens()
    whole = moments_of(x, observed)
    for cuts in ([1], [10, 11, 30], list(range(1, 47))):
        parts = moments_of(x, observed, cuts=cuts)
        np.testing.assert_allclose(parts.sums, whole.sums, atol=1e-11)
        np.testing.assert_array_equal(parts.pairs, whole.pairs)


@pytest.mark.parametrize("slots", [0, 2, 100])
def test_sums_of_equal_rows_equal_the_definition(slots):
    rng = np.random.default_rng(0)
    c, Y, means = rng.integers(3, size=(40, 3)).astype(float), rng.normal(size=(3, 40, 4)), rng.normal(size=(3, 4))
    sums = CrossSums(3, 4, slots)
    for rows in np.split(np.arange(40), [1, 20]):
        sums.add(c[rows], Y[:, rows])
    np.testing.assert_allclose(sums.with_means(means), np.einsum("ns,tnd,sd->ts", c, Y, means), atol=1e-12)


@pytest.mark.parametrize("bins", [None, 3])
def test_tokens_looked_up_by_threads_give_the_sums_of_the_dense_block(bins):
    rng = np.random.default_rng(0)
    table, ids, observed = rng.normal(size=(50, 4)), rng.integers(50, size=(47, 5)), rng.random((47, 5)) > 0.3
    x = np.where(observed[..., None], table[ids], 0.0)
    block = TokenBlock(ids, observed, table)
    np.testing.assert_array_equal(block.dense(), x)
    np.testing.assert_array_equal(block.positions_first(slice(1, None, 3)), x[1::3].swapaxes(0, 1))
    assert block.positions_first().flags.c_contiguous  # products of positions need no copy
    moments = PositionalMoments(5 if bins is None else bins, 4)
    with ThreadPoolExecutor(3) as pool:
        moments.add(*label_block(block, bins), threaded_map(pool))
    alone = moments_of(x, observed, bins)
    np.testing.assert_array_equal(moments.finish().sums, alone.sums)
    np.testing.assert_array_equal(moments.finish().means, alone.means)


def test_expected_gram_is_the_correlation_times_the_signal():
    model = sp.SequenceModel(d=40, V=400, N=20_000, R=sp.markov_correlation(6, 0.6), mu=3.0, table="class_centered")
    sample = model.sample(rng=1)
    x = sample.table.T[sample.tokens]
    G, _ = moments_of(x, np.ones(x.shape[:2], bool)).average()
    off = ~np.eye(6, dtype=bool)
    # noise of an entry: sqrt((mu²+1)² + d)/(d sqrt(N)) <= .002; five of them
    np.testing.assert_allclose(G[off] * 40 / 9.0, model.R[off], atol=5 * 0.002 * 40 / 9)


def test_too_many_padded_positions_are_refused_before_memory_is_taken(monkeypatch):
    monkeypatch.setattr(positional, "CROSS_BYTES_LIMIT", 1000)
    x, observed = random_tokens()
    with pytest.raises(sp.MemoryBudgetError, match="relative"):
        moments_of(x, observed)


def exact_gram(G, pairs=1000.0):
    P = len(G)
    off = ~np.eye(P, dtype=bool)
    counts = np.where(off, pairs, 0.0)
    return PositionalGram(np.stack([G * counts] * N_FOLDS), np.stack([counts] * N_FOLDS), np.zeros((P, 1)), 1.0)


def test_without_sampling_error_nothing_is_shrunk():
    R = sp.prefix_correlation(6, 3)
    shrunk = shrink(exact_gram(R))
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose(shrunk.gram[off], R[off], atol=1e-12)
    assert shrunk.intensity < 1e-12


def test_pure_noise_is_shrunk_to_the_exchangeable_structure():
    rng = np.random.default_rng(0)
    intensities = []
    for _ in range(40):
        noise = rng.normal(size=(N_FOLDS, 8, 8))
        noise = noise + noise.transpose(0, 2, 1)
        gram = exact_gram(np.zeros((8, 8)))
        gram = PositionalGram(np.where(gram.pairs > 0, noise, 0) * np.sqrt(1000), gram.pairs, gram.means, 1.0)
        intensities.append(shrink(gram).intensity)
    # the spread between entries is all sampling error: it moves by nearly everything
    assert np.mean(intensities) > 0.85


def test_unobserved_pairs_take_the_common_value():
    gram = exact_gram(np.full((4, 4), 0.3))
    sums, pairs = gram.sums.copy(), gram.pairs.copy()
    sums[:, 0, 3] = sums[:, 3, 0] = pairs[:, 0, 3] = pairs[:, 3, 0] = 0
    shrunk = shrink(PositionalGram(sums, pairs, gram.means, 1.0))
    assert shrunk.gram[0, 3] == pytest.approx(0.3)
    assert np.isinf(shrunk.standard_error[0, 3])


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


def test_probe_keeps_evenly_spread_rows_whatever_the_shards():
    x = np.arange(1000, dtype=float)[:, None, None]
    observed = np.ones((1000, 1), dtype=bool)
    rows = []
    for cuts in ([], [1, 7, 500], list(range(3, 1000, 13))):
        probe = ProbeRows(1, 1)
        probe.limit = 64
        for part in np.split(np.arange(1000), cuts):
            probe.add(TokenBlock(x[part], observed[part]))
        rows.append(np.stack(probe.x).ravel())
    np.testing.assert_array_equal(rows[0], np.arange(0, 1000, 8))  # 125 rows, the next power of two below 2m
    np.testing.assert_array_equal(rows[1], rows[0])
    np.testing.assert_array_equal(rows[2], rows[0])


def test_antisymmetric_energy_of_a_known_order():
    """x_2 = B x_1 with B a rotation by 90 degrees: C_12 = B' is wholly antisymmetric, energy 2·‖B‖² = 2d, share 1."""
    rng = np.random.default_rng(0)
    d, m = 6, 4000
    B = np.kron(np.eye(d // 2), [[0.0, -1.0], [1.0, 0.0]])
    first = rng.normal(size=(m, d))
    found = antisymmetry(np.stack([first, first @ B.T], axis=1))
    assert abs(found.energy - 2 * d) < 4 * found.error
    assert found.error < 1
    assert found.share == pytest.approx(1.0, abs=0.05)


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
    assert found.share == pytest.approx(part, abs=0.06)


def test_antisymmetric_energy_of_a_shared_latent_is_zero():
    rng = np.random.default_rng(1)
    zs = []
    for _ in range(30):
        latent = rng.normal(size=(400, 1, 1))
        found = antisymmetry(2 * latent * np.eye(1, 60)[None] + rng.normal(size=(400, 4, 60)))
        zs.append(found.energy / found.error)
    assert abs(np.mean(zs)) < 4 / np.sqrt(30)
    assert np.std(zs) < 1.6  # the standard error is not too small


def test_directional_gram_finds_what_all_directions_drown():
    model = sp.SequenceModel(d=200, V=320, N=1000, R=sp.prefix_correlation(10, 3), mu=1.3)
    sample = model.sample(rng=3)
    x = sample.table.T[sample.tokens]
    x = x - x.mean(axis=0)
    labels = np.tile(np.arange(10), (1000, 1))
    found = directional_gram(x, np.ones((1000, 10), bool), labels, 10)
    w = best_nonnegative(shrink(found.gram).gram)
    alpha, kappa = sp.alpha_kappa(w, model.R)
    assert alpha / kappa > 0.95 * 3
    # signal of a token within the direction: mu² + delta, less what the direction misses
    assert 0.5 * (1.3**2 + 0.625) < found.signal < 1.4 * (1.3**2 + 0.625)


def test_directional_gram_declines_small_or_wide_data(monkeypatch):
    x = np.random.default_rng(0).normal(size=(12, 3, 2))
    labels = np.tile(np.arange(3), (12, 1))
    assert directional_gram(x, np.ones((12, 3), bool), labels, 3) is None
    monkeypatch.setattr(_probe, "MAX_FEATURES", 1)
    x = np.random.default_rng(0).normal(size=(100, 3, 2))
    assert directional_gram(x, np.ones((100, 3), bool), np.tile(np.arange(3), (100, 1)), 3) is None


QUIET = Antisymmetry(0.0, 1e-6, 0.0)


def test_decision_accepts_clear_structure_and_reports_its_gain():
    gram = exact_gram(sp.prefix_correlation(10, 3))
    evidence = weigh(gram, DirectionalGram(gram, 1.0, 6.0), QUIET, confidence=0.95, min_gain=0.02)
    assert evidence.accepted
    assert evidence.gain == pytest.approx(3 / 1.6)
    np.testing.assert_allclose(evidence.correlation, sp.prefix_correlation(10, 3), atol=1e-12)
    np.testing.assert_allclose(evidence.weights, sp.optimal_weights(sp.prefix_correlation(10, 3)), atol=1e-9)


def test_decision_turns_down_order():
    gram = exact_gram(sp.prefix_correlation(10, 3))
    order = Antisymmetry(5.0, 0.1, 0.45)
    evidence = weigh(gram, DirectionalGram(gram, 1.0, 6.0), order, confidence=0.95, min_gain=0.02)
    assert not evidence.accepted
    assert "order" in evidence.reason


def test_decision_turns_down_a_large_antisymmetric_share():
    """Small beside what weights could exploit, but a third of the whole: order all the same."""
    gram = exact_gram(sp.prefix_correlation(10, 3))
    for share, accepted in ((0.3, False), (0.05, True)):
        mixed = Antisymmetry(0.2, 0.01, share)
        evidence = weigh(gram, DirectionalGram(gram, 1.0, 6.0), mixed, confidence=0.95, min_gain=0.02)
        assert evidence.accepted is accepted
    uncertain = Antisymmetry(0.2, 0.2, 0.3)  # not significant
    assert weigh(gram, DirectionalGram(gram, 1.0, 6.0), uncertain, confidence=0.95, min_gain=0.02).accepted


def test_reasons_say_the_reason():
    """A gain that is significant but too small is not called insignificant."""
    R = sp.markov_correlation(10, 0.5)
    gram = exact_gram(R)
    small = weigh(gram, DirectionalGram(gram, 1.0, 6.0), QUIET, confidence=0.95, min_gain=0.1)
    assert 1 < small.interval[0] < 1.1
    assert not small.accepted
    assert "significant but may be below the 1.1 that min_gain asks for" in small.reason
    assert "no significant" not in small.reason
    none = weigh(exact_gram(np.eye(10)), None, QUIET, confidence=0.95, min_gain=0.1)
    assert none.interval[0] <= 1
    assert none.reason == "no significant gain over the mean"
    assert weigh(gram, DirectionalGram(gram, 1.0, 6.0), QUIET, confidence=0.95, min_gain=0.0).accepted


def test_decision_turns_down_what_gains_nothing():
    gram = exact_gram(sp.equicorrelation(10, 0.3))
    evidence = weigh(gram, DirectionalGram(gram, 1.0, 6.0), QUIET, confidence=0.95, min_gain=0.02)
    assert not evidence.accepted
    assert evidence.gain == pytest.approx(1.0)
    assert "gain" in evidence.reason


@pytest.mark.parametrize("n", [2, 3, 10, 29])
def test_a_handful_of_sequences_tells_no_positions_apart(n):
    """Of two sequences of noise nearly all draws had weights of their own, with a gain of three."""
    for seed in range(10):
        fitted = sp.SpectralPooling().fit(np.random.default_rng(seed).standard_normal((n, 16, 20)))
        assert fitted.decision_ == "mean"
        assert "too few" in fitted.evidence_.reason


def test_entries_beyond_single_precision_are_named():
    with pytest.raises(sp.DomainError, match="below"):
        sp.SpectralPooling().fit(1e60 * np.random.default_rng(0).standard_normal((50, 4, 5)))
