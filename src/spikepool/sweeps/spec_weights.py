"""Weights that a sweep is given, in canonical form: names of rules, arrays, and what functions give."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from spikepool.errors import WeightsError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.sweeps.spec_values import is_sequence
from spikepool.world.weights import NAMED_WEIGHTS

# The name of a rule, one array for all combinations, or one for each.
Weights = str | FloatArray | tuple[FloatArray, ...]


def canonical_weights(weights: Any, models: tuple[Any, ...], mus: tuple[float, ...]) -> dict[str, Weights]:
    """Weights by name. Functions are evaluated at every model; all `mus` of a model share its weights."""
    if is_sequence(weights) and all(isinstance(name, str) for name in weights):
        weights = {name: name for name in weights}
    if not isinstance(weights, Mapping) or not weights:
        raise WeightsError(
            "weights must be named", weights, 'Pass {"name": w, ...} or names such as ["mean", "causal"]'
        )
    result: dict[str, Weights] = {}
    for name, value in weights.items():
        if not isinstance(name, str) or not name:
            raise WeightsError("the name of weights must be a non-empty string", name, "Rename them")
        if isinstance(value, str):
            result[name] = check.choice(value, f"weights {name!r}", tuple(NAMED_WEIGHTS))
        elif callable(value):
            result[name] = _evaluated(name, value, models, mus)
        elif isinstance(value, Mapping) and set(value) == {"combinations"}:  # as written in a store
            result[name] = tuple(_frozen(w, name) for w in value["combinations"])
        elif isinstance(value, tuple) and value and np.ndim(value[0]) == 1:
            result[name] = tuple(_frozen(w, name) for w in value)
        else:
            result[name] = _frozen(value, name)
    return result


def _evaluated(name: str, function: Callable[..., Any], models: tuple[Any, ...], mus: tuple[float, ...]) -> Weights:
    """The weights that a function gives: one array if it is the same everywhere, else one per combination."""
    call = _function_of_model(function)
    found = []
    for model in models:
        w = _frozen(call(model), name)
        for mu in mus[1:]:
            if not np.array_equal(w, call(model.replace(mu=mu))):
                raise WeightsError(
                    f"the weights {name!r} change with mu, but all mu of a sweep share their weights",
                    mu,
                    "Sweep one mu at a time",
                )
        found.append(w)
    return found[0] if all(np.array_equal(w, found[0]) for w in found) else tuple(found)


def _function_of_model(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """`function` as one of the model: by the name of its first parameter it gets the model, T, or R."""
    try:
        first = next(iter(inspect.signature(function).parameters), "R")
    except ValueError:  # built in
        first = "R"
    if first in ("model", "self"):
        return function
    return lambda model: function(model.T if first == "T" else model.R)


def _frozen(value: Any, name: str) -> FloatArray:
    """A checked copy of weights that cannot be changed."""
    w = check.weight_vector(value, None, f"weights {name!r}").copy()
    w.setflags(write=False)
    return w
