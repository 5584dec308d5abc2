"""K classes with unequal shares against draws; every spike's eigenvalue and alignment."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.model import ClassModel
from worlds import mean_and_error

pytestmark = pytest.mark.statistical

MEANS = np.array([[2.0, -1.0, -1.0, 0.5], [0.0, 1.5, -1.5, 0.0], [0.3, 0.0, 0.0, 2.5]])
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
TRIALS = 12


def draw_by_definition(rng, d, V, N, draw_classes, w, centered):
    """Top 4 eigenvalues and squared projections on the span of the class differences, gathered token by token."""
    sizes = (V * SHARES).astype(int)
    owner = np.repeat(np.arange(4), sizes)
    table = rng.standard_normal((V, d))
    table[:, :3] += MEANS.T[owner]
    by_class = [np.flatnonzero(owner == k) for k in range(4)]
    classes = draw_classes(rng, N)
    tokens = np.empty_like(classes)
    for k in range(4):
        chosen = classes == k
        tokens[chosen] = rng.choice(by_class[k], size=chosen.sum())
    C = np.einsum("ntd,t->nd", table[tokens], w)
    if centered:
        C = C - C.mean(axis=0)
    values, vectors = np.linalg.eigh(C.T @ C / N)
    # the class differences span the first three axes
    return values[::-1][:4], (vectors[:3, ::-1][:, :4] ** 2).sum(axis=0)


def prefix_classes(rng, N):
    classes = rng.choice(4, size=(N, 10), p=SHARES)
    classes[:, :4] = classes[:, :1]
    return classes


def chain_classes(rng, N):
    classes = rng.choice(4, size=(N, 10), p=SHARES)
    for t in range(1, 10):
        keep = rng.random(N) < 0.6
        classes[keep, t] = classes[keep, t - 1]
    return classes


@pytest.mark.parametrize(
    ("R", "draw", "centered"),
    [
        (sp.prefix_correlation(10, 4), prefix_classes, True),
        (sp.prefix_correlation(10, 4), prefix_classes, False),
        (sp.markov_correlation(10, 0.6), chain_classes, True),
    ],
    ids=["prefix", "not centred", "chain"],
)
def test_every_spike_of_four_unequal_classes(R, draw, centered):
    d, V, N = 300, 480, 600
    w = sp.causal_weights(10)
    predicted = ClassModel(d, V, N, R, MEANS, SHARES, centered=centered).predict(w)
    runs = [draw_by_definition(np.random.default_rng([1, t]), d, V, N, draw, w, centered) for t in range(TRIALS)]
    values, value_error = mean_and_error([run[0] for run in runs])
    alignments, alignment_error = mean_and_error([run[1] for run in runs])
    assert len(predicted.outliers) >= 3
    for i, outlier in enumerate(predicted.outliers):
        # Bias: corrections of relative order 1/d to each spike, plus repulsion between spikes that overlap by
        # 1/sqrt(d): (theta_i theta_j/d)/(gap between them), the largest where two spikes are near each other.
        others = [s for j, s in enumerate(predicted.strengths) if j != i]
        crowding = sum(outlier.strength * s / (d * (outlier.strength - s) ** 2) for s in others)
        bias = 6 / d + crowding
        assert abs(values[i] / outlier.eigenvalue - 1) < 3 * value_error[i] / outlier.eigenvalue + bias
        assert abs(alignments[i] - outlier.alignment) < 3 * alignment_error[i] + bias


@pytest.mark.slow
def test_the_models_own_simulation_agrees_with_the_definition():
    d, V, N = 120, 200, 240
    w = sp.mean_weights(10)
    model = ClassModel(d, V, N, sp.prefix_correlation(10, 4), MEANS, SHARES)
    ours = model.simulate(w, trials=60, rng=3)
    runs = [draw_by_definition(np.random.default_rng([2, t]), d, V, N, prefix_classes, w, True) for t in range(60)]
    for mine, theirs in ((ours.eigenvalues, [r[0] for r in runs]), (ours.alignments, [r[1] for r in runs])):
        (a, a_error), (b, b_error) = mean_and_error(mine), mean_and_error(theirs)
        assert np.all(np.abs(a - b) < 4 * np.hypot(a_error, b_error))
