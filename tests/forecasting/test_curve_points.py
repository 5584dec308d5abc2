"""Forecasts of measured curves: the process against quadrature and a dense oracle, then what the result says."""

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.stats import norm

import spikepool as sp
from spikepool.forecasting import damped_slope as cp
from spikepool.forecasting.measured_curve import point_errors
from spikepool.forecasting.pilot_input import ForecastWarning
from spikepool.forecasting.score_scale import EDGE, ScoreScale, score_scale, scorer_bounds


def test_moments_are_integrals_of_the_slope():
    x, b = np.array([5.0, 6.3, 9.0]), 0.2
    mean, covariance = cp.slope_moments(x, b)

    def a(u):
        return np.exp(-b * (u - 8))

    for i in range(3):
        assert mean[i] == pytest.approx(quad(a, x[0], x[i])[0], abs=1e-9)
        for j in range(i, 3):
            value = dblquad(
                lambda u, v: a(u) * a(v) * np.exp(-cp.MEMORY * abs(u - v)), x[0], x[i], x[0], x[j], epsabs=1e-8
            )[0]
            assert covariance[i, j] == pytest.approx(value, abs=1e-6)
            assert covariance[j, i] == pytest.approx(covariance[i, j])


@pytest.mark.parametrize("guide", [None, np.array([0.1, 0.4, 0.8, 0.7, 1.0])])
def test_posterior_is_that_of_joint_draws(guide):
    """Conditioning by hand: joint mean and covariance of points and asked sizes, one scale and mean at a time."""
    n, z, v = np.array([64.0, 128.0, 512.0]), np.array([0.2, 0.5, 0.9]), np.array([0.01, 0.02, 0.005])
    at = np.array([256.0, 2048.0])
    found = cp.posterior(n, z, np.diag(v), at, guide)
    x = np.log2(np.concatenate([n, at]))
    order = np.argsort(x)
    back = np.argsort(order)
    walk = cp.ROUGH**2 * np.minimum.outer(x - x.min(), x - x.min())
    weights, c = [], 0
    for tau, b, prior in cp.prior(None):
        m, C = cp.slope_moments(x[order], b)
        m, C = m[back], C[np.ix_(back, back)]
        K = tau**2 * C + walk + norm.ppf(EDGE) ** 2
        A = K[:3, :3] + np.diag(v + 1e-10)
        for mean in [0.9 + tau * m] + ([] if guide is None else [0.9 + guide - guide[2]]):
            gain = K[3:, :3] @ np.linalg.inv(A)
            np.testing.assert_allclose(found.mean[c], mean[3:] + gain @ (z - mean[:3]), atol=1e-8)
            np.testing.assert_allclose(found.covariance[c], K[3:, 3:] - gain @ K[:3, 3:], atol=1e-8)
            r = z - mean[:3]
            weights.append(prior * np.exp(-0.5 * r @ np.linalg.solve(A, r)) / np.sqrt(np.linalg.det(A)))
            c += 1
    np.testing.assert_allclose(found.weights, np.array(weights) / np.sum(weights), atol=1e-8)
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(found.weights), 40_000, p=found.weights)
    draws = found.mean[chosen] + found.deviation[chosen] * rng.standard_normal((40_000, found.mean.shape[1]))
    for q in (0.05, 0.5, 0.95):
        spread = draws.std(axis=0)
        assert np.all(np.abs(np.quantile(draws, q, axis=0) - found.quantile(q)) < 0.03 * spread + 0.002)


def test_points_decide_about_a_guide():
    """A guide that the points follow is followed; one that they contradict is not."""
    n, at = 2.0 ** np.arange(5, 10), np.array([2048.0, 8192.0])
    every = np.log2(np.concatenate([n, at]))
    true, noise = 0.2 * every + 0.4 * np.sin(1.5 * every), 1e-4 * np.eye(5)  # of no shape that the prior knows
    alone = cp.posterior(n, true[:5], noise, at).quantile(0.5)
    guided = cp.posterior(n, true[:5], noise, at, true + 3.0).quantile(0.5)
    assert np.abs(guided - true[5:]).max() < 0.1 < 0.5 < np.abs(alone - true[5:]).max()
    usual, wrong = 0.2 * every[:5], -0.5 * every
    misled = cp.posterior(n, usual, noise, at, wrong).quantile(0.5)
    np.testing.assert_allclose(misled, cp.posterior(n, usual, noise, at).quantile(0.5), atol=0.05)


def test_scales_invert_and_rise_with_quality():
    for scale, scores in (
        (ScoreScale(), [0.01, 0.4, 0.99]),
        (ScoreScale(-1.0, 1.0), [-0.5, 0.2]),
        (ScoreScale(-np.inf, 1.0), [-3.0, 0.7]),
        (ScoreScale(0.0, np.inf, False), [0.2, 5.0]),
    ):
        s = np.array(scores)
        np.testing.assert_allclose(scale.to_score(scale.to_z(s)), s, atol=1e-12)
        step = 1e-6
        np.testing.assert_allclose(np.abs(scale.to_z(s + step) - scale.to_z(s)) / step, scale.slope(s), rtol=1e-3)
        assert (np.diff(scale.to_z(s)) > 0).all() == scale.higher_is_better
    assert scorer_bounds("neg_log_loss", np.array([-1.0])) == (None, 0.0)
    assert scorer_bounds("f1_macro", np.array([0.5])) == (0.0, 1.0)
    assert scorer_bounds(None, np.array([-0.5, 0.5])) == (None, 1.0)
    with pytest.raises(sp.InvalidInputError, match="finite"):
        score_scale((None, None), True)


def test_errors_of_points_are_those_of_repeats():
    rng = np.random.default_rng(0)
    n = np.array([50.0, 100.0, 200.0, 400.0])
    true = 0.1 * np.sqrt(50 / n)
    found = np.array([point_errors(n, 0.7 + true[:, None] * rng.standard_normal((4, 5))) for _ in range(300)])
    # the mean error is right to a tenth, and scatters less than that of five repeats alone (a third)
    np.testing.assert_allclose(np.sqrt((found**2).mean(axis=0)), true / np.sqrt(5), rtol=0.12)
    assert (found.std(axis=0) / found.mean(axis=0)).max() < 0.3


@pytest.fixture(scope="module")
def rising():
    n = np.array([32, 64, 128, 256, 512, 1024])
    return n, 0.95 - 0.9 * n**-0.4


def test_a_power_law_is_continued(rising):
    n, scores = rising
    f = sp.forecast_curve(n, scores, at=[2048, 8192], target=0.93)
    truth = 0.95 - 0.9 * np.array([2048, 8192]) ** -0.4
    assert np.all((f.interval[:, 0] < truth) & (truth < f.interval[:, 1]))
    np.testing.assert_allclose(f.score, truth, atol=0.01)
    low, best, high = f.required_samples
    assert low < best
    assert low < (0.9 / 0.02) ** 2.5 < (high or np.inf)
    assert 0.93 < f.limit < 1
    assert not f.warnings
    record = f.to_dict()
    assert record["score"] == pytest.approx(f.score.tolist())
    assert record["required_samples"] == [low, best, high]
    assert "90 % interval" in str(f)
    assert "<table" in f._repr_html_()


def test_plot_names_score_and_model(rising):
    pytest.importorskip("matplotlib")
    ax = sp.forecast_curve(*rising, estimator="RandomForestClassifier", score_name="f1_macro").plot()
    assert ax.get_xscale() == "log"
    assert ax.get_ylabel().startswith("f1_macro")
    assert "forecast of RandomForestClassifier" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_repeats_narrow_the_interval_and_losses_are_turned(rising):
    n, scores = rising
    rng = np.random.default_rng(1)
    noisy = scores[:, None] + 0.01 * rng.standard_normal((6, 8))
    f = sp.forecast_curve(n, noisy, at=[2048])
    wide = sp.forecast_curve(n, scores[:, None] + 0.05 * rng.standard_normal((6, 8)), at=[2048])
    assert np.ptp(f.interval[0]) < np.ptp(wide.interval[0])
    loss = sp.forecast_curve(n, 3 * n**-0.3, at=[4096], target=0.2, higher_is_better=False)
    assert loss.interval[0, 0] < 3 * 4096**-0.3 < loss.interval[0, 1]
    assert loss.score[0] < 3 * 1024**-0.3
    low, best, _ = loss.required_samples
    assert low < (3 / 0.2) ** (1 / 0.3) * 2
    assert best is None or best >= low


def test_bad_points_are_refused_and_odd_curves_flagged(rising):
    n, scores = rising
    with pytest.raises(sp.SizeError, match="4 different sizes"):
        sp.forecast_curve([1, 2, 4], [0.1, 0.2, 0.3])
    with pytest.raises(sp.SizeError, match="4 different sizes"):
        sp.forecast_curve([1, 2, 4, 4], [0.1, 0.2, 0.3, 0.3])
    with pytest.raises(sp.DomainError, match="between 0 and 1"):
        sp.forecast_curve(n, 100 * scores)
    with pytest.raises(sp.ShapeError, match="one row for each"):
        sp.forecast_curve(n, scores[:3])
    with pytest.raises(sp.InvalidInputError, match="target"):
        sp.forecast_curve(n, scores, target=1.5)
    rng = np.random.default_rng(0)

    def repeated(means):
        return np.array(means)[:, None] + 0.005 * rng.standard_normal((len(means), 5))

    with pytest.warns(ForecastWarning, match="falls"):
        sp.forecast_curve(n, repeated([0.6, 0.7, 0.75, 0.78, 0.74, 0.7]))
    with pytest.warns(ForecastWarning, match="double descent"):
        sp.forecast_curve(n, repeated([0.6, 0.7, 0.75, 0.62, 0.74, 0.8]))
    with pytest.warns(ForecastWarning, match="disagree"):
        sp.forecast_curve(n, repeated([0.6, 0.75, 0.755, 0.756, 0.87, 0.88]))


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::UserWarning")  # some of these curves fall
def test_intervals_cover_curves_of_the_prior():
    """Curves drawn from the process itself, with noise of unknown size: 90 % within ten times the size."""
    rng = np.random.default_rng(3)
    n, at = 2.0 ** np.arange(5, 11), np.array([4096.0])
    x = np.log2(np.concatenate([n, at]))
    inside, draws = 0, 150
    weights = np.array([weight for _, _, weight in cp.prior(None)])
    for _ in range(draws):
        tau, b, _ = cp.prior(None)[rng.choice(len(weights), p=weights / weights.sum())]
        m, C = cp.slope_moments(x, b)
        z = rng.uniform(-1, 0.5) + tau * (m + np.linalg.cholesky(C + 1e-10 * np.eye(7)) @ rng.standard_normal(7))
        scores = norm.cdf(z[:6, None] + 0.02 * rng.standard_normal((6, 5)))
        f = sp.forecast_curve(n, np.clip(scores, 0, 1), at=at)
        inside += f.interval[0, 0] <= norm.cdf(z[6]) <= f.interval[0, 1]
    # 3.5 standard errors around .90, and the walk that is added makes intervals wider than these curves need
    assert 0.82 * draws <= inside <= 0.99 * draws
