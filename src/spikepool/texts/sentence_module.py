"""A fitted pooling as a module of sentence-transformers.

``SentenceTransformer(folder, trust_remote_code=True).encode(texts)`` gives its features; recent versions ask for that
flag because the module is not one of theirs. They import it through the ``modules.json`` that
:func:`write_sentence_transformer` writes, so that spikepool must be installed where the folder is used. Pooling runs
in NumPy and is not trained further.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.data.targets import check_target
from spikepool.errors import InvalidInputError, require
from spikepool.kit.files import read_file, replacing_folder

torch = require("torch", "sentence-transformers")
_Module = require("sentence_transformers.base.modules.module", "sentence-transformers").Module


class SpikepoolPooling(_Module):  # type: ignore[misc, valid-type]
    """Pools the hidden states of the layers that a fitted pooling was trained on.

    Parameters
    ----------
    folder : path
        Saved pooling, with the numbers of its layers in ``layers.json``.
    """

    def __init__(self, folder: Any) -> None:
        super().__init__()
        from spikepool.pooling.loading import load as load_pooling

        self._folder = Path(folder)
        self.pooling = load_pooling(self._folder)
        self.layers: list[int] = json.loads(read_file(self._folder / "layers.json", 2**20))

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add ``sentence_embedding``."""
        mask = features["attention_mask"].bool().cpu().numpy()
        if self.layers:
            states = features["all_layer_embeddings"]
            by_layer = {name: states[k] for name, k in zip(self.pooling.layers_, self.layers, strict=True)}
            X: Any = {name: state.detach().float().cpu().numpy() for name, state in by_layer.items()}
            X = X if len(X) > 1 or None not in X else X[None]
        else:
            X = features["token_embeddings"].detach().float().cpu().numpy()
        pooled = np.asarray(self.pooling.transform(X, mask=mask), dtype=np.float32)
        features["sentence_embedding"] = torch.from_numpy(pooled).to(features["attention_mask"].device)
        return features

    def get_sentence_embedding_dimension(self) -> int:
        """Number of features."""
        return int(self.pooling.n_features_out_)

    get_embedding_dimension = get_sentence_embedding_dimension

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Copy the saved pooling."""
        shutil.copytree(self._folder, output_path, dirs_exist_ok=True)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **_: Any) -> SpikepoolPooling:
        """The pooling of a folder."""
        return cls(Path(model_name_or_path) / subfolder)


def write_sentence_transformer(pooling: Any, folder: Any, encoder: Any, layers: list[int], max_tokens: int) -> Path:
    """Write the encoder and a pooling as a folder that ``SentenceTransformer`` loads.

    Parameters
    ----------
    pooling : fitted LearnedPoolingClassifier or LearnedPoolingRegressor
    folder : path
        Must not exist.
    encoder : path
        Folder of the encoder, with the files of transformers.
    layers : list of int
        Hidden states that the pooling was fitted on, in its order; empty for the last one.
    max_tokens : int
    """
    source = Path(encoder)
    place = check_target(folder, "folder", inputs=[source])
    if not (source / "config.json").is_file():
        raise InvalidInputError("encoder must be the folder of a transformers model", str(source), "Pass its folder")
    kinds = ("sentence_transformers.models.Transformer", "spikepool.texts.sentence_module.SpikepoolPooling")
    modules = [
        {"idx": k, "name": str(k), "path": path, "type": kind}
        for k, (path, kind) in enumerate(zip(("", "1_SpikepoolPooling"), kinds, strict=True))
    ]
    with replacing_folder(place) as draft:
        for file in source.iterdir():
            if file.is_file() and file.name != "modules.json":
                shutil.copy(file, draft / file.name)
        config = json.loads(read_file(draft / "config.json", 2**24))
        (draft / "config.json").write_text(json.dumps(config | {"output_hidden_states": bool(layers)}, indent=2))
        settings = {"max_seq_length": max_tokens, "do_lower_case": False}
        (draft / "sentence_bert_config.json").write_text(json.dumps(settings))
        (draft / "modules.json").write_text(json.dumps(modules, indent=2))
        pooling.save(draft / "1_SpikepoolPooling")
        (draft / "1_SpikepoolPooling" / "layers.json").write_text(json.dumps(layers))
    return place
