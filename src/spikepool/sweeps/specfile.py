"""Sweeps of a :class:`spikepool.SequenceModel` written in TOML, as in ``examples/sweep.toml``.

``[model]`` has fields of the model, ``[weights]`` names or numbers, ``[sweep]`` the fields that vary, in the order of
the dimensions: lists, ``{start, stop, count}`` with both ends included, or tables of labels for arrays. A correlation
is an array of arrays, or ``{kind = "prefix", T = 10, L = 3}`` with the kinds of :mod:`spikepool.world.correlation`.
``trials``, ``seed``, ``k``, ``exact`` and ``table_drawn`` are optional.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import DataSourceError, InvalidInputError, SpikepoolError
from spikepool.kit import validation as check
from spikepool.kit.bounded_reading import read_file
from spikepool.model import SequenceModel
from spikepool.sweeps.kinds import KINDS
from spikepool.sweeps.spec import SweepSpec
from spikepool.world.correlation import named_correlation

_OPTIONS = ("trials", "seed", "k", "exact", "table_drawn")


def load_spec(path: str | Path) -> SweepSpec:
    """Read a sweep from a TOML file; what cannot be read or swept is an error that names it."""
    try:
        content = tomllib.loads(read_file(path, 2**20).decode("utf-8"))
    except DataSourceError as err:
        raise InvalidInputError(f"cannot read the sweep {path} ({err})", remedy="Check the path") from err
    except ValueError as err:  # TOMLDecodeError and UnicodeDecodeError
        raise InvalidInputError(f"{path} is not valid TOML: {err}", remedy="Correct the syntax") from err
    try:
        return _spec(content)
    except SpikepoolError as err:
        err.add_note(f"in the sweep {path}")
        raise


def _spec(content: Mapping[str, Any]) -> SweepSpec:
    kind = KINDS["SequenceModel"]
    _table({"the file": content}, "the file", ("model", "weights", "sweep", *_OPTIONS))
    if "weights" not in content:
        raise InvalidInputError(
            "the file has no weights", list(content), 'Give weights = ["mean"] or a table [weights]'
        )
    model, sweep = (_table(content, name, kind.fields) for name in ("model", "sweep"))
    for name in model.keys() & sweep.keys():
        raise InvalidInputError("given in both [model] and [sweep]", name, "Drop it from [model]")
    axes = {name: _axis(name, value) for name, value in sweep.items()}
    for name, values in axes.items():
        several = Mapping if name in kind.arrays else (list, Mapping, np.ndarray)
        if not isinstance(values, several) or len(values) == 0:
            raise InvalidInputError(f"[sweep] {name} must be a list or a table of labels", values, "Give its values")
    fields = {name: _value(value, f"[model] {name}") for name, value in model.items()}
    fields |= {name: next(iter(v.values() if isinstance(v, Mapping) else v)) for name, v in axes.items()}
    for name in ("d", "V", "N", "R", "mu"):
        if name not in fields:
            raise InvalidInputError("[model] lacks the field", name, "Give it there or in [sweep]")
    options = {name: content[name] for name in _OPTIONS if name in content}
    return SweepSpec(SequenceModel(**fields), content["weights"], axes, **options)


def _table(content: Mapping[str, Any], name: str, known: tuple[str, ...]) -> dict[str, Any]:
    """A table of the file, all of whose keys are known."""
    table: Any = content.get(name, {})
    wrong = [key for key in table if key not in known] if isinstance(table, Mapping) else [table]
    if wrong:
        raise InvalidInputError(f"unknown in {name}", wrong[0], f"Choose among {', '.join(known)}")
    return dict(table)


def _axis(name: str, value: Any) -> Any:
    if isinstance(value, Mapping) and {"start", "stop", "count"} & value.keys():
        ends = _table({name: value}, name, ("start", "stop", "count"))
        start, stop = (check.finite_number(ends.get(end), f"[sweep] {name} {end}") for end in ("start", "stop"))
        count = check.size(ends.get("count"), f"[sweep] {name} count")
        if count > 10**6:
            raise InvalidInputError(f"[sweep] {name} has more than a million points", count, "Ask for fewer")
        return np.linspace(start, stop, count)
    if isinstance(value, Mapping):
        return {label: _value(item, f"[sweep] {name} {label!r}") for label, item in value.items()}
    return value


def _value(value: Any, where: str) -> Any:
    """A value as it is, or the correlation that a table describes."""
    if not isinstance(value, Mapping):
        return value
    parameters = dict(value)
    return named_correlation(parameters.pop("kind", ""), where, **parameters)
