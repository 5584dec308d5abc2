"""Tokenisation with the tokenizers library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spikepool.errors import ModelFormatError, require
from spikepool.texts.encoder_types import Tokenised


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer.json of a folder."""
    tokenizers = require("tokenizers", "text")
    try:
        found = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as err:  # the library raises bare exceptions
        raise ModelFormatError(f"the tokenizer.json of {folder.name} cannot be read: {err}") from err
    found.no_padding()
    found.no_truncation()
    return found


def tokenise(tokenizer: Any, texts: Sequence[str], max_tokens: int) -> list[Tokenised]:
    """Ids and strings of the tokens of each text; what exceeds `max_tokens` is cut, special tokens kept."""
    tokenizer.enable_truncation(max_tokens)
    found = tokenizer.encode_batch(list(texts))
    return [Tokenised(list(one.ids), list(one.tokens), bool(one.overflowing)) for one in found]
