"""From a finished store to an :class:`xarray.Dataset`, with means and standard errors over the trials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spikepool.errors import StoreCorruptError, SweepError, require
from spikepool.sweeps import schema
from spikepool.sweeps.grid import cells
from spikepool.sweeps.store import Store

if TYPE_CHECKING:
    import xarray as xr


def open_results(path: str | Path) -> xr.Dataset:
    """The dataset of a finished sweep, read from its store; nothing is computed or written.

    Every checksum is verified first. (A sweep that is still running can be watched with
    ``xarray.open_zarr(path, consolidated=False)``, where unfinished cells are NaN.)

    Raises
    ------
    SweepError
        There is no store, or the sweep in it is not finished.
    StoreCorruptError
        A file is damaged; it is named. Running the sweep again recomputes it.
    """
    return load(Store.open(Path(path)))


def load(store: Store) -> xr.Dataset:
    """The dataset of `store`, all of whose cells must be finished and whole."""
    scan = store.scan()
    if scan.damaged:
        raise StoreCorruptError(
            f"{len(scan.damaged)} file(s) of the store are missing or damaged, the first is {scan.damaged[0]}",
            remedy="Run the sweep again with this store: only what is damaged is computed again",
        )
    finished = len(scan.done) + len(scan.failed)
    total = sum(1 for _ in cells(store.spec))
    if finished < total:
        raise SweepError(
            f"the sweep in {store.path} is not finished: {finished} of {total} cells",
            remedy="Run it again with this store to complete it",
        )
    return build(store)


def build(store: Store) -> xr.Dataset:
    """The variables of the store, and what follows from them."""
    xarray = require("xarray", "sweeps")
    attributes = {**schema.attributes(store.spec), "version": store.version}
    coords = schema.coordinates(store.spec)
    ds: xr.Dataset = xarray.Dataset(coords={name: (name, values) for name, values in coords.items()}, attrs=attributes)
    for variable in store.variables.values():
        if variable.dtype != "uint8":  # the markers have done their work
            description = {"description": variable.description}
            ds[variable.name] = (variable.dims, store.read(variable.name), description)
    if store.spec.trials:
        _add_statistics(ds)
    return ds


def _add_statistics(ds: xr.Dataset) -> None:
    """Top eigenpair of every trial; mean and standard error over the trials that succeeded."""
    for plural, single in (("eigenvalues", "eigenvalue"), ("alignments", "alignment")):
        top = ds[plural].isel(rank=0, drop=True)
        ds[single] = top.assign_attrs(description=f"{single} of the top eigenvector, each trial")
        count = top.notnull().sum("trial")
        ds[f"{single}_mean"] = top.mean("trial").assign_attrs(
            description=f"mean {single} of the top eigenvector over the trials that succeeded"
        )
        # one trial has no standard deviation: NaN, without numpy's warning
        spread = (
            top.std("trial", ddof=1).where(count > 1)
            if ds.sizes["trial"] > 1
            else top.isel(trial=0, drop=True) * np.nan
        )
        ds[f"{single}_se"] = (spread / np.sqrt(count.where(count > 1))).assign_attrs(
            description=f"standard error of {single}_mean; NaN with fewer than two trials"
        )
    ds["trials_done"] = ds["alignment"].notnull().sum("trial").assign_attrs(description="trials that succeeded")
