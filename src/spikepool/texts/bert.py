"""BERT models as an ONNX graph, from their weights: embeddings, self-attention and feed-forward layers, as published.

For models whose config says ``bert`` with absolute positions and GELU, such as all-MiniLM-L6-v2. Weights are read with
safetensors, texts are tokenised with tokenizers, and onnxruntime runs the graph; torch is not needed. Agrees with
transformers to 1e-4.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import ModelFormatError, require
from spikepool.kit.bounded_reading import read_file, regular_file
from spikepool.pooling.onnx_export import MASKED, Graph, graph_model
from spikepool.texts.encoder_types import LayerNames, SharedEncoder, States, Tokenised, load_tokenizer, tokenise

LARGEST_CONFIG, LARGEST_WEIGHTS = 2**24, 2**36  # bytes


class BertEncoder(SharedEncoder):
    """A BERT encoder from a folder with config.json, tokenizer.json and model.safetensors."""

    def __init__(self, folder: Path) -> None:
        safetensors = require("safetensors.numpy", "text")
        config = read_config(folder)
        if (
            config.get("hidden_act", "gelu") != "gelu"
            or config.get("position_embedding_type", "absolute") != "absolute"
        ):
            raise ModelFormatError(
                f"{folder.name} is a BERT model of another kind",
                (config.get("hidden_act"), config.get("position_embedding_type")),
                "Install spikepool[transformers]",
            )
        self.name, self.folder = str(config.get("_name_or_path") or folder.name), folder
        self._depth, self.heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        self.epsilon = np.float32(config.get("layer_norm_eps", 1e-12))
        self.layers: LayerNames = tuple(range(self._depth + 1))
        self.longest = int(config.get("max_position_embeddings", 512))
        self.tokenizer = load_tokenizer(folder)
        self._sessions, self._lock = dict[int, Any](), threading.Lock()
        weights = safetensors.load_file(str(regular_file(folder / "model.safetensors", LARGEST_WEIGHTS)))
        self.weights: dict[str, States] = {
            name.removeprefix("bert."): np.ascontiguousarray(
                array.T if name.endswith("weight") and array.ndim == 2 and "embeddings" not in name else array,
                dtype=np.float32,
            )
            for name, array in weights.items()
            if array.dtype.kind == "f"
        }
        for name in ("embeddings.word_embeddings.weight", f"encoder.layer.{self._depth - 1}.output.dense.weight"):
            if name not in self.weights:
                raise ModelFormatError(f"{folder.name} lacks a weight of a BERT model", name, "Download it again")

    def tokenise(self, texts: Sequence[str], max_tokens: int) -> list[Tokenised]:
        """Tokens with [CLS] and [SEP]."""
        return tokenise(self.tokenizer, texts, min(max_tokens, self.longest))

    def embed(self, ids: NDArray[np.int64], mask: NDArray[np.bool_], layers: LayerNames) -> States:
        """Hidden states (B, len(layers), T, d); layer 0 is the input embedding."""
        session = self._session(max(int(layer) for layer in layers))
        given = {"input_ids": ids.astype(np.int64), "attention_mask": mask.astype(np.int64)}
        return np.stack(session.run([f"layer{layer}" for layer in layers], given), axis=1)

    def _session(self, last: int) -> Any:
        """The layers up to `last` in onnxruntime."""
        with self._lock:
            if last not in self._sessions:
                self._sessions[last] = states_session(self, last)
            return self._sessions[last]


def bert_states(g: Graph, encoder: BertEncoder, wanted: list[Any]) -> list[str]:
    """Hidden states (n, T, d) of the wanted layers: layer 0 is the input embedding."""
    w = encoder.weights

    def norm(x: str, name: str) -> str:
        scale, bias = g.const(w[name + ".weight"]), g.const(w[name + ".bias"])
        return g.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=float(encoder.epsilon))

    def dense(x: str, name: str) -> str:
        return g.op("Add", g.op("MatMul", x, g.const(w[name + ".weight"])), g.const(w[name + ".bias"]))

    length = g.op("Slice", g.op("Shape", "input_ids"), g.axes(1), g.axes(2), g.axes(0))
    places = g.op("Slice", g.const(w["embeddings.position_embeddings.weight"]), g.axes(0), length, g.axes(0))
    x = g.op("Gather", g.const(w["embeddings.word_embeddings.weight"]), "input_ids", axis=0)
    x = g.op("Add", g.op("Add", x, places), g.const(w["embeddings.token_type_embeddings.weight"][0]))
    x = norm(x, "embeddings.LayerNorm")
    visible = g.op("Unsqueeze", g.cast("attention_mask", "BOOL"), g.axes(1, 2))
    bias = g.op("Where", visible, g.const(0.0), g.const(MASKED))
    d = w["embeddings.LayerNorm.weight"].shape[0]
    size = d // encoder.heads

    def split(x: str, name: str) -> str:
        parts = g.op("Reshape", dense(x, name), g.const([0, 0, encoder.heads, size], np.int64))
        return g.op("Transpose", parts, perm=[0, 2, 1, 3])

    def layer(x: str, prefix: str) -> str:
        query, key, value = (split(x, f"{prefix}attention.self.{name}") for name in ("query", "key", "value"))
        scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = g.op("Add", g.op("Mul", scores, g.const(1 / math.sqrt(size))), bias)
        attended = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        attended = dense(g.op("Reshape", attended, g.const([0, 0, d], np.int64)), prefix + "attention.output.dense")
        x = norm(g.op("Add", attended, x), prefix + "attention.output.LayerNorm")
        hidden = dense(x, prefix + "intermediate.dense")
        gate = g.op("Add", g.op("Erf", g.op("Mul", hidden, g.const(math.sqrt(0.5)))), g.const(1.0))
        hidden = g.op("Mul", g.op("Mul", hidden, gate), g.const(0.5))
        return norm(g.op("Add", dense(hidden, prefix + "output.dense"), x), prefix + "output.LayerNorm")

    states = {0: x}
    for depth in range(1, max(int(name) for name in wanted) + 1):
        x = states[depth] = layer(x, f"encoder.layer.{depth - 1}.")
    return [states[int(name)] for name in wanted]


def states_session(encoder: BertEncoder, last: int) -> Any:
    """A session of onnxruntime with the hidden states ``layer0``, ``layer1``, ... up to the layer `last`."""
    onnxruntime = require("onnxruntime", "text")
    g = Graph(separate=True)
    helper, kinds = g.onnx.helper, g.onnx.TensorProto
    layers = range(last + 1)
    for layer, state in zip(layers, bert_states(g, encoder, list(layers)), strict=True):
        g.nodes.append(helper.make_node("Identity", [state], [f"layer{layer}"]))
    inputs = [helper.make_tensor_value_info(name, kinds.INT64, ["n", "T"]) for name in ("input_ids", "attention_mask")]
    outputs = [helper.make_tensor_value_info(f"layer{layer}", kinds.FLOAT, ["n", "T", "d"]) for layer in layers]
    options = onnxruntime.SessionOptions()
    # as many threads as the linear algebra of NumPy would use
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS") or 0)
    arrays = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in g.arrays.values()]
    options.add_external_initializers(list(g.arrays), arrays)
    model = graph_model(g, inputs, outputs).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model folder; empty where there is none."""
    path = folder / "config.json"
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(read_file(path, LARGEST_CONFIG).decode("utf-8")))
    except (ValueError, TypeError, RecursionError) as err:
        raise ModelFormatError(f"the config.json of {folder.name} cannot be read: {err}") from err
