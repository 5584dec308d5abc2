"""Labels as users have them, and the same refusals at every door."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import spikepool as sp
from spikepool.data.labels import as_values, decided_task, label_array

N = 60
RNG = np.random.default_rng(0)
TOKENS = RNG.standard_normal((N, 3, 4))
CLASSES = np.arange(N) % 2


def spoiled(value):
    return np.array([value, *np.where(CLASSES[1:], "a", "b")], dtype=object)


DOORS = {
    "forecast": lambda X, y: sp.forecast(X.mean(axis=1) if getattr(X, "ndim", 0) == 3 else X, y),
    "report": sp.report,
    "fit": lambda X, y: sp.LearnedPoolingClassifier().fit(X, y),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "y",
    [
        spoiled(None),
        spoiled(np.nan),
        spoiled(3),
        np.where(np.arange(N) < 2, np.nan, CLASSES),
        np.where(np.arange(N) < 2, np.inf, CLASSES),
        CLASSES[:-1],
        CLASSES.astype(complex),
        np.eye(2)[CLASSES],
    ],
    ids=["None", "NaN among text", "number among text", "NaN", "inf", "short", "complex", "one-hot"],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_labels_that_are_none_are_refused_by_name(door, y):
    with pytest.raises(sp.InvalidInputError):
        DOORS[door](TOKENS, y)


@pytest.mark.parametrize("door", DOORS)
def test_sparse_features_are_refused_with_the_remedy(door):
    with pytest.raises(sp.InvalidInputError, match="toarray"):
        DOORS[door](scipy.sparse.random(N, 30, 0.2, random_state=0, format="csr"), CLASSES)


def test_masked_features_are_called_masked():
    with pytest.raises(sp.InvalidInputError, match="masked"):
        sp.diagnose(np.ma.array(TOKENS[:, 0], mask=TOKENS[:, 0] > 1))


def test_objects_that_are_numbers_are_numbers():
    assert label_array(np.array([1.5, 2, 3.25], dtype=object)).dtype == np.float64
    assert label_array([[1], [2]]).shape == (2,)
    assert label_array(np.array(["a", "b"], dtype=object)).dtype == object


def test_tasks():
    assert decided_task(np.array([0.5, 1.0])) == "regression"
    assert decided_task(CLASSES) == decided_task(CLASSES.astype(float)) == "classification"
    amounts = np.float64(np.arange(N) // 2)
    with pytest.raises(sp.InvalidInputError, match="classes or amounts"):
        decided_task(amounts)
    assert decided_task(amounts, "regression") == "regression"
    assert decided_task(np.arange(N) // 2) == "classification"
    with pytest.raises(sp.InvalidInputError, match="task"):
        decided_task(CLASSES, "ranking")


@pytest.mark.filterwarnings("ignore")
def test_report_is_told_the_task():
    y = np.round(10 * TOKENS[:, 0].sum(axis=1))
    with pytest.raises(sp.InvalidInputError, match="classes or amounts"):
        sp.report(TOKENS, y)
    found = sp.report(TOKENS, y[:, None], task="regression")
    assert found.plan.result.task == "regression"
    assert "a real target" in str(found)


@pytest.mark.filterwarnings("ignore")
def test_report_says_why_nothing_was_compared():
    assert "10 different rows (or groups) are too few" in sp.report(TOKENS[:10], CLASSES[:10]).choose.verdict
    assert "a single position" in sp.report(TOKENS[:, :1], CLASSES).choose.verdict


def test_nullable_columns_keep_their_type_and_near_integers_stay_apart():
    near = [2**53, 2**53 + 1, 2**53 + 2]
    for values in (pd.array(near, dtype="Int64"), pd.Series(near, dtype="Int64"), np.array(near, dtype=object)):
        found = label_array(values)
        assert found.dtype.kind == "i"
        assert len(np.unique(found)) == 3
    assert label_array(pd.array([True, False, True], dtype="boolean")).dtype == bool
    for missing in (pd.array([1, None, 2], dtype="Int64"), pd.array([True, None], dtype="boolean"), [1.0, None, 2.0]):
        with pytest.raises(sp.InvalidInputError, match="misses values"):
            label_array(missing)
    with pytest.raises(sp.InvalidInputError, match="beyond 64 bits"):
        label_array(np.array([2**70, 1], dtype=object))
    assert as_values([str(2**64), str(2**64 + 1)], "y").tolist() == [str(2**64), str(2**64 + 1)]
    assert as_values([str(2**63), "-1"], "y").dtype.kind == "U"
