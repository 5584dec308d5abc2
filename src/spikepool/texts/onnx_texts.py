"""A fitted model of texts as one ONNX graph, from token ids to probabilities, with its encoder inside.

BERT models are written as basic operators from their weights; the nodes of an ONNX encoder are taken over as they are.
Only the layers that predict are computed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.data.targets import check_target
from spikepool.errors import InvalidInputError, ModelFormatError, require
from spikepool.kit.files import publishing
from spikepool.pooling.onnx_export import OPSET, Graph, Tokens, output_graph, save_graph
from spikepool.texts.bert import BertEncoder, bert_states
from spikepool.texts.encoder_runtimes import OnnxEncoder

# Prefix of the names of our nodes beside those of another graph.
_PREFIX = "spikepool_"


def write_text_onnx(model: Any, encoder: Any, path: Any, *, overwrite: bool = False) -> Path:
    """Write the model; see :meth:`spikepool.TextClassifier.to_onnx`."""
    if not isinstance(encoder, (BertEncoder, OnnxEncoder)):
        raise InvalidInputError(
            "the encoder cannot be written into an ONNX file",
            getattr(encoder, "name", encoder),
            "Use a folder of a BERT model with safetensors, or export the encoder to ONNX and fit with that folder; "
            "to_onnx(encoder=False) writes a file that takes token embeddings",
        )
    inputs = [encoder.folder]
    target = check_target(path, "onnx", overwrite=overwrite, inputs=inputs)
    # a tokenizer is replaced only together with a file of ours beside it: alone it may be anyone's
    again = overwrite and target.exists()
    words = check_target(target.parent / "tokenizer.json", "tokenizer", overwrite=again, inputs=inputs)
    g = Graph(_PREFIX)
    wanted = [layer for layer in encoder.layers if str(layer) in model.layers_]
    states = bert_states(g, encoder, wanted) if isinstance(encoder, BertEncoder) else _onnx_states(g, encoder, wanted)
    mask = g.cast("attention_mask", "BOOL")
    head = model.pooling_
    names = head.layers_ if head.layers_ != (None,) else (None,)
    tokens = {name: Tokens(g, state, mask) for name, state in zip(names, states, strict=True)}
    outputs = output_graph(head.fitted_, g, tokens, mask)
    info = g.onnx.helper.make_tensor_value_info
    ids = [info(name, g.onnx.TensorProto.INT64, ["n", "T"]) for name in ("input_ids", "attention_mask")]
    properties = {"encoder_sha256": str(model.encoder_sha256_), "max_tokens": str(model.max_tokens)}
    if hasattr(head, "classes_"):
        properties["classes"] = json.dumps(head.classes_.tolist())
    save_graph(g, ids, outputs, properties, target, overwrite=overwrite)
    with publishing(words, overwrite=again) as temporary:
        temporary.write_text(tokenizer_text(encoder, model.max_tokens), encoding="utf-8")
    return target


def tokenizer_text(encoder: BertEncoder | OnnxEncoder, max_tokens: int) -> str:
    """tokenizer.json of an encoder, which cuts at `max_tokens` and pads a batch to its longest text."""
    tokenizer = require("tokenizers", "text").Tokenizer.from_str(encoder.tokenizer.to_str())
    tokenizer.enable_truncation(min(max_tokens, encoder.longest))
    padding = next((token for token in ("[PAD]", "<pad>") if tokenizer.token_to_id(token) is not None), None)
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(padding) if padding else 0, pad_token=padding or "[PAD]")
    return str(tokenizer.to_str())


def _onnx_states(g: Graph, encoder: OnnxEncoder, wanted: list[Any]) -> list[str]:
    """The outputs of an ONNX encoder, whose nodes become part of the graph."""
    try:
        source = g.onnx.load(str(encoder.model_file))
        if any(entry.domain in ("", "ai.onnx") and entry.version != OPSET for entry in source.opset_import):
            source = g.onnx.version_converter.convert_version(source, OPSET)
    except Exception as err:  # the package raises its own classes of errors
        raise ModelFormatError(
            f"{encoder.model_file.name} cannot be brought to opset {OPSET} ({err})",
            remedy="Export it again with that opset",
        ) from err
    domains = [entry.domain for entry in source.opset_import if entry.domain not in ("", "ai.onnx")]
    if domains or source.functions:
        raise ModelFormatError(
            f"{encoder.model_file.name} has operators of its own ({', '.join(domains) or 'functions'})",
            remedy="Export it with standard operators, or use to_onnx(encoder=False)",
        )
    ids = g.op("Identity", "input_ids")
    zeros = g.op("Sub", ids, ids)
    counted = g.op("CumSum", g.op("Add", zeros, g.const(1, np.int64)), g.const(1, np.int64))
    given = {
        "input_ids": ids,
        "attention_mask": g.op("Identity", "attention_mask"),
        "token_type_ids": zeros,
        "position_ids": g.op("Sub", counted, g.const(1, np.int64)),
    }
    renamed = {}
    for node in source.graph.input:
        if node.name in given:
            narrow = node.type.tensor_type.elem_type == g.onnx.TensorProto.INT32
            renamed[node.name] = g.cast(given[node.name], "INT32") if narrow else given[node.name]
    for node in source.graph.node:
        for place, name in enumerate(node.input):
            if name in renamed:
                node.input[place] = renamed[name]
        g.nodes.append(node)
    g.constants.extend(source.graph.initializer)
    return [g.cast(str(name)) for name in wanted]
