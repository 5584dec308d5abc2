"""Sweeps of a query model: predictions and simulations over any of its fields.

A store is a folder with what is swept (``query.json``) and one file for each finished combination (``cells/7.json``).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spikepool import __version__
from spikepool.data.locations import is_url
from spikepool.errors import InvalidInputError, ShapeError, SpecMismatchError, SpikepoolError
from spikepool.kit import validation as check
from spikepool.kit.progress import Progress
from spikepool.kit.showing import standard_error
from spikepool.model import QueryModel
from spikepool.sweeps.folders import Folder, as_folder
from spikepool.sweeps.lease import LEASE_SECONDS, exclusive
from spikepool.world.tokens import child_seed

if TYPE_CHECKING:
    import xarray as xr

FIELDS = tuple(field.name for field in dataclass_fields(QueryModel))
NUMBERS = (
    *("alpha", "kappa", "edge", "predicted_eigenvalue", "predicted_alignment", "signal_eigenvalue"),
    *("signal_alignment", "query_eigenvalue", "mu_population", "mu_sample"),
)

# Types of a row's other values.
KINDS: dict[str, type] = {"detectable": bool, "caution": str, "error": str}


def sweep_query(
    model: QueryModel,
    values: Mapping[str, Any],
    *,
    trials: int = 0,
    seed: int = 0,
    store: str | Path | None = None,
    progress: bool | None = None,
    lease: float = LEASE_SECONDS,
) -> xr.Dataset:
    """Predict, and simulate where `trials` is not 0, over every combination of fields of a query model.

    Parameters
    ----------
    model : QueryModel
        The fields that do not vary.
    values : mapping
        A sequence makes a dimension of that name, one value replaces the model's. `kernel` takes names, or a mapping
        from label to kernel.
    trials, seed : int
        Draws for every combination, and their root seed. Combination i, trial j draws from the child (i, j) of it.
    store : path or URL, optional
        Folder for the results. Run again with the same arguments, the sweep computes only what is missing or damaged.
    progress, lease : optional
        As in :func:`spikepool.sweep`.

    Returns
    -------
    xarray.Dataset
        Over the fields that vary: ``predicted_alignment`` and the other numbers of a prediction, ``detectable``,
        ``caution`` (what its validity says), and with trials ``alignment_mean``, ``alignment_se``, ``eigenvalue_mean``,
        ``eigenvalue_se``; ``error`` is empty, or what went wrong where the numbers are NaN.
    """
    import xarray as xr

    trials = check.size(trials, "trials", minimum=0)
    root = np.random.SeedSequence(check.size(seed, "seed", minimum=0))
    axes = {}
    for name, given in values.items():
        if name not in FIELDS:
            raise InvalidInputError("not a field of QueryModel", name, f"Choose among {', '.join(FIELDS)}")
        if isinstance(given, Mapping):
            axes[name] = dict(given)
        elif isinstance(given, (str, bytes)) or not hasattr(given, "__len__"):
            model = model.replace(**{name: given})
        else:
            plain = [x.item() if isinstance(x, np.generic) else x for x in given]
            axes[name] = dict(zip(plain, plain, strict=True))
        if name in axes and not axes[name]:
            raise ShapeError(f"the axis {name} is empty", given, "Give at least one value")
    shape = tuple(len(axis) for axis in axes.values())
    combinations = [
        dict(zip(axes, choice, strict=True)) for choice in itertools.product(*(a.values() for a in axes.values()))
    ]
    models = [model.replace(**changes) for changes in combinations]  # bad values are refused before any work
    statistics = ("alignment_mean", "alignment_se", "eigenvalue_mean", "eigenvalue_se") if trials else ()
    columns: dict[str, list[Any]] = {name: [] for name in (*NUMBERS, *statistics, "detectable", "caution", "error")}
    with ExitStack() as held:
        cells, still_ours = None, None
        if store is not None:
            folder = as_folder(store if is_url(store) else Path(store).expanduser().absolute())
            still_ours = held.enter_context(exclusive(folder, lease))
            spec = {name: list(axis.items()) for name, axis in axes.items()} | {"model": _named(model, axes)}
            cells = Cells(folder, {**spec, "trials": trials, "seed": seed, "spikepool": __version__}, set(columns))
        bar = held.enter_context(Progress(len(models), "sweeping", show=progress))
        for i, one in enumerate(models):
            row = None if cells is None else cells.read(i)
            if row is None:
                row = dict.fromkeys(columns, np.nan) | {"detectable": False, "caution": "", "error": ""}
                try:
                    row |= _predicted(one)
                    if trials:
                        row |= _simulated(one, trials, child_seed(root, i))
                except SpikepoolError as err:
                    row["error"] = str(err)
                if cells is not None and still_ours is not None:
                    still_ours()
                    cells.write(i, row)
            for name, column in columns.items():
                column.append(row[name])
            bar.advance()
    return xr.Dataset(
        {name: (tuple(axes), np.array(column).reshape(shape)) for name, column in columns.items()},
        coords={name: [x if x is not None else "none" for x in axis] for name, axis in axes.items()},
        attrs={"seed": seed, "trials": trials, **{n: str(getattr(model, n)) for n in FIELDS if n not in axes}},
    )


def _named(model: QueryModel, axes: Mapping[str, Mapping[Any, Any]]) -> dict[str, Any]:
    """The model's fields as text; functions have none that stays the same."""
    for kernel in axes["kernel"].values() if "kernel" in axes else (model.kernel,):
        if not isinstance(kernel, str):
            raise InvalidInputError(
                "a sweep over a function as kernel cannot be continued later", kernel, "Use a named kernel, or no store"
            )
    return {name: repr(getattr(model, name)) for name in FIELDS if name not in axes}


class Cells:
    """The finished combinations of a stored sweep.

    Parameters
    ----------
    folder : Folder
        The store.
    spec : dict
        What is swept; a store of another one is refused.
    columns : set of str
        Names of a complete row.
    """

    def __init__(self, folder: Folder, spec: dict[str, Any], columns: set[str]) -> None:
        self.folder, self.columns = folder, columns
        text = json.dumps(spec, sort_keys=True, default=repr).encode()
        (before,) = folder.read(["query.json"])
        if before is None:
            if folder.names():
                raise SpecMismatchError(f"{folder} holds other files", remedy="Choose a new or empty folder")
            folder.write("query.json", text)
        elif before != text:
            raise SpecMismatchError(
                f"the store {folder} was made from other arguments",
                before.decode(errors="replace"),
                "Choose another store",
            )

    def read(self, index: int) -> dict[str, Any] | None:
        """The row of a combination; None where it is missing or damaged."""
        (content,) = self.folder.read([f"cells/{index}.json"])
        try:
            row = None if content is None else json.loads(content)
        except ValueError:
            return None
        if not isinstance(row, dict) or set(row) != self.columns:
            return None
        return row if all(isinstance(value, KINDS.get(name, float)) for name, value in row.items()) else None

    def write(self, index: int, row: dict[str, Any]) -> None:
        """Keep the row of a combination."""
        self.folder.write(f"cells/{index}.json", json.dumps(row).encode())


def _predicted(model: QueryModel) -> dict[str, Any]:
    p = model.predict()
    signal, query = p.signal, p.query
    return {
        "alpha": p.alpha,
        "kappa": p.kappa,
        "edge": p.edge,
        "predicted_eigenvalue": p.eigenvalue,
        "predicted_alignment": p.alignment,
        "signal_eigenvalue": np.nan if signal is None else signal.eigenvalue,
        "signal_alignment": np.nan if signal is None else signal.alignment,
        "query_eigenvalue": np.nan if query is None else query.eigenvalue,
        "mu_population": p.mu_population,
        "mu_sample": p.mu_sample,
        "detectable": p.detectable,
        "caution": "; ".join(p.validity.reasons),
    }


def _simulated(model: QueryModel, trials: int, seed: np.random.SeedSequence) -> dict[str, float]:
    drawn = model.simulate(trials=trials, rng=seed)
    result = {}
    for name, values in (("alignment", drawn.alignment), ("eigenvalue", drawn.eigenvalue)):
        result[f"{name}_mean"] = float(values.mean())
        result[f"{name}_se"] = float(standard_error(values)) if trials > 1 else np.nan
    return result
