"""p-values of null draws, and the power of the top eigenvalue and of the trace, against draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest, norm

import spikepool as sp

T = 20
MEAN = sp.mean_weights(T)
R = sp.prefix_correlation(T, 4)


def top_of_noise(d, V, N, length, rng):
    """Largest eigenvalue of S without a signal, in plain numpy: a class-centred table, uniform tokens, centred rows."""
    table = rng.standard_normal((V, d))
    for first in (0, 1):
        table[first::2] -= table[first::2].mean(axis=0)
    C = sum(table[rng.integers(0, V, N)] for _ in range(length)) / length
    C -= C.mean(axis=0)
    return np.linalg.eigvalsh(C.T @ C / N)[-1]


@pytest.mark.slow
@pytest.mark.parametrize("d", [100, 130, 170, 210, 260])
def test_p_values_of_noise_are_uniform(d):
    """400 draws at each size; benchmarks/studies/detection.py goes on to d = 2000."""
    V, N, rng = 2 * round(0.8 * d), 2 * d, np.random.default_rng(d)
    noise = sp.SequenceModel(d=d, V=V, N=N, R=np.eye(10), mu=0.0, table="class_centered")
    top = [top_of_noise(d, V, N, 10, rng) for _ in range(400)]
    assert kstest(noise.predict(sp.mean_weights(10)).p_value(top), "uniform").pvalue > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("length", [3, 10])
def test_p_values_given_the_tokens_are_uniform(length):
    noise = sp.SequenceModel(d=200, V=320, N=400, R=np.eye(length), mu=0.0, table="class_centered")
    w = sp.mean_weights(length)
    top = noise.simulate(w, trials=300, k=1, rng=5).eigenvalues[:, 0]
    assert kstest(noise.predict(w, exact=True, rng=0).p_value(top), "uniform").pvalue > 0.01


def traces(model, count, seed):
    """tr S of plain draws."""
    found = []
    for trial in range(count):
        C = model.sample(rng=np.random.SeedSequence(seed, spawn_key=(trial,))).pooled(MEAN)
        C = C - C.mean(axis=1, keepdims=True)
        found.append(np.sum(C**2) / model.N)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["class_centered", "sampled"])
def test_power_below_and_above_the_transition(table):
    base = sp.SequenceModel(d=100, V=160, N=200, R=R, mu=1.0, table=table)
    threshold = base.predict(MEAN).mu_sample
    count = 300
    null = traces(base.replace(mu=0.0), count, 0)
    critical = null.mean() + 1.6449 * null.std(ddof=1)
    for factor, tried in ((0.5, "top"), (0.9, "trace"), (1.2, "trace"), (1.7, "top"), (2.2, "top")):
        model = base.replace(mu=factor * threshold)
        power = model.detection_power(MEAN)
        if tried == "trace":
            seen = np.mean(traces(model, count, 1) > critical)
            # the critical value is itself estimated: its error moves the power by the density of a normal variable
            moved = norm.pdf(norm.ppf(power.trace)) * np.sqrt((1 + 1.6449**2 / 2) / count)
            assert power.trace == pytest.approx(seen, abs=3 * np.hypot(np.sqrt(seen * (1 - seen) / count), moved))
            continue
        seen = np.mean(model.simulate(MEAN, trials=count, k=1, rng=2).eigenvalues[:, 0] > power.critical)
        assert power.validity.ok or factor < 1
        assert power.top == pytest.approx(seen, abs=3 * np.sqrt(max(seen * (1 - seen), 1 / count) / count))
    assert base.replace(mu=0.9 * threshold).detection_power(MEAN).trace > 0.1  # power below the transition
    assert not base.replace(mu=1.02 * threshold).detection_power(MEAN).validity.ok


def test_no_signal_has_the_power_of_the_level():
    model = sp.SequenceModel(d=100, V=160, N=200, R=R, mu=0.0, table="class_centered")
    power = model.detection_power(MEAN, level=0.03)
    assert power.top == power.trace == 0.03
    assert power.to_dict()["critical"] == pytest.approx(power.critical)
    assert model.predict(MEAN).p_value(power.critical) == pytest.approx(0.03, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["sampled", "class_centered"])
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("name", ["mean", "causal", "optimal"])
def test_null_draws_are_rejected_at_the_level_or_the_reason_is_named(table, centered, name):
    w = {"mean": MEAN, "causal": sp.causal_weights(T), "optimal": sp.optimal_weights(R)}[name]
    model = sp.SequenceModel(150, 600, 300, R, 0.0, table=table, centered=centered)
    power = model.detection_power(w)
    assert power.top == 0.05
    if power.validity.reasons:
        assert any("null draws" in reason for reason in power.validity.reasons)
        assert name != "mean"
        return
    top = model.simulate(w, trials=600, k=1, rng=7).eigenvalue
    rejected = np.mean(top > power.critical)
    assert np.mean(model.predict(w).p_value(top) < 0.05) == pytest.approx(rejected, abs=0.002)
    assert 0.03 <= rejected <= 0.07


def test_class_means_and_the_vocabulary_mean_are_part_of_the_null():
    model = sp.SequenceModel(150, 150, 600, sp.prefix_correlation(T, 12), 0.0)  # class means beyond their threshold
    prediction = model.predict(MEAN)
    assert [o.kind for o in prediction.outliers] == ["classes"]
    assert not prediction.detectable
    assert any("mu = 0" in reason for reason in prediction.validity.reasons)
    top = model.simulate(MEAN, trials=100, k=1, rng=1).eigenvalue
    assert np.mean(top > prediction.noise_edge.critical(0.05)) > 0.9  # an outlier, and no signal
    assert np.mean(prediction.p_value(top) < 0.05) < 0.14
    assert model.detection_power(MEAN).top == 0.05
    assert model.replace(mu=3.0).detection_power(MEAN).top > 0.9


def plain_trace(rng, d, V, N, L, mu, centered):
    """tr S of mean weights over T positions of the prefix model with a sampled table, in plain numpy."""
    E = rng.standard_normal((d, V))
    E[0] += mu * np.where(np.arange(V) % 2 == 0, 1.0, -1.0)
    signs = rng.random((N, T)) < 0.5
    signs[:, :L] = signs[:, :1]
    ids = 2 * rng.integers(0, V // 2, (N, T)) + signs
    C = sum(E[:, ids[:, t]] for t in range(T)) / T
    if centered:
        C = C - C.mean(axis=1, keepdims=True)
    return float(np.sum(C**2)) / N


@pytest.mark.parametrize(
    ("V", "N", "L", "mu", "centered"), [(100, 200, 5, 0.0, False), (100, 200, 15, 0.0, True), (100, 200, 5, 0.6, False)]
)
def test_variance_of_the_trace_has_the_norms_of_the_means(V, N, L, mu, centered):
    """Without the squared norms of class means and vocabulary mean the deviation is .7 to .5 of what draws show."""
    from spikepool.theory.detection import _trace_variance

    rng = np.random.default_rng(3)
    model = sp.SequenceModel(d=100, V=V, N=N, R=sp.prefix_correlation(T, L), mu=mu, centered=centered)
    drawn = np.std([plain_trace(rng, 100, V, N, L, mu, centered) for _ in range(200)], ddof=1)
    expected = np.sqrt(_trace_variance(model, MEAN, *model.gains(MEAN)))
    assert expected == pytest.approx(drawn, rel=3 / np.sqrt(400))
