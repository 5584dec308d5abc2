"""From finished cells to an :class:`xarray.Dataset`, with means and standard errors over the trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spikepool.errors import require
from spikepool.sweeps.cells import Cell, variables
from spikepool.sweeps.kind import Values
from spikepool.sweeps.spec import SweepSpec
from spikepool.sweeps.spec_text import spec_to_json

if TYPE_CHECKING:
    import xarray as xr

# how simulations were made, in words; numbers of different routes have the same law and are not the same
_ROUTES = {
    True: "tables drawn",
    False: "tables not drawn, their products are",
    None: "tables drawn where their noise is not Gaussian",
}


def build(spec: SweepSpec, results: Mapping[Cell, Values], version: str) -> xr.Dataset:
    """The dataset of a sweep all of whose cells are in `results`."""
    xarray = require("xarray", "sweeps")
    arrays = {}
    for variable in variables(spec).values():
        array = variable.blank(variable.shape(spec))
        for cell, values in results.items():
            if cell.is_prediction == variable.prediction:
                region = array[variable.region(spec, cell)]
                region[...] = values[variable.name].reshape(region.shape)
        if variable.dtype == "string":
            array = array.astype(str)
        arrays[variable.name] = xarray.Variable(variable.dims, array, {"description": variable.description})
    if spec.trials:
        arrays |= _statistics(arrays)
    dataset: xr.Dataset = xarray.Dataset(arrays, coordinates(spec), attributes(spec, version))
    return dataset


def coordinates(spec: SweepSpec) -> dict[str, np.ndarray[Any, Any]]:
    """The labels of every dimension. Values that are given under labels have these."""
    labels: dict[str, Any] = {"weights": list(spec.weights)} if spec.weights else {}
    for name, values in spec.axes.items():
        labels[name] = ["none" if value is None else value for value in values]
    if spec.trials:
        labels["trial"] = np.arange(spec.trials)
        labels["rank"] = np.arange(1, spec.pairs + 1)
    return {name: np.asarray(values) for name, values in labels.items()}


def attributes(spec: SweepSpec, version: str) -> dict[str, Any]:
    """Attributes of the dataset."""
    return {
        "title": "spikepool sweep",
        "spec": spec_to_json(spec, functions=True),
        "seed": spec.seed,
        **({"route": _ROUTES[spec.table_drawn]} if "table_drawn" in spec.kind.options else {}),
        "version": version,
    }


def _statistics(data: Mapping[str, xr.Variable]) -> dict[str, xr.Variable]:
    """Top eigenpair of every trial; mean and standard error over the trials that succeeded."""
    result = {}
    for plural, single in (("eigenvalues", "eigenvalue"), ("alignments", "alignment")):
        top = data[plural].isel(rank=0)
        count = top.notnull().sum("trial").astype(float)
        mean = top.sum("trial", skipna=True) / _nonzero(count)
        squares = ((top - mean) ** 2).sum("trial", skipna=True)
        error = np.sqrt(squares / (_nonzero(count) * _nonzero(count - 1)))
        described = {
            single: (top, f"{single} of the top eigenvector in each trial"),
            f"{single}_mean": (mean, f"mean of {single} over the trials that succeeded"),
            f"{single}_se": (error, f"standard error of {single}_mean; NaN with fewer than two trials"),
            "trials_done": (count.astype(int), "trials that succeeded"),
        }
        for name, (variable, text) in described.items():
            variable.attrs = {"description": text}
            result[name] = variable
    return result


def _nonzero(count: xr.Variable) -> xr.Variable:
    """`count` with NaN in place of zero and less: no trial has no mean, one trial no standard error."""
    return count.copy(data=np.where(count.values > 0, count.values, np.nan))
