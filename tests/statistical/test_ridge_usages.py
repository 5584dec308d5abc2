"""Exact ridge accuracies over many usage draws: chance or bias?

An exact accuracy conditions on the tokens of one training set. Over such sets it scatters by up to .01, and one table
of simulated accuracies by up to .03: a comparison on one or two usages that counts only the draws behind the simulated
mean is off by several of its standard errors by chance alone. Here both scatters count.
"""

import numpy as np
import pytest

import spikepool as sp
from spikepool.simulation.ridge import simulate_ridge

pytestmark = pytest.mark.statistical

CASES = {
    "one token": (sp.SequenceModel(100, 240, 200, np.eye(1), 1.2), np.ones(1), 0.3, 250),
    "two tokens": (sp.SequenceModel(100, 300, 200, sp.prefix_correlation(2, 2), 0.6), sp.mean_weights(2), 1.0, 180),
    "signed weights": (sp.SequenceModel(100, 200, 200, sp.prefix_correlation(3, 2), 0.8), [0.9, 0.6, -0.5], 0.5, 200),
    "ten tokens": (sp.SequenceModel(100, 200, 200, sp.prefix_correlation(10, 4), 0.5), sp.causal_weights(10), 0.1, 150),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_mean_over_usages_is_that_of_simulation(case):
    model, w, ridge, n_train = CASES[case]
    given = [model.ridge_accuracy(w, ridge, n_train, exact=True, rng=seed) for seed in range(12)]
    drawn = simulate_ridge(model, w, ridge=ridge, n_train=n_train, n_test=2000, trials=40, rng=1).ravel()
    assert len(drawn) == 40
    error = np.hypot(np.std(given, ddof=1) / np.sqrt(12), np.std(drawn, ddof=1) / np.sqrt(40))
    print(
        case,
        f"exact {np.mean(given):.4f}, simulated {drawn.mean():.4f} ± {error:.4f}; "
        f"one usage scatters by {np.std(given, ddof=1):.4f}, one draw by {np.std(drawn, ddof=1):.4f}",
    )
    # collective shifts, which the formulas leave out, are of order 1/d: at most .004 seen at d = 120
    assert abs(np.mean(given) - drawn.mean()) < 3 * error + 0.5 / model.d
    assert np.std(drawn, ddof=1) > 0.004  # what a standard error from the test sequences alone would miss
