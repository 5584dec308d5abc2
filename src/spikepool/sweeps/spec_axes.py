"""The axes of a sweep, checked and in canonical form: values of one field, or of fields that vary together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spikepool.errors import InvalidInputError, ShapeError
from spikepool.sweeps.kind import Kind
from spikepool.sweeps.spec_values import (
    TOGETHER,
    check_combinations,
    correlation_parameters,
    first_value,
    is_sequence,
    labelled,
    scalar,
)

Axis = Mapping[str, Any] | tuple[Any, ...]


def canonical_axes(kind: Kind, axes: Mapping[str, Any], correlation: Mapping[str, Any] | None) -> dict[str, Axis]:
    """Every axis of a sweep: at least one value, no value twice, and no field that varies twice."""
    parameters = correlation_parameters(correlation) if correlation else ()
    known = [name for name in (*kind.fields, *parameters) if not (name == "R" and correlation)]
    found = {
        name: _together(kind, values, known, parameters) if name == TOGETHER else _axis(kind, name, values, known)
        for name, values in axes.items()
    }
    combinations: Any = found.get(TOGETHER, {})
    twice = set(found) & {name for fields in combinations.values() for name in fields}
    if twice:
        raise InvalidInputError("a field varies twice", sorted(twice), "Drop one of the two")
    return found


def _axis(kind: Kind, name: str, values: Any, known: list[str]) -> Axis:
    """The values of one field."""
    _check_field(kind, name, known)
    if isinstance(values, Mapping) or name in kind.arrays:
        if not isinstance(values, Mapping) or not all(isinstance(label, str) for label in values):
            raise InvalidInputError(
                f"{name} varies over arrays and needs a label for each",
                values,
                f'Pass {name}={{"label": array, ...}}',
            )
        first_value(name, values)
        return {label: labelled(value, f"{name}[{label!r}]") for label, value in values.items()}
    if not is_sequence(values) or (isinstance(values, np.ndarray) and values.ndim != 1):
        raise ShapeError(f"the axis {name} must be a flat sequence of values", values, "Pass a list")
    first_value(name, values)
    canonical = tuple(scalar(name, value) for value in values)
    if len(set(canonical)) < len(canonical):
        raise InvalidInputError(f"the axis {name} has a value twice", list(canonical), "Drop the repetition")
    return canonical


def _together(kind: Kind, values: Any, known: list[str], parameters: tuple[str, ...]) -> Axis:
    """Fields that vary together: a mapping of label to fields, the same fields under every label."""
    check_combinations(values)
    names = set(next(iter(values.values())))
    alone = {*kind.arrays, *kind.inside, *parameters}
    for fields in values.values():
        if set(fields) != names or not names or names & alone:
            raise InvalidInputError(
                "every combination must set the same fields, none of them mu or an array", dict(fields), "Match them"
            )
    for name in names:
        _check_field(kind, name, known)
    return {
        str(label): {name: scalar(name, value) for name, value in fields.items()} for label, fields in values.items()
    }


def _check_field(kind: Kind, name: str, known: list[str]) -> None:
    if name not in known:
        raise InvalidInputError(f"not a field of {kind.name}", name, f"Choose among {', '.join(known)}")
