"""The state of the tab "Content": the hash of the address, parsed as strictly as the query string of the other tab."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qsl

from spikepool.errors import SpikepoolError
from spikepool.explorer.state import StateError, integer_in, number_in, option_of
from spikepool.model import QueryModel
from spikepool.world.query_fields import KERNELS

# smallest and largest value of each number; the charts take a second or two at the largest
RANGES: dict[str, tuple[float, float]] = {
    "beta": (0.0, 5.0),
    "nu": (0.0, 5.0),
    "overlap": (0.0, 1.0),
    "mu": (0.0, 10.0),
    "L": (1, 60),
    "T": (1, 60),
    "d": (20, 400),
    "N": (20, 1000),
    "V": (100, 20_000),
}
WHOLE = ("L", "T", "d", "N", "V")
VOCABULARIES = ("never", "finite")
RELEVANCE = ("scattered", "span")
LAYERS = ("1", "2")
MAX_CHARACTERS = 300


@dataclass(frozen=True)
class ContentState:
    """Everything the tab shows is a function of this value."""

    beta: float = 0.5
    nu: float = 1.5
    L: int = 3
    overlap: float = 1.0
    mu: float = 1.0
    kernel: str = "softmax"
    repeat: str = "never"
    V: int = 2000
    T: int = 20
    d: int = 200
    N: int = 800
    relevance: str = "scattered"
    layers: str = "1"

    @property
    def window(self) -> int | None:
        """Tokens that the first of two layers averages; None for one layer."""
        return self.L if self.layers == "2" else None

    @property
    def used(self) -> str:
        """The kernel: two layers have a softmax, whatever one layer has."""
        return "softmax" if self.window else self.kernel

    def model(self) -> QueryModel:
        """The model of this state; the slope of two layers counts for the sum of the tokens of a window."""
        sizes = {name: getattr(self, name) for name in ("d", "N", "T", "L", "mu", "nu", "overlap")}
        where: dict[str, Any] = {
            "relevance": self.relevance,
            "window": self.window,
            "V": None if self.repeat == "never" else self.V,
        }
        return QueryModel(**sizes, **where, kernel=self.used, beta=self.beta * (self.window or 1))


CONTROLS = tuple(field.name for field in fields(ContentState))
NUMBERS = tuple(name for name in CONTROLS if name in RANGES)


def parse_content(text: object) -> ContentState:
    """Read a state from a query string; absent names keep defaults.

    Raises
    ------
    StateError
        With a message for the reader, for anything that is not exactly a state.
    """
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        raise StateError(f"the state must be text of at most {MAX_CHARACTERS} characters", type(text).__name__)
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict") if text else []
    except ValueError:
        raise StateError("the state is not a list of name=value pairs", text) from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in CONTROLS or name in values:
            raise StateError("a name that is not part of the state, or is given twice", name)
        if name == "kernel":
            values[name] = option_of(KERNELS)(value, name)
        elif name in ("repeat", "relevance", "layers"):
            options = {"repeat": VOCABULARIES, "relevance": RELEVANCE, "layers": LAYERS}[name]
            values[name] = option_of(options)(value, name)
        else:
            values[name] = (integer_in if name in WHOLE else number_in)(value, name, *RANGES[name])
    state = ContentState(**values)
    try:
        state.model()
    except SpikepoolError as err:
        raise StateError(str(err).rstrip(".")) from err
    return state
