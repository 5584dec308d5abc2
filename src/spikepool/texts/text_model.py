"""A fitted pooling together with the encoder of its texts: from texts to labels in one call, saved in one folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import ModelFormatError, SpikepoolError
from spikepool.kit.files import read_file
from spikepool.pooling.saving import save
from spikepool.texts.encoder_types import Encoder
from spikepool.texts.encoders import find_encoder, fingerprint
from spikepool.texts.encoding import encode

# Settings of the texts, beside the saved pooling.
SETTINGS = "texts.json"
LARGEST_SETTINGS, MOST_TOKENS = 2**20, 2**20  # bytes of the settings, and tokens of a text
# Bytes of embeddings up to which all layers are compared by default; beyond, the last one is used.
LAYER_BYTES = 2**30


@dataclass(frozen=True)
class TextSettings:
    """How texts were encoded for a model.

    Attributes
    ----------
    encoder : str
        Name, folder or hub id.
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


def default_layers(encoder: Any, texts: Sequence[str], max_tokens: int) -> Any:
    """All layers where their embeddings fit a gigabyte in half precision, else the last one."""
    if callable(encoder) and not hasattr(encoder, "embed"):
        return None
    model = find_encoder(encoder)
    sample = [texts[i] for i in np.linspace(0, len(texts) - 1, min(len(texts), 200)).astype(int)]
    longest = max(len(one.ids) for one in model.tokenise(sample, max_tokens))
    width = model.embed(np.zeros((1, 1), dtype=np.int64), np.ones((1, 1), dtype=bool), model.layers[-1:]).shape[-1]
    needed = 2 * len(texts) * len(model.layers) * longest * width
    return "all" if needed <= LAYER_BYTES else None


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


def fitting_encoder(settings: TextSettings, encoder: Any = None) -> Encoder:
    """The encoder of a model, or the one that is passed in its place; raises if it is not that of the fit."""
    used = find_encoder(settings.encoder if encoder is None else encoder)
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
