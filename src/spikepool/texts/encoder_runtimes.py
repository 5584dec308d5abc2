"""Encoders that transformers and onnxruntime run; BERT models from their weights are in :mod:`spikepool.texts.bert`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import ModelFormatError, require
from spikepool.kit.bounded_reading import regular_file
from spikepool.texts.bert import LARGEST_WEIGHTS, read_config
from spikepool.texts.encoder_types import LayerNames, SharedEncoder, States, Tokenised, load_tokenizer, tokenise


class TransformersEncoder(SharedEncoder):
    """A folder that ``AutoModel.from_pretrained`` reads; code of the folder is never run."""

    def __init__(self, folder: Path) -> None:
        transformers = require("transformers", "transformers")
        self._torch = require("torch", "transformers")
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
            self._model = transformers.AutoModel.from_pretrained(str(folder), trust_remote_code=False).eval()
        except Exception as err:  # many, of several libraries
            raise ModelFormatError(f"transformers cannot load {folder.name}: {err}") from err
        config = self._model.config
        self.name, self.folder = folder.name, folder
        self.layers: LayerNames = tuple(range(int(config.num_hidden_layers) + 1))
        self.longest = int(getattr(config, "max_position_embeddings", 0) or getattr(config, "n_positions", 0) or 2048)
        if self._tokenizer.pad_token_id is None:  # decoders often have none; padding is masked
            self._tokenizer.pad_token = self._tokenizer.eos_token or self._tokenizer.unk_token

    def tokenise(self, texts: Sequence[str], max_tokens: int) -> list[Tokenised]:
        """Tokens as the model's tokenizer makes them."""
        limit = min(max_tokens, self.longest)
        whole = self._tokenizer(list(texts), padding=False, truncation=False, verbose=False)["input_ids"]
        cut = self._tokenizer(list(texts), padding=False, truncation=True, max_length=limit)["input_ids"]
        strings = self._tokenizer.convert_ids_to_tokens
        return [Tokenised(list(a), list(strings(a)), len(b) > len(a)) for a, b in zip(cut, whole, strict=True)]

    def embed(self, ids: NDArray[np.int64], mask: NDArray[np.bool_], layers: LayerNames) -> States:
        """(B, len(layers), T, d)."""
        torch = self._torch
        with torch.inference_mode():
            output = self._model(
                input_ids=torch.from_numpy(np.ascontiguousarray(ids)),
                attention_mask=torch.from_numpy(mask.astype(np.int64)),
                output_hidden_states=True,
            ).hidden_states
        return np.stack([output[int(layer)].float().numpy() for layer in layers], axis=1)


class OnnxEncoder(SharedEncoder):
    """An ONNX model with tokenizer.json beside it; every output (batch, tokens, d) is a layer, in its order."""

    def __init__(self, folder: Path, model: Path) -> None:
        runtime = require("onnxruntime", "text")
        try:
            self._session = runtime.InferenceSession(
                str(regular_file(model, LARGEST_WEIGHTS)), providers=["CPUExecutionProvider"]
            )
        except Exception as err:  # the runtime raises its own classes of errors
            raise ModelFormatError(f"{model.name} is not a model that onnxruntime reads: {err}") from err
        self.name, self.folder, self.model_file = folder.name, folder, model
        self._inputs = {node.name: node.type for node in self._session.get_inputs()}
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
        self.tokenizer = load_tokenizer(folder)

    def tokenise(self, texts: Sequence[str], max_tokens: int) -> list[Tokenised]:
        """Tokens as the model's tokenizer makes them."""
        return tokenise(self.tokenizer, texts, min(max_tokens, self.longest))

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
        output = self._session.run([str(layer) for layer in layers], feed)
        return np.stack([np.asarray(state, dtype=np.float32) for state in output], axis=1)
