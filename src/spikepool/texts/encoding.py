"""From texts to token embeddings, in batches of similar length; in memory, or into a Zarr store that can be resumed.

Token embeddings in a Zarr store, written block by block and resumed where a run ended.

The store is a group with ``X`` (n, T, d) or (n, layers, T, d), ``mask`` (n, T), ``tokens`` (a JSON list of strings per
row) and ``done`` (a flag per block of rows, written after the block). Blocks depend on nothing but their own texts, so
that a store that was resumed is the same as one that was written in one go.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.in_memory import as_array, padded
from spikepool.errors import DataSourceError, InvalidInputError, ShapeError, require
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.files import replacing_folder
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress
from spikepool.texts.encoder_types import (
    EncodedTexts,
    Encoder,
    Function,
    LayerNames,
    States,
    embedded_batches,
    embedded_rows,
    notes_on,
    observed,
    tokenised,
)
from spikepool.texts.encoders import chosen_layers, find_encoder, fingerprint

# Rows of a block: what a killed run loses at most.
BLOCK_ROWS = 64
SCHEMA = 2


def encode_into(
    out: str | Path,
    texts: list[str],
    encoder: Encoder,
    layers: LayerNames,
    max_tokens: int,
    batch_size: int,
    dtype: str,
    progress: bool | None,
) -> EncodedTexts:
    """Encode into the store at `out`, which is made or resumed."""
    words = tokenised(encoder, texts, max_tokens)
    T = max(len(one.ids) for one in words)
    d = embedded_rows(encoder, words[:1], layers, T, 1).shape[-1]
    digest = hashlib.sha256("\x00".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
    recipe = {
        "schema": SCHEMA,
        "encoder": encoder.name,
        "encoder_sha256": fingerprint(encoder),
        "layers": [str(layer) for layer in layers],
        "max_tokens": max_tokens,
        "dtype": dtype,
        "texts": len(texts),
        "digest": digest,
    }
    group = _opened(Path(out), recipe, len(texts), layers, T, d, dtype)
    single = len(layers) == 1
    starts = range(0, len(texts), BLOCK_ROWS)
    done = _stored_blocks(Path(out), group)
    with Progress(len(texts), "encoding texts", show=progress) as bar:
        for block, start in enumerate(starts):
            rows = slice(start, min(start + BLOCK_ROWS, len(texts)))
            if not done[block]:
                states = embedded_rows(encoder, words[rows], layers, T, batch_size).astype(dtype)
                group["X"][rows] = states[:, 0] if single else states
                group["mask"][rows] = observed(words[rows], T)
                group["tokens"][rows] = np.array([json.dumps(one.strings) for one in words[rows]], dtype=object)
                group["done"][block] = True
            bar.advance(rows.stop - start)
    return EncodedTexts(
        group["X"],
        np.asarray(group["mask"][:]),
        [one.strings for one in words],
        layers,
        encoder.name,
        notes_on(texts, words, max_tokens),
        sum(one.truncated for one in words),
    )


def _opened(out: Path, recipe: dict[str, Any], n: int, layers: LayerNames, T: int, d: int, dtype: str) -> Any:
    """The group at `out`: new, or one that was begun with the same texts and settings."""
    zarr = require("zarr", "sweeps")
    if os.path.lexists(out):
        try:
            group = zarr.open_group(str(out), mode="r+")
            recorded = dict(group.attrs.get("spikepool_texts", {}))
        except Exception as err:  # Zarr's errors differ between versions
            raise DataSourceError(
                f"{out.name} exists and is not a store of texts", remedy="Choose another name"
            ) from err
        if recorded != recipe or "done" not in group:
            changed = [key for key in recipe if recorded.get(key) != recipe[key]]
            if changed == ["encoder_sha256"]:
                raise InvalidInputError(
                    f"{out.name} was begun with another encoder: its SHA-256 was {recorded.get(changed[0])}, now it is "
                    f"{recipe[changed[0]]}",
                    remedy="Choose another name, or pass the encoder that began it",
                )
            raise InvalidInputError(
                f"{out.name} exists and holds something else (differs in {', '.join(changed) or 'its arrays'})",
                remedy="Choose another name, or delete it",
            )
        return group
    shape = (n, T, d) if len(layers) == 1 else (n, len(layers), T, d)
    block = min(BLOCK_ROWS, n)
    with replacing_folder(out) as draft:
        group = zarr.create_group(str(draft), overwrite=True)
        kept = {"config": {"write_empty_chunks": True}}
        group.create_array("X", shape=shape, chunks=(block, *shape[1:]), dtype=dtype, **kept)
        group.create_array("mask", shape=(n, T), chunks=(block, T), dtype="bool", **kept)
        group.create_array("tokens", shape=(n,), chunks=(block,), dtype=str, **kept)
        group.create_array("done", shape=(-(-n // BLOCK_ROWS),), chunks=(1,), dtype="bool")
        group.attrs["spikepool_texts"] = recipe
    return zarr.open_group(str(out), mode="r+")


def _stored_blocks(out: Path, group: Any) -> NDArray[np.bool_]:
    """Blocks that are marked as done and have every chunk on the disk; Zarr reads one that is not there as zeros."""
    done = np.asarray(group["done"][:], dtype=bool)
    for name in ("X", "mask", "tokens"):
        array = group[name]
        for block in np.flatnonzero(done):
            key = array.metadata.encode_chunk_key((int(block), *(0,) * (array.ndim - 1)))
            done[block] &= (out / name / key).is_file()
    return done


def open_encoded(path: str | Path) -> EncodedTexts:
    """A finished store of :func:`spikepool.encode`."""
    zarr = require("zarr", "sweeps")
    try:
        group = zarr.open_group(str(path), mode="r")
        recipe = dict(group.attrs["spikepool_texts"])
        done = _stored_blocks(Path(path), group)
    except Exception as err:
        raise DataSourceError(
            f"{path} is not a store of encoded texts", remedy="Write one with spikepool encode"
        ) from err
    if not done.all():
        raise DataSourceError(
            f"{path} is not complete: {int((~done).sum()):,} of {len(done):,} blocks of rows are missing",
            remedy="Run the same spikepool encode again to finish it",
        )
    tokens = [json.loads(row) for row in group["tokens"][:].tolist()]
    return EncodedTexts(group["X"], np.asarray(group["mask"][:]), tokens, tuple(recipe["layers"]), recipe["encoder"])


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
    out: str | Path | None = None,
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
    out : path, optional
        Zarr store to write instead of memory. A run that was killed goes on where it was; at most one block of rows is
        computed again, and the result is the same.
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
        if out is not None:
            raise InvalidInputError(
                "a function as encoder cannot be resumed", out, "Drop out, or pass an encoder object"
            )
        return _encode_with(encoder, values, max_tokens, kind, progress)
    model = find_encoder(encoder)
    wanted = chosen_layers(model, layers)
    if out is not None:
        return encode_into(out, values, model, wanted, max_tokens, batch_size, kind, progress)
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
                    "Pass out= to write them to a Zarr store, fewer layers, or dtype='float16'",
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
