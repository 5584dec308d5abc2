"""How well a coverage is known, for the tables of kinds.

A pilot (or draw) counts once, by the share of its intervals that hold their truth: its intervals depend on each other.
With `n` pilots of mean share `p` the interval is Jeffreys', between quantiles of Beta(pn + 1/2, (1 − p)n + 1/2). Unlike
a standard error it is not empty where all are covered: twenty of twenty allow .88 and more.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import beta

# The range of coverages that the tables ask of nominal 90 % intervals.
ALLOWED = (0.82, 0.98)


def jeffreys(share: float, pilots: int, level: float = 0.95) -> tuple[float, float]:
    """Interval for the coverage behind a mean share over pilots."""
    inside = share * pilots
    low, high = beta.ppf([(1 - level) / 2, (1 + level) / 2], inside + 0.5, pilots - inside + 0.5)
    return (0.0 if inside == 0 else float(low)), (1.0 if inside == pilots else float(high))


def told(share: float, pilots: int) -> str:
    """The share and its interval, as tables print them."""
    if np.isnan(share):
        return "–"
    low, high = jeffreys(share, pilots)
    return f"{share:.2f} ({low:.2f} to {high:.2f})"


def verdict(share: float, pilots: int) -> str:
    """Say "below" or "above" where the interval excludes the range; else "inside", or "not told" by the share."""
    low, high = jeffreys(share, pilots)
    if high < ALLOWED[0]:
        return "below"
    if low > ALLOWED[1]:
        return "above"
    return "inside" if ALLOWED[0] <= share <= ALLOWED[1] else "not told"


def summary(known: list[tuple[float, int]]) -> str:
    """How many kinds lie where, and how many of `known` (share, pilots) would be covered in full at .95."""
    found = [verdict(share, pilots) for share, pilots in known]
    counts = ", ".join(f"{found.count(word)} {word}" for word in ("inside", "below", "above", "not told"))
    full = sum(share == 1 for share, _ in known)
    expected = sum(0.95**pilots for _, pilots in known)
    return f"{len(known)} kinds: {counts}; {full} covered in all pilots, of which {expected:.0f} are expected at .95"
