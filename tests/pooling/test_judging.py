"""Choosing among poolings: weights, paired differences, clusters, folds, and the bias to the mean."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import minimize

from spikepool.data.description import tie
from spikepool.data.folds import assign_folds
from spikepool.pooling.catalogue import candidate_names
from spikepool.pooling.judging import paired, simplex_weights


def residual_gram(scores, Y, weights):
    root = np.sqrt(weights)[:, None]
    E = np.stack([(root * (score - Y)).reshape(-1) for score in scores])
    return E @ E.T


def test_paired_error_counts_the_largest_difference_once_more_each_way_and_clusters_as_units():
    rng = np.random.default_rng(0)
    d = rng.normal(size=60)
    mean, error = paired(d, np.ones(60), np.arange(60))
    assert mean == pytest.approx(d.mean())
    assert error == pytest.approx(np.sqrt(d.var(ddof=1) / 60 + 2 * np.abs(d).max() ** 2 / 60**2))
    # every row three times, or with three times the weight: as much information as once
    repeated = paired(np.repeat(d, 3), np.ones(180), np.repeat(np.arange(60), 3))
    assert repeated == pytest.approx((mean, error))
    assert paired(d, np.full(60, 3.0), np.arange(60)) == pytest.approx((mean, error))


@pytest.mark.parametrize("m", [2, 5, 9])
def test_weights_of_the_stack_minimise_the_squared_error_on_the_simplex(m):
    rng = np.random.default_rng(m)
    Y = rng.normal(size=(80, 2))
    scores = [Y * rng.uniform(0, 1) + rng.normal(size=Y.shape) * rng.uniform(0.3, 2) for _ in range(m)]
    weights = rng.uniform(0.5, 2, 80)
    G = residual_gram(scores, Y, weights)
    v = simplex_weights(G)
    assert v.min() >= 0
    assert v.sum() == pytest.approx(1)

    def loss(v):
        mixed = sum(w * s for w, s in zip(v, scores, strict=True))
        return float(weights @ ((mixed - Y) ** 2).sum(axis=1))

    assert loss(v) == pytest.approx(v @ G @ v)
    found = minimize(  # another method, from the definition
        loss,
        np.full(m, 1 / m),
        bounds=[(0, 1)] * m,
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert loss(v) <= found.fun * 1.001


def test_equal_candidates_and_perfect_ones_are_no_problem():
    Y = np.arange(10.0)[:, None]
    same = [Y + 1.0] * 3
    assert simplex_weights(residual_gram(same, Y, np.ones(10))).sum() == pytest.approx(1)
    perfect = simplex_weights(residual_gram([Y, Y + 1], Y, np.ones(10)))
    np.testing.assert_allclose(perfect, [1, 0])
    np.testing.assert_allclose(simplex_weights(np.zeros((2, 2))), 0.5)


@pytest.mark.parametrize("classes", [1, 4])
def test_folds_keep_clusters_together_and_spread_classes(classes):
    rng = np.random.default_rng(0)
    strata = np.arange(400) % classes
    single = assign_folds(strata, np.arange(400), 4, seed=0)
    for c in range(classes):
        assert np.ptp(np.bincount(single[strata == c], minlength=4)) <= 1
    clusters = rng.integers(0, 90, 400)
    together = assign_folds(strata, clusters, 4, seed=0)
    assert all(len(set(together[clusters == g])) == 1 for g in np.unique(clusters))
    assert np.bincount(together, minlength=4).min() > 80


def test_repeated_rows_in_classes_smaller_than_the_folds_are_split_too():
    clusters = np.r_[0, 0, np.arange(1, 59)]
    folds = assign_folds(np.arange(60) // 3, clusters, 4, seed=0)
    assert folds[0] == folds[1]
    assert np.bincount(folds).tolist() == [15] * 4


def test_groups_and_repeated_rows_are_tied_transitively():
    copies = np.array([0, 1, 2, 2, 3, 4])
    groups = np.array([0, 0, 0, 1, 1, 2])
    tied = tie(copies, groups)
    assert len(set(tied[:5])) == 1  # rows 2 and 3 are equal, so their groups belong together
    assert tied[5] != tied[0]
    np.testing.assert_array_equal(tie(copies, None), copies)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["sequence", "query", "registry"])
def test_the_mean_comes_first_whatever_is_imported_first(first):
    code = f"import spikepool.pooling.{first}; from spikepool.pooling.catalogue import candidate_names as c; print(c())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == str(candidate_names())
    assert found.startswith("('mean', ")
