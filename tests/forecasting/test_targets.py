"""Rows for a target: what the pilot determines, and nothing beyond it."""

import numpy as np
import pytest

import spikepool as sp


def flat(seed, rows=300):
    """Two Gaussian classes in 40 features: ridge has .803 from 300 rows, .830 from 1,080 and .841 in the limit."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    x = rng.standard_normal((rows, 40))
    x[:, 0] += 2 * (y - 0.5)
    return x, y


@pytest.mark.parametrize("seed", range(4))
def test_a_flat_curve_has_probabilities_and_an_open_range(seed):
    x, y = flat(seed)
    f = sp.forecast(x, y, target=0.83)
    assert [rows for rows, _ in f.target_probability] == [300, 600, 1200, 2400]
    chances = np.array([p for _, p in f.target_probability])
    assert (np.diff(chances) > 0).all()
    assert 0.1 < chances[-1] < 0.99
    low, best, high = f.required_samples
    assert 300 <= low <= (best or np.inf)
    assert high is None
    text = str(f)
    assert "curve may not reach it" in text
    assert f"{best}" not in text.splitlines()[-2]
    assert "rather than label more rows" not in text
    assert f.to_dict()["target_probability"] == [list(pair) for pair in f.target_probability]


def test_the_report_does_not_advise_against_rows_that_may_be_enough():
    x, y = flat(0)
    plan = sp.report(x, y, target=0.83).plan
    assert "the curve may not reach it" in plan.verdict
    assert plan.advice.startswith("Label as many rows again")


def test_a_steep_curve_that_is_well_measured_has_a_narrow_range():
    n = np.array([32, 64, 128, 256, 512, 1024])
    scores = (1 - 2 * n**-0.5)[:, None] + 0.002 * np.random.default_rng(0).standard_normal((6, 10))
    f = sp.forecast_curve(n, scores, target=1 - 2 * 1300**-0.5)
    low, best, high = f.required_samples
    assert 1024 <= low <= best <= high <= 4 * low
    assert low <= 1300 <= high
    assert "rows are needed (80 % range)" in str(f)


def test_probabilities_are_shares_of_the_curves_that_may_be_true():
    """Against draws from the mixture of the posterior, at sizes beyond the points."""
    n = np.array([32, 64, 128, 256, 512])
    f = sp.forecast_curve(n, 0.9 - 1.5 * n**-0.5, target=0.86)
    posterior, rng = f.curve.posterior(512.0 * np.array([2, 4, 8])), np.random.default_rng(1)
    chosen = rng.choice(len(posterior.weights), 20_000, p=posterior.weights)
    z = posterior.mean[chosen] + posterior.deviation[chosen] * rng.standard_normal((20_000, 3))
    shares = (f.curve.to_score(z) >= 0.86).mean(axis=0)
    for share, (_, p) in zip(shares, f.target_probability[1:], strict=True):
        assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / 20_000) + 1e-4


def test_the_stated_error_is_named():
    from sklearn.naive_bayes import GaussianNB

    x, y = flat(1)
    assert "(one standard error, over tested rows; chance" in str(sp.forecast(x, y))
    assert "(one standard error, over tested and training rows; chance" in str(
        sp.forecast(x, y, estimator=GaussianNB())
    )
