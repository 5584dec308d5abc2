"""What an encoder is, and token embeddings of texts, computed in batches of similar length."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import ModelFormatError, require
from spikepool.kit.bounded_reading import read_file

LayerNames = tuple[int | str, ...]
States = NDArray[np.float32]
Function = Callable[[list[str]], Any]
_TRUNCATION = threading.Lock()
LARGEST_TOKENIZER = 2**27  # bytes; the largest vocabularies in use take a fifth of it


class Tokenised(NamedTuple):
    """Token ids and strings of one text, and whether it was cut at the maximum."""

    ids: list[int]
    strings: list[str]
    truncated: bool


class Encoder(Protocol):
    """Something that embeds the tokens of texts.

    Attributes
    ----------
    name : str
        For messages and reports.
    layers : tuple
        Names of the layers it can give, the input embedding first and the last hidden state last.
    longest : int
        Largest number of tokens of a text.
    """

    name: str
    layers: LayerNames
    longest: int

    def tokenise(self, texts: Sequence[str], max_tokens: int) -> list[Tokenised]:
        """Tokens of each text, special tokens included, at most `max_tokens`."""

    def embed(self, ids: NDArray[np.int64], mask: NDArray[np.bool_], layers: LayerNames) -> States:
        """(B, len(layers), T, d) hidden states of a batch that is padded on the right."""


class SharedEncoder:
    """An encoder of a folder: copies, such as those of scikit-learn's ``clone``, are the encoder itself."""

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer.json of a folder."""
    tokenizers = require("tokenizers", "text")
    try:
        tokenizer = tokenizers.Tokenizer.from_str(
            read_file(folder / "tokenizer.json", LARGEST_TOKENIZER).decode("utf-8")
        )
    except Exception as err:  # the library raises bare exceptions
        raise ModelFormatError(f"the tokenizer.json of {folder.name} cannot be read: {err}") from err
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def tokenise(tokenizer: Any, texts: Sequence[str], max_tokens: int) -> list[Tokenised]:
    """Ids and strings of the tokens of each text; what exceeds `max_tokens` is cut, special tokens kept."""
    with _TRUNCATION:  # a property of the tokenizer, which several threads may use
        tokenizer.enable_truncation(max_tokens)
        encodings = tokenizer.encode_batch(list(texts))
    return [Tokenised(list(one.ids), list(one.tokens), bool(one.overflowing)) for one in encodings]


@dataclass(frozen=True, repr=False)
class EncodedTexts:
    """Token embeddings of texts.

    Attributes
    ----------
    X : numpy.ndarray
        (n, T, d) for one layer, (n, layers, T, d) for several; zero where there is no token.
    mask : numpy.ndarray of shape (n, T)
        True where a text has a token.
    tokens : list of list of str
        Token strings of each text.
    layers : tuple
        Names of the layers.
    encoder : str
        What made them.
    notes : tuple of str
        What was cut or left empty.
    cut : int
        Texts with more tokens than the maximum.
    """

    X: Any
    mask: NDArray[np.bool_]
    tokens: list[list[str]]
    layers: LayerNames
    encoder: str = ""
    notes: tuple[str, ...] = ()
    cut: int = 0

    def __len__(self) -> int:
        return len(self.mask)

    def __repr__(self) -> str:
        layers = ", ".join(map(str, self.layers))
        notes = f", {len(self.notes)} notes" if self.notes else ""
        what = f"{len(self):,} texts, layers {layers} of {self.encoder}, X {self.X.shape} {self.X.dtype}"
        return f"<EncodedTexts: {what}{notes}>"

    def by_layer(self) -> dict[str, Any]:
        """{name of the layer: (n, T, d)}, as :class:`spikepool.LearnedPoolingClassifier` takes it."""
        if self.X.ndim == 3:
            return {str(self.layers[0]): self.X}
        return {str(name): self.X[:, place] for place, name in enumerate(self.layers)}


def tokenised(encoder: Encoder, texts: Sequence[str], max_tokens: int) -> list[Tokenised]:
    """Tokens of every text; one padding token stands for a text that has none."""
    tokenised_texts: list[Tokenised] = []
    for start in range(0, len(texts), 4096):
        tokenised_texts += encoder.tokenise(texts[start : start + 4096], max_tokens)
    return [one if one.ids else Tokenised([0], [""], one.truncated) for one in tokenised_texts]


def batches(lengths: Sequence[int] | NDArray[np.intp], size: int) -> Iterator[NDArray[np.intp]]:
    """Places of texts of similar length, `size` at a time."""
    order = np.argsort(lengths, kind="stable")
    for start in range(0, len(order), size):
        yield order[start : start + size]


def embedded_batches(
    encoder: Encoder, words: Sequence[Tokenised], layers: LayerNames, batch_size: int
) -> Iterator[tuple[NDArray[np.intp], States]]:
    """Places of some texts and their embeddings (b, layers, length, d), zero beyond the tokens of a text."""
    lengths = np.array([len(one.ids) for one in words])
    for rows in batches(lengths, batch_size):
        length = int(lengths[rows].max())
        ids = np.zeros((len(rows), length), dtype=np.int64)
        for k, i in enumerate(rows):
            ids[k, : lengths[i]] = words[i].ids
        mask = np.arange(length) < lengths[rows][:, None]
        states = encoder.embed(ids, mask, layers)
        if not mask.all():
            states = np.where(mask[:, None, :, None], states, np.float32(0))
        yield rows, states


def observed(words: Sequence[Tokenised], T: int) -> NDArray[np.bool_]:
    """(n, T) mask."""
    return np.arange(T) < np.array([len(one.ids) for one in words])[:, None]


def notes_on(texts: Sequence[str], words: Sequence[Tokenised], max_tokens: int) -> tuple[str, ...]:
    """What a reader should know: texts that were cut, and empty ones."""
    notes = []
    cut = sum(one.truncated for one in words)
    if cut:
        notes.append(f"{cut:,} of {len(texts):,} texts have more than {max_tokens} tokens and were cut there")
    empty = sum(not text.strip() for text in texts)
    if empty:
        notes.append(
            f"{empty:,} of {len(texts):,} texts are empty: their embeddings are those of the special tokens alone"
        )
    return tuple(notes)
