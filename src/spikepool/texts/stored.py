"""Token embeddings in a Zarr store, written block by block and resumed where a run ended.

The store is a group with ``X`` (n, T, d) or (n, layers, T, d), ``mask`` (n, T), ``tokens`` (a JSON list of strings per
row) and ``done`` (a flag per block of rows, written after the block). Blocks depend on nothing but their own texts, so
that a store that was resumed is the same as one that was written in one go.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import DataSourceError, InvalidInputError, require
from spikepool.kit.files import replacing_folder
from spikepool.kit.progress import Progress
from spikepool.texts.batches import EncodedTexts, embedded_rows, notes_on, observed, tokenised
from spikepool.texts.encoder_types import Encoder, LayerNames

# Rows of a block: what a killed run loses at most.
BLOCK_ROWS = 64
SCHEMA = 1


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
        "layers": [str(layer) for layer in layers],
        "max_tokens": max_tokens,
        "dtype": dtype,
        "texts": len(texts),
        "digest": digest,
    }
    group = _opened(Path(out), recipe, len(texts), layers, T, d, dtype)
    single = len(layers) == 1
    starts = range(0, len(texts), BLOCK_ROWS)
    with Progress(len(texts), "encoding texts", show=progress) as bar:
        for block, start in enumerate(starts):
            rows = slice(start, min(start + BLOCK_ROWS, len(texts)))
            if not group["done"][block]:
                found = embedded_rows(encoder, words[rows], layers, T, batch_size).astype(dtype)
                group["X"][rows] = found[:, 0] if single else found
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
    )


def _opened(out: Path, recipe: dict[str, Any], n: int, layers: LayerNames, T: int, d: int, dtype: str) -> Any:
    """The group at `out`: new, or one that was begun with the same texts and settings."""
    zarr = require("zarr", "sweeps")
    if os.path.lexists(out):
        try:
            group = zarr.open_group(str(out), mode="r+")
            found = dict(group.attrs.get("spikepool_texts", {}))
        except Exception as err:  # Zarr's errors differ between versions
            raise DataSourceError(
                f"{out.name} exists and is not a store of texts", remedy="Choose another name"
            ) from err
        if found != recipe or "done" not in group:
            changed = [key for key in recipe if found.get(key) != recipe[key]]
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


def open_encoded(path: str | Path) -> EncodedTexts:
    """A finished store of :func:`spikepool.encode`."""
    zarr = require("zarr", "sweeps")
    try:
        group = zarr.open_group(str(path), mode="r")
        recipe = dict(group.attrs["spikepool_texts"])
        done = bool(np.all(group["done"][:]))
    except Exception as err:
        raise DataSourceError(
            f"{path} is not a store of encoded texts", remedy="Write one with spikepool encode"
        ) from err
    if not done:
        raise DataSourceError(f"{path} is not complete", remedy="Run the same spikepool encode again to finish it")
    tokens = [json.loads(row) for row in group["tokens"][:].tolist()]
    return EncodedTexts(group["X"], np.asarray(group["mask"][:]), tokens, tuple(recipe["layers"]), recipe["encoder"])
