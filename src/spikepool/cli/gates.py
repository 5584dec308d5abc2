"""Conditions on a result that make a command fail: ``--fail-if "outliers>5"``, for continuous integration.

Gates fail closed. What could not be read (``failed``) or is not there (``missing``) ends in exit code 3 without being
asked about; with any condition so do tensors that were ``skipped``, ``unmatched`` or ``reshaped``. ``--allow NAME``
switches one of these off.
"""

from __future__ import annotations

import json
import math
import operator
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from spikepool.errors import InvalidInputError
from spikepool.kit.files import read_file
from spikepool.kit.showing import one_line

GATE_EXIT = 3  # exit code of a command whose result meets a condition
ALWAYS, WITH_CONDITIONS = ("failed", "missing"), ("skipped", "unmatched", "reshaped")
COUNTS = (*ALWAYS, *WITH_CONDITIONS, "unmeasured")
# Numbers whose change against a baseline is relative; that of every other value is a difference.
RELATIVE = ("edge", "largest", "frobenius", "spectral", "condition")
_LARGEST_BASELINE = 2**28

FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        help="Exit with code 3 when the condition holds, such as 'outliers>5' or 'not trusted'; may be repeated.",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", help="failed, missing, skipped, unmatched or reshaped: do not fail for these tensors."),
]
Baseline = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        help="JSON of an earlier run (--json): --fail-if then knows NAME_change, such as 'outliers_change>2'.",
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
Values = Mapping[str, Any]


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
        if not math.isfinite(self._limit):
            raise InvalidInputError("the limit of --fail-if must be a finite number", text, remedy)
        if self.name not in names:
            raise InvalidInputError("--fail-if names no result of this command", self.name, remedy)

    def holds(self, value: Any) -> bool:
        """Whether the condition holds; a value that is not a number fails it."""
        if isinstance(self._limit, bool):
            value = bool(value)
        return bool(self._test(value, self._limit)) or (isinstance(value, float) and math.isnan(value))


@dataclass(frozen=True)
class Gates:
    """What the options of a command ask for."""

    conditions: list[Gate]
    allowed: tuple[str, ...] = ()
    baseline: dict[str, Values] | None = field(default=None)

    @classmethod
    def parse(
        cls, texts: list[str] | None, names: tuple[str, ...], allow: list[str] | None = None, baseline: Any = None
    ) -> Gates:
        """Check the options before the work begins."""
        unknown = [name for name in allow or [] if name not in COUNTS]
        if unknown:
            raise InvalidInputError("--allow names no count of tensors", unknown[0], f"Use one of {', '.join(COUNTS)}")
        known = names if baseline is None else (*names, *(f"{name}_change" for name in names))
        return cls([Gate(text, known) for text in texts or []], tuple(allow or ()), read_baseline(baseline))

    def report(self, results: Mapping[str, Values], counts: Mapping[str, int] | None = None) -> list[str]:
        """Lines about each condition that holds; `results` are values by subject, `counts` those of :data:`COUNTS`."""
        whole = dict(counts or {})
        compared = dict(results)
        if self.baseline is not None:
            compared = {name: _with_changes(values, self.baseline.get(name)) for name, values in results.items()}
            lost = sorted(set(self.baseline) ^ set(results))
            whole["missing"] = whole.get("missing", 0) + len(lost)
        gated = (*ALWAYS, *WITH_CONDITIONS) if self.conditions else ALWAYS
        asked = {gate.name for gate in self.conditions}
        lines = [
            f"{name} = {whole[name]}"
            for name in gated
            if whole.get(name) and name not in self.allowed and name not in asked
        ]
        for gate in self.conditions:
            if gate.name in COUNTS:
                lines += [f"{gate.text} ({gate.name} = {whole[gate.name]})"] if gate.holds(whole[gate.name]) else []
                continue
            measured = {s: v[gate.name] for s, v in compared.items() if v.get(gate.name) is not None}
            if not measured:
                raise InvalidInputError(f"--fail-if: {gate.name} was not measured", gate.text, "Drop this condition")
            lines += [
                f"{gate.text} ({gate.name} = {value}) in {one_line(subject)}"
                for subject, value in measured.items()
                if gate.holds(value)
            ]
        return lines


def _with_changes(values: Values, before: Values | None) -> dict[str, Any]:
    """Values, and how far each is from the baseline: |now − then|, relative to then for norms and edges."""
    changes: dict[str, Any] = {}
    for name, now in values.items():
        then: Any = None if before is None else before.get(name)
        infinite = [value is None or math.isinf(value) for value in (now, then)]  # JSON has null for infinity
        if before is None or (now is None and then is None):
            changes[f"{name}_change"] = None
        elif any(infinite):
            changes[f"{name}_change"] = 0.0 if all(infinite) else math.inf
        elif now == then:
            changes[f"{name}_change"] = 0.0
        elif name in RELATIVE and then:
            changes[f"{name}_change"] = abs(float(now) / float(then) - 1)
        else:
            changes[f"{name}_change"] = abs(float(now) - float(then))
    return {**values, **changes}


def read_baseline(path: Path | None) -> dict[str, Values] | None:
    """Values by subject of an earlier run, from its JSON."""
    if path is None:
        return None
    remedy = "Record one with: spikepool spectrum FILE --all --json > baseline.json"
    try:
        recorded = json.loads(read_file(path, _LARGEST_BASELINE).decode("utf-8"))["gates"]
        if not isinstance(recorded, dict) or not all(isinstance(values, dict) for values in recorded.values()):
            raise ValueError("it has no values")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as err:
        raise InvalidInputError(f"--baseline cannot be read ({err})", str(path), remedy) from err
    return recorded


def close_gates(lines: list[str]) -> None:
    """Leave with code 3, naming each condition that holds, if any does."""
    if lines:
        print("\n".join(f"spikepool: gate: {line}" for line in lines), file=sys.stderr)
        raise typer.Exit(GATE_EXIT)


def verdict_line(counts: Mapping[str, int], look: list[str], fine: str) -> str:
    """One line: broken for missing or failed tensors, else look or OK, with the next action."""
    for kind, words in (("missing", "are missing"), ("failed", "cannot be read or hold NaN")):
        if counts.get(kind):
            return f"Verdict: broken. {counts[kind]} tensor(s) {words}. Next: download or save the file again."
    return one_line(f"Verdict: look. {look[0]}" if look else f"Verdict: OK. {fine}")
