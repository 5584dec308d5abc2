"""Rows whose first and second half differ."""

from __future__ import annotations

from spikepool.data.description import Caution

# Contiguous halves that agree less than random ones by more than this, over the spans of k >= 5.
_CONTIGUOUS_GAP = 0.10


def drift_caution(contiguous: float, random: float) -> Caution | None:
    """The sentence about halves in order that agree less than random ones."""
    if contiguous >= random - _CONTIGUOUS_GAP:
        return None
    return Caution(
        "drift",
        f"the first and the second half of the rows agree {contiguous:.2f}, random halves {random:.2f}: the rows are "
        "sorted or drift; the numbers are those of a random sample of them",
    )
