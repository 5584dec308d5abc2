"""Signal only where it is one: frequent tokens, unequal usage and unequal variances are not."""

import numpy as np
import pytest
from scipy.stats import kstest, norm
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import spikepool as sp
from spikepool.trust.bulk_fit import edge_factor, fit_bulk
from spikepool.trust.falling import falling_level
from spikepool.trust.memory_rows import MemoryRows, spectrum
from spikepool.trust.regimes import (
    counts_tokens,
    equal_variances_level,
    joint_skewness_level,
    read_isotropic,
    vocabulary_level,
)

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


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTROLS)
def test_noise_that_is_not_isotropic_is_no_signal(name):
    for seed in range(3):
        report = sp.diagnose(CONTROLS[name](np.random.default_rng(seed)))
        assert report.verdict != "signal"
        assert report.outliers == ()  # no alignment that the verdict disowns
        assert "alignment" not in str(report)


def test_pooled_noise_of_unequal_variances_is_no_signal():
    """Tokens whose coordinates have variances of .4 to 2.2, vocabulary and weights given."""
    d, V, N, T = 210, 340, 410, 10
    factor, signals = edge_factor(np.full(T, 1 / T), d, V, N), 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        table = rng.standard_normal((V, d)) * np.sqrt(rng.uniform(0.4, 2.2, d))
        rows = MemoryRows(table[rng.integers(0, V, (N, T))].mean(axis=1))
        signals += read_isotropic(rows, d / V, factor).verdict == "signal"
    assert signals <= 1


def test_the_spread_of_the_bulk_scatters_as_stated_under_the_vocabulary():
    """Levels of pooled noise are those of a standard normal, up to a finite-size mean of half a deviation."""
    levels = []
    for seed in range(40):
        x = pooled_noise(np.random.default_rng(seed), 100, 300, 400, 20, np.ones(300))
        values = spectrum(x - x.mean(axis=0))[0]
        levels.append(vocabulary_level(fit_bulk(values, 100 / 399, 100 / 300), values))
    z = norm.isf(levels)
    assert abs(z.mean()) < 0.5 + 3 / np.sqrt(40)
    assert 0.7 < z.std() < 1.4


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


def test_words_on_both_sides_of_the_edge_are_seen_together():
    """One of several equal words beyond the edge is hardly skewed; what it shares with those inside is."""
    rng = np.random.default_rng(3)
    counts = rng.binomial(6, 0.02, size=(400, 5)) * 1.0
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    mixed = (counts - counts.mean(axis=0)) @ turn
    assert joint_skewness_level(mixed[:, :3], 2) < 1e-4
    # skewed components inside, and a latent that is independent of them
    apart = np.column_stack([rng.standard_normal(2000), rng.exponential(size=(2000, 2))])
    assert joint_skewness_level(apart, 2) > 0.01
    assert joint_skewness_level(apart) < 1e-6
    assert not counts_tokens(apart, 2)


@pytest.mark.slow
def test_five_equal_words_are_no_signal():
    verdicts = []
    for seed in (43, 46, 60, 81, 123, 155):  # draws of which the outliers alone looked like a signal
        x = pooled_noise(np.random.default_rng([17, seed]), 64, 1000, 400, 6, frequent(1000, 5, 0.1 / 0.9 * 995 / 5))
        verdicts.append(sp.diagnose(x).verdict)
    assert verdicts.count("signal") <= 1


@pytest.mark.slow
def test_variances_that_fall_smoothly_are_no_signal():
    falling = np.arange(1.0, 61) ** -0.25
    verdicts = [
        sp.diagnose(np.random.default_rng(seed).standard_normal((400, 60)) * falling).verdict for seed in range(6)
    ]
    assert verdicts.count("signal") <= 1
    linear = sp.diagnose(np.random.default_rng(0).standard_normal((400, 60)) * np.linspace(3, 0.3, 60))
    assert linear.verdict == "coloured"
    assert "unequal variances may have the same bulk" in str(linear)


class TestFewFeatures:
    """A vocabulary fitted to a few eigenvalues explains any of them."""

    @pytest.mark.slow
    def test_real_features_are_not_called_noise_or_signal(self):
        digits, iris = load_digits().images, load_iris().data
        for x in (digits.sum(axis=1), digits.sum(axis=2), iris, StandardScaler().fit_transform(load_wine().data)):
            assert sp.diagnose(x).verdict in ("coloured", "poor fit")

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "d"), [(60, 4), (300, 16), (3000, 8)])
    def test_equal_variances_are_noise(self, n, d):
        verdicts = [sp.diagnose(np.random.default_rng(s).standard_normal((n, d))).verdict for s in range(8)]
        assert verdicts.count("no signal") >= 7

    def test_level_is_uniform_under_equal_variances(self):
        levels = []
        for seed in range(300):
            x = np.random.default_rng(seed).standard_normal((400, 6))
            levels.append(equal_variances_level(np.linalg.eigvalsh(np.cov(x.T, bias=True)), 400))
        assert kstest(levels, "uniform").pvalue > 0.001
        spread = np.random.default_rng(0).standard_normal((400, 6)) * np.array([1, 1, 1, 1, 1, 2.0])
        assert equal_variances_level(np.linalg.eigvalsh(np.cov(spread.T)), 400) < 1e-6


@pytest.mark.parametrize("m", [1, 6, 30])
def test_gaussian_scores_of_many_outliers_are_seldom_counts(m):
    """At a level of .01, 200 draws: at most six false ones, of which there are more with probability .004."""
    rng = np.random.default_rng(m)
    assert sum(counts_tokens(rng.standard_normal((300, m))) for _ in range(200)) <= 6


@pytest.mark.parametrize(("n", "d"), [(100, 6), (60, 4), (60, 8), (60, 400)])
def test_rows_of_the_model_are_not_refused(n, d):
    """Gaussian rows with variances 1/rank: at most one of five draws is."""
    verdicts = []
    for seed in range(5):
        x = np.random.default_rng(seed).standard_normal((n, d)) * np.arange(1.0, d + 1) ** -0.5
        verdicts.append(sp.diagnose(x, progress=False).verdict)
    assert verdicts.count("coloured") >= 4, verdicts


@pytest.mark.parametrize(("n", "d"), [(60, 400), (60, 120), (25, 1000)])
def test_few_rows_show_a_signal_and_not_falling_variances(n, d):
    """Each in twelve draws: a strong signal in all but two at most, unequal variances never."""
    verdicts = {"signal": [], "falling": []}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        noise, u = rng.standard_normal((n, d)), rng.standard_normal(d)
        latent = np.sqrt(9 * np.sqrt(d / n)) * rng.choice([-1.0, 1.0], n)
        signal = noise + np.outer(latent, u / np.linalg.norm(u))
        falling = noise * np.arange(1.0, d + 1) ** -0.25
        for name, x in (("signal", signal), ("falling", falling)):
            verdicts[name].append(read_isotropic(MemoryRows(x)).verdict)
    assert verdicts["signal"].count("signal") >= 10
    assert "signal" not in verdicts["falling"]


def test_a_signal_of_pooled_tokens_is_found_in_fewer_rows_than_features():
    """Without V: a strong signal in most of twelve draws; falling variances never, a frequent word in one at most."""
    model, w = sp.SequenceModel(300, 480, 150, sp.prefix_correlation(T=10, L=3), mu=3.0), sp.mean_weights(10)
    verdicts = {"signal": [], "falling": [], "word": []}
    for seed in range(12):
        rng = np.random.default_rng([5, seed])
        drawn = {
            "signal": model.sample(rng=seed).pooled(w).T,
            "falling": rng.standard_normal((150, 300)) * np.arange(1.0, 301) ** -0.25,
            "word": pooled_noise(rng, 300, 480, 150, 10, frequent(480, 1, 53)),
        }
        for name, x in drawn.items():
            verdicts[name].append(read_isotropic(MemoryRows(x)).verdict)
    assert verdicts["signal"].count("signal") >= 9
    assert "signal" not in verdicts["falling"]
    assert verdicts["word"].count("signal") <= 1


@pytest.mark.parametrize("shape", ["power", "lognormal"])
def test_level_of_falling_variances_is_small_for_a_gap_alone(shape):
    """Of twenty spectra of falling variances two at most at the level .05; all with a gap at .001."""
    n, d, levels, apart = 100, 200, [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        deviates = np.sort(rng.standard_normal(d))[::-1]
        variances = np.arange(1.0, d + 1) ** -0.5 if shape == "power" else np.exp(0.6 * deviates)
        x = rng.standard_normal((n, d)) * np.sqrt(variances)
        levels.append(falling_level(spectrum(x - x.mean(axis=0))[0], n, 3))
        x[:, 0] *= 8
        apart.append(falling_level(spectrum(x - x.mean(axis=0))[0], n, 1))
    assert np.sum(np.array(levels) < 0.05) <= 2
    assert max(apart) < 0.001


def test_outliers_leave_the_bulk_of_fewer_rows_and_dimensions():
    """Two strong spikes in 60 rows of 400: the rest is fitted as 58 rows of 398 with equal variances."""
    x = np.random.default_rng(0).standard_normal((61, 400))
    x[:, :2] *= 40
    fit = fit_bulk(spectrum(x - x.mean(axis=0))[0], 400 / 60)
    assert fit.n_outliers == 2
    assert fit.law.gamma == pytest.approx(398 / 58)
    assert fit.law.delta < 0.15
