"""What may be wrong with the rows themselves: copies, order, dependence, a few that dominate.

Each caution names what was seen, what it does to the numbers, and the remedy.
"""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.kit.near_copies import excess_share, is_ordered, near_words, norm_scatter, order_words

# Share of rows above which copies are mentioned; subsamples of two corpora under five encoders have at most 0.2 %.
_EXACT_SHARE = 0.01
# Contiguous halves that agree less than random ones by more than this, over the spans of k >= 5.
_CONTIGUOUS_GAP = 0.10
# Share of the total variance that the five largest rows may hold; plain rows hold up to 0.21 (250 rows), the
# attention sink of a decoder's middle layer 0.4 to 0.9.
_DOMINATING_ROWS = 5
_DOMINATING_SHARE = 0.25


class Caution(str):
    """A warning about the rows, as text, with its `kind`: duplicates, near-duplicates, order or dominating rows."""

    kind: str

    def __new__(cls, kind: str, text: str) -> Caution:
        """The text with its kind."""
        made = super().__new__(cls, text)
        made.kind = kind
        return made

    def __reduce__(self) -> tuple[type[Caution], tuple[str, str]]:
        return type(self), (self.kind, str(self))


def duplicate_caution(n: int, distinct: int, grouped: bool) -> Caution | None:
    """Exact copies of rows; corrected for unless groups say what belongs together."""
    if n - distinct <= _EXACT_SHARE * n:
        return None
    done = "groups= decides what is independent" if grouped else f"counted as {distinct:,} independent rows"
    return Caution("duplicates", f"{n - distinct:,} of {n:,} rows are exact copies of others: {done}")


def near_duplicate_caution(nearest: FloatArray, n: int, values: FloatArray) -> Caution | None:
    """Nearly equal rows among `n` rows whose covariance has the eigenvalues `values`."""
    share, by_chance = excess_share(nearest, n, norm_scatter(float(values.sum()), float((values**2).sum()), n))
    return None if by_chance else Caution("near-duplicates", near_words(share))


def order_caution(
    lag: float, values: FloatArray, n: int, contiguous: float = 1.0, random: float = 0.0
) -> Caution | None:
    """Rows in an order: consecutive ones correlated (`lag`, on average), or halves in order that disagree.

    Windows of an oscillating series are alike up to sign, so both signs are tested.
    """
    scatter = norm_scatter(float(values.sum()), float((values**2).sum()), n)
    if is_ordered(lag, scatter, n):
        return Caution("order", order_words(lag))
    if contiguous < random - _CONTIGUOUS_GAP:
        return Caution(
            "drift",
            f"the first and the second half of the rows agree {contiguous:.2f}, random halves {random:.2f}: the rows "
            "are sorted or drift; the numbers are those of a random sample of them",
        )
    return None


def independent_share(lag: float, copies: float) -> float:
    """Share of rows that are independent at worst: autoregressive ones of correlation `lag`, in `copies` each.

    Products of rows, which a covariance averages, are correlated by lag² from one to the next.
    """
    squared = min(lag**2, 0.99)
    return (1 - squared) / (1 + squared) / copies


def dominating_caution(norms: FloatArray) -> Caution | None:
    """A few rows that hold much of the variance: components then describe these."""
    top = np.argsort(norms)[::-1][:_DOMINATING_ROWS]
    share = float(norms[top].sum() / norms.sum())
    if share <= _DOMINATING_SHARE or len(norms) < 8 * _DOMINATING_ROWS:
        return None
    needed = int(np.searchsorted(np.cumsum(norms[top]), 0.9 * norms[top].sum())) + 1
    listed = ", ".join(str(i) for i in top[:needed])
    return Caution(
        "dominating rows",
        f"{needed} row(s) ({listed}) hold {norms[top[:needed]].sum() / norms.sum():.0%} of the variance: the first "
        "components describe them; look at them, then remove or clip them",
    )
