"""The picture of a sweep: a panel for each value of its shorter axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from spikepool.drawing import palette, plotting


def draw_sweep(dataset: Any, columns: int = 3, most_panels: int = 24) -> Any:
    """Figure of ``predicted_alignment`` as lines, and of simulated means with two standard errors as markers."""
    axes = [str(dim) for dim in dataset["predicted_alignment"].dims if dim != "weights"]
    along = _longest(dataset, axes)
    rest = [dim for dim in axes if dim != along]
    places = list(np.ndindex(*(dataset.sizes[dim] for dim in rest)))[:most_panels]
    columns = min(columns, len(places))
    rows = -(-len(places) // columns)
    figure, grid = plotting.new_figure(rows, columns, width=4.2 * columns + 1.4, height=3.1 * rows + 0.3, sharey=True)
    for ax, place in zip(grid.flat, places, strict=False):
        _panel(ax, dataset.isel(dict(zip(rest, place, strict=True))), along)
        ax.set_title(", ".join(f"{dim} = {_value(dataset, dim, i)}" for dim, i in zip(rest, place, strict=True)))
    for ax in grid.flat[len(places) :]:
        ax.set_axis_off()
    for ax in grid[:, 0]:
        ax.set_ylabel("alignment")
    grid[0, columns - 1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, borderaxespad=0)
    return figure


def _longest(dataset: Any, axes: list[str]) -> str | None:
    """The axis to draw along: mu where it varies, else the longest of numbers."""
    numeric = [dim for dim in axes if dataset[dim].dtype.kind in "iuf" and dataset.sizes[dim] > 1]
    if "mu" in numeric:
        return "mu"
    return max(numeric, key=lambda dim: dataset.sizes[dim], default=axes[-1] if axes else None)


def _value(dataset: Any, dim: str, place: int) -> str:
    value = dataset[dim].values[place]
    return f"{value:g}" if isinstance(value, (int, float, np.number)) else str(value)


def _panel(ax: Any, part: Any, along: str | None) -> None:
    values = part[along].values if along is not None else np.zeros(1)
    numeric = np.asarray(values).dtype.kind in "iuf" and along is not None
    x = np.asarray(values, dtype=float) if numeric else np.arange(len(values), dtype=float)
    for place, name in enumerate(part["weights"].values):
        here = part.isel(weights=place)
        style = palette.series_style(str(name), place)
        marker = style.pop("marker")
        predicted = np.atleast_1d(here["predicted_alignment"].values)
        ax.plot(x, predicted, marker="" if len(x) > 1 else "_", label=f"{name}: predicted", **style)
        if "alignment_mean" in part:
            mean, error = (np.atleast_1d(here[f"alignment_{part_name}"].values) for part_name in ("mean", "se"))
            bars = {"color": style["color"], "fmt": marker, "elinewidth": 1.0, "capsize": 1.8}
            ax.errorbar(x, mean, yerr=2 * error, label=f"{name}: simulated", **bars)
    if not numeric:
        ax.set_xticks(x, [str(value) for value in values] if along is not None else [""])
    ax.set(xlabel=along or "", ylim=(-0.02, 1.02))
