"""Ridge by folds: predictions, penalties and final fits against scikit-learn."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from spikepool.ridge.folds import STEP, FoldRidge, out_of_fold


def problem(n, F, k=2, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, F)) * rng.uniform(0.1, 5, F) + rng.normal(size=F)
    Y = Z @ rng.normal(size=(F, k)) / np.sqrt(F) + rng.normal(size=(n, k))
    weights = rng.uniform(0.3, 3, n)
    return Z, Y, weights, np.arange(n) % 3


@pytest.mark.parametrize("F", [1, 12, 30, 80])
def test_folds_and_the_final_fit_are_those_of_scikit_learn(F):
    Z, Y, weights, folds = problem(30, F)
    ridge = FoldRidge(Z, Y, weights, folds)
    for lam in (0.01, 0.7):
        values, a = out_of_fold(ridge.problems, ridge.unit, Y, weights, folds, lam)
        assert a == pytest.approx(lam * weights.sum())
        for k in range(3):
            train, test = folds != k, folds == k
            alpha = lam * weights[train].sum()
            reference = Ridge(alpha=alpha, solver="svd").fit(Z[train], Y[train], sample_weight=weights[train])
            np.testing.assert_allclose(values[test], reference.predict(Z[test]), atol=1e-8)
        found = ridge.whole.solve(a)
        reference = Ridge(alpha=a, solver="svd").fit(Z, Y, sample_weight=weights)
        np.testing.assert_allclose(Z @ found[:-1] + found[-1], reference.predict(Z), atol=1e-8)


@pytest.mark.parametrize("rows", ["every row is left out", "some rows only train"])
@pytest.mark.parametrize(("F", "noise"), [(20, 0.01), (20, 30.0), (70, 3.0)])
def test_the_penalty_has_the_least_error_on_its_grid(F, noise, rows):
    Z, Y, weights, folds = problem(60, F, seed=F)
    Y = Y + noise * np.random.default_rng(1).normal(size=Y.shape)
    if rows == "some rows only train":
        folds = np.where(folds == 2, -1, folds)
    ridge = FoldRidge(Z, Y, weights, folds)
    here = folds >= 0

    def loss(a):
        values = np.concatenate([one.predict(a) for one in ridge.problems])
        rows = np.concatenate([np.flatnonzero(folds == k) for k in range(len(ridge.problems))])
        return weights[rows] @ ((values - Y[rows]) ** 2).sum(axis=1)

    values, a = out_of_fold(ridge.problems, ridge.unit, Y, weights, folds)
    assert np.isnan(values[~here]).all()
    assert weights[here] @ ((values - Y)[here] ** 2).sum(axis=1) == pytest.approx(loss(a))
    assert loss(a) <= min(loss(a * 10**STEP), loss(a / 10**STEP))


def test_rows_of_no_fold_only_train():
    Z, Y, weights, _ = problem(30, 5)
    only = np.where(np.arange(30) < 6, 0, -1)
    ridge = FoldRidge(Z, Y, weights, only)
    assert len(ridge.problems) == 1
    reference = Ridge(alpha=2.0, solver="svd").fit(Z[6:], Y[6:], sample_weight=weights[6:])
    np.testing.assert_allclose(ridge.problems[0].predict(2.0), reference.predict(Z[:6]), atol=1e-9)
