"""A forecast against what happens, against scikit-learn's learning curve and against the model."""

import importlib
import json
import warnings

import numpy as np
import pytest
from generated_pilots import accuracy_at, classes
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import ShuffleSplit, learning_curve

import spikepool as sp
from spikepool.ridge.gcv import fit_ridge

pytestmark = pytest.mark.filterwarnings("ignore::spikepool.forecasting.pilot_input.ForecastWarning")


def test_digits_come_out_as_forecast(digits, digits_forecast):
    X, y = digits
    f = digits_forecast
    assert f.n.tolist() == [100, 200, 400, 800]
    assert f.interval.shape == (4, 2)
    assert (f.interval[:, 0] < f.accuracy).all()
    assert (f.accuracy < f.interval[:, 1]).all()
    assert (np.diff(f.accuracy) > 0).all()
    for n, (low, high) in zip(f.n[1:], f.interval[1:], strict=True):
        found = []
        for seed in range(5):
            order = np.random.default_rng(seed).permutation(len(y))
            train, test = order[:n], order[n:]
            fit = fit_ridge(X[train], np.where(y[train][:, None] == np.arange(10), 1.0, -1.0))
            found.append((fit.predict(X[test]).argmax(axis=1) == y[test]).mean())
        assert low <= np.mean(found) <= high


@pytest.mark.parametrize("K", [2, 6])
def test_generated_classes_come_out_as_forecast(K):
    means = np.random.default_rng(3).standard_normal((K, 60)) * 0.1

    def draw(rng, n):
        return classes(rng, n, d=60, means=means)

    X, y = draw(np.random.default_rng(0), 300)
    f = sp.forecast(X, y, n=[1200])
    truth = accuracy_at(1200, draw)
    assert f.interval[0, 0] <= truth <= f.interval[0, 1]
    assert abs(f.accuracy[0] - truth) < 0.04


@pytest.mark.slow
def test_measured_points_are_the_learning_curve(digits):
    """Sizes below the pilot, by scikit-learn's own splitting and ridge."""
    X, y = digits
    X, y = X[:300], y[:300]
    f = sp.forecast(X, y)
    norm = ((X - X.mean(axis=0)) ** 2).sum() / 299
    ridge = RidgeClassifierCV(alphas=norm * np.logspace(-4, 2, 13))
    split = ShuffleSplit(40, test_size=60, random_state=0)
    wanted = [240, 120, 60]
    sizes, _, scores = learning_curve(ridge, X, y, train_sizes=wanted, cv=split)
    for size, score in zip(sizes, scores, strict=True):
        measured = f.measured_score[int(np.argmin(np.abs(f.measured_n - size)))]
        assert measured == pytest.approx(score.mean(), abs=3 * score.std() / np.sqrt(40) + 0.025)


@pytest.mark.slow
def test_agrees_with_the_theory_of_the_model():
    gaps = []
    for seed, (d, mu, L) in enumerate([(60, 1.2, 3), (120, 1.0, 4), (80, 1.5, 3), (60, 0.8, 5)]):
        model = sp.SequenceModel(d=d, V=4 * d, N=1000, R=sp.prefix_correlation(T=10, L=L), mu=mu)
        w = sp.mean_weights(10)
        sample = model.sample(rng=seed)
        f = sp.forecast(sample.pooled(w).T, sample.latent[:, 0], n=[3000])
        theory = sp.optimal_ridge(model, w, n_train=3000).accuracy
        assert f.interval[0, 0] - 0.01 <= theory <= f.interval[0, 1] + 0.01
        gaps.append(abs(f.accuracy[0] - theory))
    assert np.median(gaps) < 0.02


@pytest.mark.slow
def test_regression_forecasts_r2():
    rng = np.random.default_rng(5)
    d, beta = 80, np.random.default_rng(1).standard_normal(80) * np.arange(1, 81) ** -0.5

    def draw(n):
        X = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -0.5
        signal = X @ beta
        return X, signal + 1.0 * rng.standard_normal(n)

    pilots = [draw(200) for _ in range(10)]
    found = [sp.forecast(X, y, n=[800, 1600], target=0.2) for X, y in pilots]
    (X, y), f = pilots[0], found[0]
    assert f.task == "regression"
    np.testing.assert_allclose(f.r2, f.score)
    np.testing.assert_allclose(f.mse, 1 - f.r2)
    with pytest.raises(AttributeError, match="not of accuracy"):
        _ = f.accuracy
    train, target = draw(1600)
    new, right = draw(5000)
    fit = fit_ridge(train, target[:, None])
    r2 = 1 - ((fit.predict(new)[:, 0] - right) ** 2).mean() / right.var()
    inside = [g.interval[1, 0] <= r2 <= g.interval[1, 1] for g in found]
    assert sum(inside) >= 7  # a binomial count of ten at .9 is smaller once in 80
    shifted = sp.forecast(X, 1000 + 7 * y, n=[800, 1600])  # units of y do not matter
    np.testing.assert_allclose(shifted.r2, f.r2, rtol=1e-6)


@pytest.mark.slow
def test_units_and_seeds(digits):
    X, y = digits
    f = sp.forecast(X[:150], y[:150], n=[600])
    again = sp.forecast(X[:150], y[:150], n=[600], random_state=0)
    np.testing.assert_array_equal(f.accuracy, again.accuracy)
    np.testing.assert_allclose(sp.forecast(X[:150] * 1e-30, y[:150], n=[600]).accuracy, f.accuracy, rtol=1e-6)
    named = np.array(list("abcdefghij"))[y[:150]]
    np.testing.assert_allclose(sp.forecast(X[:150], named, n=[600]).accuracy, f.accuracy)
    other = sp.forecast(X[:150], y[:150], n=[600], random_state=1)
    assert other.accuracy[0] == pytest.approx(f.accuracy[0], abs=0.02)
    scaled = sp.forecast(X[:150] * np.arange(1, 65), y[:150], n=[600], standardize=True)
    np.testing.assert_allclose(scaled.accuracy, sp.forecast(X[:150], y[:150], n=[600], standardize=True).accuracy)


def test_global_random_state_is_untouched(digits):
    X, y = digits
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    sp.forecast(X[:60], y[:60] % 2)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# targets


def test_required_rows_lie_on_the_80_percent_band(digits, digits_forecast):
    """The ends are where the ends of the band are the target; the words have the range and no single number."""
    low, best, high = digits_forecast.required_samples
    assert 200 == low <= best <= high  # not below the pilot's 200
    X, y = digits
    at = sp.forecast(X[:200], y[:200], n=[best, high], level=0.8)
    assert at.accuracy[0] == pytest.approx(0.92, abs=2e-3)
    assert at.interval[1, 0] == pytest.approx(0.92, abs=2e-3)
    assert f". 200 to {float(f'{high:.2g}'):,.0f} rows are needed (80 % range)" in str(digits_forecast)


def test_a_target_beyond_the_limit_is_not_reached():
    X, y = classes(np.random.default_rng(0), 400, gap=0.6, K=2)
    f = sp.forecast(X, y, target=0.999)
    assert f.required_samples == (None, None, None)
    assert not f.allows_target
    assert f.limit < 0.99
    assert "Ridge on these features reaches accuracy .999 with probability .00 at 800" in str(f)
    assert "rather than label more rows" in str(f)
    assert f.to_dict()["required_samples"][1] is None


def test_a_target_the_pilot_has_reached_is_said_so(digits):
    X, y = digits
    f = sp.forecast(X[:300], y[:300], target=0.5)
    assert f.required_samples == (300, 300, 300)
    assert "reaches accuracy .500 with the 300 rows measured (probability 1.00)" in str(f)


# pilots that are hard


def test_rows_may_be_a_memory_map_and_never_a_path(digits, tmp_path):
    X, y = digits[0][:100], digits[1][:100]
    np.save(tmp_path / "C.npy", X)
    mapped = sp.forecast(np.load(tmp_path / "C.npy", mmap_mode="r"), y, n=[400])
    np.testing.assert_allclose(mapped.accuracy, sp.forecast(X, y, n=[400]).accuracy)
    with pytest.raises(sp.InvalidInputError, match="not a path"):
        sp.forecast(tmp_path / "C.npy", y, n=[400])


# faces


def test_result_shows_itself(digits_forecast):
    f = digits_forecast
    as_json = json.loads(json.dumps(f.to_dict()))
    assert as_json["accuracy"] == f.accuracy.tolist()
    assert as_json["self_check"]["ok"] is True
    text = str(f)
    assert "self-check" in text
    assert "800" in text
    page = f._repr_html_()
    assert page.count("<tr>") == 5
    assert "self-check" in page


def test_default_sizes_and_silence(digits):
    X, y = digits
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = sp.forecast(X[:150], y[:150] % 2)
    assert f.n.tolist() == [150, 300, 600, 1200]
    assert f.warnings == ()


def test_plot_shows_points_curve_band_and_target(digits_forecast):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert digits_forecast.plot(ax) is ax
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"forecast of ridge", "target 0.92", "90 % interval"} <= set(labels)
    assert ax.get_xscale() == "log"
    np.testing.assert_allclose(ax.lines[0].get_ydata(), digits_forecast.curve_score)


def test_progress_counts_to_its_total(digits, monkeypatch):
    from spikepool.kit.progress import Progress

    bars = []

    class Counted(Progress):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            bars.append(self)

    module = importlib.import_module("spikepool.forecasting.forecast")
    monkeypatch.setattr(module, "Progress", Counted)
    X, y = digits
    sp.forecast(X[:60], y[:60] % 2, progress=False)
    assert bars[0]._done == bars[0].total
