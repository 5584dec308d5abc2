"""What a sweep is: a base model, the fields that vary, the weights, the trials and the root seed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from spikepool.errors import InvalidInputError, SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.sweeps.kind import Kind
from spikepool.sweeps.kinds import Model, kind_of
from spikepool.sweeps.spec_axes import Axis, canonical_axes
from spikepool.sweeps.spec_values import (
    TOGETHER,
    canonical_correlation,
    check_combinations,
    correlation_name,
    correlation_parameters,
    first_value,
    is_sequence,
)
from spikepool.sweeps.spec_weights import Weights, canonical_weights
from spikepool.world.correlation import named_correlation
from spikepool.world.weights import named_weights


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
    axes: Mapping[str, Axis]
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
        put("axes", canonical_axes(kind, self.axes, self.correlation))
        put("model", _replaced(self.model, self._fields(tuple(self.axes), [0] * len(self.axes))))
        put("weights", canonical_weights(self.weights, self.models, self.mus) if "weights" in kind.options else {})
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
