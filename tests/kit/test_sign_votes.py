"""Probabilities of signs by inversion, against normal laws and sums over all signs."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from spikepool.errors import ConvergenceError
from spikepool.world.labels import sign_sum_probability


@pytest.mark.parametrize("offset", [-2.0, -0.1, 0.0, 0.7, 4.0])
@pytest.mark.parametrize("steps", [(), (0.5,), (1.0, 0.3, 0.2), (0.4,) * 8])
@pytest.mark.parametrize("noise", [0.05, 1.0])
def test_against_the_sum_over_all_signs(offset, steps, noise):
    scores = [offset + np.dot(steps, signs) for signs in product((-1, 1), repeat=len(steps))]
    expected = np.mean(norm.cdf(np.array(scores) / noise))
    assert sign_sum_probability(offset, np.array(steps), noise) == pytest.approx(expected, abs=1e-12)


def test_too_little_noise_is_refused():
    with pytest.raises(ConvergenceError, match="noise"):
        sign_sum_probability(1.0, np.array([0.5]), 1e-9)
