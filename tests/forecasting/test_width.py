"""Width of intervals: the variance of the pilot's level against refits and repeated pilots, and the width's parts."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import spikepool as sp
from spikepool.forecasting.curve import RISE_VARIANCE, band_variance
from spikepool.forecasting.leave_out import chosen_penalty, decompose, leave_group_out
from spikepool.forecasting.level import heavy_tails, level_variance
from spikepool.forecasting.margins import likely_right, margins
from spikepool.forecasting.pilot import LOG_PENALTIES, measure_pilot
from spikepool.ridge.gcv import fit_ridge


def indicators(labels):
    return np.where(labels[:, None] == np.arange(labels.max() + 1), 1.0, -1.0)


def clustered(rng, n, clusters, d=24):
    """Two classes, each of many small clusters far apart: what is not trained on is not known."""
    centres = np.random.default_rng(99).standard_normal((clusters, d)) * 1.2
    cluster = rng.integers(0, clusters, n)
    return centres[cluster] + 0.5 * rng.standard_normal((n, d)), cluster % 2


def gaussian(rng, n, classes=30, d=60):
    """Classes of one shape."""
    labels = rng.integers(0, classes, n)
    return 0.4 * np.random.default_rng(98).standard_normal((classes, d))[labels] + rng.standard_normal((n, d)), labels


PENALTIES = np.geomspace(1, 1e4, 20)


def halves(X, labels, groups=None, seed=0):
    groups = np.arange(len(X)) if groups is None else groups
    return level_variance(X, indicators(labels), labels, groups, PENALTIES, np.random.default_rng(seed))


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw",
    [lambda rng: gaussian(rng, 150, 2, 30), lambda rng: gaussian(rng, 200), lambda rng: clustered(rng, 300, 60)],
    ids=["2 Gaussian classes", "30 Gaussian classes", "60 clusters"],
)
def test_halves_have_the_scatter_between_pilots(draw):
    """The jackknife states 1.8, 3.1 and 1.6 times as much."""
    levels, stated = [], []
    for seed in range(200):
        X, labels = draw(np.random.default_rng(seed))
        parts, Y = decompose(X - X.mean(axis=0)), indicators(labels)
        penalty = float(PENALTIES[chosen_penalty(parts, Y - Y.mean(axis=0), PENALTIES)])
        found = leave_group_out(parts, Y, np.arange(len(X)), penalty)
        levels.append(ndtri(likely_right(margins(found, labels)).mean()))
        if seed % 5 == 0:
            stated.append(halves(X, labels, seed=seed))
    assert 0.75 < np.mean(stated) / np.var(levels, ddof=1) < 1.5  # relative standard errors .10 and .05


def test_copies_that_stay_together_are_counted_once():
    X, labels = clustered(np.random.default_rng(3), 60, 20)
    X, labels, groups = np.repeat(X, 2, axis=0), np.repeat(labels, 2), np.repeat(np.arange(60), 2)
    X = X + 0.01 * np.random.default_rng(4).standard_normal(X.shape)
    once = halves(X[::2], labels[::2])
    together = halves(X, labels, groups)
    assert 0.6 < together / once < 1.7  # other halvings, and the penalty weighs half as much
    assert together > 1.3 * halves(X, labels)
    assert halves(X, labels, np.zeros(120, dtype=int)) == 0


def test_variance_of_accuracy_is_level_and_rise():
    own = np.full(5, 0.7)
    z = np.array([own, own + 0.4, own - 0.3])
    p, rows = float(ndtr(0.7)), 400
    counted = p * (1 - p) / rows * 2 * np.pi * np.exp(0.7**2)
    for level in (2 * counted, 0.5 * counted):  # halves that happen to agree are not a known level
        known = max(level, counted)
        expected = [known, known + RISE_VARIANCE / rows * 0.4**2, known]
        np.testing.assert_allclose(band_variance(own, z, level, rows, True), expected)
    scattered = z + np.array([[0.0] * 5, [0.0, 0.1, -0.1, 0.1, -0.1], [0.0] * 5])
    more = band_variance(own, scattered, 2 * counted, rows, True) - band_variance(own, z, 2 * counted, rows, True)
    np.testing.assert_allclose(more, [0, np.var([0.1, -0.1, 0.1, -0.1], ddof=1), 0], atol=1e-12)


@pytest.mark.parametrize("slope", [-0.4, 0.0, 0.5])
def test_an_error_of_the_level_moves_the_rise_with_it(slope):
    """Pilots whose level is uncertain beyond counting: what the rise does when the level moves enters in full."""
    moved = np.append(0.0, np.random.default_rng(0).normal(0, 0.2, 400))
    own, noise = 0.7 + moved, np.append(0.0, np.random.default_rng(1).normal(0, 0.05, 400))
    found = band_variance(own, (own + slope * moved + noise)[None], 0.09, 400, True)[0]
    assert found == pytest.approx((1 + slope) ** 2 * 0.09 + 0.05**2, rel=0.15)


def test_a_pilot_without_an_error_still_has_a_width():
    own = np.append(9.0, 9.0 + 1e-6 * np.array([1.0, -1.0, 0.0]))
    z = np.array([own, own + np.array([0.0, 0.3, -0.3, 0.0])])  # the rise moves with the rounding of the level
    width = 1.645 * np.sqrt(band_variance(own, z, 0.0, 200, True))
    certain = 2.807  # probit of 1 − .5/200, the largest accuracy that 200 rows speak for
    assert 0.95 < ndtr(certain - width[0]) < 0.99  # zero errors among 200 rows: at least .985 in 19 of 20 cases
    assert ndtr(certain - width[1]) > 0.9


def test_variance_of_r2_is_level_and_rise():
    own = np.full(3, 0.5)
    found = band_variance(own, np.array([own - 0.4, own, own + 0.2]), 3e-2, 100, False)
    np.testing.assert_allclose(found, [3e-2, 3e-2, 3e-2 + RISE_VARIANCE / 100 * 0.2**2])
    wide = band_variance(own, np.array([own - 0.4, own, own + 0.2]), 3e-2, 100, False, unseen=6.0)
    np.testing.assert_allclose(wide, [3e-2, 3e-2, 3e-2 + 6 * RISE_VARIANCE / 100 * 0.2**2])


@pytest.mark.slow
def test_r2_of_fewer_rows_than_features_is_covered():
    """150 rows of 1,000 features: the score at four times the rows, from ridge itself, in nine of twelve pilots."""
    d, scale = 1000, np.arange(1.0, 1001) ** -0.5
    weights = np.random.default_rng(0).standard_normal(d)
    weights /= np.linalg.norm(weights * scale)

    def draw(n, rng):
        x = rng.standard_normal((n, d)) * scale
        return x, x @ weights + 0.7 * rng.standard_normal(n)

    tested, truth = draw(5000, np.random.default_rng(1)), []
    for seed in range(3):
        x, y = draw(600, np.random.default_rng(100 + seed))
        fitted = fit_ridge(x, y[:, None]).predict(tested[0])[:, 0]
        truth.append(1 - ((fitted - tested[1]) ** 2).mean() / tested[1].var())
    inside = 0
    for seed in range(12):
        f = sp.forecast(*draw(150, np.random.default_rng(200 + seed)), n=[600], task="regression")
        inside += f.interval[0, 0] <= np.mean(truth) <= f.interval[0, 1]
    assert inside >= 9


@pytest.mark.slow
def test_halves_of_a_regression_have_the_scatter_between_pilots():
    """Where features are many for the rows."""
    levels, stated = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((120, 40))
        y = X.sum(axis=1, keepdims=True) / np.sqrt(40) + 0.5 * rng.standard_normal((120, 1))
        parts, rows = decompose(X - X.mean(axis=0)), np.arange(120)
        penalty = float(PENALTIES[chosen_penalty(parts, y - y.mean(), PENALTIES)])
        levels.append(np.log(((leave_group_out(parts, y, rows, penalty) - y) ** 2).mean() / y.var()))
        if seed % 5 == 0:
            stated.append(level_variance(X, y, None, rows, PENALTIES, rng))
    assert 0.75 < np.mean(stated) / np.var(levels, ddof=1) < 1.35  # relative standard errors .08 and .04


def test_heavy_tails_of_a_regression_widen_its_interval():
    """Rare large errors that the pilot has not seen; Gaussian errors and classification are left alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 40))
    signal = (X @ rng.standard_normal(40) / 6)[:, None]
    errors = {"normal": rng.standard_normal((300, 1)), "heavy": rng.standard_t(3, (300, 1))}
    assert heavy_tails(errors["normal"]) < 1.15  # a kurtosis of 3 up to three standard errors of .28
    assert heavy_tails(errors["heavy"]) > 1.5
    for name, error in errors.items():
        Y, groups = signal + error, np.arange(300)
        pilot = measure_pilot(X, Y, None, groups, np.random.default_rng(1))
        penalties = pilot.row_norm * 10.0**LOG_PENALTIES
        plain = np.mean([level_variance(X, Y, None, groups, penalties, np.random.default_rng(s)) for s in range(4)])
        assert (pilot.level_variance > 1.3 * plain) == (name == "heavy")
