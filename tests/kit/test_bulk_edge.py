"""Edge of a bulk and number of outliers, against spectra whose edge and spikes are known."""

import numpy as np
import pytest

from spikepool.errors import SizeError
from spikepool.laws.bulk_edge import MARGIN, find_edge


def wishart(d, n, spikes=(), seed=0):
    rng = np.random.default_rng(seed)
    scale = np.sqrt(np.r_[spikes, np.ones(d - len(spikes))])
    x = rng.normal(size=(n, d)) * scale
    return np.linalg.eigvalsh(x.T @ x / n)[::-1]


@pytest.mark.parametrize("spikes", [(), (6.0,), (9.0, 7.0, 5.0)])
def test_edge_and_count(spikes):
    d, n = 300, 1500
    found = find_edge(wishart(d, n, spikes))
    assert found.n_outliers == len(spikes)
    # the edge of the Marchenko-Pastur law, and its Tracy-Widom scale
    edge = (1 + np.sqrt(d / n)) ** 2
    scale = edge ** (2 / 3) / (n ** (2 / 3) * (d / n) ** (1 / 6))
    assert found.edge == pytest.approx(edge, abs=3 * scale)
    assert found.threshold >= found.edge


def test_few_eigenvalues_need_a_larger_margin_and_fewer_are_refused():
    assert find_edge(wishart(40, 400)).margin == pytest.approx(MARGIN * np.sqrt(100 / 40))
    with pytest.raises(SizeError, match="at least 30"):
        find_edge(wishart(20, 400))


def test_equal_eigenvalues_have_no_outlier():
    assert find_edge(np.ones(60)).n_outliers == 0
