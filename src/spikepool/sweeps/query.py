"""Sweeps of a query model: predictions and simulations over any of its fields."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Any

import numpy as np

from spikepool.errors import InvalidInputError, ShapeError, SpikepoolError
from spikepool.kit import validation as check
from spikepool.kit.progress import Progress
from spikepool.kit.showing import standard_error
from spikepool.model import QueryModel
from spikepool.world.tokens import child_seed

if TYPE_CHECKING:
    import xarray as xr

FIELDS = tuple(field.name for field in dataclass_fields(QueryModel))
NUMBERS = (
    *("alpha", "kappa", "edge", "predicted_eigenvalue", "predicted_alignment", "signal_eigenvalue"),
    *("signal_alignment", "query_eigenvalue", "mu_population", "mu_sample"),
)


def sweep_query(
    model: QueryModel,
    values: Mapping[str, Any],
    *,
    trials: int = 0,
    seed: int = 0,
    progress: bool | None = None,
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
    with Progress(len(models), "sweeping", show=progress) as bar:
        for i, one in enumerate(models):
            row = dict.fromkeys(columns, np.nan) | {"detectable": False, "caution": "", "error": ""}
            try:
                row |= _predicted(one)
                if trials:
                    row |= _simulated(one, trials, child_seed(root, i))
            except SpikepoolError as err:
                row["error"] = str(err)
            for name, column in columns.items():
                column.append(row[name])
            bar.advance()
    return xr.Dataset(
        {name: (tuple(axes), np.array(column).reshape(shape)) for name, column in columns.items()},
        coords={name: [x if x is not None else "none" for x in axis] for name, axis in axes.items()},
        attrs={"seed": seed, "trials": trials, **{n: str(getattr(model, n)) for n in FIELDS if n not in axes}},
    )


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
