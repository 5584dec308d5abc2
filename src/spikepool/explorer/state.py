"""The state of the explorer: one immutable value, carried whole by the query string of the address.

The page sends the same string to the server that it shows in the address bar, so there is one parser, and it is
strict: an unknown name, a repeated name, a number out of range or a malformed matrix is a :class:`StateError` whose
message can be shown to the person who followed the link.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote

import numpy as np

from spikepool.errors import InvalidInputError, NoOptimumError, SpikepoolError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.model import SequenceModel
from spikepool.world.correlation import named_correlation
from spikepool.world.sequences import TABLES
from spikepool.world.weights import NAMED_WEIGHTS, named_weights


@dataclass(frozen=True)
class Family:
    """A named correlation on the page: its label, and the one number beside T that describes it."""

    label: str
    parameter: str
    name: str
    symbol: str
    slider: tuple[float, float]
    step: float = 1


# Named correlations that the page offers, by their names in world.correlation; explorer.js has the parameters as well.
FAMILIES = {
    "prefix": Family("Prefix", "L", "Prefix length", "L", (1, 100)),
    "markov": Family("Markov", "rho", "Neighbour correlation", "ρ", (-1, 1), 0.01),
}
# The number or matrix that each choice takes.
PARAMETERS = {**{name: family.parameter for name, family in FAMILIES.items()}, "matrix": "R"}
WEIGHTS = ("mean", "causal", "optimal", "custom")
PLANES = ("N", "V")
# smallest and largest value of each number that the page accepts
RANGES: dict[str, tuple[float, float]] = {
    "d": (2, 4000),
    "V": (2, 200_000),
    "N": (2, 2_000_000),
    "T": (1, 100),
    "L": (1, 100),
    "mu": (0.0, 20.0),
    "rho": (-1.0, 1.0),
}
MAX_QUERY_CHARACTERS = 20_000
MAX_MATRIX_SIZE = 32
MAX_RELATIVE_WEIGHT = 100.0

_INTEGER = re.compile(r"\d{1,9}", re.ASCII)
_REAL = re.compile(r"[+-]?(\d{1,9}\.?\d{0,20}|\.\d{1,20})([eE][+-]?\d{1,3})?", re.ASCII)


class StateError(InvalidInputError):
    """The state carried by an address, or the present setting of the controls, cannot be used."""


@dataclass(frozen=True)
class State:
    """Everything the explorer shows is a function of this value."""

    d: int = 500
    V: int = 8000
    N: int = 1000
    T: int = 20
    corr: str = "prefix"
    L: int = 4
    rho: float = 0.6
    R: tuple[tuple[float, ...], ...] = ()
    mu: float = 0.7
    w: str = "causal"
    custom: tuple[float, ...] = ()
    table: str = "sampled"
    centered: bool = True
    plane: str = "N"

    def correlation(self) -> FloatArray:
        """The positional correlation R, read-only."""
        return _correlation(*self._correlation_key)

    def model(self) -> SequenceModel:
        """The model of this state, built once."""
        return _model(self)

    def all_weights(self) -> dict[str, FloatArray]:
        """Pooling weights by name; ``optimal`` is absent when no weights attain the optimum."""
        weights = dict(_named_weights(*self._correlation_key))
        if self.w not in weights and self.w != "custom":
            named_weights(self.w, self.correlation())  # says why there are none
        if self.w == "custom":
            raw = np.array(self.custom)
            weights["custom"] = raw / raw.sum()
        return weights

    @property
    def _correlation_key(self) -> tuple[str, int, Any]:
        """What R depends on: a slider that leaves it alone proves no matrix and solves for no weights again."""
        return self.corr, self.T, getattr(self, PARAMETERS[self.corr])

    def query(self) -> str:
        """The state as a query string; :func:`parse_query` is its inverse."""
        parts = {"d": str(self.d), "V": str(self.V), "N": str(self.N)}
        if self.corr != "matrix":
            parts["T"] = str(self.T)
        parts["corr"] = self.corr
        if self.corr in FAMILIES:
            parts[PARAMETERS[self.corr]] = repr(getattr(self, PARAMETERS[self.corr]))
        else:
            parts["R"] = ";".join(",".join(map(shortest, row)) for row in self.R)
        parts["mu"] = repr(self.mu)
        parts["w"] = self.w
        if self.w == "custom":
            parts["custom"] = ",".join(map(shortest, self.custom))
        parts["table"] = self.table
        parts["centered"] = "1" if self.centered else "0"
        parts["plane"] = self.plane
        return "&".join(f"{name}={quote(value, safe=',;')}" for name, value in parts.items())


@lru_cache(maxsize=256)
def _model(state: State) -> SequenceModel:
    return SequenceModel(
        d=state.d,
        V=state.V,
        N=state.N,
        R=state.correlation(),
        mu=state.mu,
        table=state.table,
        centered=state.centered,
    )


@lru_cache(maxsize=64)
def _correlation(corr: str, T: int, value: Any) -> FloatArray:
    """The positional correlation R, proved once and then read-only."""
    named = corr in FAMILIES
    matrix = named_correlation(corr, T=T, **{PARAMETERS[corr]: value}) if named else np.array(value, dtype=np.float64)
    return check.symmetric_psd(matrix, "R")


@lru_cache(maxsize=64)
def _named_weights(*key: Any) -> tuple[tuple[str, FloatArray], ...]:
    """The named weights of a correlation, read-only because they are shared; those that do not exist are left out."""
    R = _correlation(*key)
    pairs = []
    for name in (name for name in NAMED_WEIGHTS if name in WEIGHTS):  # those with a colour and a line of their own
        try:
            weights = named_weights(name, R)
        except NoOptimumError:
            continue
        weights.setflags(write=False)
        pairs.append((name, weights))
    return tuple(pairs)


def shortest(number: float) -> str:
    """The shortest text that reads back as `number`."""
    return str(int(number)) if number == int(number) else repr(number)


def integer_in(text: str, name: str, low: float, high: float) -> int:
    """`text` as a whole number in a range."""
    if not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
        raise StateError(f"{name} must be a whole number from {int(low):,} to {int(high):,}", text)
    return int(text)


def _integer(text: str, name: str) -> int:
    return integer_in(text, name, *RANGES[name])


def _even(text: str, name: str) -> int:
    value = _integer(text, name)
    if value % 2:
        raise StateError(f"{name} must be even, half of the tokens in each class", value)
    return value


def number_in(text: str, name: str, low: float, high: float) -> float:
    """`text` as a number in a range."""
    if not _REAL.fullmatch(text) or not low <= float(text) <= high:
        raise StateError(f"{name} must be a number from {low:g} to {high:g}", text)
    return float(text) + 0.0  # no negative zero


def _real(text: str, name: str) -> float:
    return number_in(text, name, *RANGES[name])


def option_of(options: tuple[str, ...]) -> Callable[[str, str], str]:
    """A parser of one of `options`."""

    def parse(text: str, name: str) -> str:
        if text not in options:
            raise StateError(f"{name} must be one of {', '.join(options)}", text)
        return text

    return parse


def _switch(text: str, name: str) -> bool:
    if text not in ("0", "1"):
        raise StateError(f"{name} must be 0 or 1", text)
    return text == "1"


def _matrix(text: str, name: str) -> tuple[tuple[float, ...], ...]:
    rows = [row for row in text.split(";") if row]
    if not 1 <= len(rows) <= MAX_MATRIX_SIZE:
        raise StateError(f"{name} must have 1 to {MAX_MATRIX_SIZE} rows", len(rows))
    matrix = tuple(
        tuple(number_in(entry, f"an entry of {name}", -1.0, 1.0) for entry in row.split(",")) for row in rows
    )
    lengths = {len(row) for row in matrix}
    if lengths != {len(matrix)}:
        raise StateError(f"{name} must be square; it has {len(matrix)} rows of length", sorted(lengths))
    return matrix


def _relative_weights(text: str, name: str) -> tuple[float, ...]:
    values = tuple(
        number_in(entry, f"an entry of {name}", -MAX_RELATIVE_WEIGHT, MAX_RELATIVE_WEIGHT) for entry in text.split(",")
    )
    total, size = sum(values), sum(map(abs, values))
    if abs(total) <= 1e-6 * size or size < 1e-9:
        raise StateError("custom weights must have a sum away from zero, because they are divided by it", total)
    return values


_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "d": _integer,
    "V": _even,
    "N": _integer,
    "T": _integer,
    "corr": option_of(tuple(PARAMETERS)),
    "L": _integer,
    "rho": _real,
    "R": _matrix,
    "mu": _real,
    "w": option_of(WEIGHTS),
    "custom": _relative_weights,
    "table": option_of(TABLES),
    "centered": _switch,
    "plane": option_of(PLANES),
}
assert set(_PARSERS) == {field.name for field in fields(State)}


def parse_query(query: object) -> State:
    """Read a state from a query string, with or without the leading question mark; absent names keep defaults.

    Raises
    ------
    StateError
        With a message for the reader, for anything that is not exactly a state.
    """
    if not isinstance(query, str):
        raise StateError("the state must be text", type(query).__name__)
    if len(query) > MAX_QUERY_CHARACTERS:
        raise StateError(f"the address is longer than {MAX_QUERY_CHARACTERS:,} characters", len(query))
    text = query.removeprefix("?")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict") if text else []
    except ValueError:
        raise StateError("the address is not a list of name=value pairs", query) from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in _PARSERS:
            raise StateError("the address has a name that is not part of the state", name)
        if name in values:
            raise StateError(f"{name} is given twice in the address")
        values[name] = _PARSERS[name](value, name)
    return _consistent(values)


def _consistent(values: dict[str, Any]) -> State:
    """Checks that involve more than one name, and the model's own."""
    corr = values.get("corr", State.corr)
    if corr == "matrix":
        if "R" not in values:
            raise StateError("a pasted correlation is chosen but no matrix R is given")
        if values.setdefault("T", len(values["R"])) != len(values["R"]):
            raise StateError(f"R is {len(values['R'])} x {len(values['R'])} but T is", values["T"])
    foreign = (set(PARAMETERS.values()) - {PARAMETERS[corr]}) & set(values)
    if foreign:
        raise StateError(f"{sorted(foreign)[0]} has no meaning for the correlation {corr!r}")
    T = values.get("T", State.T)
    if corr == "prefix" and values.setdefault("L", min(State.L, T)) > T:
        raise StateError(f"L must be at most T = {T}", values["L"])
    if ("custom" in values) != (values.get("w") == "custom"):
        raise StateError("custom weights go together with w=custom")
    if "custom" in values and len(values["custom"]) != T:
        raise StateError(f"there must be one custom weight for each of the {T} positions", len(values["custom"]))
    state = State(**values)
    try:
        state.model()
        state.all_weights()
    except SpikepoolError as err:
        raise StateError(str(err).rstrip(".")) from err
    return state
