"""From texts to token embeddings, in batches of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spikepool.data.formats.records import has_surrogates
from spikepool.data.in_memory import as_array, padded
from spikepool.errors import InvalidInputError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress
from spikepool.texts.encoder_types import (
    EncodedTexts,
    Function,
    States,
    embedded_batches,
    notes_on,
    observed,
    tokenised,
)
from spikepool.texts.encoders import chosen_layers, find_encoder

# Texts of one batch of the encoder.
BATCH = 32
# Texts that a function is given at a time.
_FUNCTION_BATCH = 64


def encode(
    texts: Sequence[str],
    encoder: Any = "minilm",
    layers: Any = None,
    max_tokens: int = 128,
    *,
    batch_size: int = BATCH,
    dtype: str = "float32",
    progress: bool | None = None,
) -> EncodedTexts:
    """Token embeddings of texts, with mask and token strings.

    Parameters
    ----------
    texts : sequence of str
        A list, array or column of a data frame.
    encoder : str, path or callable
        ``"minilm"`` (all-MiniLM-L6-v2, no torch needed), a folder or hub id with an ONNX model and tokenizer.json or a
        model of transformers, an :class:`~spikepool.texts.encoders.Encoder`, or a function from a list of texts to
        their token embeddings: a list of (T_i, d) or (layers, T_i, d) arrays.
    layers : None, "all", int, str, or sequence of these
        The last layer by default. Layer 0 is the input embedding; negative numbers count from the end.
    max_tokens : int
        Longer texts are cut, which is counted and reported in `notes`.
    batch_size : int
        Texts that the encoder sees at once.
    dtype : {"float32", "float16"}
        Of the embeddings.
    progress : bool, optional
        Show a progress bar; by default on a terminal, when the work is long.

    Returns
    -------
    EncodedTexts
    """
    values = checked_texts(texts)
    max_tokens, batch_size = check.size(max_tokens, "max_tokens", minimum=2), check.size(batch_size, "batch_size")
    kind = check.choice(dtype, "dtype", ("float32", "float16"))
    if callable(encoder) and not hasattr(encoder, "embed"):
        return _encode_with(encoder, values, max_tokens, kind, progress)
    model = find_encoder(encoder)
    wanted = chosen_layers(model, layers)
    words = tokenised(model, values, max_tokens)
    T = max(len(one.ids) for one in words)
    X: States | None = None
    with Progress(len(values), "encoding texts", show=progress) as bar:
        for rows, states in embedded_batches(model, words, wanted, batch_size):
            if X is None:
                shape = (len(values), len(wanted), T, states.shape[-1])
                require_memory(
                    int(np.prod(shape)) * np.dtype(kind).itemsize,
                    f"embeddings of shape {shape}",
                    "Pass fewer layers or texts, or dtype='float16'",
                )
                X = np.zeros(shape, dtype=kind)
            X[rows, :, : states.shape[2]] = states
            bar.advance(len(rows))
    assert X is not None
    return EncodedTexts(
        X[:, 0] if len(wanted) == 1 else X,
        observed(words, T),
        [one.strings for one in words],
        wanted,
        model.name,
        notes_on(values, words, max_tokens),
        sum(one.truncated for one in words),
    )


def checked_texts(texts: Any) -> list[str]:
    """A list of str from a list, an array, a Series or a data frame of one column."""
    if isinstance(texts, (str, bytes)):
        raise InvalidInputError("texts must be a list of texts, not one text", texts[:40], "Pass [text]")
    if hasattr(texts, "to_numpy") or hasattr(texts, "dtype"):
        array = as_array(texts, "texts")
        if array.ndim != 1 and array.shape[1:] != (1,):
            raise ShapeError("texts must have one column", array.shape, "Pass the column of the texts")
        texts = array.reshape(-1).tolist()
    values = list(texts)
    if not values:
        raise ShapeError("texts is empty", (0,), "Pass at least one text")
    bad = next((i for i, value in enumerate(values) if not isinstance(value, str)), None)
    if bad is not None:
        raise InvalidInputError(f"text {bad} is not a string", values[bad], "Drop missing texts, or fill them with ''")
    bad = next((i for i, value in enumerate(values) if has_surrogates(value)), None)
    if bad is not None:
        raise InvalidInputError(f"text {bad} has half a surrogate pair", ascii(values[bad][:40]), "Repair or drop it")
    return values


def _encode_with(
    function: Function, texts: list[str], max_tokens: int, dtype: str, progress: bool | None
) -> EncodedTexts:
    """Embeddings from a function; rows of different lengths are padded."""
    rows: list[FloatArray] = []
    with Progress(len(texts), "encoding texts", show=progress) as bar:
        for start in range(0, len(texts), _FUNCTION_BATCH):
            part = texts[start : start + _FUNCTION_BATCH]
            embeddings = list(function(part))
            if len(embeddings) != len(part):
                raise ShapeError(
                    f"the encoder returned {len(embeddings)} arrays for {len(part)} texts", remedy="Return one per text"
                )
            rows += [np.asarray(as_array(row, "embeddings"), dtype=dtype) for row in embeddings]
            bar.advance(len(part))
    dims = {row.ndim for row in rows}
    if dims not in ({2}, {3}):
        raise ShapeError("the encoder must return (tokens, d) or (layers, tokens, d) per text", sorted(dims))
    cut = sum(row.shape[-2] > max_tokens for row in rows)
    rows = [row[..., :max_tokens, :] for row in rows]
    layered = rows[0].ndim == 3
    count = rows[0].shape[0] if layered else 1
    stacks = [padded([row[k] for row in rows] if layered else rows, None) for k in range(count)]
    X = np.stack([stack[0] for stack in stacks], axis=1) if layered else stacks[0][0]
    mask = stacks[0][1]
    mask = np.ones(X.shape[:1] + X.shape[-2:-1], dtype=bool) if mask is None else mask
    notes = (f"{cut:,} of {len(texts):,} texts have more than {max_tokens} tokens and were cut there",) if cut else ()
    name = getattr(function, "__name__", type(function).__name__)
    return EncodedTexts(X, np.asarray(mask), [[""] * len(row) for row in mask], tuple(range(count)), name, notes)


__all__ = ["EncodedTexts", "encode"]
