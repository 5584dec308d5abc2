"""Drawing of a fitted table: the paper's two panels and the comparison of nulls."""

from __future__ import annotations

from typing import Any

import numpy as np

from spikepool.drawing.palette import TABLE_BULK as BULK
from spikepool.drawing.palette import TABLE_EDGE as EDGE
from spikepool.drawing.palette import TABLE_LAW as LAW
from spikepool.drawing.palette import TABLE_OUTLIER as OUTLIER
from spikepool.errors import require
from spikepool.kit.showing import plot_text


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
    figure.suptitle(f"{fit.name_}: V = {V}, d = {d}")
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


def draw_comparison(comparison: Any) -> Any:
    """Figure of two tables: spectra, overlap of the leading spaces, and how far tokens moved when they match."""
    require("matplotlib", "plot")
    from spikepool.drawing.plotting import shown_figure

    panels = 2 if comparison.changes is None else 3
    figure = shown_figure(figsize=(4.7 * panels, 4.2), layout="constrained")
    axes = figure.subplots(1, panels)
    for fit, colour, name in ((comparison.first, BULK, "first"), (comparison.second, OUTLIER, "second")):
        values = fit.eigenvalues_[: fit.rank_]
        axes[0].loglog(np.arange(1, len(values) + 1), values, color=colour, label=f"{name}: {fit.n_outliers_} outliers")
        axes[0].axhline(fit.edge_, color=colour, linestyle="--", linewidth=1)
    axes[0].set(xlabel="k", ylabel="eigenvalue of the covariance", title="(a) spectra and bulk edges")
    axes[0].legend(frameon=False)
    k = [o.k for o in comparison.overlaps]
    for field, marker, colour in (("coordinates", "o", BULK), ("tokens", "s", EDGE)):
        values = [getattr(o, field) for o in comparison.overlaps]
        if values and values[0] is not None:
            axes[1].plot(k, values, marker=marker, color=colour, label=field)
    axes[1].plot(k, [o.chance for o in comparison.overlaps], ":", color=LAW, label="chance")
    axes[1].set(xlabel="k", ylabel="overlap", ylim=(-0.02, 1.05), title="(b) leading spaces of dimension k")
    axes[1].legend(frameon=False)
    if comparison.changes is not None:
        axes[2].hist(comparison.changes, bins=60, color=BULK, alpha=0.7)
        axes[2].set_yscale("log")
        axes[2].set(xlabel="change, in typical vectors", ylabel="rows", title=f"(c) change by row, {comparison.basis}")
    return figure


def draw_shares(shares: dict[str, tuple[int, float]]) -> Any:
    """Figure of many weights, one bar each in the order given: outliers, and the share of the variance they hold."""
    require("matplotlib", "plot")
    from spikepool.drawing.plotting import shown_figure

    figure = shown_figure(figsize=(8, max(2.0, 0.24 * len(shares) + 0.9)), layout="constrained")
    ax = figure.subplots()
    positions = np.arange(len(shares))
    ax.barh(positions, [100 * share for _, share in shares.values()], color=BULK, alpha=0.8)
    for position, (count, share) in enumerate(shares.values()):
        ax.text(100 * share, position, f" {count}", va="center", fontsize="small")
    ax.set_yticks(positions, [plot_text(name) for name in shares], fontsize="small")
    ax.set_ylim(len(shares) - 0.3, -0.7)
    ax.set_xmargin(0.08)
    ax.set_xlabel("% of the variance in outliers; beside each bar, how many there are")
    return figure


def draw_checkpoints(comparison: Any) -> Any:
    """Figure of two checkpoints: drift of every weight, and the largest angle between its leading spaces."""
    require("matplotlib", "plot")
    from spikepool.drawing.plotting import shown_figure

    names = [plot_text(weight.name) for weight in comparison.weights]
    figure = shown_figure(figsize=(9.5, max(2.4, 0.24 * len(names) + 1.1)), layout="constrained")
    drift, angle = figure.subplots(1, 2, sharey=True)
    positions = np.arange(len(names))
    drift.barh(positions, [100 * (weight.drift or 0.0) for weight in comparison.weights], color=BULK, alpha=0.8)
    for position, weight in zip(positions, comparison.weights, strict=True):
        if weight.drift is None:
            drift.text(0, position, " not comparable", va="center", fontsize="small")
    drift.set_yticks(positions, names, fontsize="small")
    drift.invert_yaxis()
    drift.set(xlabel="drift, % of the weight", title="(a) how far the weights moved")
    shown = [
        (p, w.space.largest_angle) for p, w in zip(positions, comparison.weights, strict=True) if w.space is not None
    ]
    measured = [(position, degrees) for position, degrees in shown if degrees is not None]
    angle.plot([degrees for _, degrees in measured], [position for position, _ in measured], "o", color=OUTLIER)
    angle.set(xlim=(0, 92), xlabel="degrees", title="(b) largest angle of the leading spaces")
    angle.grid(visible=True, axis="y", alpha=0.3)
    return figure
