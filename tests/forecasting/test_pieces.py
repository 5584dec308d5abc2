"""The parts of a forecast against definitions, limits and oracles that share no code with them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.linear_model import Ridge, RidgeCV

from spikepool.forecasting.curve import fit_power_law
from spikepool.forecasting.equivalents import equivalents
from spikepool.forecasting.leave_out import chosen_penalty, decompose, held_out_predictor, leave_group_out
from spikepool.forecasting.link import gaussian_accuracy, margin_of, winning_probability
from spikepool.forecasting.pilot import LOG_PENALTIES, explained, measure_pilot
from spikepool.forecasting.spectrum import PopulationSpectrum, fit_spectrum
from spikepool.forecasting.target_power import design_pilot, fit_target_power


def coloured(rng, n, d, decay=1.0):
    return rng.standard_normal((n, d)) * np.arange(1, d + 1) ** (-decay / 2)


def refitted(X, Y, groups, penalty):
    """Leave-one-group-out by fitting again, with scikit-learn."""
    out = np.empty_like(Y)
    for group in np.unique(groups):
        inside = groups == group
        out[inside] = Ridge(alpha=penalty).fit(X[~inside], Y[~inside]).predict(X[inside]).reshape(-1, Y.shape[1])
    return out


@pytest.mark.parametrize(("n", "d"), [(40, 12), (25, 60)], ids=["primal", "dual"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("penalty", [0.05, 3.0])
def test_leave_out_is_refitting(n, d, grouped, penalty):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((n, d)) + 2, rng.standard_normal((n, 3)) + 1
    groups = np.repeat(np.arange(n), 1)
    if grouped:  # groups of 1, 2 and 5 rows in a random order
        groups = rng.permutation(np.concatenate([np.repeat([0, 1], 5), np.repeat([2, 3], 2), np.arange(4, n - 10)]))
    found = leave_group_out(decompose(X - X.mean(axis=0)), Y, groups, penalty)
    np.testing.assert_allclose(found, refitted(X, Y, groups, penalty), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(("n", "d"), [(40, 12), (25, 60)], ids=["primal", "dual"])
def test_held_out_is_ridge(n, d):
    rng = np.random.default_rng(1)
    X, Y, new = rng.standard_normal((n, d)), rng.standard_normal((n, 2)), rng.standard_normal((7, d))
    centre, level = X.mean(axis=0), Y.mean(axis=0)
    penalties = np.array([0.1, 2.0, 50.0])
    predict = held_out_predictor(decompose(X - centre), Y - level, new - centre)
    for penalty in penalties:
        np.testing.assert_allclose(predict(penalty) + level, Ridge(alpha=penalty).fit(X, Y).predict(new), rtol=1e-8)


def test_chosen_penalty_is_the_least_gcv_by_its_definition():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((50, 20))
    y = X[:, :1] + rng.standard_normal((50, 1))
    X, y = X - X.mean(axis=0), y - y.mean(axis=0)
    penalties = np.geomspace(0.01, 1e4, 15)
    scores = []
    for a in penalties:
        H = X @ np.linalg.solve(X.T @ X + a * np.eye(20), X.T) + 1 / 50
        scores.append(((y - H @ y) ** 2).sum() / (50 - np.trace(H)) ** 2)
    assert chosen_penalty(decompose(X), y, penalties) == int(np.argmin(scores))


def test_effective_penalty_solves_its_equation_and_has_its_limits():
    spectrum = PopulationSpectrum(np.array([5.0, 1.0, 0.1]), np.array([2.0, 30.0, 200.0]))
    m, delta = np.array([[20.0], [500.0]]), np.array([0.01, 1.0, 1e4])
    kappa = spectrum.effective_penalty(m, delta)
    lam, h = spectrum.eigenvalues, spectrum.multiplicities
    np.testing.assert_allclose((h * lam / (lam + kappa[..., None])).sum(-1) + delta / kappa, np.broadcast_to(m, (2, 3)))
    assert spectrum.effective_penalty(1e9, np.array([3.0])) == pytest.approx(3.0 / 1e9, rel=1e-3)  # many rows
    assert spectrum.effective_penalty(50.0, np.array([1e12])) == pytest.approx(1e12 / 50, rel=1e-6)  # no learning


def test_bands_share_directions_by_rank():
    spectrum = PopulationSpectrum(np.array([4.0, 2.0, 1.0]), np.array([1.0, 3.0, 6.0]))
    bands = spectrum.bands(np.array([0, 2, 6, np.inf]))
    np.testing.assert_allclose(bands, [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]])
    assert len(spectrum.bands(np.array([0, 10, 20, np.inf]))) == 1  # empty bands are left out


@pytest.mark.parametrize(("n", "d"), [(300, 120), (100, 200)])
def test_spectrum_gives_the_degrees_of_freedom_of_another_size(n, d):
    rng = np.random.default_rng(3)
    X = coloured(rng, n, d)
    fitted = fit_spectrum(decompose(X - X.mean(axis=0)).squared, n, d, float(X.var(axis=0).sum()) * n / (n - 1))
    assert fitted.multiplicities.sum() == pytest.approx(d, rel=0.05)
    assert fitted.multiplicities @ fitted.eigenvalues == pytest.approx(X.var(axis=0, ddof=1).sum(), rel=0.02)
    more = coloured(rng, 4 * n, d)
    s = decompose(more - more.mean(axis=0)).squared
    for delta in (1.0, 10.0, 100.0):
        kappa = fitted.effective_penalty(4.0 * n - 1, np.array([delta]))
        df = (fitted.multiplicities * fitted.eigenvalues / (fitted.eigenvalues + kappa)).sum()
        assert df == pytest.approx((s / (s + delta)).sum(), rel=0.04)


def test_equivalents_are_the_errors_of_ridge():
    """Monte Carlo: known spectrum, signal in known directions; the error falls within a few standard errors."""
    rng = np.random.default_rng(4)
    n, d, noise = 150, 80, 0.5
    lam = np.arange(1, d + 1.0) ** -1.0
    spectrum = PopulationSpectrum(lam, np.ones(d))
    bands = spectrum.bands(np.array([0, 10, np.inf]))
    delta = np.array([2.0, 20.0])
    beta = np.zeros(d)
    beta[:10] = np.sqrt(0.5 / 10 / lam[:10])  # half of the variance, evenly in the first ten directions
    known = equivalents(spectrum, bands, n, delta)
    expected = known.mse @ [0.5, 0.0, noise]
    np.testing.assert_allclose(known.mse, 1 + known.excess, rtol=1e-12)  # M = 1 + E2 − 2T
    errors = []
    for _ in range(60):
        X = rng.standard_normal((n, d)) * np.sqrt(lam)
        y = X @ beta + np.sqrt(noise) * rng.standard_normal(n)
        row = []
        for a in delta:
            fit = Ridge(alpha=a).fit(X, y)
            row.append(noise + (lam * (fit.coef_ - beta) ** 2).sum() + (fit.intercept_) ** 2)
        errors.append(row)
    mean, se = np.mean(errors, axis=0), np.std(errors, axis=0) / np.sqrt(60)
    assert (np.abs(mean - expected * (1 + 1 / n)) < 4 * se + 0.01).all()


def test_noise_alone_and_no_penalty_have_the_textbook_error():
    spectrum = PopulationSpectrum(np.array([1.0]), np.array([40.0]))
    known = equivalents(spectrum, spectrum.bands(np.array([0, np.inf])), 201, np.array([1e-9]))
    np.testing.assert_allclose(known.mse[0], [0.0, 200 / 160], atol=1e-6)  # least squares: m/(m − d), no bias


@pytest.mark.slow
def test_target_power_finds_noise_and_where_the_signal_lies():
    rng = np.random.default_rng(5)
    n, d = 600, 200
    X, scale = coloured(rng, n, d), np.arange(1, d + 1) ** -0.5
    top = []
    for first, last in ((0, 2), (30, 62)):
        beta = np.zeros(d)
        beta[first:last] = np.sqrt(0.7 / (last - first)) / scale[first:last]
        y = X @ beta + np.sqrt(0.3) * rng.standard_normal(n)
        pilot = measure_pilot(X, y[:, None], None, np.arange(n), rng)
        spectrum = fit_spectrum(pilot.eigenvalues, n, d, pilot.row_norm)
        power = fit_target_power(pilot, design_pilot(pilot, spectrum), np.ones(n))
        assert power.sum() == pytest.approx(1, abs=1e-3)
        assert (power >= 0).all()
        assert power[-1] == pytest.approx(0.3, abs=0.08)
        top.append(power[0])
    assert top[0] > 0.35 > 0.2 > top[1]


@pytest.mark.parametrize("K", [2, 5, 77])
def test_winning_probability(K):
    assert winning_probability(np.array(0.0), K) == pytest.approx(1 / K, rel=1e-3)
    rng = np.random.default_rng(6)
    z = rng.standard_normal((40_000, K))
    z[:, 0] += 1.5
    won = (z.argmax(axis=1) == 0).mean()
    found = winning_probability(np.array(1.5), K)
    assert found == pytest.approx(won, abs=4 * np.sqrt(0.25 / 40_000))
    assert margin_of(found, K) == pytest.approx(1.5, abs=1e-3)


def test_two_classes_are_gaussian_scores():
    assert winning_probability(np.array(1.0), 2) == pytest.approx(float(ndtr(1 / np.sqrt(2))), rel=1e-6)
    # balanced: accuracy = Phi(sqrt(R²/(1 − R²)))
    assert gaussian_accuracy(np.array(0.3), 0.5) == pytest.approx(float(ndtr(np.sqrt(0.3 / 0.7))))
    # nothing learned: the larger class
    assert gaussian_accuracy(np.array(1e-6), 0.8) == pytest.approx(0.8, abs=1e-6)
    rng = np.random.default_rng(7)  # by its definition, unequal classes
    share, r2 = 0.3, 0.4
    y = np.where(rng.random(200_000) < share, 1.0, -1.0)
    level, variance = 2 * share - 1, 4 * share * (1 - share)
    f = level + r2 * (y - level) + np.sqrt(variance * r2 * (1 - r2)) * rng.standard_normal(len(y))
    assert gaussian_accuracy(np.array(r2), share) == pytest.approx((np.sign(f) == y).mean(), abs=0.004)


def test_power_law_goes_through_the_pilot_and_never_rises():
    rng = np.random.default_rng(8)
    X = coloured(rng, 200, 20)
    labels = (X[:, 0] + 0.5 * rng.standard_normal(200) > 0).astype(int)
    Y = np.where(labels[:, None] == np.arange(2), 1.0, -1.0)
    pilot = measure_pilot(X, Y, labels, np.arange(200), rng)
    law = fit_power_law(pilot, np.ones(200))
    assert law.accuracy(np.array([pilot.sizes[0].n]))[0] == pytest.approx(pilot.sizes[0].chosen_likely.mean())
    assert law.exponent >= 0


def test_variance_that_a_constant_explains_is_counted_as_for_new_rows():
    # the mean of m rows misses a new row by var(y)(1 + 1/m)
    rng = np.random.default_rng(7)
    n = 25
    X, y = rng.standard_normal((n, 3)), rng.standard_normal((n, 1))
    pilot = measure_pilot(X, y, None, np.arange(n), rng)
    others = (y.sum() - y[:, 0]) / (n - 1) - y.mean()
    excess = others * (others - 2 * (y[:, 0] - y.mean()))
    assert float(explained(pilot, excess, np.ones(n))) == pytest.approx(-1 / (n - 1), rel=1e-9)


def test_target_power_gives_back_the_errors_it_is_fitted_to():
    rng = np.random.default_rng(9)
    n, d = 25, 3
    X, y = rng.standard_normal((n, d)), rng.standard_normal((n, 1))
    pilot = measure_pilot(X, y, None, np.arange(n), rng)
    spectrum = fit_spectrum(pilot.eigenvalues, n, d, pilot.row_norm)
    _, known = design_pilot(pilot, spectrum).sizes[0]
    count = known.mse.shape[1] - 1
    error = known.mse @ np.append(np.full(count, 0.5 / count), 0.5) * (1 + 1 / (n - 1))
    # rows that show exactly this error, 1 − R², at every penalty
    own = replace(pilot.sizes[0], excess=pilot.energy[:, None] * (error / (1 - 1 / n) - 1))
    shown = replace(pilot, sizes=(own,))
    power = fit_target_power(shown, design_pilot(shown, spectrum), np.ones(n))
    assert (known.mse @ power).min() * (1 + 1 / (n - 1)) == pytest.approx(error.min(), abs=0.01)


def test_smaller_sizes_choose_their_penalty_from_a_fine_grid():
    # where features are as many as rows trained on, the error is steep in the penalty
    rng = np.random.default_rng(8)
    n, d = 300, 120
    X = coloured(rng, n, d)
    y = X @ rng.standard_normal((d, 1)) + 3 * rng.standard_normal((n, 1))
    pilot = measure_pilot(X, y, None, np.arange(n), rng)
    best = 10.0 ** LOG_PENALTIES[np.argmin(_leave_one_out_errors(X, y, pilot.row_norm))]
    assert pilot.penalties.min() < best * pilot.row_norm < pilot.penalties.max()
    np.testing.assert_allclose(np.diff(np.log10(pilot.penalties)), 0.2, atol=1e-9)


def _leave_one_out_errors(X, y, row_norm):
    errors = []
    for penalty in row_norm * 10.0**LOG_PENALTIES:
        fit = RidgeCV(alphas=[penalty], store_cv_results=True).fit(X, y[:, 0])
        errors.append(fit.cv_results_.mean())
    return np.array(errors)
