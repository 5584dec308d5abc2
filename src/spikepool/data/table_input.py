"""Embedding tables and other weights, from files, hub ids and arrays: rows of real numbers, in blocks.

A model of the Hugging Face hub, where it can be reached: safetensors only, never code.

Names of the rows of an embedding table, from the files that tokenizers come in; plain data, no code is run.

``tokenizer.json`` (Hugging Face), ``vocab.json`` (token -> id), ``vocab.txt`` (a token a line), and the list that a
GGUF file carries. Names are the tokenizer's own spelling: a leading space is Ġ or ▁ in many of them.
"""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import numpy as np

from spikepool.data.blocks import ArrayBlocks, BlockSource
from spikepool.data.formats import PICKLE_REMEDY, TensorEntry, recognise, suffixes
from spikepool.data.in_memory import is_path
from spikepool.data.locations import Location, is_url, locate
from spikepool.data.opening import open_blocks
from spikepool.errors import (
    DataSourceError,
    InvalidInputError,
    MemoryBudgetError,
    ShapeError,
    SpikepoolError,
    TableFormatError,
    UnsafeFormatError,
    require,
)
from spikepool.kit import validation as check
from spikepool.kit.files import read_file, regular_file
from spikepool.kit.memory import require_memory

# Widths the analysis accepts. The covariance takes 8 d² bytes: 2 GiB at the first limit. A file smaller than its
# own covariance is accepted only up to the second, where that is 128 MiB, so that no small file can ask for
# more than a gigabyte.
WIDEST = 16384
WIDEST_SHORT = 4096
HUB_PREFIXES = ("hub:", "hf://")


def open_table(path: Any, tensor: str | None = None, *, transpose: bool = False) -> BlockSource:
    """The embedding table in a file, as a source of rows; nothing is read yet but the header.

    Parameters
    ----------
    path : str or path-like
        A file of any format of :mod:`spikepool.data.formats`, a safetensors index or a folder that holds one, a
        Hugging Face model id (``"hub:openai-community/gpt2"``, or ``"owner/name"`` when no such path exists), or a URL
        (``s3://``, ...).
    tensor : str, optional
        Name of the tensor, or of the column; by default the input embedding is found by its usual names.
    transpose : bool
        Exchange rows and columns: for a table stored with tokens as columns.

    Returns
    -------
    BlockSource

    Raises
    ------
    UnsafeFormatError
        The file is a pickle.
    TableFormatError
        The file is damaged, of an unknown format, or holds no such tensor.
    """
    if tensor is not None and not isinstance(tensor, str):
        raise InvalidInputError("tensor must be the name of a tensor", tensor, "Pass a string")
    place = locate_table(path)
    source = open_blocks(place.url, name="E", column=tensor, role="table")
    if source.name == place.url:
        source.name = place.name
    if source.dtype.kind != "f":
        raise TableFormatError(
            f"{source.name} does not hold floating-point numbers", str(source.dtype), "Save it as float32"
        )
    _check_shape(source.shape, source.name)
    return _check_width(transposed(source) if check.flag(transpose, "transpose") else source)


def as_table(table: Any) -> BlockSource:
    """A table in memory or stored, as a source of its rows."""
    if is_path(table):
        return open_table(table)
    if np.ma.isMaskedArray(table):
        raise InvalidInputError("E has masked entries", type(table).__name__, "Fill or drop them first")
    sparse = hasattr(table, "toarray")  # made dense block by block
    source = ArrayBlocks(table, "E") if sparse else open_blocks(table, name="E")
    if source.dtype.kind not in "fiu":
        raise InvalidInputError("E must hold real numbers", str(source.dtype), "Convert it to float32 first")
    _check_shape(source.shape, source.name)
    return _check_width(source)


def list_tensors(path: Any) -> list[TensorEntry]:
    """Every tensor of a file, in the order of the file; formats that hold one table list its columns as one.

    Parameters
    ----------
    path : str or path-like
        As for :func:`open_table`.
    """
    place = locate_table(path)
    form = recognise(place, "table")
    if form.tensors is not None:
        return form.tensors(place)
    source = open_blocks(place.url, role="table")
    columns = getattr(source, "columns", None) or [place.name]
    return [TensorEntry(", ".join(columns[:3]), source.shape, str(source.dtype))]


def locate_table(path: Any) -> Location:
    """Where the table is: a path, a URL, or a model id, which is downloaded."""
    if not is_path(path):
        raise InvalidInputError("path must be a file name", path, "Pass a string or a Path")
    text = str(path)
    named = next((text.removeprefix(prefix) for prefix in HUB_PREFIXES if text.startswith(prefix)), None)
    if named is None and not is_url(text) and not Path(text).exists() and _looks_like_model_id(text):
        named = text
    if named is not None:
        return locate(download(named))
    return locate(path)


def transposed(source: BlockSource) -> BlockSource:
    """The same table with rows and columns exchanged: an array in place, anything else in memory as float32."""
    if isinstance(source, ArrayBlocks):
        return ArrayBlocks(source.array.T, source.name, decode=source.decode)
    V, d = source.shape
    require_memory(4 * V * d, f"transposing {source.name} of shape {source.shape}", "Save it transposed")
    table = np.empty((d, V), dtype=np.float32)
    start = 0
    for block in source.blocks():
        table[:, start : start + len(block)] = block.T
        start += len(block)
    return ArrayBlocks(table, source.name)


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    """A table has two dimensions, with at least two rows and columns."""
    if len(shape) != 2:
        raise ShapeError(f"{name} must have 2 dimensions (tokens, coordinates)", shape, "Choose another tensor")
    if min(shape) < 2:
        raise ShapeError(f"{name} needs at least 2 rows and 2 columns", shape, "Choose another tensor")


def _check_width(source: BlockSource) -> BlockSource:
    """`source`, if it is narrow enough for its covariance to fit in memory."""
    V, d = source.shape
    if d > (WIDEST if d <= V else WIDEST_SHORT):
        raise MemoryBudgetError(
            f"{source.name} has {d} columns; its covariance would take {8 * d * d / 2**30:.2g} GiB",
            (V, d),
            "Rows must be tokens: transpose the table if they are not, or project it on fewer columns",
        )
    return source


def _looks_like_model_id(text: str) -> bool:
    """True for ``owner/name`` without a suffix that a file of ours would have."""
    owner, slash, name = text.partition("/")
    plain = bool(slash and owner and name) and "/" not in name and "\\" not in text and not text.startswith(".")
    known = (*suffixes(("table", "rows", "labels")), ".json", ".bin", ".pt", ".pth", ".pkl", ".ckpt")
    return plain and Path(name).suffix.lower() not in known


class HubUnreachableError(SpikepoolError, OSError):
    """The model hub could not be reached, or does not have the model."""


def download(model_id: str) -> Path:
    """Local path of the safetensors file (or its index, with the needed shard) of `model_id`.

    Only files of plain data are asked for; the configuration and the code of the model are left alone.
    """
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", model_id):
        raise InvalidInputError("this is not a model id", model_id, "Use owner/name")
    hub = require("huggingface_hub", "hub")
    try:
        return Path(_fetch(hub, model_id))
    except SpikepoolError:
        raise
    except Exception as err:  # network, authentication and cache errors have no common base
        reason = (str(err).strip() or type(err).__name__).splitlines()[0]
        raise HubUnreachableError(
            f"{model_id!r} is not a file here, and the hub could not provide it: {reason}",
            remedy="Check the path or the network, or download model.safetensors yourself and pass that file",
        ) from err


def _fetch(hub: Any, model_id: str) -> str:
    cached = hub.try_to_load_from_cache(model_id, "model.safetensors")
    if isinstance(cached, str):
        return cached
    _check_reachable(hub)
    names = hub.list_repo_files(model_id)
    get = hub.hf_hub_download
    if "model.safetensors" in names:
        return str(get(model_id, "model.safetensors"))
    index = "model.safetensors.index.json"
    if index in names:
        from spikepool.data.formats.safetensors import shard_of_table

        path = Path(get(model_id, index))
        get(model_id, shard_of_table(path, None)[1])  # lands beside the index in the cache
        return str(path)
    raise UnsafeFormatError(
        f"{model_id!r} has no safetensors weights, only formats that run code when loaded", names[:8], PICKLE_REMEDY
    )


def _check_reachable(hub: Any) -> None:
    """Fail at once without a network: the package itself tries for half a minute, long for a mistyped path."""
    if not getproxies():  # behind a proxy names need not resolve here
        socket.getaddrinfo(urlsplit(hub.constants.ENDPOINT).hostname, 443)


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
        if file.suffix.lower() == ".gguf":
            from spikepool.data.formats.gguf import gguf_tokens

            return _required(gguf_tokens(file), file)
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
    """Names found in a model's own file or beside it, when they are as many as its table has rows; else None.

    Rows beyond the last token, which pad the table, are named by their number.
    """
    location = locate_table(path)
    file = location.local
    if file is None:
        return None
    if recognise(location, "table").name == "GGUF":
        from spikepool.data.formats.gguf import gguf_tokens

        names = gguf_tokens(file)
    elif any(((file if file.is_dir() else file.parent) / name).is_file() for name in BESIDE):
        names = read_tokens(file if file.is_dir() else file.parent)
    else:
        names = None
    fits = names is not None and 0 <= V - len(names) <= max(MOST_PADDING, PADDING_SHARE * V)
    return padded(names, V) if names is not None and fits else None


def padded(names: list[str], V: int) -> list[str]:
    """`names` with a placeholder for each row beyond the last."""
    return names + [f"[row {row}]" for row in range(len(names), V)]


def _required(names: list[str] | None, file: Path) -> list[str]:
    if names is None:
        raise TableFormatError("the file carries no token names", file.name, "Pass a tokenizer.json")
    return names


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
