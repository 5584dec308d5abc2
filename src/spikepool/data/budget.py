"""How much a file may ask for, known before its data are read.

One rule for every reader: what a file becomes in memory is at most `RATIO_LIMIT` times what is stored, or
`HARMLESS_BYTES`, and what has to be held at once fits in the memory of the machine.
"""

from __future__ import annotations

from spikepool.errors import TableFormatError
from spikepool.kit.memory import require_memory

# Numbers that carry information do not shrink a hundred times: deflate reaches 1000:1 on zeros only.
RATIO_LIMIT = 100
HARMLESS_BYTES = 1 << 26
# Chunks, members, row groups or columns that a file may have: a larger number indicates a damaged or hostile file.
MOST_PIECES = 1_000_000
MOST_COLUMNS = 10_000


def refuse_bomb(decoded: int, stored: int, name: str) -> None:
    """Raise if `decoded` bytes cannot be what `stored` bytes of `name` are meant to hold."""
    if decoded > max(HARMLESS_BYTES, RATIO_LIMIT * stored):
        raise TableFormatError(
            f"{name} would expand more than {RATIO_LIMIT} times, to {decoded / 2**20:,.0f} MiB",
            stored,
            "Do not use this file, or store its numbers uncompressed",
        )


def refuse_pieces(count: int, name: str, what: str, most: int = MOST_PIECES) -> None:
    """Raise if `name` has more than `most` pieces of a kind."""
    if count > most:
        raise TableFormatError(f"{name} has more than {most:,} {what}", count, f"Store it with fewer {what}")


def require_whole(nbytes: int, name: str) -> None:
    """Raise if `nbytes` that have to be held at once do not fit in memory."""
    require_memory(nbytes, f"{name} as one array", "Use fewer rows, or a format that is read in blocks (npy, Zarr)")
