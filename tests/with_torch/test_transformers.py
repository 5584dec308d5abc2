"""Hidden states against transformers, for an encoder and a decoder with random weights; run by ``make test-torch``."""

from __future__ import annotations

import json

import numpy as np
import pytest

import spikepool as sp

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
transformers = pytest.importorskip("transformers", reason="transformers is not installed: make test-torch")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed: make test-torch")

TEXTS = ["one two three", "four", "two two five six seven one"]
WORDS = ["[PAD]", "[UNK]", "one", "two", "three", "four", "five", "six", "seven"]


def save_tokenizer(folder):
    """A tokenizer of words."""
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def bert():
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40
    )
    return transformers.BertModel(config)


def gpt2():
    return transformers.GPT2Model(transformers.GPT2Config(vocab_size=len(WORDS), n_embd=24, n_layer=2, n_head=4))


@pytest.mark.parametrize("make", [bert, gpt2], ids=["encoder", "decoder"])
def test_every_layer_agrees(tmp_path, make):
    torch.manual_seed(0)
    model = make().eval()
    model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    found = sp.encode(TEXTS, str(tmp_path), layers="all")
    for i, text in enumerate(TEXTS):
        ids = torch.tensor([[WORDS.index(word) for word in text.split()]])
        with torch.inference_mode():
            states = model(input_ids=ids, output_hidden_states=True).hidden_states
        for k, state in enumerate(states):
            np.testing.assert_allclose(found.X[i, k, : ids.shape[1]], state[0].numpy(), atol=1e-4)
        assert found.tokens[i] == text.split()
        assert found.mask[i].sum() == ids.shape[1]


def test_numpy_bert_agrees_with_transformers(tmp_path):
    from spikepool.texts.bert import BertEncoder

    torch.manual_seed(1)
    model = bert().eval()
    model.save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    ours = sp.encode(TEXTS, BertEncoder(tmp_path), layers="all")
    theirs = sp.encode(TEXTS, str(tmp_path), layers="all")
    np.testing.assert_allclose(ours.X, theirs.X, atol=1e-4)


def test_torch_tensors_are_accepted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5, 6)).astype(np.float32)
    y = (X[:, 2, 0] > 0).astype(int)
    plain = sp.LearnedPoolingClassifier(pooling="mean").fit(X, y).predict_proba(X)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        tensor = torch.tensor(X, requires_grad=True).to(dtype)
        found = sp.LearnedPoolingClassifier(pooling="mean").fit(tensor, y).predict_proba(tensor)
        np.testing.assert_allclose(found, plain, atol=0.05)
