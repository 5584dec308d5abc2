"""Encoders as ONNX models: a hand-made one with two layers, in a folder with its tokenizer."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from spikepool.errors import SpikepoolError

onnx = pytest.importorskip("onnx", reason="the text extra is not installed")
pytest.importorskip("onnxruntime", reason="the text extra is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="the text extra is not installed")

WORDS = ["[PAD]", "[UNK]", "one", "two", "three", "four"]
TABLE = np.random.default_rng(0).standard_normal((len(WORDS), 5)).astype(np.float32)


def make_folder(folder, *, outputs=("hidden.0", "last_hidden_state")):
    """Token embeddings from a table, and twice of them as the last layer."""
    helper, kind = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], [outputs[0]]),
        helper.make_node("Add", [outputs[0], outputs[0]], [outputs[1]]),
    ]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [
            helper.make_tensor_value_info("input_ids", kind.INT64, ["batch", "tokens"]),
            helper.make_tensor_value_info("attention_mask", kind.INT64, ["batch", "tokens"]),
        ],
        [helper.make_tensor_value_info(name, kind.FLOAT, ["batch", "tokens", 5]) for name in outputs[::-1]],
        [onnx.numpy_helper.from_array(TABLE, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / "model.onnx"))
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_layers_of_an_onnx_model(tmp_path):
    found = sp.encode(["one two", "four", "no three"], make_folder(tmp_path), layers="all")
    assert found.layers == ("hidden.0", "last_hidden_state")
    np.testing.assert_allclose(found.X[0, 0, :2], TABLE[[2, 3]], rtol=1e-6)
    np.testing.assert_allclose(found.X[:, 1], 2 * found.X[:, 0], rtol=1e-6)
    assert found.tokens[2] == ["[UNK]", "three"]
    assert sp.encode(["one"], str(tmp_path)).layers == ("last_hidden_state",)


def test_folders_that_are_not_models(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(SpikepoolError, match="not a model that onnxruntime reads"):
        sp.encode(["one"], tmp_path)
