"""Width of intervals: the jackknife of the pilot's level against refits and repeated pilots, and the width's parts."""

import numpy as np
import pytest
from scipy.special import ndtr

from spikepool.forecasting.leave_out import decompose, leave_group_out
from spikepool.forecasting.level_error import NO_ERROR, LevelError, level_error
from spikepool.forecasting.margins import likely_right, margins
from spikepool.forecasting.width import RISE_VARIANCE, band_variance

PENALTY = 40.0


def indicators(labels):
    return np.where(labels[:, None] == np.arange(labels.max() + 1), 1.0, -1.0)


def clustered(rng, n, clusters, d=24):
    """Two classes, each of many small clusters far apart: what is not trained on is not known."""
    centres = np.random.default_rng(99).standard_normal((clusters, d)) * 1.2
    cluster = rng.integers(0, clusters, n)
    return centres[cluster] + 0.5 * rng.standard_normal((n, d)), cluster % 2


def jackknife(X, labels, groups=None):
    groups = np.arange(len(X)) if groups is None else groups
    return level_error(decompose(X - X.mean(axis=0)), indicators(labels), labels, groups, PENALTY)


def test_jackknife_is_that_of_refitting():
    X, labels = clustered(np.random.default_rng(0), 120, 30)
    Y, n = indicators(labels), len(X)

    def left_out_margins(rows):
        """Margins of `rows`, each predicted by ridge from the others of them."""
        found = np.empty((len(rows), 2))
        for place, row in enumerate(rows):
            others = np.delete(rows, place)
            centre, level = X[others].mean(axis=0), Y[others].mean(axis=0)
            A = X[others] - centre
            coefficients = np.linalg.solve(A.T @ A + PENALTY * np.eye(X.shape[1]), A.T @ (Y[others] - level))
            found[place] = level + (X[row] - centre) @ coefficients
        return margins(found, labels[rows])

    margin = left_out_margins(np.arange(n))
    count = likely_right(margin)
    tested, trained = count - count.mean(), np.empty(n)
    for j in range(n):
        kept = np.delete(np.arange(n), j)
        trained[j] = (count[kept] - likely_right(left_out_margins(kept), float(margin.std()))).sum()
    found = jackknife(X, labels)
    assert found.tested == pytest.approx(tested.var(ddof=1) / n, rel=1e-6)
    expected = (tested + trained).var(ddof=1) / n - tested.var(ddof=1) / n
    assert found.trained == pytest.approx(expected, rel=0.1)  # up to squares of the hat matrix' off-diagonal


@pytest.mark.parametrize("clusters", [4, 60])
def test_jackknife_holds_the_scatter_between_pilots(clusters):
    """Efron and Stein: its mean is not below the variance over pilots, which counting alone misses with few rows."""
    levels, tested, trained = [], [], []
    for seed in range(300):
        X, labels = clustered(np.random.default_rng(seed), 80, clusters)
        parts = decompose(X - X.mean(axis=0))
        found = leave_group_out(parts, indicators(labels), np.arange(len(X)), PENALTY)
        levels.append(likely_right(margins(found, labels)).mean())
        if seed % 5 == 0:
            error = jackknife(X, labels)
            tested.append(error.tested)
            trained.append(error.trained)
    scatter = float(np.var(levels, ddof=1))  # relative standard error sqrt(2/300) = .08
    assert np.mean(tested) + np.mean(trained) > 0.85 * scatter
    if clusters == 60:
        assert scatter > 1.25 * np.mean(tested)
        assert np.mean(tested) + np.mean(trained) < 3 * scatter


def test_copies_that_leave_together_are_counted_once():
    rng = np.random.default_rng(3)
    X, labels = clustered(rng, 60, 20)
    once = jackknife(X, labels)
    twice = jackknife(np.repeat(X, 2, axis=0), np.repeat(labels, 2), np.repeat(np.arange(60), 2))
    assert twice.tested == pytest.approx(once.tested, rel=0.15)  # the penalty weighs half as much
    apart = jackknife(np.repeat(X, 2, axis=0), np.repeat(labels, 2))
    assert twice.tested > 1.3 * apart.tested
    assert jackknife(X, labels, np.zeros(60, dtype=int)) == NO_ERROR


def test_variance_of_accuracy_is_counting_and_training_and_rise():
    own = np.full(5, 0.7)
    z = np.array([own, own + 0.4, own - 0.3])
    p, rows = float(ndtr(0.7)), 400
    density = np.exp(-(0.7**2) / 2) / np.sqrt(2 * np.pi)
    counted = p * (1 - p) / rows / density**2
    trained = 1e-4 / density**2
    found = band_variance(own, z, LevelError(0.0, 1e-4), rows, True)
    expected = [counted + trained, counted + trained + RISE_VARIANCE / rows * 0.4**2, counted + trained]
    np.testing.assert_allclose(found, expected)
    scattered = z + np.array([[0.0] * 5, [0.0, 0.1, -0.1, 0.1, -0.1], [0.0] * 5])
    more = band_variance(own, scattered, LevelError(0.0, 1e-4), rows, True) - found
    np.testing.assert_allclose(more, [0, np.var([0.1, -0.1, 0.1, -0.1], ddof=1), 0], atol=1e-12)


def test_a_pilot_without_an_error_still_has_a_width():
    own = np.full(4, 9.0)
    width = 1.645 * np.sqrt(band_variance(own, own[None], NO_ERROR, 200, True))[0]
    certain = 2.807  # probit of 1 − .5/200, the largest accuracy that 200 rows speak for
    assert 0.95 < ndtr(certain - width) < 0.99  # zero errors among 200 rows: at least .985 in 19 of 20 cases


def test_variance_of_r2_is_the_jackknife_and_the_rise():
    own = np.full(3, 0.5)
    found = band_variance(own, np.array([own - 0.4, own, own + 0.2]), LevelError(1e-2, 2e-2), 100, False)
    np.testing.assert_allclose(found, [3e-2, 3e-2, 3e-2 + RISE_VARIANCE / 100 * 0.2**2])


def test_jackknife_of_a_regression_is_that_of_refitting():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((90, 12))
    y = X[:, :1] + 0.7 * rng.standard_normal((90, 1))

    def error(rows):
        """ln of the squared leave-one-out error over the squared target, of ridge on `rows`."""
        total = 0.0
        for place in range(len(rows)):
            others = np.delete(rows, place)
            centre, level = X[others].mean(axis=0), y[others].mean(axis=0)
            A = X[others] - centre
            coefficients = np.linalg.solve(A.T @ A + PENALTY * np.eye(12), A.T @ (y[others] - level))
            total += float(((level + (X[rows[place]] - centre) @ coefficients - y[rows[place]]) ** 2).sum())
        return np.log(total / float(((y[rows] - y[rows].mean(axis=0)) ** 2).sum()))

    every = np.arange(90)
    without = np.array([error(np.delete(every, j)) for j in every])
    found = level_error(decompose(X - X.mean(axis=0)), y, None, every, PENALTY)
    # the fits to 89 and 88 rows differ up to squares of the hat matrix' off-diagonal
    assert found.tested + found.trained == pytest.approx(89**2 / 90 * without.var(ddof=1), rel=0.1)


def test_jackknife_of_a_regression_holds_the_scatter_between_pilots():
    """Efron and Stein again, where features are many for the rows."""
    levels, expected = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((100, 40))
        y = X.sum(axis=1, keepdims=True) / np.sqrt(40) + 0.5 * rng.standard_normal((100, 1))
        parts, rows = decompose(X - X.mean(axis=0)), np.arange(100)
        left = ((leave_group_out(parts, y, rows, 10.0) - y) ** 2).mean()
        levels.append(np.log(left / y.var()))
        if seed % 5 == 0:
            own = level_error(parts, y, None, rows, 10.0)
            expected.append(own.tested + own.trained)
    assert 0.85 < np.mean(expected) / np.var(levels, ddof=1) < 2


def test_heavy_tails_of_a_regression_widen_its_interval():
    """Rare large errors that the pilot has not seen; Gaussian errors and classification are left alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 40))
    signal = (X @ rng.standard_normal(40) / 6)[:, None]
    parts, groups = decompose(X - X.mean(axis=0)), np.arange(300)
    gaussian = level_error(parts, signal + rng.standard_normal((300, 1)), None, groups, PENALTY)
    heavy = level_error(parts, signal + rng.standard_t(3, (300, 1)), None, groups, PENALTY)
    assert gaussian.tails < 1.15  # a kurtosis of 3 up to three standard errors of .28
    assert heavy.tails > 1.5
    z, own = np.array([[0.5, 0.5, 0.5]]), np.array([0.5, 0.5, 0.5])
    plain = LevelError(heavy.tested, heavy.trained)
    widened, before = (band_variance(own, z, level, 300, False) for level in (heavy, plain))
    assert widened == pytest.approx(heavy.tails * before)
    assert jackknife(X, (signal[:, 0] > 0).astype(int)).tails == 1.0
