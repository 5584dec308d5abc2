"""The noise that `diagnose` states, and the edge it allows for short sequences, against pooled noise drawn by hand.

Nothing here comes from the library's world or laws: tables, tokens and pooling are a few lines of numpy.
"""

import warnings

import numpy as np
import pytest

import spikepool as sp
from spikepool.trust.bulk_fit import edge_factor
from spikepool.trust.diagnosis import UncenteredWarning

pytestmark = pytest.mark.statistical

DRAWS = 8


def pooled_noise(rng, d, V, n, w, sigma=1.0):
    """n rows: the weighted sum of len(w) uniform tokens, each a row of a table of independent normal numbers."""
    table = sigma * rng.standard_normal((V, d))
    return sum(weight * table[rng.integers(0, V, n)] for weight in w)


def spread_noise(rng, d, V, n):
    """The limit of many small weights: every row mixes the whole table with independent normal weights."""
    return rng.standard_normal((n, V)) @ rng.standard_normal((V, d)) / np.sqrt(V)


def largest(C):
    C = C - C.mean(axis=0)
    return np.linalg.eigvalsh(C.T @ C / len(C))[-1]


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.3, 2.0])
@pytest.mark.parametrize("w", [[0.5, 0.5], [0.4, 0.3, 0.2, 0.1], [0.1] * 10], ids=lambda w: f"T={len(w)}")
def test_the_variance_of_a_tokens_noise_is_found(w, sigma):
    """Measured bias: −1.6/d at d = 150, −1.2/d at d = 300, as if one or two eigenvalues were left out."""
    w = np.array(w)
    errors = []
    for d in (150, 300):
        found = []
        for seed in range(DRAWS):
            C = pooled_noise(np.random.default_rng(seed), d, int(1.6 * d), 2 * d, w, sigma)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UncenteredWarning)
                report = sp.diagnose(C, V=int(1.6 * d), weights=w)
            assert report.verdict == "no signal"
            found.append(report.noise_variance / sigma**2)
        error = np.std(found, ddof=1) / np.sqrt(DRAWS)
        assert abs(np.mean(found) - 1) < 3 * error + 2 / d
        errors.append(abs(np.mean(found) - 1))
    assert errors[1] < errors[0], "the error shrinks with size"


@pytest.mark.parametrize("T", [1, 2, 4])
def test_the_edge_of_short_sequences_covers_their_noise_and_not_much_more(T):
    """Against the largest eigenvalue of drawn noise, over that of the spread-out limit at the same size.

    The factor may be larger: it is the end of the law, from which the largest of finitely many eigenvalues stays away,
    the further the thinner the tail that few tokens leave there. Measured: by 4 % at T = 1, 2 % at T = 2, 1 % at T = 4.
    """
    d, V, n = 300, 480, 600
    short = [largest(pooled_noise(np.random.default_rng(s), d, V, n, [T**-0.5] * T)) for s in range(DRAWS)]
    limit = [largest(spread_noise(np.random.default_rng(100 + s), d, V, n)) for s in range(DRAWS)]
    ratio = np.mean(short) / np.mean(limit)
    error = ratio * np.hypot(*(np.std(x, ddof=1) / np.mean(x) / np.sqrt(DRAWS) for x in (short, limit)))
    factor = edge_factor(np.full(T, 1 / T), d, V, n)
    assert ratio - 3 * error < factor < ratio + 3 * error + 0.03
