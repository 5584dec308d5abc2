"""Recombined heads and stacked layers, as real forward passes, against the prediction for their weights."""

import numpy as np
import pytest
from references import prefix_signs

import spikepool as sp
from spikepool.world.heads import layered_weights, optimal_heads
from worlds import draw_table, draw_tokens, mean_and_error, pool, top_pair

pytestmark = pytest.mark.statistical

T, L, D, V, N, TRIALS = 10, 3, 300, 480, 600, 12
R = sp.prefix_correlation(T, L)


def check(model, w, runs, eigenvalue_bias, alignment_bias):
    predicted = model.predict(w)
    mean, error = mean_and_error(runs)
    assert abs(mean[0] / predicted.eigenvalue - 1) < 3 * error[0] / predicted.eigenvalue + eigenvalue_bias
    assert abs(mean[1] - predicted.alignment) < 3 * error[1] + alignment_bias


def test_recombining_the_outputs_of_four_heads():
    """Four heads pool separately; their outputs are recombined; no other tried recombination aligns better."""
    heads = np.stack([sp.mean_weights(T), sp.causal_weights(T), np.eye(T)[1], np.r_[np.zeros(5), np.full(5, 0.2)]])
    mix = optimal_heads(heads, R)
    rng = np.random.default_rng(0)
    others = [c / (c @ heads).sum() for c in rng.standard_normal((3, 4))] + list(np.eye(4))
    runs, rivals = [], []
    for trial in range(TRIALS):
        rng = np.random.default_rng([1, trial])
        tokens = draw_tokens(rng, prefix_signs(T, L)(N, rng), V)
        table = draw_table(rng, D, V, 1.0)
        outputs = np.stack([pool(table, tokens, w) for w in heads])
        value, alignment = top_pair(np.tensordot(mix.coefficients, outputs, axes=1))
        runs.append((value[0], alignment[0]))
        rivals.append([top_pair(np.tensordot(c, outputs, axes=1))[1][0] for c in others])
    # eight effective tokens at most: the spread-out limit is off by up to .01 in alignment, 2 % in the eigenvalue
    check(sp.SequenceModel(D, V, N, R, 1.0), mix.weights, runs, 6 / D + 0.02, 6 / D + 0.01)
    best = np.mean([alignment for _, alignment in runs])
    assert np.all(best > np.mean(rivals, axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("tau", [0.0, 4.0])
def test_three_layers_with_residual(tau):
    """Attention recomputed from each layer's own output, at the tau/d scaling."""
    residual, mu = 0.5, 2.0
    w = layered_weights(T, 3, residual, tau)
    runs, drawn = [], []
    for trial in range(TRIALS):
        rng = np.random.default_rng([2, trial])
        tokens = draw_tokens(rng, prefix_signs(T, L)(N, rng), V)
        X = draw_table(rng, D, V, mu)[tokens]
        pooling = np.broadcast_to(np.eye(T), (N, T, T))
        for _ in range(3):
            A = sp.attention_matrix(X, tau=tau, scaling="d")
            X = (1 - residual) * A @ X + residual * X
            pooling = (1 - residual) * A @ pooling + residual * pooling
        drawn.append(pooling.mean(axis=1).mean(axis=0))
        value, alignment = top_pair(X.mean(axis=1))
        runs.append((value[0], alignment[0]))
    # Scores at tau/d have mean mu² tau/d between tokens of one class and scatter tau/sqrt(d): weights are off by
    # their square, tau²/d, times less than one. The weights have three effective tokens: the spread-out limit
    # itself is off by 4 % in the eigenvalue and .02 in the alignment.
    assert np.abs(np.mean(drawn, axis=0) - w).max() < (tau**2 + tau * mu**2) / D / 2 + 1e-12
    check(sp.SequenceModel(D, V, N, R, mu), w, runs, 6 / D + 0.04, 6 / D + 0.02)
    if tau == 0:
        assert np.allclose(w, sp.causal_weights(T, layers=3, residual=residual), atol=1e-14)
