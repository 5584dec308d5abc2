"""Isolated eigenvalues of the noise covariance are told from the signal, whatever their angle with it."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp

D, V, N, T = 200, 400, 800, 10
R = sp.prefix_correlation(T, 3)
MEAN = sp.mean_weights(T)


def spiked(*sizes: float) -> np.ndarray:
    variances = np.ones(D)
    variances[: len(sizes)] = sizes
    return variances


@pytest.mark.parametrize("sizes", [(30.0,), (30.0, 30.0), (30.0, 12.0), (6.0,)])
@pytest.mark.parametrize("direction", ["orthogonal", "random"])
def test_the_signal_keeps_its_name_beside_noise_spikes(sizes, direction):
    u = None if direction == "random" else np.eye(D)[5]
    model = sp.SequenceModel(d=D, V=V, N=N, R=R, mu=2.0, covariance=spiked(*sizes), direction=u)
    found = model.predict(MEAN, exact=True, rng=0)
    assert [o.kind for o in found.outliers].count("noise") == len(sizes)
    drawn = model.simulate(MEAN, trials=16, k=len(sizes) + 1, rng=1)
    signal = drawn.alignments.max(axis=1)
    error = signal.std(ddof=1) / 4
    assert found.signal is not None
    assert found.signal.alignment == pytest.approx(signal.mean(), abs=4 * error + 0.02)
    for o, values in zip(found.outliers, drawn.eigenvalues.T, strict=False):
        # the prediction is for one usage, as each draw is; equal spikes repel each other by their fluctuations
        repulsion = 0.1 * o.eigenvalue if len(set(sizes)) < len(sizes) else 0.0
        assert o.eigenvalue == pytest.approx(values.mean(), abs=3 * values.std(ddof=1) + repulsion)


def test_a_signal_along_a_noise_spike_is_one_outlier():
    model = sp.SequenceModel(d=D, V=V, N=N, R=R, mu=2.0, covariance=spiked(30.0), direction=np.eye(D)[0])
    found = model.predict(MEAN, exact=True, rng=0)
    drawn = model.simulate(MEAN, trials=12, k=1, rng=1)
    assert [o.kind for o in found.outliers] == ["signal"]
    assert found.alignment == pytest.approx(drawn.alignment.mean(), abs=0.02)
    assert found.eigenvalue == pytest.approx(drawn.eigenvalues.mean(), rel=0.04)


def test_given_tokens_of_a_corpus_likewise():
    rng = np.random.default_rng(0)
    tokens, signs = rng.integers(0, V, (N, T)), np.where(np.arange(V) % 2, -1, 1)
    found = sp.predict_tokens(
        tokens, V=V, weights=MEAN, signs=signs, mu=3.0, d=D, noise=spiked(30.0), direction=np.eye(D)[5]
    )
    assert [o.kind for o in found.outliers] == ["noise", "signal"]
    W = np.zeros((N, V))
    np.add.at(W, (np.arange(N)[:, None], tokens), 1 / T)
    alignments = []
    for _ in range(8):  # plain numpy: the table, the pooled rows, their covariance
        table = rng.standard_normal((V, D)) * np.sqrt(spiked(30.0))
        table[:, 5] += 3.0 * signs
        C = W @ table
        C -= C.mean(axis=0)
        alignments.append(np.linalg.svd(C, full_matrices=False)[2][1, 5] ** 2)
    assert found.signal.alignment == pytest.approx(np.mean(alignments), abs=4 * np.std(alignments) / np.sqrt(8) + 0.02)
