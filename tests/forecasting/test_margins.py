"""Margins: the smooth count of right rows, the agreement of training sets, and what the link makes of it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from spikepool.forecasting.curve import fit_curve
from spikepool.forecasting.link import ManyClassLink, fit_link
from spikepool.forecasting.margins import agreement, likely_right, margins
from spikepool.forecasting.pilot import measure_pilot


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


def test_agreement_is_the_share_of_variance_between_rows():
    rng = np.random.default_rng(3)
    rows = np.tile(np.arange(2000), 6)
    own = rng.standard_normal(2000)
    for share in (0.0, 0.4, 0.9):
        m = np.sqrt(share) * own[rows] + np.sqrt(1 - share) * rng.standard_normal(len(rows))
        assert agreement(rows, m) == pytest.approx(share, abs=0.03)
    assert agreement(np.arange(10), rng.standard_normal(10)) is None  # no row twice
    assert agreement(rows, np.ones(len(rows))) is None  # nothing varies


def test_link_rises_more_slowly_where_training_sets_agree():
    pilot = pilot_of(np.random.default_rng(4))
    steep, flat = (fit_link(replace(pilot, agreement=a), np.ones(pilot.rows)) for a in (0.2, 0.8))
    assert isinstance(steep, ManyClassLink)
    assert isinstance(flat, ManyClassLink)
    assert steep.slope > flat.slope + 0.2
    r2 = np.array([0.9])
    assert steep(r2) > flat(r2)


def test_link_counts_classes_by_their_weight():
    rng = np.random.default_rng(5)
    link = fit_link(pilot_of(rng, shares=(0.6, 0.1, 0.1, 0.1, 0.1)), np.ones(300))
    assert isinstance(link, ManyClassLink)
    assert link.classes == 2  # 1/(.36 + .04) = 2.5; five equal ones would be five
    assert link.largest_share > 0.5


def test_curve_keeps_most_of_the_level_that_the_pilot_shows():
    pilot = pilot_of(np.random.default_rng(6))
    curve = fit_curve(pilot, np.random.default_rng(0))
    draw = curve.draws[0]
    assert draw.link is not None
    alone = ndtri(draw.link(1 - curve.mse([pilot.rows])[:, 0]))[0]
    measured = ndtri(pilot.sizes[0].chosen_likely.mean())
    assert draw.shift == pytest.approx(0.8 * (measured - alone), abs=1e-9)
    centre = curve.transformed([pilot.rows])[0, 0]
    assert min(alone, measured) - 0.02 < centre < max(alone, measured) + 0.02
    assert curve.limit == pytest.approx(curve.score(curve.transformed([10**9]))[0, 0], abs=0.005)
