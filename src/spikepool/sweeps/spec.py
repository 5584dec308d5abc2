"""What a sweep is: a base model, the fields that vary, the weights, the trials and the root seed."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spikepool.errors import InvalidInputError, ShapeError, SizeError, WeightsError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.sweeps.kind import Kind
from spikepool.sweeps.kinds import KINDS, Model, kind_of
from spikepool.sweeps.spec_values import (
    TOGETHER,
    canonical_correlation,
    check_combinations,
    correlation_name,
    correlation_parameters,
    first_value,
    frozen_weights,
    function_of_model,
    is_sequence,
    labelled,
    plain_value,
    scalar,
)
from spikepool.world.correlation import named_correlation
from spikepool.world.weights import NAMED_WEIGHTS, named_weights

Weights = str | FloatArray | tuple[FloatArray, ...]


@dataclass(frozen=True, eq=False)
class SweepSpec:
    """Everything that decides the numbers of a sweep, and nothing else.

    Parameters
    ----------
    model, weights, trials, seed, k, exact
        As in :func:`spikepool.sweep`. Fields of the model that vary are set to their first value. Weights that are
        functions are evaluated here: the spec holds numbers, one array or one for each combination.
    axes : mapping of str to sequence or mapping
        The values of each field that varies, in the order of the dimensions. A mapping from label to value makes the
        labels the coordinate; fields that hold arrays need one.
    table_drawn : bool, optional
        As there. When not given, True or False where all combinations take the same route, and None where it differs
        with their noise.
    correlation : mapping, optional
        ``{"kind": "prefix", "T": 10}``: R is this named correlation, some of whose parameters may be axes.
    """

    model: Model
    weights: Mapping[str, Weights]
    axes: Mapping[str, Mapping[str, Any] | tuple[Any, ...]]
    trials: int = 20
    seed: int = 0
    k: int | None = None
    exact: bool = False
    table_drawn: bool | None = None
    correlation: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        kind = kind_of(self.model)
        put("trials", check.size(self.trials, "trials", minimum=0))
        put("seed", check.size(self.seed, "seed", minimum=0))
        if self.k is not None:
            put("k", check.size(self.k, "k"))
        put("exact", check.flag(self.exact, "exact"))
        for option, given in (("weights", self.weights), ("exact", self.exact), ("table_drawn", self.table_drawn)):
            if option not in kind.options and given:
                raise InvalidInputError(f"a sweep of a {kind.name} does not take {option}", given, "Leave it out")
        if self.correlation is not None:
            put("correlation", canonical_correlation(kind, self.correlation, self.axes))
        put("axes", {name: self._axis(name, values) for name, values in self.axes.items()})
        self._refuse_twice()
        put("model", _replaced(self.model, self._fields(tuple(self.axes), [0] * len(self.axes))))
        put("weights", self._named_weights(self.weights) if "weights" in kind.options else {})
        put("table_drawn", kind.route(self.models, self.table_drawn))
        if self.k is None:
            put("k", max(map(kind.usual_pairs, self.models)))
        self._check_every_combination()

    def _check_every_combination(self) -> None:
        """Bad input is refused before any work: a cell that fails later failed in the computation itself."""
        for place, model in enumerate(self.models):
            rank = self.kind.most_pairs(model)
            if self.trials and self.pairs > rank:
                raise SizeError(f"k must be at most {rank}, the largest rank of S", self.k, "Keep fewer eigenpairs")
            for name, value in self.weights.items():
                if not isinstance(value, str):
                    check.weight_vector(self.weight_vector(name, place), model.T, f"weights {name!r}")
        for mu in self.mus:
            check.non_negative(mu, "mu")

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again: specs travel to workers."""
        return {name: value for name, value in vars(self).items() if name not in ("kind", "models")}

    # -- the grid ------------------------------------------------------------------------------------------

    @cached_property
    def kind(self) -> Kind:
        """What is particular to this class of models."""
        return kind_of(self.model)

    @property
    def pairs(self) -> int:
        """The number of eigenpairs, as a plain number."""
        assert self.k is not None
        return self.k

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions of a prediction."""
        return (*(["weights"] if self.weights else []), *self.axes)

    @property
    def outer(self) -> tuple[str, ...]:
        """The axes that tell cells apart: not mu where all its values share one draw."""
        return tuple(name for name in self.axes if name not in self.kind.inside)

    @property
    def mus(self) -> tuple[float, ...]:
        """Signal strengths that share draws: those of the axis, or the model's only one."""
        if "mu" not in self.kind.inside:
            return ()
        axis: Any = self.axes.get("mu", (getattr(self.model, "mu", None),))
        return tuple(axis)

    def length(self, dim: str) -> int:
        """Number of values along a dimension."""
        own = {"weights": len(self.weights), "trial": self.trials, "rank": self.k}
        if dim in own:
            return own[dim] or 0
        return len(self.axes[dim]) if dim in self.axes else 1

    def value(self, axis: str, i: int) -> Any:
        """The `i`-th value of `axis`."""
        values = self.axes[axis]
        return list(values.values())[i] if isinstance(values, Mapping) else values[i]

    def outer_indices(self) -> Iterator[tuple[int, ...]]:
        """Index tuples over :attr:`outer`, in C order; the empty tuple alone when none is an axis."""
        return itertools.product(*(range(self.length(axis)) for axis in self.outer))

    def place(self, index: Sequence[int]) -> int:
        """Number of a combination in the order of :meth:`outer_indices`."""
        place = 0
        for axis, i in zip(self.outer, index, strict=True):
            place = place * self.length(axis) + i
        return place

    @cached_property
    def models(self) -> tuple[Any, ...]:
        """The model of each combination, in the order of :meth:`outer_indices`, with the base model's mu."""
        outer = self.outer
        if not outer:
            return (self.model,)
        return tuple(_replaced(self.model, self._fields(outer, index)) for index in self.outer_indices())

    def _fields(self, axes: Sequence[str], index: Sequence[int]) -> dict[str, Any]:
        """Fields of the model at one index; the axis of fields that vary together gives several."""
        fields: dict[str, Any] = {}
        parameters = dict(self.correlation or {})
        for axis, i in zip(axes, index, strict=True):
            value = self.value(axis, i)
            if axis == TOGETHER:
                fields |= value
            elif self.correlation is not None and axis in correlation_parameters(self.correlation):
                parameters[axis] = value
            else:
                fields[axis] = value
        if parameters:
            kind = parameters.pop("kind")
            fields["R"] = named_correlation(kind, **parameters)
        return fields

    def weight_vector(self, name: str, place: int) -> FloatArray:
        """The weights called `name`, as an array for combination `place`."""
        value = self.weights[name]
        if isinstance(value, str):
            return named_weights(value, self.models[place].R)
        return value[place] if isinstance(value, tuple) else value

    # -- checking what was given ---------------------------------------------------------------------------

    def _known_field(self, name: str) -> None:
        known = (*self.kind.fields, *(correlation_parameters(self.correlation) if self.correlation else ()))
        if name not in known or (name == "R" and self.correlation):
            remedy = f"Choose among {', '.join(known)}"
            raise InvalidInputError(f"not a field of {self.kind.name}", name, remedy)

    def _axis(self, name: str, values: Any) -> Mapping[str, Any] | tuple[Any, ...]:
        """The values of one axis in canonical form: at least one, no two the same."""
        if name == TOGETHER:
            return self._together(values)
        self._known_field(name)
        if isinstance(values, Mapping) or name in self.kind.arrays:
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

    def _together(self, values: Any) -> Mapping[str, Any]:
        """Fields that vary together: a mapping of label to fields, the same fields under every label."""
        check_combinations(values)
        names = set(next(iter(values.values())))
        alone = {
            *self.kind.arrays,
            *self.kind.inside,
            *(correlation_parameters(self.correlation) if self.correlation else ()),
        }
        for fields in values.values():
            if set(fields) != names or not names or names & alone:
                raise InvalidInputError(
                    "every combination must set the same fields, none of them mu or an array",
                    dict(fields),
                    "Match them",
                )
        for name in names:
            self._known_field(name)
        return {
            str(label): {name: scalar(name, value) for name, value in fields.items()}
            for label, fields in values.items()
        }

    def _refuse_twice(self) -> None:
        """Raise where a field has a separate axis and varies together with others."""
        axes: Any = self.axes
        twice = set(axes) & set(next(iter(axes[TOGETHER].values()))) if TOGETHER in axes else set()
        if twice:
            raise InvalidInputError("a field varies twice", sorted(twice), "Drop one of the two")

    def _named_weights(self, weights: Any) -> dict[str, Weights]:
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
                result[name] = self._evaluated(name, value)
            elif isinstance(value, Mapping) and set(value) == {"combinations"}:  # as written in a store
                result[name] = tuple(frozen_weights(w, name) for w in value["combinations"])
            elif isinstance(value, tuple) and value and np.ndim(value[0]) == 1:
                result[name] = tuple(frozen_weights(w, name) for w in value)
            else:
                result[name] = frozen_weights(value, name)
        return result

    def _evaluated(self, name: str, function: Callable[..., Any]) -> Weights:
        """The weights that a function gives: one array if it is the same everywhere, else one per combination."""
        call = function_of_model(function)
        found = []
        for model in self.models:
            w = frozen_weights(call(model), name)
            for mu in self.mus[1:]:
                if not np.array_equal(w, call(model.replace(mu=mu))):
                    raise WeightsError(
                        f"the weights {name!r} change with mu, but all mu of a sweep share their weights",
                        mu,
                        "Sweep one mu at a time",
                    )
            found.append(w)
        return found[0] if all(np.array_equal(w, found[0]) for w in found) else tuple(found)

    # -- as text -------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings (and functions, if there are any); equal for equal sweeps.

        Fields that vary appear in ``axes`` only, in the order of the dimensions.
        """
        written = {
            "kind": self.kind.name,
            "model": {
                name: plain_value(getattr(self.model, name)) for name in self.kind.fields if self._is_written(name)
            },
            "weights": {
                name: {"combinations": plain_value(value)} if isinstance(value, tuple) else plain_value(value)
                for name, value in self.weights.items()
            },
            "axes": {name: plain_value(values) for name, values in self.axes.items()},
            "trials": self.trials,
            "seed": self.seed,
            "k": self.k,
            "exact": self.exact,
            "table_drawn": self.table_drawn,
        }
        return written | ({"correlation": dict(self.correlation)} if self.correlation else {})

    def _is_written(self, name: str) -> bool:
        """Whether a field of the model is part of the text; stores from before there were token weights lack these."""
        if name in self.axes or (name == "R" and self.correlation):
            return False
        return name != "token_weights" or getattr(self.model, name) is not None

    def to_json(self, *, functions: bool = False) -> str:
        """The spec as JSON; floats are written so that they read back bit for bit.

        A function as kernel has no text that reads back: it is an error, or with `functions` given by its name.
        """

        def name(value: Any) -> str:
            if functions and callable(value):
                return f"function {getattr(value, '__qualname__', value)}"
            raise InvalidInputError(
                "a sweep over a function as kernel cannot be continued later", value, "Use a named kernel, or no store"
            )

        return json.dumps(self.to_dict(), allow_nan=False, default=name)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SweepSpec:
        """The inverse of :meth:`to_dict`."""
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
        return cls(model=kind.model(**fields), axes=axes, **(rest | options))

    @classmethod
    def from_json(cls, text: str) -> SweepSpec:
        """The inverse of :meth:`to_json`."""
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_fields(cls, model: Any, weights: Any, fields: Mapping[str, Any], **options: Any) -> SweepSpec:
        """A spec from keyword arguments: several values make an axis, one value replaces the model's."""
        kind = kind_of(model)
        fields = dict(fields)
        correlation: dict[str, Any] | None = None
        if "R" in kind.fields and callable(fields.get("R")):
            correlation = {"kind": correlation_name(fields.pop("R"))}
        known = correlation_parameters(correlation) if correlation else ()
        axes: dict[str, Any] = {}
        fixed: dict[str, Any] = {}
        for name, value in fields.items():
            if name not in (*kind.fields, *known, TOGETHER):
                remedy = f"Choose among {', '.join((*kind.fields, *known))}"
                if name in ("T", "L", "rho") and "R" in kind.fields:
                    remedy = f"To vary {name}, also pass R=sp.prefix_correlation or another named correlation"
                raise InvalidInputError(f"not a field of {kind.name}", name, remedy)
            if name == TOGETHER:
                check_combinations(value)
            several = name == TOGETHER or isinstance(value, Mapping) or (name not in kind.arrays and is_sequence(value))
            (axes if several else correlation if correlation and name in known else fixed)[name] = value
        # fixed values may only fit together with the varying ones (d and covariance, say)
        for name, values in axes.items():
            if name not in known:
                fixed |= first_value(name, values) if name == TOGETHER else {name: first_value(name, values)}
        if correlation:
            parameters = {**correlation, **{name: first_value(name, axes[name]) for name in known if name in axes}}
            fixed["R"] = named_correlation(parameters.pop("kind"), **parameters)
        return cls(model=_replaced(model, fixed), weights=weights, axes=axes, correlation=correlation, **options)


def _replaced(model: Any, fields: dict[str, Any]) -> Any:
    """The model with some fields changed."""
    return dataclasses.replace(model, **check.fields(model, fields)) if fields else model
