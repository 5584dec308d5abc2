"""Standard errors, and estimates that were reported because they are large."""

import numpy as np
import pytest
from scipy.stats import norm

from spikepool.kit.statistics import NORMAL_90, standard_error, unselected


def test_standard_error_is_that_of_the_mean():
    x = np.random.default_rng(0).normal(size=(50, 3))
    np.testing.assert_allclose(standard_error(x), x.std(axis=0, ddof=1) / np.sqrt(50))
    assert (standard_error(x[:1]) == 0).all()
    assert pytest.approx(norm.ppf(0.95)) == NORMAL_90


@pytest.mark.parametrize("level", [0.05, 0.5, 0.95])
def test_selected_estimates_have_their_level(level):
    """Among draws beyond the cut, the bound lies below the truth as often as it says."""
    mean, cut, sd = 1.0, 1.5, 1.0
    x = np.random.default_rng(1).normal(mean, sd, 40_000)
    found = np.array([unselected(value, cut, sd, level) for value in x[x > cut][:2000]])
    assert np.mean(found < mean) == pytest.approx(1 - level, abs=3 * np.sqrt(0.25 / 2000))


def test_far_from_the_cut_nothing_is_taken_off():
    assert unselected(50.0, 1.0, 2.0) == pytest.approx(50.0)
    assert unselected(50.0, 1.0, 2.0, 0.05) == pytest.approx(50.0 - 2 * NORMAL_90)
    assert unselected(1.0 + 1e-9, 1.0, 2.0) == pytest.approx(1.0 + 1e-9 - 16.0)
