"""Pilots whose features take few values, and pilots whose rows depend on each other."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.forecasting.dependence import shared_residuals
from spikepool.forecasting.leave_out import decompose
from spikepool.forecasting.pilot_input import ForecastWarning, read_pilot


def categories(n, seed, chances):
    """Rows of one categorical feature, one-hot, and a label of the given chance in each category."""
    rng = np.random.default_rng(seed)
    c = rng.integers(0, len(chances), n)
    return np.eye(len(chances))[c], (rng.random(n) < chances[c]).astype(int)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::spikepool.forecasting.pilot_input.ForecastWarning")
def test_categories_are_draws_and_not_copies():
    """Ridge on enough rows guesses the likelier label of each category, which is right in E max(p, 1 − p)."""
    chances = np.array([0.95, 0.1, 0.8, 0.3, 0.6, 0.2, 0.9, 0.15, 0.7, 0.05])
    truth = np.maximum(chances, 1 - chances).mean()
    found = [sp.forecast(*categories(300, seed, chances), n=[2400]) for seed in range(4)]
    assert all(f.pilot_rows == 300 for f in found)
    # four standard errors of the pilot's own level, sqrt(truth (1 − truth)/300), and half of them for the mean
    error = np.sqrt(truth * (1 - truth) / 300)
    assert [f.score[0] for f in found] == pytest.approx([truth] * 4, abs=4 * error)
    assert np.mean([f.score[0] for f in found]) == pytest.approx(truth, abs=2 * error)


def test_categories_without_a_signal_are_at_chance_and_look_so():
    with pytest.warns(ForecastWarning, match="at chance"):
        f = sp.forecast(*categories(300, 0, np.full(10, 0.5)))
    assert f.verdict == "at chance"
    assert (f.score < 0.65).all()


def test_means_of_categories_are_learned():
    rng = np.random.default_rng(0)
    c = rng.integers(0, 8, 400)
    y = rng.standard_normal(8)[c] + 0.5 * rng.standard_normal(400)
    f = sp.forecast(np.eye(8)[c], y, n=[400])
    assert f.verdict == "learning"
    within = np.mean([y[c == k].var() for k in range(8)]) / y.var()
    assert f.score[0] == pytest.approx(1 - within, abs=0.05)


def binary(n, seed, dependence=0.0):
    """Eight binary features, which share a latent if they depend on each other, and labels by their sum."""
    rng = np.random.default_rng(seed)
    latent = np.sqrt(dependence) * rng.standard_normal((n, 1)) + np.sqrt(1 - dependence) * rng.standard_normal((n, 8))
    X = (latent > 0).astype(float)
    score = (X - 0.5) @ np.array([2.0, -1.5, 1.5, 1, -1, 1, 0.5, 0])
    return X, (rng.random(n) < 1 / (1 + np.exp(-2 * score))).astype(int)


@pytest.mark.parametrize("dependence", [0.0, 0.3])
def test_equal_rows_of_few_values_are_not_copies(dependence):
    X, y = binary(200, 1, dependence)
    given = read_pilot(X, y)
    assert len(given.X) == 200
    assert len(np.unique(given.groups)) == 200
    assert not given.warnings


def test_equal_rows_that_their_values_do_not_explain_are_copies():
    """Twenty binary features hardly ever coincide: the same 100 rows twice are copies."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (100, 20)).astype(float), rng.integers(0, 2, 100)
    given = read_pilot(np.vstack([X, X]), np.tile(y, 2))
    assert len(given.X) == 100
    assert "100 of 200 rows are exact copies" in given.warnings[0]


@pytest.mark.parametrize("times", [2, 3])
def test_binary_rows_given_several_times_over_are_named(times):
    """Equal rows are coincidences here; that all of them come in multiples is not."""
    X, y = binary(200, 1)
    order = np.random.default_rng(0).permutation(200 * times)
    given = read_pilot(np.tile(X, (times, 1))[order], np.tile(y, times)[order])
    assert f"multiples of {times}" in given.warnings[0]
    assert not read_pilot(X, y).warnings


@pytest.mark.slow
def test_accuracy_of_binary_features_is_that_of_new_rows():
    """Left out with their equals, 200 rows were forecast .05 too low."""
    truth = np.mean([_ridge_accuracy(*binary(400, 50 + seed)) for seed in range(6)])
    errors = [sp.forecast(*binary(200, seed), n=[400]).score[0] - truth for seed in range(6)]
    # standard error of the mean of six levels of 200 rows: .012
    assert abs(np.mean(errors)) < 3 * np.sqrt(truth * (1 - truth) / 1200)


def _ridge_accuracy(X, y):
    new, labels = binary(20_000, 999)
    coefficients = np.linalg.solve(
        (X - X.mean(0)).T @ (X - X.mean(0)) + np.eye(8), (X - X.mean(0)).T @ (2.0 * y - 2 * y.mean())
    )
    return (((new - X.mean(0)) @ coefficients + 2 * y.mean() - 1 > 0) == labels).mean()


def test_copies_with_one_label_are_still_merged():
    X = np.random.default_rng(0).standard_normal((100, 5))
    y = np.arange(100) % 3
    given = read_pilot(np.vstack([X, X[:40]]), np.concatenate([y, y[:40]]))
    assert len(given.X) == 100
    assert "40 of 140 rows are exact copies" in given.warnings[0]


def test_rows_that_were_labelled_twice_are_left_out_together():
    X = np.repeat(np.random.default_rng(0).standard_normal((60, 80)), 2, axis=0)
    given = read_pilot(X, np.tile([0, 1, 0, 0], 30))
    assert len(given.X) == 90  # 30 pairs of two labels and 30 of one
    assert len(np.unique(given.groups)) == 60
    assert "60 of 120 rows are exact copies" in given.warnings[0]


def near_copies(seed=0):
    rng = np.random.default_rng(seed)
    X, y = np.repeat(rng.standard_normal((80, 60)), 4, axis=0), np.repeat(rng.integers(0, 2, 80), 4)
    order = rng.permutation(320)
    return (X + 0.05 * rng.standard_normal(X.shape))[order], y[order], np.repeat(np.arange(80), 4)[order]


def test_near_copies_are_named_unless_groups_hold_them_together():
    """Labels at chance, four near copies of each row: leave-one-out finds them all right."""
    X, y, groups = near_copies()
    assert "100% of the rows have a near copy" in " ".join(read_pilot(X, y).warnings)
    assert not read_pilot(X, y, groups=groups).warnings


@pytest.mark.parametrize("d", [2, 4, 8, 60])
def test_independent_rows_are_close_by_chance_only(d):
    X = np.random.default_rng(d).standard_normal((500, d))
    X[:, 0] *= 3
    assert not read_pilot(X, np.arange(500) % 2).warnings


def test_windows_of_a_series_are_in_an_order_and_sorted_classes_are_not():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(20), 20)
    X = rng.standard_normal((20, 50))[y] + rng.standard_normal((400, 50))
    assert not read_pilot(X, y).warnings
    series = np.cumsum(rng.standard_normal(4100))
    windows = np.stack([series[10 * i : 10 * i + 50] for i in range(400)])
    assert "consecutive rows are alike" in " ".join(read_pilot(windows, y).warnings)
    order = rng.permutation(400)
    assert "consecutive" not in " ".join(read_pilot(windows[order], y[order]).warnings)
    assert "consecutive" not in " ".join(read_pilot(windows, y, groups=np.arange(400) // 20).warnings)


def test_amounts_that_are_whole_numbers_are_no_classes_without_a_word():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 10))
    amounts = np.round(150 + 60 * X[:, 0] + 30 * rng.standard_normal(400))
    with pytest.raises(sp.InvalidInputError, match="classes or amounts"):
        read_pilot(X, amounts)
    assert read_pilot(X, amounts, task="regression").labels is None
    assert read_pilot(X, np.float64(np.arange(400) % 40)).labels is not None


def patients(seed, rows=10, n=400):
    """Shuffled rows of patients with a level of their own and one label each."""
    rng = np.random.default_rng(seed)
    g = np.arange(n) // rows
    label, own = rng.integers(0, 2, g.max() + 1), rng.standard_normal((g.max() + 1, 60))
    own[:, 0] += 2.0 * (label - 0.5)
    order = rng.permutation(n)
    return (own[g] + rng.standard_normal((n, 60)))[order], label[g][order], g[order]


def test_rows_of_one_patient_are_suspected_unless_groups_name_them():
    found = [any("belong together" in text for text in read_pilot(*patients(s)[:2]).warnings) for s in range(8)]
    assert np.mean(found) >= 0.5
    x, y, groups = patients(0)
    assert not read_pilot(x, y, groups=groups).warnings


def test_independent_rows_are_not_suspected():
    """Clusters that overlap share residuals, and heavy tails have near neighbours; none of them has both."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        cluster = rng.integers(0, 24, 400)
        centres = 0.6 * np.random.default_rng(1).standard_normal((24, 30))
        assert not read_pilot(centres[cluster] + rng.standard_normal((400, 30)), cluster % 3).warnings
        heavy = rng.standard_normal((300, 40)) * (rng.chisquare(3, 300) / 3)[:, None] ** -0.5
        assert not read_pilot(heavy, (heavy[:, 0] > 0).astype(int)).warnings


def test_residuals_of_pairs_are_those_of_a_fit_without_the_pair():
    rng = np.random.default_rng(2)
    x, Y, penalty = rng.standard_normal((70, 6)), rng.standard_normal((70, 1)), 3.0
    centred = x - x.mean(axis=0)
    found = shared_residuals(decompose(centred), Y, centred, penalty)
    squares = ((centred[:, None] - centred) ** 2).sum(axis=2)
    norms = (centred**2).sum(axis=1)
    order = np.argsort(squares / (norms[:, None] + norms) + np.diag(np.full(70, np.inf)), axis=1)

    def sign(i, j):
        kept = np.setdiff1d(np.arange(70), [i, j])
        mean, level = x[kept].mean(axis=0), Y[kept].mean(axis=0)
        A = (x[kept] - mean).T @ (x[kept] - mean) + penalty * np.eye(6)
        beta = np.linalg.solve(A, (x[kept] - mean).T @ (Y[kept] - level))
        first, second = (Y[r] - level - (x[r] - mean) @ beta for r in (i, j))
        return float(np.sign(first[0] * second[0]))

    expected = np.mean([sign(i, order[i, 0]) - np.mean([sign(i, j) for j in order[i, 20:30]]) for i in range(70)])
    assert found == pytest.approx(expected, abs=0.02)
