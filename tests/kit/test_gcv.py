"""Ridge by generalised cross-validation, against scikit-learn and the definition."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from spikepool.ridge.gcv import LEAST_FREEDOM, RELATIVE_PENALTIES, fit_ridge


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


def test_a_constant_feature_gets_no_coefficient():
    rng = np.random.default_rng(3)
    C = rng.normal(size=(40, 4))
    C[:, 2] = 1 / 3
    fitted = fit_ridge(C, rng.normal(size=(40, 1)), standardize=True)
    assert fitted.coef[2, 0] == 0
    assert np.isfinite(fitted.coef).all()


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
