"""Notes about labels: counts, few rows, classes of one row, and labels that may be misspelt."""

from __future__ import annotations

from typing import Any

import numpy as np

# Shorter labels often differ by one letter and mean different things.
SHORTEST = 4
# Labels beyond which they are not compared with each other.
MOST_LABELS = 2000


def class_counts(labels: Any, most: int = 20) -> str:
    """The classes with their rows, most frequent first: ``"no 940, yes 60"``."""
    names, counts = np.unique(np.asarray(labels), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    listed = [f"{names[i]} {counts[i]:,}" for i in order[:most]]
    rest = len(names) - most
    return ", ".join(listed) + (f" and {rest} more" if rest > 0 else "")


def label_notes(labels: Any, fewest: int = 16) -> tuple[str, ...]:
    """Fewer than `fewest` rows, classes of one row, and labels that differ by case, blanks or one letter."""
    names, counts = np.unique(np.asarray(labels), return_counts=True)
    notes = []
    if counts.sum() < fewest:
        notes.append(
            f"only {counts.sum()} labelled rows: nothing is compared or judged below {fewest}; label more rows"
        )
    single = [str(name) for name in names[counts == 1].tolist()]
    if single:
        shown = ", ".join(single[:5]) + (", ..." if len(single) > 5 else "")
        notes.append(f"{len(single)} class(es) have one row, which cannot be judged: {shown}")
    if names.dtype.kind in "UO" and len(names) <= MOST_LABELS:
        rows = dict(zip(map(str, names.tolist()), counts.tolist(), strict=True))
        for rare, usual in near_labels(list(rows), rows):
            notes.append(f"label {rare!r} ({rows[rare]:,} rows): did you mean {usual!r} ({rows[usual]:,} rows)?")
    return tuple(notes)


def near_labels(names: list[str], rows: dict[str, int]) -> list[tuple[str, str]]:
    """Pairs of labels that may be one, the rarer first."""
    order = sorted(names, key=lambda name: rows.get(name, 0))
    return [(a, b) for i, a in enumerate(order) for b in order[i + 1 :] if nearly_equal(a, b)]


def nearly_equal(a: str, b: str) -> bool:
    """Whether two labels are equal but for case, blanks, or one letter that is missing, added, changed or swapped."""
    if a == b:
        return False
    a, b = ("".join(name.split()).casefold() for name in (a, b))
    if a == b:
        return True
    if min(len(a), len(b)) < SHORTEST or abs(len(a) - len(b)) > 1:
        return False
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    here, there = a[start:], b[start:]
    changed = here[:1] + there[:1]
    if any(letter.isdigit() for letter in changed):  # class 1 and class 2
        return False
    if len(here) == len(there):
        return here[1:] == there[1:] or (here[:2] == there[1::-1] and here[2:] == there[2:])
    return here[1:] == there or here == there[1:]
