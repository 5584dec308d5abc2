"""Choosing among poolings: paired differences, clusters, folds, and the bias to the mean."""

import numpy as np
import pytest

from spikepool.pooling.learning_rows import assign_folds, tie
from spikepool.pooling.selection import decide, paired


def test_paired_error_counts_the_largest_difference_once_more_each_way_and_clusters_as_units():
    rng = np.random.default_rng(0)
    d = rng.normal(size=60)
    mean, error = paired(d, np.arange(60))
    assert mean == pytest.approx(d.mean())
    assert error == pytest.approx(np.sqrt(d.var(ddof=1) / 60 + 2 * np.abs(d).max() ** 2 / 60**2))
    # every row three times: as much information as once
    repeated = paired(np.repeat(d, 3), np.repeat(np.arange(60), 3))
    assert repeated == pytest.approx((mean, error))


def test_five_rows_that_differ_are_no_proof_and_six_are():
    for rows, chosen in ((5, "mean"), (6, "last")):
        last = np.zeros(200)
        last[:rows] = 1.0
        assert decide({"mean": np.zeros(200), "last": last}, np.arange(200)).name == chosen


def scores(**gains):
    """Scores of 1000 rows whose difference to the mean has the given average, in units of its standard error."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=1000)
    result = {"mean": base}
    for name, z in gains.items():
        d = rng.normal(size=1000)
        d -= d.mean()
        d /= d.std(ddof=1) / np.sqrt(1000)
        result[name] = base + d + z
    return result


@pytest.mark.parametrize(
    ("gains", "chosen"),
    [
        ({"last": 1.9, "query": 1.9}, "mean"),
        ({"last": 2.1, "first": 2.5, "query": 1.0}, "first"),
        ({"last": 1.9, "query": 2.1}, "query"),
        ({"last": -5.0, "query": 2.1, "positions": 4.0}, "positions"),
        # the learned one must beat the fixed rule that stands, by two errors of THEIR difference (1.4 of one)
        ({"last": 4.0, "query": 6.5}, "last"),
        ({"last": 4.0, "query": 7.5}, "query"),
    ],
)
def test_the_incumbent_stays_unless_beaten_by_two_standard_errors(gains, chosen):
    choice = decide(scores(**gains), np.arange(1000))
    assert choice.name == chosen
    assert [c.name for c in choice.candidates] == ["mean", *gains]
    for c in choice.candidates[1:]:
        assert c.gain == pytest.approx(gains[c.name])
        assert 1 < c.error < 1.02  # one, and a little for the largest difference seen once more each way


def test_equal_scores_keep_the_mean():
    same = np.ones(50)
    assert decide({"mean": same, "last": same, "query": same}, np.arange(50)).name == "mean"


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
