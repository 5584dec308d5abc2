"""What a sweep is: a base model, the fields that vary, the weights, the trials and the root seed."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.errors import InvalidInputError, ShapeError, SizeError, WeightsError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.model import SequenceModel
from spikepool.simulation.drawn import maximal_rank, usual_pairs
from spikepool.simulation.simulate import takes_drawn_table
from spikepool.world.weights import NAMED_WEIGHTS, named_weights

FIELDS = tuple(field.name for field in dataclasses.fields(SequenceModel))
ARRAY_FIELDS = ("R", "frequencies", "covariance", "direction", "token_weights")

# The axis of fields that vary together, such as d, V and N at fixed ratios.
TOGETHER = "together"

_SIZES = ("d", "V", "N")
_NUMBERS = ("mu", "noise_df")


@dataclass(frozen=True, eq=False)
class SweepSpec:
    """Everything that decides the numbers of a sweep, and nothing else.

    Parameters
    ----------
    model, weights, trials, seed, k, exact
        As in :func:`spikepool.sweep`. Fields of the model that vary are set to their first value.
    axes : mapping of str to sequence or mapping
        The values of each field that varies, in the order of the dimensions. An array field (R, frequencies,
        covariance, direction, token_weights) takes a mapping from label to array; the labels become the coordinate.
    table_drawn : bool, optional
        As there. When not given, True or False where all combinations take the same route, and None where it differs
        with their noise.
    """

    model: SequenceModel
    weights: Mapping[str, str | FloatArray]
    axes: Mapping[str, Mapping[str, Any] | tuple[Any, ...]]
    trials: int = 20
    seed: int = 0
    k: int | None = None
    exact: bool = False
    table_drawn: bool | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        if not isinstance(self.model, SequenceModel):
            raise InvalidInputError("model must be a SequenceModel", self.model, "Build one first")
        put("trials", check.size(self.trials, "trials", minimum=0))
        put("seed", check.size(self.seed, "seed", minimum=0))
        if self.k is not None:
            put("k", check.size(self.k, "k"))
        if not isinstance(self.exact, (bool, np.bool_)):
            raise InvalidInputError("exact must be True or False", self.exact, "Pass a bool")
        put("exact", bool(self.exact))
        put("axes", {name: _axis(name, values) for name, values in self.axes.items()})
        _refuse_twice(self.axes)
        put("model", self.model.replace(**self._fields(tuple(self.axes), [0] * len(self.axes))))
        put("weights", _named_weights(self.weights))
        put("table_drawn", self._route())
        if self.k is None:
            put("k", max(usual_pairs(self.outer_model(index)) for index in self.outer_indices()))
        self._check_every_combination()

    def _route(self) -> bool | None:
        """Whether tables are drawn; None when some are and some are not."""
        models = map(self.outer_model, self.outer_indices())
        routes = {takes_drawn_table(model, (), self.table_drawn) for model in models}
        return routes.pop() if len(routes) == 1 else None

    def _check_every_combination(self) -> None:
        """Bad input is refused before any work: a cell that fails later failed in the computation itself."""
        for index in self.outer_indices():
            model = self.outer_model(index)
            rank = maximal_rank(model)
            if self.trials and self.pairs > rank:
                raise SizeError(f"k must be at most {rank}, the largest rank of S", self.k, "Keep fewer eigenpairs")
            for name, value in self.weights.items():
                if not isinstance(value, str):
                    check.weight_vector(value, model.T, f"weights {name!r}")
        for mu in self.mus:
            check.non_negative(mu, "mu")

    # -- the grid ------------------------------------------------------------------------------------------

    @property
    def pairs(self) -> int:
        """The number of eigenpairs, as a plain number."""
        assert self.k is not None
        return self.k

    @property
    def outer(self) -> tuple[str, ...]:
        """The axes other than mu. All values of mu share one draw, so mu is inside a cell."""
        return tuple(name for name in self.axes if name != "mu")

    @property
    def mus(self) -> tuple[float, ...]:
        """Signal strengths: those of the axis, or the model's only one."""
        axis: Any = self.axes.get("mu", (self.model.mu,))
        return tuple(axis)

    def length(self, axis: str) -> int:
        """Number of values of `axis`."""
        return len(self.axes[axis])

    def value(self, axis: str, i: int) -> Any:
        """The `i`-th value of `axis`."""
        values = self.axes[axis]
        return list(values.values())[i] if isinstance(values, Mapping) else values[i]

    def outer_indices(self) -> Iterator[tuple[int, ...]]:
        """Index tuples over :attr:`outer`, in C order; the empty tuple alone when only mu varies."""
        return itertools.product(*(range(self.length(axis)) for axis in self.outer))

    def outer_model(self, index: Sequence[int]) -> SequenceModel:
        """The model at one index over :attr:`outer`, with the base model's mu."""
        return self.model.replace(**self._fields(self.outer, index))

    def _fields(self, axes: Sequence[str], index: Sequence[int]) -> dict[str, Any]:
        """Fields of the model at one index; the axis of fields that vary together gives several."""
        fields: dict[str, Any] = {}
        for axis, i in zip(axes, index, strict=True):
            value = self.value(axis, i)
            fields |= value if axis == TOGETHER else {axis: value}
        return fields

    def weight_vector(self, name: str, model: SequenceModel) -> FloatArray:
        """The weights called `name`, as an array for `model`."""
        value = self.weights[name]
        if not isinstance(value, str):
            return value
        return named_weights(value, model.R)

    # -- as text -------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings; equal for equal sweeps. Fields that vary appear in ``axes`` only."""
        return {
            "model": {name: _plain(getattr(self.model, name)) for name in FIELDS if self._is_written(name)},
            "weights": {name: _plain(value) for name, value in self.weights.items()},
            "axes": {name: _plain(values) for name, values in self.axes.items()},
            "trials": self.trials,
            "seed": self.seed,
            "k": self.k,
            "exact": self.exact,
            "table_drawn": self.table_drawn,
        }

    def _is_written(self, name: str) -> bool:
        """Whether a field of the model is part of the text; stores from before there were token weights lack these."""
        return name not in self.axes and (name != "token_weights" or self.model.token_weights is not None)

    def to_json(self) -> str:
        """The spec as JSON; floats are written so that they read back bit for bit."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SweepSpec:
        """The inverse of :meth:`to_dict`."""
        rest = {"table_drawn": True, **data}  # specs that do not say are from when every table was drawn
        axes = rest.pop("axes")
        fields = dict(rest.pop("model"))
        for name, values in axes.items():
            first = next(iter(values.values() if isinstance(values, Mapping) else values))
            fields |= first if name == TOGETHER else {name: first}
        return cls(model=SequenceModel(**fields), axes=axes, **rest)

    @classmethod
    def from_json(cls, text: str) -> SweepSpec:
        """The inverse of :meth:`to_json`."""
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_fields(cls, model: SequenceModel, weights: Any, fields: Mapping[str, Any], **options: Any) -> SweepSpec:
        """A spec from keyword arguments: several values make an axis, one value replaces the model's."""
        if not isinstance(model, SequenceModel):
            raise InvalidInputError("model must be a SequenceModel", model, "Build one first")
        axes: dict[str, Any] = {}
        fixed: dict[str, Any] = {}
        for name, value in fields.items():
            if name == TOGETHER:
                axes[name] = _together(value)
                continue
            _known_field(name)
            several = isinstance(value, Mapping) if name in ARRAY_FIELDS else _is_sequence(value)
            (axes if several else fixed)[name] = value
        if axes:  # fixed values may only fit together with the varying ones (d and covariance, say)
            for name, values in axes.items():
                fixed |= _first(name, values) if name == TOGETHER else {name: _first(name, values)}
        return cls(model=model.replace(**fixed), weights=weights, axes=axes, **options)


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """What differs between two plain specs, one line each: ``trials: 20 in the store, 30 asked for``."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        lines = []
        for key in [*old, *(key for key in new if key not in old)]:
            where = f"{path}.{key}" if path else str(key)
            if key not in new:
                lines.append(f"{where}: {_brief(old[key])} in the store, absent from what is asked for")
            elif key not in old:
                lines.append(f"{where}: absent from the store, {_brief(new[key])} asked for")
            else:
                lines += differences(old[key], new[key], where)
        if not lines and list(old) != list(new):
            lines.append(f"{path}: order {list(old)} in the store, {list(new)} asked for")
        return lines
    if _same(old, new):
        return []
    return [f"{path}: {_brief(old)} in the store, {_brief(new)} asked for"]


def _same(old: Any, new: Any) -> bool:
    """Equality up to rounding: the same script on another machine may differ in last bits. The store's are used."""
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=1e-12, abs_tol=1e-15)
    return type(old) is type(new) and bool(old == new)


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _known_field(name: str) -> None:
    if name not in FIELDS:
        raise InvalidInputError("not a field of SequenceModel", name, f"Choose among {', '.join(FIELDS)}")


def _is_sequence(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes, Mapping))


def _first(name: str, values: Any) -> Any:
    if len(values) == 0:
        raise ShapeError(f"the axis {name} is empty", values, "Give at least one value")
    return next(iter(values.values() if isinstance(values, Mapping) else values))


def _scalar(name: str, value: Any) -> Any:
    if name in _SIZES:
        return check.size(value, name)
    if name in _NUMBERS:
        return check.finite_number(value, name)
    return value.item() if isinstance(value, np.generic) else value


def _axis(name: str, values: Any) -> Mapping[str, Any] | tuple[Any, ...]:
    """The values of one axis in canonical form: at least one, no two the same."""
    if name == TOGETHER:
        return _together(values)
    _known_field(name)
    if name in ARRAY_FIELDS:
        if not isinstance(values, Mapping) or not all(isinstance(label, str) for label in values):
            raise InvalidInputError(
                f"{name} varies over arrays and needs a label for each", values, "Pass a dict of label to array"
            )
        _first(name, values)
        return {
            label: None if array is None else check.finite_array(array, f"{name}[{label!r}]").copy()
            for label, array in values.items()
        }
    if not _is_sequence(values) or (isinstance(values, np.ndarray) and values.ndim != 1):
        raise ShapeError(f"the axis {name} must be a flat sequence of values", values, "Pass a list")
    _first(name, values)
    canonical = tuple(_scalar(name, value) for value in values)
    if len(set(canonical)) < len(canonical):
        raise InvalidInputError(f"the axis {name} has a value twice", list(canonical), "Drop the repetition")
    return canonical


def _together(values: Any) -> Mapping[str, Any]:
    """Fields that vary together: a mapping of label to fields, the same fields under every label."""
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
    names = set(next(iter(values.values())))
    for fields in values.values():
        if set(fields) != names or not names or names & {"mu", *ARRAY_FIELDS}:
            raise InvalidInputError(
                "every combination must set the same fields, none of them mu or an array", dict(fields), "Match them"
            )
    for name in names:
        _known_field(name)
    return {
        str(label): {name: _scalar(name, value) for name, value in fields.items()} for label, fields in values.items()
    }


def _refuse_twice(axes: Mapping[str, Any]) -> None:
    """Raise where a field has an axis of its own and varies together with others."""
    twice = set(axes) & set(next(iter(axes[TOGETHER].values()))) if TOGETHER in axes else set()
    if twice:
        raise InvalidInputError("a field varies twice", sorted(twice), "Drop one of the two")


def _named_weights(weights: Any) -> dict[str, str | FloatArray]:
    if _is_sequence(weights) and all(isinstance(name, str) for name in weights):
        weights = {name: name for name in weights}
    if not isinstance(weights, Mapping) or not weights:
        raise WeightsError(
            "weights must be named", weights, 'Pass {"name": w, ...} or names such as ["mean", "causal"]'
        )
    result: dict[str, str | FloatArray] = {}
    for name, value in weights.items():
        if not isinstance(name, str) or not name:
            raise WeightsError("the name of weights must be a non-empty string", name, "Rename them")
        if isinstance(value, str):
            result[name] = check.choice(value, f"weights {name!r}", tuple(NAMED_WEIGHTS))
        else:
            w = check.weight_vector(value, None, f"weights {name!r}").copy()
            w.setflags(write=False)
            result[name] = w
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
