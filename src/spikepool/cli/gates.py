"""Conditions on a result that make a command fail: ``--fail-if "outliers>5"``, for continuous integration."""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from spikepool.errors import InvalidInputError

GATE_EXIT = 3  # exit code of a command whose result meets a condition of --fail-if

FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        help="Exit with code 3 when the condition holds, such as 'outliers>5' or 'not trusted'; may be repeated.",
    ),
]
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_COMPARISON = re.compile(r"\s*(\w+)\s*(>=|<=|==|!=|>|<)\s*(\S+)\s*")
_FLAG = re.compile(r"\s*(not\s+)?(\w+)\s*")


class Gate:
    """One condition, parsed before the work begins."""

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        self.text = " ".join(text.split())
        remedy = f"Write NAME>NUMBER, NAME or 'not NAME' with NAME one of {', '.join(names)}"
        compared = _COMPARISON.fullmatch(text)
        flag = _FLAG.fullmatch(text)
        try:
            if compared:
                self.name, sign, number = compared.groups()
                limit = {"true": True, "false": False}.get(number.lower())
                self._limit = float(number) if limit is None else limit
                self._test = _OPERATORS[sign]
            elif flag:
                self.name, self._limit, self._test = flag.group(2), not flag.group(1), operator.eq
            else:
                raise ValueError
        except ValueError as err:
            raise InvalidInputError("--fail-if is not understood", text, remedy) from err
        if self.name not in names:
            raise InvalidInputError("--fail-if names no result of this command", self.name, remedy)

    def holds(self, values: Mapping[str, Any], subject: str) -> bool:
        """Whether the condition holds for the values of `subject`; one that was not measured is an error, no pass."""
        value = values[self.name]
        if value is None:
            raise InvalidInputError(
                f"--fail-if: {self.name} was not measured in {subject}", self.text, "Drop this condition"
            )
        return bool(self._test(value, self._limit))


def parse_gates(texts: list[str] | None, names: tuple[str, ...]) -> list[Gate]:
    """The conditions of ``--fail-if``."""
    return [Gate(text, names) for text in texts or []]


def close_gates(gates: list[Gate], results: Mapping[str, Mapping[str, Any]]) -> None:
    """Leave with code 3, naming each condition that holds, if any does; `results` are values by subject."""
    failed = [
        f"spikepool: gate: {gate.text} ({gate.name} = {values[gate.name]}) in {subject}"
        for subject, values in results.items()
        for gate in gates
        if gate.holds(values, subject)
    ]
    if failed:
        print("\n".join(failed), file=sys.stderr)
        raise typer.Exit(GATE_EXIT)
