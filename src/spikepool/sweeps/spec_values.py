"""Values that a sweep is given, in canonical form: axes, arrays under labels, weights and named correlations."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from spikepool.errors import InvalidInputError, ShapeError
from spikepool.kit import validation as check
from spikepool.sweeps.kind import Kind
from spikepool.world.correlation import NAMED_CORRELATIONS

# The axis of fields that vary together, such as d, V and N at fixed ratios.
TOGETHER = "together"

_SIZES = ("d", "V", "N", "T", "L")
_NUMBERS = ("mu", "nu", "beta", "overlap", "noise_df", "rho")


def is_sequence(value: Any) -> bool:
    """Whether a value is a list, tuple or array of values, and not one value or text."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes, Mapping))


def first_value(name: str, values: Any) -> Any:
    """The first value of an axis, which must have one."""
    if len(values) == 0:
        raise ShapeError(f"the axis {name} is empty", values, "Give at least one value")
    return next(iter(values.values() if isinstance(values, Mapping) else values))


def check_combinations(values: Any) -> None:
    """Raise unless `values` maps labels to fields."""
    if (
        not isinstance(values, Mapping)
        or not values
        or not all(isinstance(fields, Mapping) for fields in values.values())
    ):
        raise InvalidInputError(
            "fields that vary together need a label for each combination",
            values,
            'Pass {"small": {"d": 100, "V": 160, "N": 200}, ...}',
        )


def scalar(name: str, value: Any) -> Any:
    """A value of an axis: sizes and numbers are checked, scalars of NumPy made Python's."""
    if value is not None and name in _SIZES:
        return check.size(value, name)
    if value is not None and name in _NUMBERS:
        return check.finite_number(value, name)
    return value.item() if isinstance(value, np.generic) else value


def labelled(value: Any, where: str) -> Any:
    """A value under a label: an array is checked and copied, anything else is left to the model."""
    if value is None or isinstance(value, (str, bool, int, float)) or callable(value):
        return value
    return check.finite_array(value, where).copy()


def plain_value(value: Any) -> Any:
    """A value as lists, numbers and strings."""
    if isinstance(value, Mapping):
        return {key: plain_value(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [plain_value(item) for item in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def correlation_name(function: Any) -> str:
    """The name under which a function of :mod:`spikepool.world.correlation` is known."""
    for name, known in NAMED_CORRELATIONS.items():
        if function is known:
            return name
    raise InvalidInputError(
        "R may be a named correlation, whose parameters then vary",
        getattr(function, "__qualname__", function),
        'Pass sp.prefix_correlation or another of spikepool.world.correlation, or R={"label": array, ...}',
    )


def correlation_parameters(correlation: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the parameters of a named correlation."""
    return tuple(inspect.signature(NAMED_CORRELATIONS[correlation["kind"]]).parameters)


def canonical_correlation(kind: Kind, correlation: Mapping[str, Any], axes: Mapping[str, Any]) -> dict[str, Any]:
    """A named correlation in canonical form: none of its parameters is given twice."""
    if "R" not in kind.fields:
        raise InvalidInputError(f"a {kind.name} has no R", correlation, "Leave it out")
    given = {name: scalar(name, value) for name, value in correlation.items()}
    twice = sorted({"R", *given} & set(axes))
    if twice:
        raise InvalidInputError("a field varies twice", twice, "Drop one of the two")
    return given
