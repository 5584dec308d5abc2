"""Second pass over the rows: their norms, and how much of the outlying directions rests on a few of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from spikepool.data.blocks import BlockSource
from spikepool.errors import InvalidInputError, ShapeError
from spikepool.kit.arrays import FloatArray


@dataclass(frozen=True)
class InfluentialRow:
    """A row that carries much of an outlying direction.

    Attributes
    ----------
    row : int
        Token id.
    token : str or None
        Its name, when a tokenizer was given.
    direction : int
        Which eigenvector it weighs on most, from 1.
    share : float
        Its share of that eigenvalue, (u'x)²/(V λ); 1/V on average.
    norm : float
        Norm of the centred row.
    """

    row: int
    token: str | None
    direction: int
    share: float
    norm: float


def scan_rows(
    source: BlockSource, mean: FloatArray, directions: FloatArray, eigenvalues: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(norms of the centred rows, shares (V, k) of each row in each eigenvalue)."""
    V = source.shape[0]
    norms = np.empty(V)
    shares = np.empty((V, directions.shape[1]))
    start = 0
    for block in source.blocks():
        block -= mean
        stop = start + len(block)
        norms[start:stop] = np.sqrt(np.einsum("ij,ij->i", block, block))
        shares[start:stop] = (block @ directions) ** 2 / (V * eigenvalues)
        start = stop
    return norms, shares


def heaviest(
    norms: FloatArray, shares: FloatArray, count: int, name: Callable[[int], str] | None
) -> list[InfluentialRow]:
    """The `count` rows with the largest share of any direction, heaviest first."""
    largest = shares.max(axis=1)
    order = np.argsort(-largest, kind="stable")[:count]
    return [
        InfluentialRow(
            int(row),
            name(int(row)) if name else None,
            int(shares[row].argmax()) + 1,
            float(largest[row]),
            float(norms[row]),
        )
        for row in order
    ]


def token_names(tokenizer: Any, V: int) -> Callable[[int], str] | None:
    """A function from token id to name, out of a tokenizer, names of V tokens or a function; None stays None."""
    if tokenizer is None:
        return None
    for method in ("id_to_token", "convert_ids_to_tokens"):
        if hasattr(tokenizer, method):
            return partial(_named, getattr(tokenizer, method))
    if callable(tokenizer):
        return partial(_named, tokenizer)
    if isinstance(tokenizer, (str, bytes)) or not hasattr(tokenizer, "__getitem__"):
        raise InvalidInputError(
            "tokenizer must turn a token id into a name",
            tokenizer,
            "Pass a tokenizer with id_to_token, a list of names or a function",
        )
    # before the table is read: a list that is too short would fail at the very end, on some tables only
    if hasattr(tokenizer, "__len__") and len(tokenizer) < V:
        raise ShapeError(
            f"tokenizer has {len(tokenizer)} names for the {V} rows of the table",
            tokenizer,
            "Pass one name per row, in the order of the rows; rows that pad the table need one too",
        )
    return partial(_named, tokenizer.__getitem__)


def _named(lookup: Callable[[int], Any], row: int) -> str:
    try:
        return str(lookup(row))
    except Exception as err:  # the caller's own code, which may raise anything
        raise InvalidInputError(
            f"tokenizer has no name for a row of the table ({type(err).__name__}: {err})",
            row,
            "Give every row a name, or leave the tokenizer out",
        ) from err
