"""Every result draws itself, shows itself in a notebook and turns into JSON, with the numbers it carries."""

import json
import math

import numpy as np
import pytest

import spikepool as sp
from spikepool.kit.pages import html_page, html_table
from spikepool.kit.results import plain
from spikepool.kit.text import number
from spikepool.theory.ridge import ridge_prediction

pyplot = pytest.importorskip("matplotlib.pyplot", reason="the plot extra is not installed")
pyplot.switch_backend("Agg")

MODEL = sp.SequenceModel(d=60, V=96, N=120, R=sp.prefix_correlation(10, 3), mu=2.0)
W = sp.causal_weights(10)
CLASSES = sp.ClassModel(
    d=40,
    V=90,
    N=200,
    R=sp.prefix_correlation(8, 2),
    means=2.0 * np.eye(40)[:, :3],
    shares=[1 / 3, 1 / 3, 1 / 3],
)
RESULTS = {
    "prediction": lambda: MODEL.predict(W),
    "uncentred": lambda: MODEL.replace(centered=False).predict(W),
    "exact": lambda: MODEL.predict(W, exact=True, rng=0),
    "nothing": lambda: MODEL.replace(mu=0.0, table="class_centered").predict(W),
    "simulation": lambda: MODEL.simulate(W, trials=3, rng=0),
    "one draw": lambda: MODEL.simulate(W, trials=1, rng=0),
    "fluctuations": lambda: MODEL.fluctuations(W),
    "no fluctuations": lambda: MODEL.replace(mu=0.0, table="class_centered").fluctuations(W),
    "ridge": lambda: ridge_prediction(MODEL, W),
    "classes": lambda: CLASSES.predict(sp.mean_weights(8)),
    "class simulation": lambda: CLASSES.simulate(sp.mean_weights(8), trials=2, rng=0),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_draws_and_serialises(name):
    result = RESULTS[name]()
    text = result._repr_html_()
    assert text.count("<table") == text.count("</table>")
    assert "nan" not in text
    json.dumps(result.to_dict(), allow_nan=False)
    ax = result.plot()
    assert ax.get_xlabel() or ax.get_ylabel()
    own = pyplot.figure().add_subplot()
    assert result.plot(own) is own
    pyplot.close("all")


def test_the_notebook_shows_the_numbers_of_the_prediction():
    p = MODEL.predict(W)
    text = p._repr_html_()
    for value in (p.alignment, p.edge, p.mu_sample, p.outliers[0].population_alignment):
        assert f">{value:.4g}<" in text
    assert "No eigenvalue outside the bulk" in RESULTS["nothing"]()._repr_html_()
    lines = [line.get_xdata()[0] for line in p.plot().lines[1:]]
    assert lines == [p.edge, *(o.eigenvalue for o in p.outliers)]
    pyplot.close("all")


def test_a_simulation_is_drawn_beside_its_prediction():
    s = MODEL.simulate(W, trials=4, rng=0)
    ax = s.plot(predicted=0.5)
    assert list(ax.lines[0].get_ydata()) == s.alignment.tolist()
    assert ax.collections[-1].get_segments()[0][:, 1].tolist() == [0.5, 0.5]
    mean = s.alignment.mean()
    assert f"{mean:.4g} ±" in s._repr_html_()
    pyplot.close("all")


def test_thresholds_of_zero_and_infinity_are_explained():
    R = sp.prefix_correlation(10, 3)
    easy = sp.SequenceModel(d=10, V=20, N=100, R=R, mu=2.5).predict(sp.optimal_weights(R))
    assert easy.mu_population == easy.mu_sample == 0
    assert "chance" in easy.threshold_note
    assert "at this number of sequences" in easy.threshold_note
    assert MODEL.predict(sp.mean_weights(10)).threshold_note is None
    assert "given enough sequences" in MODEL.predict(W).threshold_note
    R = sp.prefix_correlation(2, 2)
    R[0, 1] = R[1, 0] = -1.0
    never = MODEL.replace(R=R).predict([0.5, 0.5])
    assert math.isinf(never.mu_sample)
    assert "cancel" in never.threshold_note
    assert never.to_dict()["mu_sample"] is None


def test_a_range_of_vocabularies_reads_as_one():
    found = MODEL.replace(mu=3.0).required_vocabulary(W, 0.5)
    assert str(found).startswith("V ≥") or "≤ V ≤" in str(found)
    assert str(found) in found._repr_html_()
    assert found.to_dict()["minimum"] == found.minimum


def test_html_is_escaped_and_a_page_is_complete():
    table = html_table(("<b>", "x"), [("a & b", 1.5), ("none", None)])
    assert "&lt;b&gt;" in table
    assert "a &amp; b" in table
    page = html_page("a < b", table)
    assert page.startswith("<!doctype html>")
    assert "<title>a &lt; b</title>" in page
    assert "http" not in page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (12345, "12,345"),
        (np.int64(12345), "12,345"),
        (np.bool_(True), "yes"),
        (False, "no"),
        (0.123456, "0.1235"),
        (np.float32(0.5), "0.5"),
    ],
)
def test_numbers_are_written_for_people(value, text):
    assert number(value) == text


def test_plain_values_are_json():
    record = plain({"a": np.array([1.0, np.nan]), "b": (np.int64(3), math.inf), 4: np.bool_(True)})
    assert record == {"a": [1.0, None], "b": [3, None], "4": True}
    json.dumps(record, allow_nan=False)
