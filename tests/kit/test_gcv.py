"""Ridge by generalised cross-validation, against scikit-learn and the definition."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from spikepool.ridge.gcv import LEAST_FREEDOM, RELATIVE_PENALTIES, RidgeSums, fit_ridge


@pytest.mark.parametrize("shape", [(60, 8), (20, 45)])
def test_ridge_equals_scikit_learn_primal_and_dual(shape):
    rng = np.random.default_rng(0)
    C, Y = rng.normal(size=shape) + 1, rng.normal(size=(shape[0], 2))
    fitted = fit_ridge(C, Y, 0.2)
    reference = Ridge(alpha=0.2 * shape[0]).fit(C, Y)
    np.testing.assert_allclose(fitted.coef.T, reference.coef_, atol=1e-10)
    np.testing.assert_allclose(fitted.intercept, reference.intercept_, atol=1e-10)


@pytest.mark.parametrize("shape", [(60, 8), (20, 45)])
def test_generalised_cross_validation_from_the_hat_matrix(shape):
    n, d = shape
    rng = np.random.default_rng(1)
    C = rng.normal(size=shape)
    Y = C[:, :2] @ rng.normal(size=(2, 2)) + rng.normal(size=(n, 2))
    X, Z = C - C.mean(axis=0), Y - Y.mean(axis=0)
    scores = []
    grid = RELATIVE_PENALTIES * (X**2).sum() / min(n, d)
    for penalty in grid:
        H = X @ np.linalg.solve(X.T @ X + penalty * np.eye(d), X.T) + np.ones((n, n)) / n
        freedom = n - np.trace(H)
        scores.append(((Z - (H - 1 / n) @ Z) ** 2).sum() / freedom**2 if freedom > LEAST_FREEDOM * n else np.inf)
    assert fit_ridge(C, Y).ridge * n == pytest.approx(grid[int(np.argmin(scores))], rel=1e-9)


def test_constant_features_predict_the_mean():
    fitted = fit_ridge(np.ones((10, 3)), np.arange(10.0)[:, None])
    np.testing.assert_allclose(fitted.predict(np.ones((2, 3))), 4.5)


@pytest.mark.parametrize("shape", [(60, 8), (20, 45)])
def test_standardised_ridge_equals_a_scaler_and_a_ridge(shape):
    rng = np.random.default_rng(0)
    C = (rng.normal(size=shape) + 1) * 10.0 ** rng.integers(-4, 5, size=shape[1])
    Y = rng.normal(size=(shape[0], 3))
    fitted = fit_ridge(C, Y, 0.2, standardize=True)
    reference = make_pipeline(StandardScaler(), Ridge(alpha=0.2 * shape[0])).fit(C, Y)
    np.testing.assert_allclose(fitted.predict(C), reference.predict(C), atol=1e-9)


def test_standardised_penalty_does_not_depend_on_the_units_of_features():
    rng = np.random.default_rng(1)
    C = rng.normal(size=(80, 12))
    Y = C[:, :2] + rng.normal(size=(80, 2))
    units = 10.0 ** rng.integers(-6, 7, size=12)
    one, other = fit_ridge(C, Y, standardize=True), fit_ridge(C * units, Y, standardize=True)
    assert other.ridge == pytest.approx(one.ridge, rel=1e-9)
    np.testing.assert_allclose(other.predict(C * units), one.predict(C), atol=1e-9)
    assert abs(fit_ridge(C * units, Y).predict(C * units) - one.predict(C)).max() > 0.1  # without it, it does


@pytest.mark.parametrize("standardize", [False, True])
def test_sums_over_blocks_equal_one_block(standardize):
    rng = np.random.default_rng(2)
    C = rng.normal(size=(90, 7)) + 1e4  # far from zero: sums around zero would lose eight digits
    Y = C[:, :1] + rng.normal(size=(90, 2))
    sums = RidgeSums(Y, standardize=standardize)
    for part in np.split(np.arange(90), [1, 17, 60]):
        sums.add(C[part], Y[part])
    whole, parts = fit_ridge(C, Y, standardize=standardize), sums.fit()
    assert parts.ridge == pytest.approx(whole.ridge, rel=1e-8)
    np.testing.assert_allclose(parts.predict(C), whole.predict(C), atol=1e-7)


def test_a_constant_feature_gets_no_coefficient():
    rng = np.random.default_rng(3)
    C = rng.normal(size=(40, 4))
    C[:, 2] = 1 / 3
    fitted = fit_ridge(C, rng.normal(size=(40, 1)), standardize=True)
    assert fitted.coef[2, 0] == 0
    assert np.isfinite(fitted.coef).all()


@pytest.mark.parametrize("shape", [(60, 200), (60, 50), (150, 100)])  # dual; primal with and without the copies
@pytest.mark.parametrize("blocks", [1, 3])
def test_rows_given_twice_are_the_same_fit(shape, blocks):
    n, d = shape
    rng = np.random.default_rng(4)
    C = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, size=d)
    Y = (C / C.std(axis=0))[:, :3] + rng.normal(size=(n, 3))
    once = fit_ridge(C, Y, standardize=True)
    twice, targets = np.vstack([C, C]), np.vstack([Y, Y])
    if blocks == 1:
        again = fit_ridge(twice, targets, standardize=True)
    else:
        sums = RidgeSums(targets, standardize=True)
        for part in np.split(np.arange(2 * n), [1, n // 2]):
            sums.add(twice[part], targets[part])
        again = sums.fit()
    assert again.ridge == pytest.approx(once.ridge, rel=1e-8)
    np.testing.assert_allclose(again.predict(C), once.predict(C), atol=1e-8)


def test_a_few_copies_do_not_make_interpolation_look_perfect():
    """Among more features than rows, copies agree with any fit that interpolates: GCV at no penalty would be zero."""
    rng = np.random.default_rng(5)
    n, d = 200, 600
    beta = rng.normal(size=(d, 1)) * (np.arange(d) < 20)[:, None]
    C, new = rng.normal(size=(n, d)), rng.normal(size=(2000, d))
    Y, truth = C @ beta + 8 * rng.normal(size=(n, 1)), new @ beta
    copied = np.r_[np.arange(n), np.arange(12)]
    plain, with_copies = fit_ridge(C, Y), fit_ridge(C[copied], Y[copied])
    assert with_copies.ridge > plain.ridge / 3
    error, other = (((fit.predict(new) - truth) ** 2).mean() for fit in (plain, with_copies))
    assert other < 1.1 * error


def test_repeated_measurements_count_as_rows():
    """Equal features with targets of their own: GCV of the definition, over all rows."""
    rng = np.random.default_rng(6)
    C = np.repeat(rng.normal(size=(12, 30)), 5, axis=0)
    Y = C[:, :1] + 2 * rng.normal(size=(60, 1))
    X, Z = C - C.mean(axis=0), Y - Y.mean(axis=0)
    grid = RELATIVE_PENALTIES * (X**2).sum() / 30
    scores = []
    for penalty in grid:
        H = X @ np.linalg.solve(X.T @ X + penalty * np.eye(30), X.T)
        scores.append(((Z - H @ Z) ** 2).sum() / (59 - np.trace(H)) ** 2)
    assert fit_ridge(C, Y).ridge * 60 == pytest.approx(grid[int(np.argmin(scores))], rel=1e-9)


def test_features_may_be_used_as_working_space():
    rng = np.random.default_rng(7)
    for shape in ((40, 9), (9, 40)):
        C, Y = rng.normal(size=shape), rng.normal(size=(shape[0], 2))
        kept = fit_ridge(C.copy(), Y, 0.1, standardize=True)
        np.testing.assert_array_equal(fit_ridge(C, Y, 0.1, standardize=True, overwrite=True).coef, kept.coef)
