"""Sweep specifications in TOML: a model, weights, and the fields to sweep.

::

    trials = 20
    seed = 0
    store = "runs/alignment.zarr"       # optional; a rerun resumes from it

    [model]                             # fields of SequenceModel; the correlation as on the command line
    d = 500
    V = 800
    N = 1000
    T = 10
    correlation = "prefix:3"
    mu = 2.5

    [weights]                           # name = description as on the command line, or a list of numbers
    mean = "mean"
    causal = "causal"

    [sweep]                             # any model fields; a list, or evenly spaced numbers
    mu = { start = 0.0, stop = 3.0, count = 13 }
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spikepool.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spikepool.model import SequenceModel

_TOP = {"trials", "seed", "store", "model", "weights", "sweep"}
_MODEL = {"d", "V", "N", "T", "mu", "correlation", "table", "centered", "latent", "noise", "noise_df"}
_NEEDED = ("d", "V", "N", "T", "correlation")


@dataclass(frozen=True)
class SweepSpec:
    """A checked specification; the arguments of :func:`spikepool.sweep`."""

    model: SequenceModel
    weights: dict[str, NDArray[np.float64]]
    fields: dict[str, list[Any]]
    trials: int
    seed: int
    store: Path | None


def load_spec(path: Path) -> SweepSpec:
    """Read and check a TOML file; every mistake is named with its key."""
    try:
        with path.open("rb") as stream:
            content = tomllib.load(stream)
    except OSError as err:
        raise InvalidInputError(f"cannot read {path} ({err.strerror})", remedy="Check the path") from err
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise InvalidInputError(f"{path} is not valid TOML ({err})", remedy="Correct the syntax") from err
    _known(content, _TOP, str(path))
    tables = {name: _table(content, name, path) for name in ("model", "weights", "sweep")}
    fields = {name: _values(name, value) for name, value in tables["sweep"].items()}
    model = _model(tables["model"], fields, path)
    return SweepSpec(
        model,
        _weights(tables["weights"], model.R),
        fields,
        content.get("trials", 20),
        content.get("seed", 0),
        Path(content["store"]) if "store" in content else None,
    )


def _known(content: dict[str, Any], allowed: set[str], where: str) -> None:
    unknown = sorted(set(content) - allowed)
    if unknown:
        raise InvalidInputError(
            f"unknown key in {where}", unknown[0], f"Use one of {', '.join(sorted(allowed))}"
        )


def _table(content: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    value = content.get(name)
    if not isinstance(value, dict) or not value:
        raise InvalidInputError(
            f"{path} needs a non-empty [{name}] table", value, "See spikepool sweep --help"
        )
    return value


def _values(name: str, value: Any) -> list[Any]:
    if isinstance(value, dict):
        import numpy as np

        _known(value, {"start", "stop", "count"}, f"[sweep] {name}")
        try:
            return [float(x) for x in np.linspace(value["start"], value["stop"], value["count"])]
        except (KeyError, TypeError, ValueError) as err:
            raise InvalidInputError(
                f"[sweep] {name} needs numbers start, stop and count", value, "Give all three"
            ) from err
    if not isinstance(value, list) or not value:
        raise InvalidInputError(
            f"[sweep] {name} must be a non-empty list or a range", value, "Write [1.0, 2.0]"
        )
    return value


def _model(table: dict[str, Any], fields: dict[str, list[Any]], path: Path) -> SequenceModel:
    from spikepool.cli.options import parse_correlation
    from spikepool.model import SequenceModel

    _known(table, _MODEL, f"[model] of {path}")
    # a swept field needs no value of its own: the first of its values stands in
    table = {**{name: values[0] for name, values in fields.items() if name in _MODEL}, **table}
    missing = [name for name in _NEEDED if name not in table]
    if missing:
        raise InvalidInputError(f"[model] of {path} lacks", missing[0], "Add it")
    table.setdefault("mu", 1.0)
    T = table.pop("T")
    R = parse_correlation(str(table.pop("correlation")), T)
    return SequenceModel(R=R, **table)


def _weights(table: dict[str, Any], R: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    from spikepool import _validation as check
    from spikepool.cli.options import parse_weights

    named: dict[str, NDArray[np.float64]] = {}
    for name, value in table.items():
        if isinstance(value, str):
            named[name] = next(iter(parse_weights([value], R).values()))
        else:
            named[name] = check.weight_vector(value, len(R), f"[weights] {name}")
    return named
