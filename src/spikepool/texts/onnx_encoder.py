"""Encoders as ONNX models, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import ModelFormatError, require
from spikepool.texts.bert import read_config
from spikepool.texts.encoder_types import LayerNames, States, Tokenised
from spikepool.texts.tokenising import load_tokenizer, tokenise


class OnnxEncoder:
    """An ONNX model with tokenizer.json beside it; every output (batch, tokens, d) is a layer, in its order."""

    def __init__(self, folder: Path, model: Path) -> None:
        runtime = require("onnxruntime", "text")
        try:
            self._session = runtime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        except Exception as err:  # the runtime raises its own classes of errors
            raise ModelFormatError(f"{model.name} is not a model that onnxruntime reads: {err}") from err
        self.name = folder.name
        self._inputs = {found.name: found.type for found in self._session.get_inputs()}
        if "input_ids" not in self._inputs:
            raise ModelFormatError(f"{model.name} has no input named input_ids", sorted(self._inputs))
        outputs = [o.name for o in self._session.get_outputs() if "float" in o.type and len(o.shape) == 3]
        if not outputs:
            raise ModelFormatError(f"{model.name} has no output of token embeddings (batch, tokens, d)")
        # the last hidden state comes last, whatever the order of the outputs
        outputs.sort(key=lambda name: name in ("last_hidden_state", "token_embeddings"))
        self.layers: LayerNames = tuple(outputs)
        config = read_config(folder)
        self.longest = int(config.get("max_position_embeddings") or config.get("n_positions") or 512)
        self._tokenizer = load_tokenizer(folder)

    def tokenise(self, texts: Sequence[str], max_tokens: int) -> list[Tokenised]:
        """Tokens as the model's tokenizer makes them."""
        return tokenise(self._tokenizer, texts, min(max_tokens, self.longest))

    def embed(self, ids: NDArray[np.int64], mask: NDArray[np.bool_], layers: LayerNames) -> States:
        """(B, len(layers), T, d)."""
        B, T = ids.shape
        given = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
            "position_ids": np.broadcast_to(np.arange(T), (B, T)),
        }
        feed = {
            name: np.ascontiguousarray(given[name], dtype=np.int32 if "int32" in kind else np.int64)
            for name, kind in self._inputs.items()
            if name in given
        }
        found = self._session.run([str(layer) for layer in layers], feed)
        return np.stack([np.asarray(state, dtype=np.float32) for state in found], axis=1)
