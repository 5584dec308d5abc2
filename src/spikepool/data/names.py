"""Which tensor, member or column of a file is meant, by its usual names. Several candidates are an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spikepool.errors import TableFormatError

# Endings of the usual names of the input-embedding tensor, in order of preference. `shared.weight` comes first
# because the encoder-decoder models that have it repeat it under other names.
EMBEDDING_NAMES = (
    "shared.weight",
    "wte.weight",
    "embed_tokens.weight",
    "word_embeddings.weight",
    "token_embd.weight",
    "tok_embeddings.weight",
    "token_embedding.weight",
    "embed_in.weight",
    "word_embedding.weight",
    "embedding.weight",
    "embeddings.weight",
    "wte",
    "embedding",
    "embeddings",
    "vectors",
)
# Usual names of what a file of a study holds, by role.
USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "rows": ("X", "C", "features", "tokens", "embeddings", "embedding"),
    "labels": ("y", "label", "labels", "target", "class", "intent", "category"),
    "groups": ("group", "groups", "group_id"),
    "texts": ("text", "texts", "sentence", "utterance", "content", "document", "query", "review", "question"),
    "mask": ("mask", "attention_mask"),
}
# Numeric columns that are not features: identifiers, and the row numbers that programs add.
ROW_NUMBERS = frozenset({"", "id", "index", "Unnamed: 0", "__index_level_0__"})
NOT_FEATURES = ROW_NUMBERS.union(*(USUAL_NAMES[role] for role in ("labels", "groups", "texts", "mask")))


def names_an_embedding(name: str) -> bool:
    """Whether `name` is one of the usual names of an input embedding, whose rows are tokens."""
    return any(name == ending or name.endswith("." + ending) for ending in EMBEDDING_NAMES)


def choose_name(names: Sequence[str], wanted: str | None, role: str, where: str, what: str) -> str:
    """The name asked for, one of the usual names of `role`, or the only one."""
    if wanted is None:
        usual = [name for name in USUAL_NAMES.get(role, ()) if name in names]
        wanted = usual[0] if usual else names[0] if len(names) == 1 else None
    if wanted is None or wanted not in names:
        raise TableFormatError(f"{where}: which {what} holds the {role}?", wanted, f"It has {list(names)[:12]}")
    return wanted


def choose_tensor(shapes: Mapping[str, tuple[int, ...]], tensor: str | None, file: str) -> str:
    """Name of the tensor to analyse: the one asked for, or the input embedding by its usual names.

    `shapes` lists the tensors of real numbers in the file. Without a usual name the only two-dimensional tensor is
    taken; several candidates are an error that lists them, never a guess.
    """
    if tensor is not None:
        if tensor in shapes:
            return tensor
        raise TableFormatError(f"{file} has no tensor of real numbers named so", tensor, f"It has {_listing(shapes)}")
    tables: dict[str, tuple[int, ...]] = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    for ending in EMBEDDING_NAMES:
        matches = [name for name in tables if name == ending or name.endswith("." + ending)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise TableFormatError(f"{file} has several input embeddings", matches, "Name one with tensor=...")
    if len(tables) == 1:
        return next(iter(tables))
    raise TableFormatError(
        f"no tensor of {file} has the usual name of an input embedding",
        remedy=f"Name one with tensor=...; it has {_listing(tables or shapes)}",
    )


def _listing(shapes: Mapping[str, tuple[int, ...]]) -> str:
    shown = [f"{name} {shape}" for name, shape in list(shapes.items())[:12]]
    rest = len(shapes) - len(shown)
    return (", ".join(shown) or "none") + (f" and {rest} more" if rest > 0 else "")


def hidden_columns(role: str, exclude: tuple[str, ...]) -> frozenset[str]:
    """Columns of numbers that are not features; a table of weights has no labels beside it."""
    return (ROW_NUMBERS if role == "table" else NOT_FEATURES) | set(exclude)


def refuse_doubled(names: list[str], where: str) -> None:
    """Raise if two columns have one name: a record would keep one of them."""
    doubled = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if doubled:
        raise TableFormatError(f"{where} has columns of the same name", doubled[:5], "Rename them")
