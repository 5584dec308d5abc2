"""With the table drawn and without, the top pair has the same law: means and scatter over draws of both routes.

``benchmarks/speed/routes.py`` does the same for every problem of the table. Here one of each kind.
"""

import numpy as np
import pytest
from problems import BY_NAME

import spikepool as sp

pytestmark = pytest.mark.statistical

DRAWS = 200
NAMES = (
    "prefix-causal-moderate",
    "prefix-mean-subcritical",
    "second-outlier-on-top",
    "class-centred-causal",
)


def assert_same_law(a, b):
    """Means and scatter within three standard errors; that of the log of a scatter is sqrt((kurtosis − 1)/4n)."""
    n = len(a)
    assert abs(a.mean() - b.mean()) < 3 * np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / n)
    kurtoses = [np.mean((x - x.mean()) ** 4) / x.var() ** 2 for x in (a, b)]
    assert abs(np.log(a.std() / b.std())) < 3 * np.sqrt((sum(kurtoses) - 2) / (4 * n))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_top_pair(name):
    problem = BY_NAME[name].at(90)
    lazy = problem.model.simulate(problem.weights, trials=DRAWS, k=1, rng=4)
    drawn = problem.model.simulate(problem.weights, trials=DRAWS, k=1, rng=3, table_drawn=True)
    assert_same_law(lazy.eigenvalue, drawn.eigenvalue)
    assert_same_law(lazy.alignment, drawn.alignment)


@pytest.mark.slow
def test_classes():
    means = np.array([[2.0, 0.0, 0.0], [0.0, 1.5, 0.0]])
    world = sp.ClassModel(90, 150, 180, sp.markov_correlation(8, 0.7), means, [0.5, 0.3, 0.2])
    w = sp.mean_weights(8)
    lazy, drawn = world.simulate(w, trials=DRAWS, rng=4), world.simulate(w, trials=DRAWS, rng=3, table_drawn=True)
    for rank in (0, 1):
        assert_same_law(lazy.eigenvalues[:, rank], drawn.eigenvalues[:, rank])
        assert_same_law(lazy.alignments[:, rank], drawn.alignments[:, rank])


@pytest.mark.slow
def test_differences_between_weights_share_the_table():
    """All weights of a draw see one table: their difference scatters less than with a table each."""
    from spikepool.simulation.simulate import simulate_grid

    model = BY_NAME["prefix-causal-moderate"].model.replace(d=90, V=144, N=180, mu=2.0)
    weights = {"causal": sp.causal_weights(10), "optimal": sp.optimal_weights(model.R)}
    spread = {}
    for drawn in (True, None):
        found = simulate_grid(model, weights, [model.mu], trials=DRAWS, k=1, rng=1, table_drawn=drawn).alignments
        spread[drawn] = np.std(found[0, 0, :, 0] - found[1, 0, :, 0])
    assert abs(np.log(spread[None] / spread[True])) < 0.25  # three standard errors for normal differences
    apart = [model.simulate(w, trials=DRAWS, k=1, rng=i).alignment for i, w in enumerate(weights.values())]
    assert spread[None] < 0.8 * np.std(apart[0] - apart[1])
