"""Drawing of a fitted table: the paper's two panels and the comparison of nulls."""

from __future__ import annotations

from typing import Any

import numpy as np

from spikepool.drawing.palette import TABLE_BULK as BULK
from spikepool.drawing.palette import TABLE_EDGE as EDGE
from spikepool.drawing.palette import TABLE_LAW as LAW
from spikepool.drawing.palette import TABLE_OUTLIER as OUTLIER
from spikepool.errors import require
from spikepool.kit.text import plot_text


def draw(fit: Any) -> Any:
    """Figure of three panels."""
    require("matplotlib", "plot")
    from spikepool.drawing.plotting import shown_figure

    figure = shown_figure(figsize=(14, 4.2), layout="constrained")
    axes = figure.subplots(1, 3)
    draw_decay(fit, axes[0])
    draw_bulk(fit, axes[1])
    draw_nulls(fit, axes[2])
    V, d = fit.shape_
    figure.suptitle(f"{plot_text(fit.name_)}: V = {V}, d = {d}")
    return figure


def draw_decay(fit: Any, ax: Any) -> None:
    """Singular values on a log scale, outliers apart, with the edge of the bulk."""
    values = fit.singular_values_[: fit.rank_]
    index = np.arange(1, len(values) + 1)
    k = fit.n_outliers_
    ax.plot(index[k:], values[k:], ".", color=BULK, markersize=3, label="bulk")
    if k:
        ax.plot(index[:k], values[:k], "o", color=OUTLIER, markersize=4, label=f"outliers ({k})")
    edge = np.sqrt(fit.shape_[0] * fit.edge_)
    ax.axhline(edge, color=EDGE, linestyle="--", linewidth=1, label="bulk edge")
    ax.set_yscale("log")
    ax.set_xlabel("k")
    ax.set_ylabel("singular value $s_k$ of the centred table")
    ax.set_title("(a) decay of the singular values")
    ax.legend(frameon=False)


def draw_bulk(fit: Any, ax: Any) -> None:
    """Histogram of the bulk eigenvalues with the fitted Silverstein density and its edge."""
    bulk = fit.eigenvalues_[fit.n_outliers_ : fit.rank_]
    bins = int(np.clip(2 * np.sqrt(len(bulk)), 20, 80))
    ax.hist(bulk, bins=bins, density=True, color=BULK, alpha=0.5, label="bulk eigenvalues")
    x, density = smooth_density(fit)
    ax.plot(x, density, color=LAW, linewidth=1.2, label="Silverstein law, fitted population")
    ax.axvline(fit.edge_, color=EDGE, linestyle="--", linewidth=1, label=f"edge {fit.edge_:.3g}")
    limit = 1.03 * max(min(fit.threshold_, 1.25 * fit.edge_), float(bulk[0]))
    if fit.threshold_ < limit:
        ax.axvline(fit.threshold_, color=OUTLIER, linestyle=":", linewidth=1, label="outliers start here")
    ax.set_xlim(0, limit)
    top = float(np.histogram(bulk, bins=bins, density=True)[0].max())
    ax.set_ylim(0, 1.45 * top)
    ax.set_xlabel("eigenvalue of $E^\\top E/V$")
    ax.set_ylabel("density")
    ax.set_title(f"(b) bulk; outliers beyond it: {fit.n_outliers_}")
    ax.legend(loc="upper right", fontsize="small", framealpha=1, edgecolor="none")


def smooth_density(fit: Any, points: int = 300) -> tuple[Any, Any]:
    """Density of the bulk law, normalised over nonzero eigenvalues.

    As differences of the distribution function over windows of 2 % of the support: with d/V below a hundredth the law
    of finitely many population eigenvalues is a comb, one tooth an eigenvalue, which no histogram shows.
    """
    x, _, cdf = fit.population_.curve()
    half = 0.01 * (x[-1] - x[0])
    grid = np.linspace(x[0] - half, x[-1] + half, points)
    mass = np.interp(grid + half, x, cdf, right=1.0) - np.interp(grid - half, x, cdf, left=cdf[0])
    return grid, mass / (2 * half) / (1 - cdf[0])


def draw_nulls(fit: Any, ax: Any) -> None:
    """Number of outliers under each null."""
    nulls = sorted(fit.nulls_, key=lambda null: null.count)
    counts = [null.count for null in nulls]
    colours = [OUTLIER if null.name == "coloured" else BULK for null in nulls]
    positions = np.arange(len(nulls))
    ax.barh(positions, counts, color=colours, alpha=0.8)
    for position, null in zip(positions, nulls, strict=True):
        ax.text(null.count, position, f" {null.count}", va="center")
    ax.set_yticks(positions, [null.name.replace("_", " ") for null in nulls])
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(0, 3 * max(max(counts), 1))
    ax.set_xlabel("eigenvalues counted as outliers")
    ax.set_title("(c) the same table under each null")
