"""Numbers that decide something a reader sees: each declared once, beside the code that uses it, with its origin.

``docs/constants.md`` is written from the declarations by ``python docs/write_constants.py``; a test compares both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Constant:
    """A declared constant: dotted name, value, what it decides, and where it was measured or why it was chosen."""

    name: str
    value: Any
    decides: str
    origin: str


DECLARED: dict[str, Constant] = {}


def constant(name: str, value: T, decides: str, origin: str) -> T:
    """Declare a constant and return its value.

    Parameters
    ----------
    name : str
        ``package.module.NAME``, as it can be imported below ``spikepool``.
    value : object
    decides : str
        What changes for a reader when it changes.
    origin : str
        The benchmark or test that measured it, or "A choice" and why.
    """
    DECLARED[name] = Constant(name, value, decides, origin)
    return value
