"""A fitted pooling together with the encoder of its texts: from texts to labels in one call, saved in one folder."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import ModelFormatError, SpikepoolError
from spikepool.kit.bounded_reading import read_file
from spikepool.pooling.saving import save
from spikepool.texts.encoder_types import Encoder, tokenised
from spikepool.texts.encoders import find_encoder, fingerprint
from spikepool.texts.encoding import encode

# Settings of the texts, beside the saved pooling.
SETTINGS = "texts.json"
LARGEST_SETTINGS, MOST_TOKENS = 2**20, 2**20  # bytes of the settings, and tokens of a text
# Bytes of embeddings up to which all layers of all texts are compared with layers="auto"; beyond, layers are chosen on
# as many texts as fit.
LAYER_BYTES = 2**30


@dataclass(frozen=True)
class TextSettings:
    """How texts were encoded for a model.

    Attributes
    ----------
    encoder : str
        A known name, or a path relative to the folder of the model.
    layers : list
        Layers in the order of the fit.
    max_tokens : int
    text_column : str or None
        Column of the texts in the file of the fit.
    encoder_sha256 : str or None
        :func:`~spikepool.texts.encoders.fingerprint` of the encoder.
    """

    encoder: str
    layers: list[Any]
    max_tokens: int
    text_column: str | None = None
    encoder_sha256: str | None = None


def affordable_rows(model: Encoder, texts: Sequence[str], max_tokens: int) -> int:
    """Texts whose embeddings in all layers fit ``LAYER_BYTES`` in half precision, by their number of tokens."""
    tokens = sum(len(one.ids) for one in tokenised(model, texts, max_tokens))
    width = model.embed(np.zeros((1, 1), dtype=np.int64), np.ones((1, 1), dtype=bool), model.layers[-1:]).shape[-1]
    needed = 2 * tokens * len(model.layers) * width
    return len(texts) if needed <= LAYER_BYTES else int(len(texts) * LAYER_BYTES / needed)


def save_text_model(
    estimator: Any, folder: Any, settings: TextSettings, tokenizer: str | None = None, *, overwrite: bool = False
) -> Path:
    """Write a pooling, the settings of its texts and its tokenizer, as a folder that appears whole or not at all."""
    also = {SETTINGS: json.dumps(asdict(settings), indent=2) + "\n"}
    if tokenizer is not None:
        also["tokenizer.json"] = tokenizer
    return save(estimator, folder, overwrite=overwrite, also=also)


def load_settings(folder: Path) -> TextSettings:
    """The settings of a model that was fitted on texts."""
    try:
        found = json.loads(read_file(folder / SETTINGS, LARGEST_SETTINGS).decode("utf-8"))
        settings = TextSettings(
            found["encoder"],
            found["layers"],
            found["max_tokens"],
            found.get("text_column"),
            found.get("encoder_sha256"),
        )
        _check_settings(settings)
        return settings
    except (SpikepoolError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise ModelFormatError(
            f"{folder} is not a model of texts ({err})", remedy="Pass a folder made by spikepool fit on texts"
        ) from err


def _check_settings(settings: TextSettings) -> None:
    """Raise ValueError unless every setting is of the type that is written."""
    for name, value, kinds in (
        ("encoder", settings.encoder, (str,)),
        ("layers", settings.layers, (list,)),
        ("max_tokens", settings.max_tokens, (int,)),
        ("text_column", settings.text_column, (str, type(None))),
        ("encoder_sha256", settings.encoder_sha256, (str, type(None))),
    ):
        if type(value) not in kinds:
            raise ValueError(f"{name} is {value!r:.60}")
    if not settings.layers or any(type(layer) not in (int, str) for layer in settings.layers):
        raise ValueError(f"layers are {settings.layers!r:.60}")
    if not 1 <= settings.max_tokens <= MOST_TOKENS:
        raise ValueError(f"max_tokens is {settings.max_tokens}")


def written_encoder(encoder: str, folder: Path) -> str:
    """How the settings name an encoder: a known name, a hub id, or a path relative to the folder of the model."""
    path = Path(encoder).expanduser()
    if encoder == "minilm" or not path.is_dir():
        return encoder
    return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()


def saved_encoder(settings: TextSettings, folder: Path) -> Encoder:
    """The encoder that a saved model names; nothing is downloaded, and no other folder is looked at."""
    name = settings.encoder
    if name == "minilm":
        return checked_encoder(settings, find_encoder(name, download=False))
    path = folder / name
    if Path(name).is_absolute() or not any((path / file).is_file() for file in ("tokenizer.json", "config.json")):
        raise ModelFormatError(
            "the model names an encoder that is neither known nor a folder relative to it",
            name,
            "Pass the encoder (encoder=, or --encoder): a folder, or a hub id that may be downloaded",
        )
    return checked_encoder(settings, find_encoder(path, download=False))


def fitting_encoder(settings: TextSettings, encoder: Any) -> Encoder:
    """The encoder that is passed; raises if it is not that of the fit."""
    return checked_encoder(settings, find_encoder(encoder))


def checked_encoder(settings: TextSettings, used: Encoder) -> Encoder:
    """The encoder, if its files are those of the fit."""
    now, then = fingerprint(used), settings.encoder_sha256
    if then is not None and now is not None and now != then:
        raise ModelFormatError(
            f"the encoder {used.name} is not that of the fit: its SHA-256 is {now}, that of the fit {then}",
            remedy="Pass the folder of that encoder with --encoder",
        )
    return used


def embedded(texts: Sequence[str], encoder: Any, layers: Any, max_tokens: int, progress: bool | None = False) -> Any:
    """Token embeddings of texts as a pooling takes them: (n, T, d), or a mapping by layer; and the mask."""
    encoded = encode(
        texts, encoder, layers, max_tokens, progress=progress, dtype="float16" if layers == "all" else "float32"
    )
    X = encoded.X if encoded.X.ndim == 3 else encoded.by_layer()
    return X, encoded.mask, encoded
