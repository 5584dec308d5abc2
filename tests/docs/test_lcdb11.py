"""The study of LCDB 1.1 on a small folder of the same layout."""

import importlib.util
import json
from pathlib import Path

import numpy as np

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "studies" / "lcdb11.py"


def study():
    spec = importlib.util.spec_from_file_location("lcdb11", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_power_laws_of_a_small_folder_are_forecast(tmp_path):
    """Errors .1 + .8 n^-.5 up to 512 rows: POW4 contains them, and intervals cover them."""
    anchors = np.unique((16 * 2 ** (np.arange(41) / 8)).round().astype(int))
    error = 0.1 + 0.8 * anchors**-0.5
    point = [[[0.0, float(e), float(e)] for e in error], [[0.01] * 3 for _ in error]]
    (tmp_path / "er").mkdir()
    (tmp_path / "er" / "7.json").write_text(json.dumps([point, point, point]))
    learners = ["KNN", "DummyClassifier", "CatBoost"]
    (tmp_path / "meta.json").write_text(json.dumps({"learners": learners, "anchors": anchors.tolist()}))
    records = study().measure(tmp_path, (7,))
    # DummyClassifier is left out; from 256 rows only 512 is known, from 1,024 nothing
    assert [(r["learner"], r["rows"]) for r in records] == [
        ("KNN", 64),
        ("KNN", 256),
        ("CatBoost", 64),
        ("CatBoost", 256),
    ]
    assert records[1]["truth"][1:] == [None, None]
    truth = 0.9 - 0.8 * np.array([128, 256, 512]) ** -0.5
    np.testing.assert_allclose(records[0]["truth"], truth, atol=1e-4)
    np.testing.assert_allclose(records[0]["values"][2], truth, atol=2e-3)
    low, high = np.array(records[0]["interval"]).T
    assert ((low < truth) & (truth < high)).all()
    lines = study().table(records)
    assert lines[0] == "4 observed curves of 1 data sets"
    assert sum(line.startswith("| CatBoost") for line in lines) == 3
