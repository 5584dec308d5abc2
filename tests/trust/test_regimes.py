"""Signal only where it is one: frequent tokens, unequal usage and unequal variances are not."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.trust.regimes import counts_tokens, edge_is_blurred, joint_skewness_level

pytestmark = pytest.mark.filterwarnings("ignore::spikepool.trust.diagnosis.UncenteredWarning")


def pooled_noise(rng, d, V, N, T, frequencies):
    tokens = rng.choice(V, size=(N, T), p=frequencies / frequencies.sum())
    usage = np.zeros((N, V))
    np.add.at(usage, (np.repeat(np.arange(N), T), tokens.ravel()), 1 / T)
    return usage @ rng.standard_normal((V, d))


def zipf(V, exponent):
    return np.arange(1.0, V + 1) ** -exponent


def frequent(V, count, factor):
    frequencies = np.ones(V)
    frequencies[:count] = factor
    return frequencies


CONTROLS = {
    "zipf 0.5": lambda rng: pooled_noise(rng, 120, 480, 400, 10, zipf(480, 0.5)),
    "zipf 1": lambda rng: pooled_noise(rng, 120, 480, 400, 10, zipf(480, 1.0)),
    "one frequent word": lambda rng: pooled_noise(rng, 120, 480, 400, 6, frequent(480, 1, 48)),
    "five frequent words": lambda rng: pooled_noise(rng, 120, 480, 400, 6, frequent(480, 5, 12)),
    "one token": lambda rng: pooled_noise(rng, 120, 480, 400, 1, np.ones(480)),
    "variances .2 to 5": lambda rng: rng.standard_normal((400, 120)) * np.sqrt(np.geomspace(0.2, 5, 120)),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_noise_that_is_not_isotropic_is_no_signal(name):
    for seed in range(3):
        report = sp.diagnose(CONTROLS[name](np.random.default_rng(seed)))
        assert report.verdict != "signal"
        assert report.outliers == ()  # no alignment that the verdict disowns
        assert "alignment" not in str(report)


def test_a_signal_stays_one():
    R = sp.prefix_correlation(T=10, L=3)
    model, w = sp.SequenceModel(200, 480, 500, R, 2.0), sp.mean_weights(10)
    verdicts = [sp.diagnose(model.sample(rng=seed).pooled(w).T).verdict for seed in range(6)]
    assert verdicts.count("signal") >= 5  # one in fifty is taken for a count by chance


def test_level_is_uniform_for_gaussian_scores_and_small_for_counts():
    rng = np.random.default_rng(0)
    levels = [joint_skewness_level(rng.standard_normal((400, 3))) for _ in range(200)]
    # for a uniform level the share below .1 is .1 ± .02
    assert 0.03 < np.mean(np.array(levels) < 0.1) < 0.19
    counts = rng.binomial(6, 0.1, size=(400, 2)) + 0.3 * rng.standard_normal((400, 2))
    assert joint_skewness_level(counts) < 1e-6
    assert counts_tokens(counts)
    assert not counts_tokens(rng.choice([-1.0, 1.0], size=(400, 1)))
    # the difference of two words is symmetric, and heavy-tailed
    assert counts_tokens((rng.binomial(6, 0.02, size=400) - rng.binomial(6, 0.02, size=400))[:, None] * 1.0)


def test_rotation_of_equal_directions_does_not_hide_counts():
    rng = np.random.default_rng(1)
    counts = rng.binomial(6, 0.1, size=(600, 2)) * 1.0
    counts -= counts.mean(axis=0)
    u, _, _ = np.linalg.svd(counts, full_matrices=False)
    turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    assert joint_skewness_level(u @ turn) == pytest.approx(joint_skewness_level(u), rel=1e-6)


def test_a_blurred_edge_is_seen():
    rng = np.random.default_rng(2)
    assert not edge_is_blurred(rng.standard_normal((500, 10)))
    assert edge_is_blurred(rng.exponential(size=(500, 10)))
