"""Predicted standard deviations against those of many draws of the model."""

import numpy as np
import pytest
from references import prefix_signs

import spikepool as sp
from worlds import draw_table, draw_tokens, pool, top_pair

pytestmark = pytest.mark.statistical

R = sp.prefix_correlation(10, 3)
WEIGHTS = {"mean": sp.mean_weights(10), "causal": sp.causal_weights(10), "optimal": sp.optimal_weights(R)}
D, V, N, TRIALS = 160, 256, 320, 500
# Relative standard error of a standard deviation over 500 draws is 1/sqrt(2·500) = .032. Besides, the delta method
# leaves relative terms of order 1/sqrt(d) and the spread-out limit is off for few tokens: .05 together.
BIAS = 0.05


def scatter(model, w, seed):
    rng = np.random.default_rng(seed)
    signs = prefix_signs(10, 3)
    values, alignments = [], []
    for _ in range(TRIALS):
        xi = signs(model.N, rng)
        table = draw_table(rng, model.d, model.V, model.mu, class_centered=model.table == "class_centered")
        value, alignment = top_pair(pool(table, draw_tokens(rng, xi, model.V), w))
        values.append(value[0])
        alignments.append(alignment[0])
    return np.std(values, ddof=1), np.std(alignments, ddof=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mu", "table"),
    [
        ("mean", 2.0, "sampled"),
        ("causal", 1.5, "sampled"),
        ("causal", 1.5, "class_centered"),
        ("optimal", 1.2, "sampled"),
        ("optimal", 2.5, "sampled"),
    ],
)
def test_standard_deviations_are_as_predicted(name, mu, table):
    model = sp.SequenceModel(D, V, N, R, mu, table=table)
    predicted = model.fluctuations(WEIGHTS[name])
    eigenvalue, alignment = scatter(model, WEIGHTS[name], 11)
    tolerance = 3 / np.sqrt(2 * TRIALS) + BIAS
    assert abs(eigenvalue / predicted.eigenvalue_std - 1) < tolerance
    assert abs(alignment / predicted.alignment_std - 1) < tolerance


@pytest.mark.slow
def test_gaussian_latents_scatter_more_than_signs():
    """Kurtosis 3 instead of 1.x: the sampled gain ‖a‖²/N carries most of the eigenvalue's scatter."""
    model = sp.SequenceModel(D, V, N, R, 2.0, latent="gaussian")
    w = WEIGHTS["causal"]
    predicted = model.fluctuations(w)
    rng = np.random.default_rng(5)
    root = np.linalg.cholesky(R + 1e-12 * np.eye(10))
    values = []
    for _ in range(TRIALS):
        tokens = rng.integers(0, V, size=(N, 10))
        C = pool(rng.standard_normal((V, D)), tokens, w)
        C[:, 0] += 2.0 * (rng.standard_normal((N, 10)) @ root.T @ w)
        values.append(top_pair(C)[0][0])
    assert abs(np.std(values, ddof=1) / predicted.eigenvalue_std - 1) < 3 / np.sqrt(2 * TRIALS) + BIAS
    assert predicted.eigenvalue_std > model.replace(latent="signs").fluctuations(w).eigenvalue_std
