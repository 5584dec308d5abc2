"""Several strong directions over isotropic noise: sampling mixes them with each other, and the intervals know it."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.theory import spikes

pytestmark = pytest.mark.filterwarnings("ignore::spikepool.trust.diagnosis.UncenteredWarning")


def factors(seed, d, n, sizes):
    """Rows of a factor model, and the directions of its population."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((d, len(sizes))))[0]
    scores = rng.standard_normal((n, len(sizes))) * np.sqrt(sizes)
    return scores @ axes.T + rng.standard_normal((n, d)), axes.T


def components(x, k):
    return np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2][:k]


@pytest.mark.slow
@pytest.mark.parametrize(("d", "n"), [(100, 200), (60, 1200)])
def test_intervals_hold_the_truth(d, n):
    sizes = np.array([140.0, 60.0, 25.0])
    inside, errors = [], []
    for seed in range(24):
        x, axes = factors(seed, d, n, sizes)
        found = sp.diagnose(x)
        if found.verdict != "signal" or len(found.outliers) != 3:
            continue
        truth = np.sum(components(x, 3) * axes, axis=1) ** 2
        inside += [o.interval[0] <= t <= o.interval[1] for o, t in zip(found.outliers, truth, strict=True)]
        errors += [o.alignment - t for o, t in zip(found.outliers, truth, strict=True)]
    assert len(inside) >= 50
    assert 0.85 <= np.mean(inside) <= 0.99  # .2 to .5 without mixing
    assert abs(np.mean(errors)) <= 3 * np.std(errors) / np.sqrt(len(errors)) + 0.002


@pytest.mark.slow
def test_directions_of_equal_size_are_rarely_named():
    """A sample always sets two equal eigenvalues apart; how far is luck."""
    resolved, estimates = [], []
    for seed in range(30):
        x, _ = factors(seed, 80, 600, np.array([40.0, 40.0]))
        found = sp.diagnose(x)
        if found.verdict == "signal":
            resolved += [c.resolved for c in found.components]
            estimates += [o.alignment for o in found.outliers]
    assert len(resolved) >= 40
    assert np.mean(resolved) <= 0.25  # all of them without mixing
    assert np.mean(estimates) <= 0.85  # .99 without


def test_rows_for_the_target_count_the_mixing():
    x, _ = factors(1, 100, 200, np.array([60.0, 40.0]))
    found = sp.diagnose(x, target=0.99)
    rows = [o.required_samples for o in found.outliers]
    reached = []
    for seed in range(6):
        x, axes = factors(100 + seed, 100, max(rows), np.array([60.0, 40.0]))
        reached.append(np.sum(components(x, 2) * axes, axis=1) ** 2)
    assert np.mean(reached) == pytest.approx(0.99, abs=0.006)


def test_one_outlier_mixes_with_nothing():
    x, _ = factors(0, 100, 300, np.array([30.0]))
    found = sp.diagnose(x)
    (outlier,) = found.outliers
    alignment = spikes.total_alignment(outlier.excess, found.bulk.delta, found.bulk.gamma)
    assert outlier.alignment == pytest.approx(float(alignment), rel=1e-12)
