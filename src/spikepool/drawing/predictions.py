"""Pictures of predictions and simulations: one function a kind of result, each on one ``ax``."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from spikepool.drawing import plotting
from spikepool.kit.arrays import FloatArray
from spikepool.laws.base import SpectralLaw


class PredictedOutlier(Protocol):
    """An outlier: where it is, and how much of the signal its eigenvector shows."""

    @property
    def eigenvalue(self) -> float: ...  # noqa: D102
    @property
    def alignment(self) -> float: ...  # noqa: D102


class Predicted(Protocol):
    """A bulk with its edge and outliers."""

    @property
    def bulk(self) -> SpectralLaw: ...  # noqa: D102
    @property
    def edge(self) -> float: ...  # noqa: D102
    @property
    def outliers(self) -> tuple[Any, ...]: ...  # noqa: D102


def draw_prediction(prediction: Predicted, ax: Any = None, *, title: str | None = None) -> Any:
    """Density of the bulk with its edge, and a line at each outlier with its alignment."""
    ax = plotting.own_axes(ax)
    line = plotting.plot_density(ax, prediction.bulk, label="bulk")
    plotting.mark_edge(ax, prediction.edge)
    for outlier in prediction.outliers:
        kind = getattr(outlier, "kind", "signal")
        label = f"{kind}: {outlier.eigenvalue:.3g}, alignment {outlier.alignment:.2f}"
        plotting.mark_outlier(ax, outlier.eigenvalue, kind, label=label)
    right = max([prediction.edge, *(outlier.eigenvalue for outlier in prediction.outliers)])
    ax.set_xlim(0, 1.08 * right)
    # a density may diverge at zero; the height that nine tenths of it stay below shows the rest
    ax.set_ylim(0, 1.6 * float(np.quantile(line.get_ydata(), 0.9)))
    ax.set(xlabel="eigenvalue of the covariance", ylabel="density")
    if title:
        ax.set_title(title, loc="left")
    ax.legend(loc="upper right", frameon=True, framealpha=1, edgecolor="none")
    return ax


class Scored(Protocol):
    """Mean and deviation of a test score."""

    @property
    def mean(self) -> float: ...  # noqa: D102
    @property
    def std(self) -> float: ...  # noqa: D102
    @property
    def accuracy(self) -> float: ...  # noqa: D102


def draw_scores(prediction: Scored, ax: Any = None) -> Any:
    """Normal densities of the score of either class when the pooled latent is ±1."""
    ax = plotting.own_axes(ax)
    reach = abs(prediction.mean) + 4 * prediction.std
    x = np.linspace(-reach, reach, 400)
    for sign, style in ((1, plotting.METHODS["optimal"]), (-1, plotting.METHODS["mean"])):
        y = np.exp(-0.5 * ((x - sign * prediction.mean) / prediction.std) ** 2)
        ax.plot(x, y / (prediction.std * np.sqrt(2 * np.pi)), color=style.color, label=f"class {sign:+d}")
    ax.axvline(0, color=plotting.INK, linewidth=1, linestyle=":")
    ax.set(xlabel="test score", ylabel="density")
    ax.set_title(f"accuracy {prediction.accuracy:.3f}", loc="left")
    ax.legend()
    return ax


class Scattered(Protocol):
    """An outlier's alignment and its scatter over draws."""

    @property
    def alignment(self) -> float | None: ...  # noqa: D102
    @property
    def alignment_std(self) -> float | None: ...  # noqa: D102


def draw_scatter(scatter: Scattered, ax: Any = None) -> Any:
    """Normal law of the alignment over draws; an empty picture that says so where there is no outlier."""
    ax = plotting.own_axes(ax)
    ax.set(xlabel="alignment of one draw", ylabel="density")
    if scatter.alignment is None or not scatter.alignment_std:
        ax.text(0.5, 0.5, "no outlier", transform=ax.transAxes, ha="center")
        return ax
    mean, std = scatter.alignment, scatter.alignment_std
    x = np.linspace(mean - 4 * std, mean + 4 * std, 300)
    ax.plot(x, np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi)), color=plotting.INK)
    ax.axvline(mean, color=plotting.SIGNAL_COLOR, linewidth=1.2, label=f"limit {mean:.3f}, deviation {std:.3f}")
    ax.legend()
    return ax


def draw_trials(alignments: FloatArray, ax: Any = None, *, predicted: float | None = None) -> Any:
    """One dot a draw for each component, with the mean and two standard errors, and the prediction as a line."""
    ax = plotting.own_axes(ax)
    columns = alignments if alignments.ndim == 2 else alignments[:, None]
    trials, k = columns.shape
    for i in range(k):
        # spread sideways without a random number, so that a picture is the same every time
        x = i + 1 + 0.25 * (np.arange(trials) / max(trials - 1, 1) - 0.5)
        ax.plot(x, columns[:, i], "o", color=plotting.MUTED, markersize=3.5, label="draws" if i == 0 else None)
        error = 2 * columns[:, i].std(ddof=1) / np.sqrt(trials) if trials > 1 else 0.0
        ax.errorbar(
            i + 1.3,
            columns[:, i].mean(),
            yerr=error,
            fmt="s",
            color=plotting.INK,
            capsize=3,
            label="mean ± 2 standard errors" if i == 0 else None,
        )
    if predicted is not None:
        ax.axhline(predicted, color=plotting.SIGNAL_COLOR, linewidth=1.2, label=f"predicted {predicted:.3f}")
    ax.set_xlim(0.5, k + 0.7)
    ax.set_xticks(range(1, k + 1))
    ax.set_ylim(-0.02, 1.02)
    ax.set(xlabel="component", ylabel="alignment")
    ax.legend()
    return ax
