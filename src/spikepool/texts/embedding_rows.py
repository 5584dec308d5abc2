"""Token embeddings of single texts, by layer: computed in batches, kept for a while, and padded to one array."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import InvalidInputError
from spikepool.kit.memory import require_memory
from spikepool.texts.encoder_types import States, embedded_batches, tokenised
from spikepool.texts.encoding import BATCH, encode

# Texts that are encoded, or classified, at a time.
STREAMED = 64
# Bytes of embeddings that are kept between calls.
CACHE_BYTES = 2**30

Row = dict[str, States]


class EmbeddingCache:
    """Token embeddings of recent texts, up to a number of bytes; those used longest ago are dropped first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._rows: OrderedDict[tuple[Any, int, str], Row] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def find(self, encoder: Any, max_tokens: int, text: str, layers: Sequence[str] | None) -> Row | None:
        """Embeddings (T_i, d) of a text by layer, if all of `layers` are there."""
        place = (encoder, max_tokens, text)
        with self._lock:
            row = self._rows.get(place)
            if row is None or any(layer not in row for layer in layers or ()):
                return None
            self._rows.move_to_end(place)
            return row

    def keep(self, encoder: Any, max_tokens: int, text: str, row: Row) -> None:
        """Add the layers of a text to what is known of it."""
        place = (encoder, max_tokens, text)
        with self._lock:
            known = self._rows.pop(place, {})
            self._rows[place] = known | row
            self._bytes += _size(self._rows[place]) - _size(known)
            while self._bytes > self.most:
                self._bytes -= _size(self._rows.popitem(last=False)[1])

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._rows.clear()
            self._bytes = 0


def _size(row: Row) -> int:
    return sum(states.nbytes for states in row.values())


CACHE = EmbeddingCache(CACHE_BYTES)


def cut_note(cut: int, count: int, max_tokens: int) -> tuple[str, ...]:
    """How many texts were cut, if any."""
    return (f"{cut:,} of {count:,} texts have more than {max_tokens} tokens and were cut there",) if cut else ()


def encoded_rows(texts: list[str], model: Any, layers: list[str] | None, max_tokens: int) -> tuple[list[Row], int]:
    """Embeddings (T_i, d) of each text by layer, and how many texts were cut."""
    rows: list[Row] = [{} for _ in texts]
    if layers is None:  # a function
        encoded = encode(texts, model, max_tokens=max_tokens, progress=False)
        for name, X in encoded.by_layer().items():
            for i, length in enumerate(encoded.mask.sum(axis=1).tolist()):
                rows[i][name] = np.asarray(X[i, :length], dtype=np.float32)
        cut = encoded.cut
    else:
        wanted = tuple(layer for layer in model.layers if str(layer) in layers)
        words = tokenised(model, texts, max_tokens)
        for places, states in embedded_batches(model, words, wanted, BATCH):
            for k, i in enumerate(places.tolist()):
                rows[i] = {str(name): states[k, j, : len(words[i].ids)].copy() for j, name in enumerate(wanted)}
        cut = sum(one.truncated for one in words)
    for text, row in zip(texts, rows, strict=True):
        # the sum of single-precision numbers is finite where they are, unless they are too large to be embeddings
        if not all(np.isfinite(np.add.reduce(states, axis=None)) for states in row.values()):
            raise InvalidInputError(
                "the encoder gives numbers that are not finite for a text", text[:60], "Check its weights"
            )
    return rows, cut


def padded_rows(
    rows: list[Row], layers: Sequence[str], dtype: Any
) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
    """(n, T, d) by layer, zero beyond the tokens of a text, and the mask."""
    lengths = np.array([len(row[layers[0]]) for row in rows])
    T, d = int(lengths.max()), rows[0][layers[0]].shape[1]
    require_memory(
        len(rows) * T * d * np.dtype(dtype).itemsize * len(layers),
        f"embeddings of {len(rows):,} texts in {len(layers)} layers",
        "Pass fewer layers, such as layers=[-3], a smaller max_tokens, or fewer texts",
    )
    tokens = {layer: np.zeros((len(rows), T, d), dtype=dtype) for layer in layers}
    for i, row in enumerate(rows):
        for layer in layers:
            tokens[layer][i, : lengths[i]] = row[layer]
    return tokens, np.arange(T) < lengths[:, None]
