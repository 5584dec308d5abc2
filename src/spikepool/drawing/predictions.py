"""Pictures of the model: laws, predictions, simulations and plans; one function for each result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from spikepool.drawing import palette, plotting
from spikepool.drawing.palette import INK, METHODS
from spikepool.kit.arrays import FloatArray
from spikepool.kit.statistics import standard_error


class Predicted(Protocol):
    """A bulk with its edge and outliers."""

    @property
    def bulk(self) -> plotting.Density: ...  # noqa: D102
    @property
    def edge(self) -> float: ...  # noqa: D102
    @property
    def outliers(self) -> tuple[Any, ...]: ...  # noqa: D102


def draw_prediction(prediction: Predicted, ax: Any = None) -> Any:
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
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, borderaxespad=0)  # no line behind it
    return ax


def draw_spectrum_density(
    edges: FloatArray, density: FloatArray, law: plotting.Density | None = None, ax: Any = None
) -> Any:
    """A measured density of eigenvalues as steps, over the density of a law."""
    ax = plotting.own_axes(ax)
    ax.stairs(density, edges, fill=True, color=INK, alpha=0.18, label="simulated")
    if law is not None:
        plotting.plot_density(ax, law, label="law")
    ax.set_xlim(0, float(edges[-1]))
    ax.set_ylim(0, 1.6 * float(np.quantile(density, 0.9)))  # a density may diverge at zero
    ax.set(xlabel="eigenvalue of the covariance", ylabel="density")
    ax.legend(frameon=False)
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
    for sign, style in ((1, palette.METHODS["optimal"]), (-1, palette.METHODS["mean"])):
        y = np.exp(-0.5 * ((x - sign * prediction.mean) / prediction.std) ** 2)
        ax.plot(x, y / (prediction.std * np.sqrt(2 * np.pi)), color=style.color, label=f"class {sign:+d}")
    ax.axvline(0, color=palette.INK, linewidth=1, linestyle=":")
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
    """Normal law of the alignment over draws; an empty picture with a note without an outlier."""
    ax = plotting.own_axes(ax)
    ax.set(xlabel="alignment of one draw", ylabel="density")
    if scatter.alignment is None or not scatter.alignment_std:
        ax.text(0.5, 0.5, "no outlier", transform=ax.transAxes, ha="center")
        return ax
    mean, std = scatter.alignment, scatter.alignment_std
    x = np.linspace(mean - 4 * std, mean + 4 * std, 300)
    ax.plot(x, np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi)), color=palette.INK)
    ax.axvline(mean, color=palette.SIGNAL_COLOR, linewidth=1.2, label=f"limit {mean:.3f}, deviation {std:.3f}")
    ax.legend()
    return ax


def draw_trials(
    alignments: FloatArray,
    ax: Any = None,
    *,
    predicted: Sequence[float] | None = None,
    names: Sequence[str] | None = None,
) -> Any:
    """Alignments (trials, k): per column one dot per draw, the mean with two standard errors, and a predicted value.

    `names` of the columns default to the number of the component.
    """
    ax = plotting.own_axes(ax)
    trials, k = alignments.shape
    for i in range(k):
        # spread sideways without a random number, so that a picture is the same every time
        x = i + 0.3 * (np.arange(trials) / max(trials - 1, 1) - 0.5) - 0.1
        ax.plot(x, alignments[:, i], "o", color=palette.MUTED, markersize=3.5, label="draws")
        error = 2 * float(standard_error(alignments[:, i]))
        mean = alignments[:, i].mean()
        ax.errorbar(i + 0.2, mean, yerr=error, fmt="s", color=palette.INK, capsize=3, label="mean ± 2 standard errors")
        if predicted is not None:
            ax.hlines(predicted[i], i - 0.35, i + 0.35, color=palette.SIGNAL_COLOR, linewidth=1.4, label="predicted")
    ax.set_xlim(-0.6, k - 0.4)
    ax.set_xticks(range(k), names or [f"component {i + 1}" for i in range(k)])
    ax.grid(visible=False, axis="x")
    ax.set_ylim(-0.02, 1.02)
    ax.set(ylabel="alignment with the signal")
    handles, labels = ax.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    ax.legend(once.values(), once.keys(), loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, borderaxespad=0)
    return ax


def draw_weights(weights: FloatArray, ax: Any = None, *, color: str = METHODS["learned"].color) -> Any:
    """Pooling weights by position, beside those of the mean."""
    ax = plotting.own_axes(ax)
    positions = np.arange(1, len(weights) + 1)
    ax.bar(positions, weights, color=color, alpha=0.8)
    ax.axhline(1 / len(weights), color=INK, linestyle=":", linewidth=1.2, label="mean")
    ax.set(xlabel="position", ylabel="weight")
    ax.legend()
    return ax


def draw_alignments(alignments: dict[str, float], ax: Any = None) -> Any:
    """Named alignments as bars."""
    ax = plotting.own_axes(ax, width=4.5, height=2.6)
    ax.barh(list(alignments)[::-1], list(alignments.values())[::-1], color=METHODS["learned"].color, alpha=0.8)
    ax.set(xlabel="alignment", xlim=(0, 1))
    return ax


def draw_power(power: dict[str, float], level: float, ax: Any = None) -> Any:
    """Power of several tests as bars, with the level that noise alone reaches."""
    ax = plotting.own_axes(ax, width=4.0, height=2.6)
    ax.bar(list(power), list(power.values()), color=METHODS["learned"].color, alpha=0.8, width=0.5)
    ax.axhline(level, color=INK, linestyle=":", linewidth=1.2, label=f"level {level:g}")
    ax.set(ylabel="power", ylim=(0, 1.05))
    ax.legend()
    return ax


def draw_gains(gains: tuple[float, float], errors: tuple[float, float], ax: Any = None) -> Any:
    """Signal gain alpha and noise gain kappa with twice their errors; their ratio decides what is detectable."""
    ax = plotting.own_axes(ax, width=4.0, height=2.6)
    ax.errorbar(gains, (1, 0), xerr=2 * np.asarray(errors), fmt="s", color=INK, capsize=3)
    ax.set_yticks((1, 0), ("signal gain alpha", "noise gain kappa"))
    ax.set_ylim(-0.6, 1.6)
    ax.set_xlim(left=0)
    ax.set_title(f"alpha/kappa = {gains[0] / gains[1]:.4g}", loc="left")
    return ax


def draw_grid(mus: FloatArray, alignments: FloatArray, names: Sequence[str], ax: Any = None) -> Any:
    """Alignments (weights, mu, trials): mean and two standard errors against mu, one series for each of `names`."""
    ax = plotting.own_axes(ax)
    for place, (name, values) in enumerate(zip(names, alignments, strict=True)):
        error = 2 * np.asarray([standard_error(draws) for draws in values])
        ax.errorbar(mus, values.mean(axis=1), yerr=error, label=name, capsize=2, **palette.series_style(name, place))
    ax.set(xlabel="signal strength mu", ylabel="alignment with the signal", ylim=(-0.02, 1.02))
    ax.legend(frameon=False)
    return ax


def draw_temperatures(
    betas: FloatArray, curves: dict[str, FloatArray], ax: Any = None, *, mark: tuple[float, float] | None = None
) -> Any:
    """Predicted alignment against the slope beta, a curve for each weight function, and a mark at one point."""
    ax = plotting.own_axes(ax)
    for place, (name, values) in enumerate(curves.items()):
        style = palette.series_style(name, place)
        ax.plot(betas, values, label=name, color=style["color"], linestyle=style["linestyle"])
    if mark is not None:
        ax.plot(*mark, "o", color=palette.INK, label="this model")
    ax.set(xlabel="slope beta of the weights in the score", ylabel="alignment with the signal", ylim=(-0.02, 1.02))
    ax.legend(frameon=False)
    return ax


_POINTS = 400  # of the density, on each interval


class LawLike(Protocol):
    """What is drawn of a law."""

    @property
    def atom(self) -> float: ...  # noqa: D102
    def intervals(self) -> FloatArray: ...  # noqa: D102
    def pdf(self, x: ArrayLike) -> Any: ...  # noqa: D102


def draw_law(law: LawLike, ax: Any = None, *, masses: tuple[FloatArray, FloatArray] | None = None) -> Any:
    """Density on every interval; a stem for each point mass in `masses` (places, weights), or for the atom at zero."""
    ax = plotting.own_axes(ax)
    heights = []
    for left, right in law.intervals():
        # densest near both ends, where it varies fastest
        x = left + (right - left) * np.sin(np.pi * np.linspace(0, 1, _POINTS + 2)[1:-1] / 2) ** 2
        heights.append(np.asarray(law.pdf(x)))
        ax.plot(x, heights[-1], color=palette.INK, label="density" if len(heights) == 1 else None)
    places, weights = masses if masses is not None else (np.zeros(1), np.array([law.atom]))
    shown = weights > 0
    if heights:
        # a density may diverge at an end; the height that nine tenths of it stay below shows the rest
        ax.set_ylim(0, 1.6 * float(np.quantile(np.concatenate(heights), 0.9)))
        ax.set_ylabel("density")
        if shown.any():
            label = f"mass {float(weights[shown].sum()):.3g} at zero"
            ax.axvline(0.0, color=palette.SIGNAL_COLOR, linewidth=2, label=label)
    elif shown.any():
        ax.vlines(places[shown], 0, weights[shown], color=palette.INK, label="point masses")
        ax.plot(places[shown], weights[shown], "o", color=palette.INK, markersize=4)
        ax.set_ylabel("mass")
        ax.set_ylim(bottom=0)
    ax.set_xlabel("eigenvalue")
    ax.legend(frameon=False)
    return ax


def draw_vocabulary_range(
    ax: Any,
    minimum: float,
    maximum: float,
    curve: tuple[FloatArray, FloatArray] | None,
    target: float | None,
) -> Any:
    """The range of vocabularies that reach a target, over the alignment at each size where it is known."""
    ax = plotting.own_axes(ax)
    right = maximum if np.isfinite(maximum) else 100 * minimum
    if curve is not None:
        V, alignment = curve
        shown = (minimum / 30 <= V) & (30 * right >= V)
        right = right if np.isfinite(maximum) else float(V[shown][-1])
        ax.plot(V[shown], alignment[shown], color=palette.INK, label="predicted alignment")
    label = f"V from {minimum:,}" + (f" to {int(maximum):,}" if np.isfinite(maximum) else "")
    ax.axvspan(minimum, right, color=palette.METHODS["optimal"].color, alpha=0.15, lw=0, label=label)
    if target is not None:
        ax.axhline(target, color=palette.TARGET, linewidth=1, linestyle="--", label=f"target {target:g}")
    ax.set_xscale("log")
    ax.set(xlabel="vocabulary V", ylabel="alignment", ylim=(0, 1))
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, borderaxespad=0)
    return ax


def draw_rounds(
    overlaps: Sequence[float], values: Sequence[float], ax: Any = None, *, token_pca: float | None = None
) -> Any:
    """Overlap of a learned query and alignment of its value after each round, beside that of token PCA."""
    ax = plotting.own_axes(ax)
    rounds = range(len(overlaps))
    ax.plot(rounds, overlaps, "o-", color=METHODS["learned"].color, label="overlap of the query")
    ax.plot(rounds, values, "s--", color=METHODS["causal"].color, label="alignment of the value")
    if token_pca is not None:
        ax.axhline(token_pca, color=INK, linestyle=":", linewidth=1.2, label="overlap of token PCA")
    ax.set_xticks(rounds)
    ax.set(xlabel="gradient steps", ylabel="overlap, alignment", ylim=(-0.02, 1.02))
    ax.legend(frameon=False)
    return ax
