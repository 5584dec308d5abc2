"""A sweep as text: the JSON that stores and datasets carry, and the spec that is read back from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spikepool.errors import InvalidInputError
from spikepool.sweeps.kinds import KINDS
from spikepool.sweeps.spec import SweepSpec
from spikepool.sweeps.spec_values import TOGETHER, correlation_parameters, plain_value
from spikepool.world.correlation import named_correlation


def spec_to_dict(spec: SweepSpec) -> dict[str, Any]:
    """Plain lists, numbers and strings (and functions, if there are any); equal for equal sweeps.

    Fields that vary appear in ``axes`` only, in the order of the dimensions.
    """
    written = {
        "kind": spec.kind.name,
        "model": {name: plain_value(getattr(spec.model, name)) for name in spec.kind.fields if _is_written(spec, name)},
        "weights": {
            name: {"combinations": plain_value(value)} if isinstance(value, tuple) else plain_value(value)
            for name, value in spec.weights.items()
        },
        "axes": {name: plain_value(values) for name, values in spec.axes.items()},
        "trials": spec.trials,
        "seed": spec.seed,
        "k": spec.k,
        "exact": spec.exact,
        "table_drawn": spec.table_drawn,
    }
    return written | ({"correlation": dict(spec.correlation)} if spec.correlation else {})


def _is_written(spec: SweepSpec, name: str) -> bool:
    """Whether a field of the model is part of the text; stores from before there were token weights lack these."""
    if name in spec.axes or (name == "R" and spec.correlation):
        return False
    return name != "token_weights" or getattr(spec.model, name) is not None


def spec_to_json(spec: SweepSpec, *, functions: bool = False) -> str:
    """The spec as JSON; floats are written so that they read back bit for bit.

    A function as kernel has no text that reads back: it is an error, or with `functions` given by its name.
    """

    def name(value: Any) -> str:
        if functions and callable(value):
            return f"function {getattr(value, '__qualname__', value)}"
        raise InvalidInputError(
            "a sweep over a function as kernel cannot be continued later", value, "Use a named kernel, or no store"
        )

    return json.dumps(spec_to_dict(spec), allow_nan=False, default=name)


def spec_from_dict(data: Mapping[str, Any]) -> SweepSpec:
    """The inverse of :func:`spec_to_dict`."""
    # specs that do not say are from when every model was a SequenceModel and every table was drawn
    rest = {"kind": "SequenceModel", "table_drawn": True, "correlation": None, **data}
    axes, fields = rest.pop("axes"), dict(rest.pop("model"))
    parameters = dict(rest["correlation"] or {})
    known = correlation_parameters(parameters) if parameters else ()
    for name, values in axes.items():
        first = next(iter(values.values() if isinstance(values, Mapping) else values))
        if name in known:
            parameters[name] = first
        else:
            fields |= first if name == TOGETHER else {name: first}
    if parameters:
        fields["R"] = named_correlation(parameters.pop("kind"), **parameters)
    kind = KINDS[rest.pop("kind")]
    options = {} if kind.options else {"table_drawn": None}
    return SweepSpec(model=kind.model(**fields), axes=axes, **(rest | options))


def spec_from_json(text: str) -> SweepSpec:
    """The inverse of :func:`spec_to_json`."""
    return spec_from_dict(json.loads(text))
