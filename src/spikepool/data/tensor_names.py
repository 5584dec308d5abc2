"""Which tensor of a file is the embedding table, and what to do about files that run code."""

from __future__ import annotations

from spikepool.errors import TableFormatError

PICKLE_REMEDY = (
    "Ask the publisher for a safetensors file, or convert it on a machine you can throw away: "
    "safetensors.torch.save_file(torch.load(path, weights_only=True), 'table.safetensors')"
)

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


def names_an_embedding(name: str) -> bool:
    """Whether `name` is one of the usual names of an input embedding, whose rows are tokens."""
    return any(name == ending or name.endswith("." + ending) for ending in EMBEDDING_NAMES)


def choose_tensor(shapes: dict[str, tuple[int, ...]], tensor: str | None, file: str) -> str:
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


def _listing(shapes: dict[str, tuple[int, ...]]) -> str:
    shown = [f"{name} {shape}" for name, shape in list(shapes.items())[:12]]
    rest = len(shapes) - len(shown)
    return (", ".join(shown) or "none") + (f" and {rest} more" if rest > 0 else "")
