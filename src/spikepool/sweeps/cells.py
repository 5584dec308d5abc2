"""Cells, the units of work of a sweep: which there are, what they hold, and how one is computed.

A cell holds the predictions of one combination of fields, or simulated draws of it. Its values are arrays over the
dimensions that :class:`spikepool.sweeps.kind.Kind` keeps inside a cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from spikepool.sweeps.kind import Values
from spikepool.sweeps.spec import SweepSpec

SIMULATED = {
    "eigenvalues": "largest eigenvalues of S",
    "alignments": "squared cosines of their eigenvectors with the signal",
}
PREDICTION_ERROR, TRIAL_ERROR = "prediction_error", "error"
VALIDITY = "validity"


@dataclass(frozen=True, order=True)
class Cell:
    """One unit of work.

    Attributes
    ----------
    index : tuple of int
        Position on the axes that tell cells apart.
    trial : int
        Which draw, or 0 where a cell holds all of them; −1 for the cell that holds the combination's predictions.
    """

    index: tuple[int, ...]
    trial: int

    @property
    def is_prediction(self) -> bool:
        """Whether the cell holds predictions rather than simulated draws."""
        return self.trial < 0

    def __str__(self) -> str:
        what = "predictions" if self.is_prediction else f"trial {self.trial}"
        return f"{what} of combination {self.index}" if self.index else what


def cells(spec: SweepSpec) -> Iterator[Cell]:
    """Every cell: predictions first, then trial by trial, so that a half-done sweep covers the whole grid."""
    draws = min(spec.trials, 1) if "trial" in spec.kind.inside else spec.trials
    for trial in range(-1, draws):
        for index in spec.outer_indices():
            yield Cell(index, trial)


@dataclass(frozen=True)
class Variable:
    """One array of a sweep, filled cell by cell."""

    name: str
    dims: tuple[str, ...]
    dtype: Literal["float64", "string"]
    description: str
    prediction: bool

    def shape(self, spec: SweepSpec) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return tuple(map(spec.length, self.dims))

    def blank(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """NaN, or empty messages."""
        return np.full(shape, np.nan) if self.dtype == "float64" else np.full(shape, "", dtype=object)

    def region(self, spec: SweepSpec, cell: Cell) -> tuple[Any, ...]:
        """Where a cell's values are in the array."""
        place = dict(zip(spec.outer, cell.index, strict=True), trial=cell.trial)
        inside = spec.kind.inside
        return tuple(slice(None) if dim in inside else slice(place[dim], place[dim] + 1) for dim in self.dims)


def variables(spec: SweepSpec) -> dict[str, Variable]:
    """Every array that cells fill."""
    grid = spec.dims
    found = [Variable(name, grid, "float64", text, True) for name, text in spec.kind.predicted.items()]
    found.append(Variable(VALIDITY, grid, "string", "why the prediction may not hold; empty where it does", True))
    found.append(Variable(PREDICTION_ERROR, grid, "string", "what went wrong, or empty", True))
    if spec.trials:
        many = (*grid, "trial", "rank")
        found += [Variable(name, many, "float64", text, False) for name, text in SIMULATED.items()]
        found.append(Variable(TRIAL_ERROR, many[:-1], "string", "what went wrong, or empty", False))
    return {variable.name: variable for variable in found}


def blank(spec: SweepSpec, cell: Cell, message: str = "") -> Values:
    """The cell's variables, full of NaN; `message` as the error. A single mu that is not an axis counts as one."""
    inside = [dim for dim in spec.kind.inside if not (cell.is_prediction and dim in ("trial", "rank"))]
    shape = tuple(map(spec.length, inside))
    values = {}
    for variable in variables(spec).values():
        if variable.prediction == cell.is_prediction:
            values[variable.name] = variable.blank(shape[:-1] if variable.name == TRIAL_ERROR else shape)
    values[PREDICTION_ERROR if cell.is_prediction else TRIAL_ERROR][...] = message
    return values


def compute(spec: SweepSpec, cell: Cell) -> Values:
    """Values of the cell. What fails keeps NaN and its message; the rest goes on."""
    values = blank(spec, cell)
    place = spec.place(cell.index)
    if cell.is_prediction:
        spec.kind.predict(spec, place, values, values[VALIDITY], values[PREDICTION_ERROR])
    else:
        spec.kind.simulate(spec, place, cell.trial, values, values[TRIAL_ERROR])
    return values


def failed(values: Values) -> bool:
    """Whether any part of a cell failed."""
    errors = values.get(PREDICTION_ERROR, values.get(TRIAL_ERROR))
    return bool(np.any(errors != ""))
