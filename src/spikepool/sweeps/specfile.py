"""Sweeps written in TOML.

A file has the parts of :class:`spikepool.sweeps.SweepSpec`::

    trials = 20                                   # optional, as are seed, k and exact
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
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import InvalidInputError, SpikepoolError
from spikepool.kit import validation as check
from spikepool.model import SequenceModel
from spikepool.sweeps.spec import ARRAY_FIELDS, FIELDS, SweepSpec
from spikepool.world.correlation import named_correlation

_TOP = ("model", "weights", "sweep", "trials", "seed", "k", "exact")
_REQUIRED = ("d", "V", "N", "R", "mu")


def load_spec(path: str | Path) -> SweepSpec:
    """Read a sweep from a TOML file; the format is that of :mod:`spikepool.sweeps.specfile`.

    Raises
    ------
    InvalidInputError
        The file cannot be read, is not TOML, or says something that cannot be swept; the key is named.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise InvalidInputError(f"cannot read the sweep {path}: {err.strerror}", remedy="Check the path") from err
    except ValueError as err:  # TOMLDecodeError and UnicodeDecodeError
        raise InvalidInputError(f"{path} is not valid TOML: {err}", remedy="Correct the syntax") from err
    try:
        return _spec(content)
    except SpikepoolError as err:
        err.add_note(f"in the sweep {path}")
        raise


def _spec(content: Mapping[str, Any]) -> SweepSpec:
    _only(content, _TOP, "the file")
    for name in ("model", "weights"):
        if name not in content:
            raise InvalidInputError(f"the file has no [{name}]", sorted(content), f"Add [{name}]")
    fields = _table(content["model"], "[model]")
    _only(fields, FIELDS, "[model]")
    values = _table(content.get("sweep", {}), "[sweep]")
    _only(values, FIELDS, "[sweep]")
    axes = {name: _axis(name, value) for name, value in values.items()}
    both = sorted(set(fields) & set(axes))
    if both:
        raise InvalidInputError("given in both [model] and [sweep]", both[0], "Drop it from [model]")
    for name, axis in axes.items():
        fields[name] = next(iter(axis.values() if isinstance(axis, Mapping) else axis), None)
    missing = [name for name in _REQUIRED if name not in fields]
    if missing:
        raise InvalidInputError("[model] lacks the field", missing[0], "Give it there or in [sweep]")
    if isinstance(fields["R"], Mapping):
        fields["R"] = _correlation(fields["R"], "[model] R")
    options = {name: content[name] for name in ("trials", "seed", "k", "exact") if name in content}
    return SweepSpec(model=SequenceModel(**fields), weights=content["weights"], axes=axes, **options)


def _axis(name: str, value: Any) -> Any:
    where = f"[sweep] {name}"
    if name in ARRAY_FIELDS:
        table = _table(value, where)
        return {
            label: _correlation(item, f"{where} {label!r}") if isinstance(item, Mapping) else item
            for label, item in table.items()
        }
    if isinstance(value, Mapping):
        _only(value, ("start", "stop", "count"), where)
        try:
            start, stop, count = (value[key] for key in ("start", "stop", "count"))
        except KeyError as err:
            raise InvalidInputError(f"{where} lacks", err.args[0], "Give start, stop and count") from err
        ends = (check.finite_number(start, f"{where} start"), check.finite_number(stop, f"{where} stop"))
        return np.linspace(*ends, check.size(count, f"{where} count"))
    return value


def _correlation(table: Mapping[str, Any], where: str) -> Any:
    parameters = dict(table)
    return named_correlation(parameters.pop("kind", None), where, **parameters)


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{where} must be a table", value, "Write key = value lines under it")
    return dict(value)


def _only(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise InvalidInputError(f"{where} has an unknown key", key, f"Use one of {', '.join(known)}")
