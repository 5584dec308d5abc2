"""Encoders and decoders through transformers, with the hidden states of every layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import ModelFormatError, require
from spikepool.texts.encoder_types import LayerNames, States, Tokenised


class TransformersEncoder:
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
        self.name = folder.name
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
            found = self._model(
                input_ids=torch.from_numpy(np.ascontiguousarray(ids)),
                attention_mask=torch.from_numpy(mask.astype(np.int64)),
                output_hidden_states=True,
            ).hidden_states
        return np.stack([found[int(layer)].float().numpy() for layer in layers], axis=1)
