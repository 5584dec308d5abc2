"""Models of texts that are replaced, moved, changed behind our back, or fed with what is no text."""

import json
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import spikepool as sp
from spikepool.errors import InvalidInputError, ModelFormatError
from spikepool.texts import classifier, text_model
from spikepool.texts.embedding_rows import CACHE
from spikepool.texts.encoders import encoder_folder, find_encoder, fingerprint
from spikepool.texts.label_notes import label_notes, nearly_equal


def corpus(n: int) -> tuple[list[str], list[str]]:
    """Short texts about rain and about soup."""
    rng = np.random.default_rng(0)
    words = {"rain": ["wet", "grey", "storm", "cloud", "drizzle"], "soup": ["hot", "salt", "bowl", "spoon", "leek"]}
    labels = ["rain" if i % 2 else "soup" for i in range(n)]
    return [" ".join(rng.choice(words[label], 4)) + f" {i}" for i, label in enumerate(labels)], labels


class ToyEncoder:
    """Letters as tokens; `shift` is what a fine-tuning changes."""

    name, layers, longest = "toy", (0, 1), 64

    def __init__(self):
        self.shift = 0.0

    def tokenise(self, texts, max_tokens):
        from spikepool.texts.encoder_types import Tokenised

        return [
            Tokenised([ord(c) % 50 for c in t[:max_tokens]], list(t[:max_tokens]), len(t) > max_tokens) for t in texts
        ]

    def embed(self, ids, mask, layers):
        table = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
        one = table[ids] + np.float32(self.shift)
        return np.stack([one * (1 + k) for k in range(len(layers))], axis=1)


def test_a_model_replaced_by_one_of_another_kind_is_of_that_kind(minilm, tmp_path):
    texts, labels = corpus(40)
    sp.TextClassifier(layers="last").fit(texts, labels).save(tmp_path / "model")
    assert (tmp_path / "model" / "texts.json").exists()
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4, 384)), np.arange(60) % 2
    tokens = sp.LearnedPoolingClassifier(pooling="mean").fit(X, y)
    tokens.save(tmp_path / "model", overwrite=True)
    loaded = sp.load(tmp_path / "model")
    assert type(loaded) is sp.LearnedPoolingClassifier
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == ["arrays.safetensors", "model.json"]
    (tmp_path / "model" / "texts.json").write_text("{}")
    with pytest.raises(ModelFormatError, match=r"does not list.*texts\.json"):
        sp.load(tmp_path / "model")


def test_every_file_of_an_encoder_is_in_its_fingerprint(minilm, tmp_path):
    folder = tmp_path / "encoder"
    shutil.copytree(encoder_folder("minilm"), folder)
    (folder / "weights.data").write_bytes(b"1")  # external data of an ONNX model may have any name
    (folder / "tokenizer_config.json").write_text("{}")
    before = fingerprint(find_encoder(folder))
    for name in ("weights.data", "tokenizer_config.json", "config.json"):
        kept = (folder / name).read_bytes()
        (folder / name).write_bytes(kept + b" ")
        assert fingerprint(find_encoder(folder)) != before, name
        (folder / name).write_bytes(kept)
    (folder / "README.md").write_text("no part of the model")
    assert fingerprint(find_encoder(folder)) == before


def test_an_encoder_object_that_changes_is_not_cached():
    texts, labels = corpus(40)
    encoder = ToyEncoder()
    CACHE.clear()
    model = sp.TextClassifier(encoder, pooling=sp.LearnedPoolingClassifier(pooling="mean")).fit(texts, labels)
    before = model.transform(texts)
    encoder.shift = 1.0
    np.testing.assert_allclose(model.transform(texts) - before, model.transform(texts) * 0 + before * 0 + 1, atol=1)
    assert np.abs(model.transform(texts) - before).min() > 0.5
    assert not CACHE._rows


@pytest.mark.parametrize("dtype", ["Int64", "boolean"])
def test_nullable_labels_keep_their_type(dtype):
    pandas = pytest.importorskip("pandas")
    values = [2**53, 2**53 + 1, 2**53 + 2] if dtype == "Int64" else [True, False, True]
    y = pandas.Series(values * 20, dtype=dtype)
    X = np.random.default_rng(0).normal(size=(60, 3, 4))
    fitted = sp.LearnedPoolingClassifier(pooling="mean").fit(X, y)
    assert fitted.classes_.tolist() == sorted(set(values))
    assert fitted.classes_.dtype.kind == ("i" if dtype == "Int64" else "b")
    for bad in (pandas.Series([*values[:2], None] * 20, dtype=dtype), ["a", None, "b"] * 20, [1.0, np.nan, 2.0] * 20):
        with pytest.raises(sp.NonFiniteError, match="misses values"):
            sp.LearnedPoolingClassifier(pooling="mean").fit(X, bad)


def test_more_texts_than_fit_choose_layers_on_some_and_keep_them_for_all(monkeypatch):
    texts, labels = corpus(80)
    monkeypatch.setattr(classifier, "FEWEST_TEXTS", 40)
    tokens = sum(len(t) for t in texts)
    monkeypatch.setattr(text_model, "LAYER_BYTES", tokens * 6 * 2)  # half of what two layers take
    model = sp.TextClassifier(ToyEncoder(), layers="auto").fit(texts, labels)
    (note,) = [note for note in model.notes_ if "chosen on" in note]
    assert "of 2 were chosen on 40 of 80 texts" in note
    monkeypatch.setattr(text_model, "LAYER_BYTES", tokens * 6 * 4)
    whole = sp.TextClassifier(ToyEncoder(), layers="auto").fit(texts, labels)
    assert not any("chosen on" in note for note in whole.notes_)


@pytest.mark.parametrize("bad", [0, 1, True, 2.5, "many"])
def test_max_tokens_is_checked(bad):
    with pytest.raises(InvalidInputError, match="max_tokens"):
        sp.TextClassifier(ToyEncoder(), max_tokens=bad).fit(*corpus(20))


@pytest.mark.parametrize(
    ("labels", "words"),
    [(["a"] * 20, "two classes"), (["a", "b"] * 9, "18 labels for 20 texts"), ([0.5] * 20, "Regressor")],
)
def test_labels_are_refused_before_texts_are_encoded(labels, words):
    """Encoding takes minutes; an encoder that fails at once shows that it was not asked."""

    def encoder(texts):
        raise AssertionError("encoded")

    with pytest.raises(InvalidInputError, match=words):
        sp.TextClassifier(encoder).fit(["some words"] * 20, labels)


def test_other_weights_under_the_name_of_the_encoder_are_refused(minilm, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    shutil.copytree(encoder_folder("minilm"), folder, ignore=shutil.ignore_patterns("1_Pooling"))
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    monkeypatch.setattr("spikepool.texts.encoders._minilm_folder", lambda download=True: folder)
    with pytest.raises(ModelFormatError, match="53aa51172d14"):
        find_encoder("minilm")
    assert find_encoder(folder).layers  # a folder is whatever its owner put there


@pytest.mark.parametrize("name", ["/", "../../..", "someone/model", "nowhere"])
def test_a_model_names_a_known_encoder_or_a_folder_relative_to_it(minilm, tmp_path, name, monkeypatch):
    """Nothing else is looked at, and nothing is downloaded without being asked for."""
    texts, labels = corpus(40)
    folder = sp.TextClassifier(layers="last").fit(texts, labels).save(tmp_path / "model")
    settings = json.loads((folder / "texts.json").read_text())
    (folder / "texts.json").write_text(json.dumps({**settings, "encoder": name}))
    content = json.loads((folder / "model.json").read_text())
    import hashlib

    from spikepool.pooling.saving import content_digest

    content["files"]["texts.json"] = hashlib.sha256((folder / "texts.json").read_bytes()).hexdigest()
    content["content_sha256"] = content_digest(content)
    (folder / "model.json").write_text(json.dumps(content))
    monkeypatch.setattr(socket, "create_connection", lambda *_: pytest.fail("a download was begun"))
    with pytest.raises(ModelFormatError, match="neither known nor a folder relative to it"):
        sp.load(folder)
    assert sp.load(folder, encoder="minilm").predict(texts[:2]).shape == (2,)


def test_a_folder_of_an_encoder_moves_with_its_model(minilm, tmp_path):
    shutil.copytree(encoder_folder("minilm"), tmp_path / "a" / "encoder")
    texts, labels = corpus(40)
    model = sp.TextClassifier(tmp_path / "a" / "encoder", layers="last").fit(texts, labels)
    model.save(tmp_path / "a" / "model")
    settings = json.loads((tmp_path / "a" / "model" / "texts.json").read_text())
    assert settings["encoder"] == "../encoder"
    shutil.move(tmp_path / "a", tmp_path / "b")
    np.testing.assert_array_equal(sp.load(tmp_path / "b" / "model").predict(texts), model.predict(texts))


def test_sizes_of_a_model_are_those_of_its_arrays(tmp_path):
    """A number in the JSON must not decide how much memory is taken."""
    from spikepool.pooling.saving import content_digest

    rng = np.random.default_rng(0)
    fitted = sp.LearnedPoolingClassifier(pooling="flat").fit(rng.normal(size=(60, 4, 3)), np.arange(60) % 2)
    folder = fitted.save(tmp_path / "model")
    content = json.loads((folder / "model.json").read_text())
    for place, key in (("fields", "positions"), ("fields", "d")):
        changed = json.loads(json.dumps(content))
        changed["fitted"][place][key] = 300_000
        changed["content_sha256"] = content_digest(changed)
        (folder / "model.json").write_text(json.dumps(changed))
        with pytest.raises(ModelFormatError, match=r"does not fit its arrays|do not fit its arrays"):
            sp.load(folder)


def test_labels_that_may_be_misspelt_and_classes_of_one_row_are_named():
    notes = label_notes(["positive"] * 9 + ["postive"] * 2 + ["Positive", "negative", "negative "])
    text = "\n".join(notes)
    assert "'postive' (2 rows): did you mean 'positive' (9 rows)?" in text
    assert "'Positive' (1 rows): did you mean 'positive' (9 rows)?" in text
    assert "'negative'" in text
    assert "class(es) have one row" in text
    assert nearly_equal("recieve", "receive")
    assert not nearly_equal("class 1", "class 2")
    assert not nearly_equal("cat", "car")
    assert label_notes([1, 2, 3] * 6) == ()
    assert "only 6 labelled rows" in label_notes([1, 2, 3, 1, 2, 3])[0]


def test_doubtful_labels_are_warned_of():
    texts, labels = corpus(6)
    with pytest.warns(UserWarning, match="only 6 labelled rows"):
        sp.TextClassifier(ToyEncoder()).fit(texts, labels)
    texts, labels = corpus(40)
    with pytest.warns(UserWarning, match="did you mean .rain."):
        model = sp.TextClassifier(ToyEncoder()).fit(texts, ["rian", *labels[1:]])
    assert any("did you mean" in note for note in model.notes_)


def test_an_evaluation_names_unknown_labels_and_the_best_threshold():
    from spikepool.pooling.evaluation import evaluate

    rng = np.random.default_rng(0)
    own = rng.random(300) < 0.15
    p = 1 / (1 + np.exp(-(rng.normal(size=300) + 2 * own - 2.5)))
    labels = np.where(own, "rare", "usual").astype(object)
    labels[:3] = "unusual"
    result = evaluate(np.array(["rare", "usual"]), np.column_stack([p, 1 - p]), labels)
    assert result.unknown == (("unusual", 3),)
    assert "unusual (3 rows)" in result.summary()
    rare = labels == "rare"
    by_hand = {t: 2 * (rare & (p >= t)).sum() / (rare.sum() + (p >= t).sum()) for t in p}
    assert result.threshold["label"] == "rare"
    assert result.threshold["f1"] == pytest.approx(max(by_hand.values()))
    assert by_hand[result.threshold["probability"]] == pytest.approx(result.threshold["f1"])
    assert "best F1" in result.summary()


def test_balanced_weights_find_the_rare_class():
    texts, labels = corpus(120)
    labels = ["rain" if label == "rain" and i % 10 == 1 else "soup" for i, label in enumerate(labels)]
    pooling = sp.LearnedPoolingClassifier(pooling="mean")
    plain, balanced = (
        sp.TextClassifier(ToyEncoder(), pooling=pooling, class_weight=w).fit(texts, labels) for w in (None, "balanced")
    )
    assert balanced.pooling_.class_weight == "balanced"
    assert (balanced.predict(texts) == "rain").sum() > (plain.predict(texts) == "rain").sum()


def test_texts_that_are_cut_are_counted_though_they_are_cached():
    texts, labels = corpus(40)
    texts[0] += "x" * 100
    for _ in range(2):
        model = sp.TextClassifier(ToyEncoder(), max_tokens=30).fit(texts, labels)
        assert any("of 40 texts have more than 30 tokens" in note for note in model.notes_)
    assert model.texts_cut(texts) == sum(len(text) > 30 for text in texts)


@pytest.mark.slow
def test_the_server_answers_every_bad_body_with_a_sentence(minilm, tmp_path):
    pytest.importorskip("onnxruntime")
    texts, labels = corpus(40)
    model = sp.TextClassifier(layers="last").fit(texts, labels)
    model.to_onnx(tmp_path / "model.onnx")
    script = Path(__file__).resolve().parents[2] / "examples" / "serving" / "serve_texts.py"
    command = [sys.executable, str(script), str(tmp_path / "model.onnx"), "--port", "0"]
    bodies = {
        b'"one text"': "list of one or more texts",
        b'{"text": "soup"}': "list of one or more texts",
        b"[]": "list of one or more texts",
        b'["soup", 3]': "list of one or more texts",
        b"no json": "not JSON",
        b'["\\ud800"]': "not JSON in UTF-8",
        b'["' + b"x" * 2**20 + b'"]': "at most 1048576",
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = f"http://127.0.0.1:{int(server.stdout.readline().split()[-1])}"
            for body, reason in bodies.items():
                with pytest.raises(urllib.error.HTTPError) as caught:
                    urllib.request.urlopen(url, body, timeout=30)
                assert caught.value.code == 400
                assert reason in json.loads(caught.value.read())["error"]
            found = json.loads(urllib.request.urlopen(url, json.dumps(["", texts[0]]).encode(), timeout=30).read())
        finally:
            server.kill()
    # an empty text has one answer everywhere
    assert [one["label"] for one in found] == model.predict(["", texts[0]]).tolist()
