"""Names of the rows of an embedding table, from the files that tokenizers come in; plain data, no code is run.

``tokenizer.json`` (Hugging Face), ``vocab.json`` (token -> id) and ``vocab.txt`` (one token per line). Names are the
tokenizer's own spelling: a leading space is Ġ or ▁ in many of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spikepool.data.table_input import table_path
from spikepool.errors import DataSourceError, TableFormatError
from spikepool.kit.bounded_reading import read_file, regular_file

BESIDE = ("tokenizer.json", "vocab.json", "vocab.txt")  # looked for beside a model, in this order
LARGEST_FILE = 2**27  # bytes; the largest vocabularies in use take a fifth of it
# Tables are padded to a round number of rows: by this many at most, or by this share. Fewer names belong to another
# table.
MOST_PADDING, PADDING_SHARE = 1024, 0.02


def read_tokens(path: Any) -> list[str]:
    """Token names in the order of their ids, from a tokenizer's file or a folder that holds one."""
    file = Path(path)
    if file.is_dir():
        beside = next((file / name for name in BESIDE if (file / name).is_file()), None)
        if beside is None:
            raise TableFormatError("the folder has no tokenizer", file.name, f"It should hold {' or '.join(BESIDE)}")
        file = beside
    try:
        regular_file(file, LARGEST_FILE)
        text = read_file(file, LARGEST_FILE).decode("utf-8")
    except TableFormatError:
        raise
    except (OSError, DataSourceError, UnicodeDecodeError) as err:
        raise TableFormatError(f"cannot read the tokenizer ({err})", str(path), "Pass tokenizer.json") from err
    if file.suffix.lower() != ".json":
        return text.splitlines()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise TableFormatError(f"the tokenizer is not valid JSON: {err}", file.name, "Download it again") from err
    return _from_json(content, file)


def tokens_beside(path: Any, V: int) -> list[str] | None:
    """Names found beside a model, when they are as many as its table has rows; else None.

    Rows beyond the last token, which pad the table, are named by their number.
    """
    place = table_path(path)
    folder = place if place.is_dir() else place.parent
    names = read_tokens(folder) if any((folder / name).is_file() for name in BESIDE) else None
    fits = names is not None and 0 <= V - len(names) <= max(MOST_PADDING, PADDING_SHARE * V)
    return padded(names, V) if names is not None and fits else None


def padded(names: list[str], V: int) -> list[str]:
    """`names` with a placeholder for each row beyond the last."""
    return names + [f"[row {row}]" for row in range(len(names), V)]


def _from_json(content: Any, file: Path) -> list[str]:
    """Tokens of a tokenizer.json or of a plain map or list."""
    pairs: dict[int, str] = {}
    try:
        if isinstance(content, list):
            return [str(name) for name in content]
        vocabulary = content.get("model", {}).get("vocab") if "model" in content else content
        if isinstance(vocabulary, list):  # unigram models: [token, score] in the order of ids
            pairs = {i: str(entry[0]) for i, entry in enumerate(vocabulary)}
        else:
            pairs = {int(i): str(name) for name, i in vocabulary.items()}
        for entry in content.get("added_tokens") or []:
            pairs[int(entry["id"])] = str(entry["content"])
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as err:
        raise TableFormatError("the tokenizer has no map of tokens to ids", file.name, "Pass tokenizer.json") from err
    if not pairs or min(pairs) < 0 or max(pairs) > 4 * len(pairs) + MOST_PADDING:
        raise TableFormatError("the ids of the tokenizer are not those of a table", file.name, "Pass another")
    return [pairs.get(i, f"[row {i}]") for i in range(max(pairs) + 1)]
