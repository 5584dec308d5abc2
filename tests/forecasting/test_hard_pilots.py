"""Forecasts from hard pilots: chance, imbalance, separable, repeated, few and broken rows."""

import warnings

import numpy as np
import pytest
from generated_pilots import accuracy_at, classes

import spikepool as sp
from spikepool.forecasting.pilot_input import ForecastWarning

pytestmark = pytest.mark.filterwarnings("ignore::spikepool.forecasting.pilot_input.ForecastWarning")


def test_labels_at_chance_stay_there():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 50))
    for K in (2, 4):
        with pytest.warns(ForecastWarning, match="at chance"):
            f = sp.forecast(X, np.arange(300) % K, n=[300, 600, 2400], target=0.95)
        assert f.verdict == "at chance"
        assert "at chance" in str(f)
        assert f.known.tolist() == f.to_dict()["known"] == [True, False, False]
        assert str(f).count("not known") == 3  # two sizes, and whether the target is reached
        assert (f.accuracy < f.chance + 0.09).all()
        assert f.interval[1, 0] <= 1 / K + 0.02


def test_a_weak_regression_at_chance_is_not_known_though_it_can_be_learned():
    """120 rows of 600 features: R² of .03 at the pilot and .22 at eight times its size; the interval misses that."""
    scale, beta = np.arange(1.0, 601) ** -0.35, np.random.default_rng(600).standard_normal(600)
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((120, 600)) * scale
        y = X @ beta / np.sqrt(((beta * scale) ** 2).sum()) + 1.2 * rng.standard_normal(120)
        found.append(sp.forecast(X, y, n=[960], random_state=seed))
    assert {f.verdict for f in found} == {"at chance", "learning"}
    for f in found:
        low, high = f.interval[0]
        assert f.known[0] == (f.verdict == "learning" and not (low <= 0 and high >= 0.5))
        assert ("not known" in str(f)) != f.known[0]


def test_chance_of_unequal_classes_is_the_largest():
    rng = np.random.default_rng(1)
    f = sp.forecast(rng.standard_normal((400, 30)), (rng.random(400) < 0.1).astype(int), n=[800])
    assert f.chance == pytest.approx(0.9, abs=0.04)
    assert f.accuracy[0] == pytest.approx(f.chance, abs=0.02)


def test_unequal_classes_come_out_as_forecast():
    means = np.zeros((2, 40))
    means[1, :8] = 0.9

    def draw(rng, n):
        y = (rng.random(n) < 0.12).astype(int)
        return rng.standard_normal((n, 40)) + means[y], y

    X, y = draw(np.random.default_rng(2), 400)
    f = sp.forecast(X, y, n=[1600])
    assert f.interval[0, 0] <= accuracy_at(1600, draw) <= f.interval[0, 1]
    assert f.accuracy[0] >= f.chance


def test_a_separable_pilot_is_near_one_with_a_lower_end():
    X, y = classes(np.random.default_rng(3), 120, gap=8.0)
    f = sp.forecast(X, y, n=[120, 480], target=0.999)
    assert f.measured_score[0] == 1.0
    assert (f.accuracy > 0.97).all()
    assert (f.accuracy <= 1).all()
    assert f.interval[0, 0] < 0.9999
    assert f.required_samples[0] is not None


def test_repeated_rows_do_not_flatter(digits):
    """Every row twice: leave-one-out would see the copy; merged, the forecast is that of the distinct rows."""
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((150, 100)), rng.integers(0, 2, 150)
    with pytest.warns(ForecastWarning, match="150 of 300 rows are exact copies"):
        f = sp.forecast(np.vstack([X, X]), np.concatenate([y, y]), n=[600])
    assert f.pilot_rows == 150
    assert f.measured_score[0] < 0.65
    plain = sp.forecast(X, y, n=[600])
    assert f.accuracy[0] == pytest.approx(plain.accuracy[0], abs=0.02)


def test_rows_with_the_same_features_and_other_labels_stay_together():
    rng = np.random.default_rng(5)
    X = np.repeat(rng.standard_normal((60, 80)), 2, axis=0)
    y = np.tile([0, 1], 60)  # the features say nothing: one of each
    f = sp.forecast(X, y, n=[480])
    assert f.pilot_rows == 120
    assert f.measured_score[0] == 0.5  # whatever is said of the features is right once
    assert f.verdict == "at chance"


def test_groups_are_left_out_together():
    """Rows of a group share a label and a random offset: splits through groups would look perfect."""
    rng = np.random.default_rng(6)
    offsets = np.repeat(rng.standard_normal((40, 60)) * 3, 6, axis=0)
    y = np.repeat(rng.integers(0, 2, 40), 6)
    X, groups = offsets + rng.standard_normal((240, 60)), np.repeat(np.arange(40), 6)
    found = sp.forecast(X, y)  # near copies are found and left out together
    assert found.measured_score[0] < 0.75
    assert any("near copy" in text for text in found.warnings)
    grouped = sp.forecast(X, y, groups=groups)
    assert grouped.measured_score[0] < 0.7
    assert grouped.verdict == "at chance"
    with pytest.raises(sp.SizeError, match="groups"):
        sp.forecast(X, y, groups=np.arange(240) % 3)


def test_few_rows_and_few_rows_of_a_class_are_said():
    X, y = classes(np.random.default_rng(7), 45, gap=0.5)
    with pytest.warns(ForecastWarning, match="45 rows says little"):
        small = sp.forecast(X, y, n=[360])
    X2, y2 = classes(np.random.default_rng(7), 450, gap=0.5)
    assert np.ptp(small.interval[0]) > 1.4 * np.ptp(sp.forecast(X2, y2, n=[3600]).interval[0])
    y3 = y2.copy()
    y3[:2] = 7
    with pytest.warns(ForecastWarning, match="1 of 4 classes have fewer than 5 rows"):
        assert np.isfinite(sp.forecast(X2, y3).accuracy).all()
    with pytest.raises(sp.SizeError, match="at least 20"):
        sp.forecast(X[:15], y[:15])


def test_constant_columns_are_nothing_and_constant_features_an_error():
    X, y = classes(np.random.default_rng(8), 200)
    f = sp.forecast(X, y, n=[800])
    wide = sp.forecast(np.column_stack([X, np.ones((200, 1)) * 5]), y, n=[800])
    assert wide.accuracy[0] == pytest.approx(f.accuracy[0], abs=0.01)
    with pytest.raises(sp.InvalidInputError, match="constant"):
        sp.forecast(np.ones((100, 5)), y[:100])


@pytest.mark.slow
def test_more_features_than_rows_and_one_dominant_direction():
    means = np.random.default_rng(3).standard_normal((3, 500)) * 0.03

    def draw(rng, n, sink=0.0):
        X, y = classes(rng, n, d=500, means=means)
        X[:, 0] += sink * rng.standard_normal(n)
        return X, y

    truth = accuracy_at(600, draw, trials=3)
    for sink in (0.0, 3e3):  # none, and one of ten million times the variance of a direction
        found = [sp.forecast(*draw(np.random.default_rng(seed), 150, sink), n=[600]) for seed in range(8)]
        assert sum(f.interval[0, 0] <= truth <= f.interval[0, 1] for f in found) >= 6
        # the prior limit is the pilot's R²: forecasts from rows fewer than features are careful, .04 too low here
        assert 0.06 > truth - np.mean([f.accuracy[0] for f in found]) > -0.02


def test_a_row_far_out_is_said():
    X, y = classes(np.random.default_rng(11), 150)
    X[7] *= 1e5
    with pytest.warns(ForecastWarning, match="30 times as far from the centre as the median row: 1"):
        f = sp.forecast(X, y)
    assert np.isfinite(f.accuracy).all()


def test_bad_input_is_named(digits):
    X, y = digits[0][:100], digits[1][:100]
    holed = X.copy()
    holed[3, 2] = np.nan
    with pytest.raises(sp.NonFiniteError, match="C"):
        sp.forecast(holed, y)
    with pytest.raises(sp.NonFiniteError, match="y"):
        sp.forecast(X, np.where(y == 3, np.nan, y))
    with pytest.raises(sp.InvalidInputError, match="one class"):
        sp.forecast(X, np.zeros(100, dtype=int))
    with pytest.raises(sp.InvalidInputError, match="different class"):
        sp.forecast(X, [f"label {i}" for i in range(100)])
    with pytest.raises(sp.InvalidInputError, match="classes or amounts"):
        sp.forecast(X, np.arange(100))
    with pytest.raises(sp.InvalidInputError, match="y is constant"):
        sp.forecast(X, np.full(100, 1.5), task="regression")
    with pytest.raises(sp.ShapeError, match="100 rows"):
        sp.forecast(X, y[:50])
    with pytest.raises(sp.ShapeError, match="C"):
        sp.forecast(X[0], y)
    with pytest.raises(sp.SizeError, match="n"):
        sp.forecast(X, y, n=[100, 1.5])
    with pytest.raises(sp.SizeError, match="at least"):
        sp.forecast(X, y, n=[1])
    with pytest.raises(sp.DomainError, match="target"):
        sp.forecast(X, y, target=1.2)
    with pytest.raises(sp.InvalidInputError, match="task"):
        sp.forecast(X, y, task="ranking")
    with pytest.raises(sp.ShapeError, match="mask"):
        sp.forecast(X, y, mask=np.ones((100, 3)))
    with pytest.raises(sp.InvalidInputError, match="ordered"):
        sp.forecast(X, np.array([1, "a"] * 50, dtype=object))


# tokens, files


@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_numbers_whose_squares_are_no_floats_are_named(scale):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    labels, amounts = X[:, 0] > 0, X[:, 0] + rng.standard_normal(60)
    with pytest.raises(sp.DomainError, match="squares of C"):
        sp.forecast(scale * X, labels, n=[120])
    with pytest.raises(sp.DomainError, match="squares of C"):
        sp.diagnose(scale * X)
    with pytest.raises(sp.DomainError, match="squares of y"):
        sp.forecast(X, scale * amounts, n=[120], task="regression")
    with pytest.raises(sp.DomainError, match="squares of y"):
        sp.LearnedPoolingRegressor().fit(X[:, :, None], scale * amounts)


def test_columns_in_unlike_units_are_said():
    X, y = classes(np.random.default_rng(12), 150)
    X[:, 3] *= 1e4
    with pytest.warns(ForecastWarning, match="standardize=True"):
        sp.forecast(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ForecastWarning)
        sp.forecast(X, y, standardize=True)


def test_rows_far_out_do_not_make_chance_of_accuracy():
    """Squared errors of three rows outweigh those of all others; the accuracy, far above chance, does not know them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20))
    y = (X[:, :4].sum(axis=1) > 0).astype(int)
    X[:3] *= 25.0
    y[:3] = 1 - y[:3]
    with pytest.warns(ForecastWarning):
        f = sp.forecast(X, y)
    assert f.measured_score[0] > 0.6
    assert f.verdict == "learning"
    assert sp.forecast(rng.standard_normal((300, 20)), y).verdict == "at chance"
