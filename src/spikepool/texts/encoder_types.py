"""What an encoder is: something that tokenises texts and gives the hidden states of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

LayerNames = tuple[int | str, ...]
States = NDArray[np.float32]
Function = Callable[[list[str]], Any]


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
