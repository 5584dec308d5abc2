"""Limits that hold before the work begins: rows of a forecast, classes, trials, points of a sweep."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.data.opening import RUN, spread_rows
from spikepool.errors import InvalidInputError, MemoryBudgetError
from spikepool.forecasting import pilot_input

RNG = np.random.default_rng(0)


def test_spread_rows_ascend_in_runs_over_all_of_them():
    assert spread_rows(100, 100, RNG) is None
    rows = spread_rows(100_000, 2000, np.random.default_rng(0))
    assert len(rows) == 2000
    assert (np.diff(rows) > 0).all()
    assert np.count_nonzero(np.diff(rows) == 1) >= 2000 - 2 * (2000 // RUN)
    assert np.histogram(rows, bins=10, range=(0, 100_000))[0].tolist() == [200] * 10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_forecast_of_many_rows_uses_a_part_and_says_so(monkeypatch, tmp_path):
    n = 3000
    y = RNG.integers(0, 2, n)
    C = RNG.normal(size=(n, 10)) + 0.5 * (2 * y - 1)[:, None]
    np.save(tmp_path / "c.npy", C)
    whole = sp.forecast(C, y)
    monkeypatch.setattr(pilot_input, "MOST_ROWS", 600)
    monkeypatch.setattr("spikepool.forecasting.forecast.MOST_ROWS", 600)
    for data in (C, tmp_path / "c.npy"):
        part = sp.forecast(data, y, groups=np.arange(n))
        assert part.n.tolist() == [n, 2 * n, 4 * n, 8 * n]
        assert any("600 of the 3,000 rows" in text for text in part.warnings)
        assert part.accuracy[0] == pytest.approx(whole.accuracy[0], abs=0.04)
    with pytest.raises(InvalidInputError):
        sp.forecast(C, y[:-1])


def test_too_many_classes_are_refused_before_any_work():
    y = np.arange(6000) // 2
    for call in (
        lambda: sp.forecast(RNG.normal(size=(6000, 4)), y, task="classification"),
        lambda: sp.report(RNG.normal(size=(6000, 4)), y.astype(str)),
        lambda: sp.LearnedPoolingClassifier().fit(RNG.normal(size=(6000, 2, 4)), y),
    ):
        with pytest.raises(InvalidInputError, match="3,000 classes"):
            call()


def test_too_many_trials_are_refused_before_any_work():
    model = sp.SequenceModel(10, 20, 30, np.eye(3), 1.0)
    with pytest.raises(MemoryBudgetError, match="trials"):
        model.simulate(sp.mean_weights(3), trials=10**13)


def test_sweeps_are_files_of_moderate_size(tmp_path):
    pytest.importorskip("jsonschema")
    from spikepool.sweeps.specfile import load_spec

    with pytest.raises(InvalidInputError, match="not a regular file"):
        load_spec("/dev/zero")
    text = """
weights = ["mean"]
[model]
d = 20
V = 40
N = 50
R = { kind = "prefix", T = 4, L = 2 }
[sweep]
mu = { start = 0.0, stop = 2.5, count = 100000000 }
"""
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(InvalidInputError, match="1,000,000 points"):
        load_spec(tmp_path / "s.toml")
