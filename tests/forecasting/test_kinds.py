"""Intervals on kinds of rows that they once missed or that they once made too wide; truths are those of the study.

`benchmarks/studies/plan_worlds.py` measures 72 kinds. Here are a few pilots of some of them. Widths contain the
variance between the curves that are combined, which is large where few rows of many classes leave the form open.
"""

import numpy as np
import pytest

import spikepool as sp

pytestmark = pytest.mark.filterwarnings("ignore::spikepool.forecasting.pilot_input.ForecastWarning")


def two(n, rng):
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, 300))
    X[:, 0] += 4 * (y - 0.5)
    return X, y


def thirty(n, rng):
    y = rng.integers(0, 30, n)
    return 0.4 * np.random.default_rng(130).standard_normal((30, 100))[y] + rng.standard_normal((n, 100)), y


def noisy(n, rng):
    y = (rng.random(n) < 0.5).astype(int)
    X = rng.standard_normal((n, 100))
    X[:, 0] += 3 * (y - 0.5)
    return X, np.where(rng.random(n) < 0.6, rng.permutation(y), y)


def numbers(n, rng):
    beta, scale = np.random.default_rng(40).standard_normal(40), np.arange(1.0, 41) ** -0.5
    X = rng.standard_normal((n, 40)) * scale
    return X, X @ beta / np.sqrt(((beta * scale) ** 2).sum()) + rng.standard_normal(n)


KINDS = {
    "two Gaussian classes": (two, 600, [0.965, 0.971, 0.973], 0.04),
    "thirty Gaussian classes, few rows": (thirty, 200, [0.722, 0.839, 0.899], 0.26),
    "thirty Gaussian classes": (thirty, 600, [0.883, 0.921, 0.931], 0.065),
    "label noise of .3": (noisy, 600, [0.643, 0.654, 0.661], 0.1),
    "regression on 60 rows": (numbers, 60, [0.388, 0.421, 0.454], 0.6),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_intervals_cover_and_are_not_wider_than_needed(name):
    draw, rows, truth, widest = KINDS[name]
    inside, width = [], []
    for seed in range(8):
        X, y = draw(rows, np.random.default_rng([seed, rows]))
        low, high = sp.forecast(X, y, n=rows * np.array([2, 4, 8]), random_state=seed).interval.T
        inside.append((low <= truth) & (truth <= high))
        width.append(high - low)
    assert np.mean(inside) >= 0.7  # of 24, in eight independent pilots
    assert np.mean(width) < widest
