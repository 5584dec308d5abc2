"""Sweeps written in TOML.

A file has the parts of :class:`spikepool.sweeps.SweepSpec`::

    trials = 20                                   # optional, as are seed, k, exact, table_drawn
    seed = 0

    [model]                                       # fields of SequenceModel; those in [sweep] may be left out
    d = 200
    V = 320
    N = 400
    R = { kind = "prefix", T = 10, L = 3 }        # or an array of arrays

    [weights]                                     # by name; or weights = ["mean", "causal"] above [model]
    mean = "mean"                                 # "mean", "causal" or "optimal"
    causal = "causal"
    first = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]        # or T numbers

    [sweep]                                       # fields that vary, in the order of the dimensions
    N = [200, 400]
    mu = { start = 0.0, stop = 2.5, count = 11 }  # evenly spaced, both ends included

    [sweep.R]                                     # arrays vary under a label each
    "L = 2" = { kind = "prefix", T = 10, L = 2 }
    "L = 5" = { kind = "prefix", T = 10, L = 5 }

The kinds of R and their parameters are those of :mod:`spikepool.world.correlation`: ``prefix`` (T, L), ``markov``
(T, rho), ``equicorrelation`` (T, rho), ``spiked`` (T, strength, support, signs, normalize), and ``identity`` (T).
The form of a file is that of ``spec.schema.json`` beside this module, which editors can check it against.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import DataSourceError, InvalidInputError, SpikepoolError, require
from spikepool.kit import validation as check
from spikepool.kit.files import read_file
from spikepool.model import SequenceModel
from spikepool.sweeps.spec import ARRAY_FIELDS, SweepSpec
from spikepool.world.correlation import named_correlation

_LARGEST_FILE = 2**20
_MOST_POINTS = 1_000_000
_REQUIRED = ("d", "V", "N", "R", "mu")
_OPTIONS = ("trials", "seed", "k", "exact", "table_drawn")


def load_spec(path: str | Path) -> SweepSpec:
    """Read a sweep from a TOML file; the format is that of :mod:`spikepool.sweeps.specfile`.

    Raises
    ------
    InvalidInputError
        The file cannot be read, is not TOML, or says something that cannot be swept; the key is named.
    """
    path = Path(path)
    try:
        content = tomllib.loads(read_file(path, _LARGEST_FILE).decode("utf-8"))
    except DataSourceError as err:
        raise InvalidInputError(f"cannot read the sweep {path} ({err})", remedy="Check the path") from err
    except ValueError as err:  # TOMLDecodeError and UnicodeDecodeError
        raise InvalidInputError(f"{path} is not valid TOML: {err}", remedy="Correct the syntax") from err
    try:
        return _spec(content)
    except SpikepoolError as err:
        err.add_note(f"in the sweep {path}")
        raise


@cache
def _validator() -> Any:
    """The checker of ``spec.schema.json``, the versioned description of what a file may say."""
    jsonschema = require("jsonschema", "sweeps")
    schema = json.loads(files("spikepool.sweeps").joinpath("spec.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def _check_form(content: Mapping[str, Any]) -> None:
    """Raise for the mistake that says most about the form of a file: keys, types, what is missing."""
    exceptions = require("jsonschema", "sweeps").exceptions
    errors = list(_validator().iter_errors(content))
    worst = exceptions.best_match(errors)
    if worst is not None:
        where = ".".join(str(part) for part in worst.absolute_path) or "the file"
        # everything that is wrong at that place; what lies inside an "anyOf" is the best match's own message
        messages = [error.message for error in errors if error.absolute_path == worst.absolute_path] or [worst.message]
        wanted = worst.schema.get("description")
        raise InvalidInputError(
            f"{where}: {'; '.join(messages)}", remedy=f"Give {wanted}" if wanted else "Correct the file"
        )


def _spec(content: Mapping[str, Any]) -> SweepSpec:
    _check_form(content)
    fields = dict(content["model"])
    axes = {name: _axis(name, value) for name, value in content.get("sweep", {}).items()}
    both = sorted(set(fields) & set(axes))
    if both:
        raise InvalidInputError("given in both [model] and [sweep]", both[0], "Drop it from [model]")
    for name, axis in axes.items():
        fields[name] = next(iter(axis.values() if isinstance(axis, Mapping) else axis))
    missing = [name for name in _REQUIRED if name not in fields]
    if missing:
        raise InvalidInputError("[model] lacks the field", missing[0], "Give it there or in [sweep]")
    fields["R"] = _correlation(fields["R"], "[model] R")
    options = {name: content[name] for name in _OPTIONS if name in content}
    return SweepSpec(model=SequenceModel(**fields), weights=content["weights"], axes=axes, **options)


def _axis(name: str, value: Any) -> Any:
    where = f"[sweep] {name}"
    if name in ARRAY_FIELDS:
        return {label: _correlation(item, f"{where} {label!r}") for label, item in value.items()}
    if isinstance(value, Mapping):
        ends = (
            check.finite_number(value["start"], f"{where} start"),
            check.finite_number(value["stop"], f"{where} stop"),
        )
        if value["count"] > _MOST_POINTS:
            raise InvalidInputError(f"{where} has more than {_MOST_POINTS:,} points", value["count"], "Ask for fewer")
        return np.linspace(*ends, value["count"])
    return value


def _correlation(value: Any, where: str) -> Any:
    """An array as it is, or the correlation that a table describes."""
    if not isinstance(value, Mapping):
        return value
    parameters = dict(value)
    return named_correlation(parameters.pop("kind"), where, **parameters)
