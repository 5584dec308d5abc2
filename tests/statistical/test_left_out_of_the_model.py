"""Label noise, unequal classes, concatenated heads and repeated sequences: formula against draws."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from spikepool.theory.heads import predict_heads
from spikepool.theory.ridge import ridge_prediction

R = sp.prefix_correlation(10, 3)
MEAN, CAUSAL = sp.mean_weights(10), sp.causal_weights(10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "ridge", "w"), [(0.1, 1.0, MEAN), (0.3, 1.0, CAUSAL), (0.3, 0.1, MEAN), (0.45, 1.0, CAUSAL)]
)
@pytest.mark.parametrize("exact", [False, True])
def test_flipped_training_labels(noise, ridge, w, exact):
    model = sp.SequenceModel(d=150, V=250, N=320, R=R, mu=1.5)
    found = ridge_prediction(model, w, ridge, label_noise=noise, exact=exact)
    drawn = sp.simulate_ridge(model, w, ridge, label_noise=noise, trials=24, n_test=3000, rng=1)
    error = np.hypot(drawn.std(ddof=1) / np.sqrt(24), found.accuracy_error)
    assert found.accuracy == pytest.approx(drawn.mean(), abs=3 * error + (1.0 if exact else 2.0) / model.d)
    assert found.accuracy < ridge_prediction(model, w, ridge, exact=exact).accuracy


def test_flips_out_of_range_are_refused():
    model = sp.SequenceModel(d=30, V=50, N=60, R=R, mu=1.5)
    with pytest.raises(ValueError, match="label_noise"):
        model.ridge_accuracy(MEAN, label_noise=0.5)


def test_the_error_of_an_exact_accuracy_covers_another_set_of_usages():
    model = sp.SequenceModel(d=60, V=100, N=120, R=R, mu=1.0)
    found = [ridge_prediction(model, MEAN, exact=True, rng=seed) for seed in range(12)]
    errors = np.array([p.accuracy_error for p in found])
    assert errors.min() > 0
    # the means of three usages scatter as their errors say
    assert np.std([p.accuracy for p in found], ddof=1) == pytest.approx(np.sqrt(np.mean(errors**2)), rel=0.6)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_unequal_classes(share):
    model = sp.SequenceModel(d=150, V=250, N=400, R=R, mu=2.0)
    classes = model.as_classes(share)
    found = classes.predict(CAUSAL)
    drawn = classes.simulate(CAUSAL, trials=24, rng=0)
    alignment = drawn.alignments[:, 0]
    assert found.alignment == pytest.approx(alignment.mean(), abs=3 * alignment.std(ddof=1) / np.sqrt(24) + 2 / model.d)
    if share == 0.5:
        assert found.alignment == pytest.approx(model.predict(CAUSAL).alignment, rel=1e-12)
    else:
        assert found.alignment < model.predict(CAUSAL).alignment


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.5, 0.8, 1.2])
def test_concatenated_heads(mu):
    T, H = 24, 3
    d, V, N = 100, 200, 800
    correlation = sp.prefix_correlation(T, 6)
    heads = np.stack([sp.mean_weights(T), sp.causal_weights(T), np.r_[np.zeros(12), np.ones(12) / 12]])
    model = sp.SequenceModel(d=d, V=V, N=N, R=correlation, mu=mu)
    found = predict_heads(model, heads)
    basis = np.linalg.svd(heads, full_matrices=False)[2]
    values, alignments = [], []
    for seed in range(12):
        sample = model.sample(rng=seed)
        X = sample.noise[sample.tokens] + sample.latent[:, :, None] * (mu * sample.direction)
        F = np.einsum("ntd,ht->nhd", X, basis).reshape(N, H * d)
        F -= F.mean(axis=0)
        _, sizes, vectors = np.linalg.svd(F, full_matrices=False)
        values.append(sizes[0] ** 2 / N)
        alignments.append(np.sum((vectors[0].reshape(H, d) @ sample.direction) ** 2))
    error = np.std(alignments, ddof=1) / np.sqrt(12)
    assert found.alignments[0] == pytest.approx(np.mean(alignments), abs=3 * error + 3 / d)
    assert found.eigenvalues[0] == pytest.approx(np.mean(values), rel=3 * np.std(values) / np.mean(values) / 3 + 0.02)
    # side by side they show less of the signal than their best combination, which has a third of the dimensions
    assert found.alignments[0] < found.recombined.alignment


def test_copies_of_two_sequences_are_not_a_sample():
    tokens = np.tile(np.random.default_rng(0).integers(0, 60, (2, 8)), (100, 1))
    signs = np.where(np.arange(60) % 2, -1, 1)
    found = sp.predict_tokens(tokens, V=60, weights=sp.mean_weights(8), signs=signs, mu=2.0, d=50)
    assert any("N = 2" in reason for reason in found.validity.reasons)
