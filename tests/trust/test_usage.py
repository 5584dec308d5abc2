"""Token usage that explains a spectrum: Zipf noise is not a signal when V and weights are known; a signal is found."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.trust.usage import explaining_usage, pooled_spectrum

pytestmark = pytest.mark.filterwarnings("ignore::spikepool.trust.diagnosis.UncenteredWarning")

D, V, N, T = 80, 400, 300, 8
WEIGHTS = np.full(T, 1 / T)


def noise(exponent, seed, signal=0.0):
    """Pooled noise by a dense usage matrix, with or without a direction along which rows differ."""
    rng = np.random.default_rng(seed)
    f = np.arange(1.0, V + 1) ** -exponent
    tokens = rng.choice(V, size=(N, T), p=f / f.sum())
    usage = np.zeros((N, V))
    np.add.at(usage, (np.repeat(np.arange(N), T), tokens.ravel()), 1 / T)
    x = usage @ rng.standard_normal((V, D))
    return x + signal * rng.choice([-1.0, 1.0], size=(N, 1)) * np.eye(D)[0]


@pytest.mark.parametrize("exponent", [0.75, 1.25])
def test_zipf_noise_is_explained(exponent):
    report = sp.diagnose(noise(exponent, 0), V=V, weights=WEIGHTS)
    assert report.verdict == "no signal"
    assert "frequencies" in str(report)
    found = explaining_usage(report.eigenvalues, N, V, WEIGHTS, np.random.default_rng(1))
    assert found == pytest.approx(exponent, abs=0.26)


def test_a_signal_over_zipf_noise_is_not_explained_away():
    strong = noise(1.0, 1, signal=4.0)
    assert sp.diagnose(strong, V=V, weights=WEIGHTS).verdict != "no signal"


def test_unequal_variances_are_not_explained():
    x = np.random.default_rng(0).standard_normal((N, D)) * np.sqrt(4 / np.arange(1.0, D + 1) ** 2)
    values = np.linalg.eigvalsh(np.cov(x.T))[::-1]
    assert explaining_usage(values, N, V, WEIGHTS, np.random.default_rng(1)) is None


def test_drawn_spectrum_has_the_trace_of_pooled_noise():
    drawn = [pooled_spectrum(N, D, V, WEIGHTS, 0.0, np.random.default_rng(s)).sum() / D for s in range(6)]
    assert np.mean(drawn) == pytest.approx(1 / T, rel=0.03)
    assert len(pooled_spectrum(40, D, V, WEIGHTS, 0.0, np.random.default_rng(0))) == 40
