"""Margins: the smooth count of right rows, and the link from R² to accuracy."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from spikepool.forecasting.curve import fit_curve
from spikepool.forecasting.link import ManyClassLink, fit_links, winning_probability
from spikepool.forecasting.margins import likely_right, margins
from spikepool.forecasting.pilot import explained, measure_pilot


def pilot_of(rng, n=300, d=30, shares=(0.2,) * 5):
    """Classes around centres of their own."""
    labels = rng.choice(len(shares), size=n, p=shares)
    X = rng.standard_normal((n, d)) + rng.standard_normal((len(shares), d))[labels] * 0.6
    Y = np.where(labels[:, None] == np.arange(len(shares)), 1.0, -1.0)
    return measure_pilot(X, Y, labels, np.arange(n), rng)


def test_margins_are_the_own_value_less_the_best_other():
    rng = np.random.default_rng(0)
    f, labels = rng.standard_normal((50, 4)), rng.integers(0, 4, 50)
    expected = [f[i, k] - max(f[i, j] for j in range(4) if j != k) for i, k in enumerate(labels)]
    np.testing.assert_allclose(margins(f, labels), expected)
    np.testing.assert_array_equal(margins(f, labels) > 0, f.argmax(axis=1) == labels)


@pytest.mark.parametrize("mean", [-0.5, 0.3, 1.2])
def test_smooth_count_has_the_mean_of_the_count_and_less_scatter(mean):
    rng = np.random.default_rng(1)
    samples = rng.standard_normal((3000, 200)) * 2 + 2 * mean
    smooth = np.array([likely_right(m).mean() for m in samples])
    count = (samples > 0).mean(axis=1)
    assert smooth.mean() == pytest.approx(float(ndtr(mean)), abs=0.004)
    assert smooth.std() < 0.97 * count.std()


def test_smooth_count_needs_no_normal_margins():
    rng = np.random.default_rng(2)
    skewed = rng.exponential(size=200_000) - 0.7
    assert likely_right(skewed).mean() == pytest.approx(np.exp(-0.7), abs=0.01)


def test_link_of_gaussian_classes_ends_at_the_theory():
    """Gaussian rows around class centres are recognised, and rows of unequal scale are not."""
    rng = np.random.default_rng(4)
    pilot = pilot_of(rng)
    assert pilot.gaussian
    labels = rng.integers(0, 5, 300)
    X = (rng.standard_normal((300, 30)) + rng.standard_normal((5, 30))[labels]) * rng.exponential(size=(300, 1))
    Y = np.where(labels[:, None] == np.arange(5), 1.0, -1.0)
    assert not measure_pilot(X, Y, labels, np.arange(300), rng).gaussian
    limit = 0.9
    assert pilot.gaussian == pytest.approx(1.0, abs=0.05)  # classes are equally frequent
    (_, link), (_, flat) = (fit_links(replace(pilot, gaussian=g), np.ones(pilot.rows), limit)[-1] for g in (1.0, 0.0))
    assert isinstance(link, ManyClassLink)
    assert isinstance(flat, ManyClassLink)
    assert link(np.array(limit)) == pytest.approx(winning_probability(np.sqrt(5 * limit / (1 - limit)), 5), abs=1e-6)
    assert flat.slope < 1
    own = pilot.sizes[0]
    r2 = explained(pilot, own.chosen_excess, np.ones(pilot.rows))
    for found in (link, flat):  # both pass the pilot's own point
        assert float(found(r2)) == pytest.approx(own.chosen_likely.mean(), abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "rows", "noise"), [(50, 200, 0.0), (10, 400, 0.22)])
def test_few_rows_of_a_class_and_wrong_labels_bend_the_link(classes, rows, noise):
    """Accuracy gains more than one per unit of log R²/(1 − R²) from few rows, and less where labels err."""
    rng, slopes = np.random.default_rng(6), []
    centres = 0.6 * rng.standard_normal((classes, 80))
    for _ in range(3):
        labels = np.concatenate([np.arange(classes), rng.integers(0, classes, rows - classes)])
        X = centres[labels] + rng.standard_normal((rows, 80))
        labels = np.where(rng.random(rows) < noise, rng.permutation(labels), labels)
        Y = np.where(labels[:, None] == np.arange(classes), 1.0, -1.0)
        slopes.append(fit_curve(measure_pilot(X, Y, labels, np.arange(rows), rng), rng).draws[0].links[-1][1].slope)
    assert np.mean(slopes) < 0.9 if noise else np.mean(slopes) > 1.1, slopes


def test_link_counts_classes_by_their_weight():
    rng = np.random.default_rng(5)
    _, link = fit_links(pilot_of(rng, shares=(0.6, 0.1, 0.1, 0.1, 0.1)), np.ones(300), 0.9)[0]
    assert isinstance(link, ManyClassLink)
    assert link.classes == 2  # 1/(.36 + .04) = 2.5; five equal ones would be five
    assert link.largest_share > 0.5


def test_curve_keeps_most_of_the_level_that_the_pilot_shows():
    pilot = pilot_of(np.random.default_rng(6))
    curve = fit_curve(pilot, np.random.default_rng(0))
    _, link, shift = curve.draws[0].links[-1]
    alone = ndtri(link(1 - curve.mse([pilot.rows])[:, 0]))[0]
    measured = ndtri(pilot.sizes[0].chosen_likely.mean())
    assert shift == pytest.approx(measured - alone, abs=1e-9)
    centre = curve.transformed([pilot.rows])[0, 0]
    assert min(alone, measured) - 0.02 < centre < max(alone, measured) + 0.02
    assert curve.limit == pytest.approx(curve.to_score(curve.transformed([10**9]))[0, 0], abs=0.005)
