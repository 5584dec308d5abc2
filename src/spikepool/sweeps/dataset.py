"""From a finished store to an :class:`xarray.Dataset`, with means and standard errors over the trials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spikepool.errors import StoreCorruptError, SweepError, require
from spikepool.sweeps import schema
from spikepool.sweeps.schema import cells
from spikepool.sweeps.store import Store

if TYPE_CHECKING:
    import xarray as xr


def open_results(path: str | Path) -> xr.Dataset:
    """The dataset of a finished sweep, read from its store (a path or URL); nothing is computed or written.

    Every checksum is verified first. (A sweep that is still running can be watched with
    ``xarray.open_zarr(path, consolidated=False)``, where unfinished cells are NaN.)

    Raises
    ------
    SweepError
        There is no store, or the sweep in it is not finished.
    StoreCorruptError
        A file is damaged; it is named. Running the sweep again recomputes it.
    """
    return load(Store.open(path))


def load(store: Store) -> xr.Dataset:
    """The dataset of `store`, all of whose cells must be finished and whole."""
    scan = store.scan()
    damaged = [*store.damaged_skeleton(), *scan.damaged]
    if damaged:
        raise StoreCorruptError(
            f"{len(damaged)} file(s) of the store are missing or damaged, the first is {damaged[0]}",
            remedy="Run the sweep again with this store: only what is damaged is computed again",
        )
    finished = len(scan.done) + len(scan.failed)
    total = sum(1 for _ in cells(store.spec))
    if finished < total:
        raise SweepError(
            f"the sweep in {store.folder} is not finished: {finished} of {total} cells",
            remedy="Run it again with this store to complete it",
        )
    return build(store)


def build(store: Store) -> xr.Dataset:
    """The variables of the store, and what follows from them."""
    xarray = require("xarray", "sweeps")
    data = {
        variable.name: xarray.Variable(variable.dims, store.read(variable.name), {"description": variable.description})
        for variable in store.variables.values()
        if variable.dtype != "uint8"  # the markers have done their work
    }
    if store.spec.trials:
        data |= _statistics(data)
    attributes = {
        "title": "spikepool sweep",
        "spec": store.spec_text,
        "seed": store.spec.seed,
        "route": schema.ROUTES[store.spec.table_drawn],
        "version": store.version,
    }
    dataset: xr.Dataset = xarray.Dataset(data, schema.coordinates(store.spec), attributes)
    return dataset


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
