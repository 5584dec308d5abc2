"""Ridge by folds: predictions, penalties and final fits against scikit-learn, in primal and in dual form."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from spikepool.ridge.folds import STEP, FeatureRidge, out_of_fold


def problem(n, F, k=2, seed=0):
    rng = np.random.default_rng(seed)
    C = rng.normal(size=(n, F)) * rng.uniform(0.1, 5, F) + rng.normal(size=F)
    Y = C @ rng.normal(size=(F, k)) / np.sqrt(F) + rng.normal(size=(n, k))
    weights = rng.uniform(0.3, 3, n)
    return C, Y, weights, np.arange(n) % 3


def standardised(C, weights):
    mean = np.average(C, axis=0, weights=weights)
    return (C - mean) / np.sqrt(np.average((C - mean) ** 2, axis=0, weights=weights))


@pytest.mark.parametrize("F", [1, 12, 29, 30, 31, 80])  # 30 rows: both sides of the switch
def test_folds_and_the_final_fit_are_those_of_scikit_learn(F):
    C, Y, weights, folds = problem(30, F)
    S = standardised(C, weights)
    ridge = FeatureRidge(C.copy(), Y, weights, folds)
    assert ridge.primal == (F <= 30)
    for a in (0.3, 20.0):
        values, *_ = out_of_fold(ridge.problems, ridge.unit, Y, weights, folds, lambda _, a=a: a)
        for k in range(3):
            train, test = folds != k, folds == k
            reference = Ridge(alpha=a, solver="svd").fit(S[train], Y[train], sample_weight=weights[train])
            np.testing.assert_allclose(values[test], reference.predict(S[test]), atol=1e-8)
        final = ridge.fit(a)
        reference = Ridge(alpha=a, solver="svd").fit(S, Y, sample_weight=weights)
        np.testing.assert_allclose(final.predict(C), reference.predict(S), atol=1e-8)
        assert final.ridge == pytest.approx(a / weights.sum())


@pytest.mark.parametrize("F", [20, 70])
def test_the_penalty_has_the_least_error_on_its_grid(F):
    C, Y, weights, folds = problem(60, F, seed=F)
    ridge = FeatureRidge(C.copy(), Y, weights, folds)

    def loss(a):
        values, *_ = out_of_fold(ridge.problems, ridge.unit, Y, weights, folds, lambda _: a)
        return weights @ ((values - Y) ** 2).sum(axis=1)

    values, a, _ = out_of_fold(ridge.problems, ridge.unit, Y, weights, folds)
    assert weights @ ((values - Y) ** 2).sum(axis=1) == pytest.approx(loss(a))
    assert loss(a) <= min(loss(a * 10**STEP), loss(a / 10**STEP))
    for start in (-3.0, 2.0):
        assert out_of_fold(ridge.problems, ridge.unit, Y, weights, folds, start=start)[1] == pytest.approx(a)


def test_rows_of_no_fold_only_train():
    C, Y, weights, _ = problem(30, 5)
    only = np.where(np.arange(30) < 6, 0, -1)
    ridge = FeatureRidge(C.copy(), Y, weights, only)
    assert len(ridge.problems) == 1
    S = standardised(C, weights)
    reference = Ridge(alpha=2.0, solver="svd").fit(S[6:], Y[6:], sample_weight=weights[6:])
    np.testing.assert_allclose(ridge.problems[0].predict(2.0), reference.predict(S[:6]), atol=1e-9)
