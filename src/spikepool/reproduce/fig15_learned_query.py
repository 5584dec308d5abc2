"""Figure 15: a query that is learned, against the number of sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from spikepool.drawing import palette, plotting
from spikepool.model import QueryModel
from spikepool.reproduce.base import Check, FigureSpec, Settings, compare, mean_and_error, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = QueryModel(d=100, N=400, T=10, L=1, mu=1.2, nu=2.2)
SIZES = np.array([50, 100, 200, 400, 800, 1600])
FINE = np.unique(np.round(np.geomspace(30, 2000, 32))).astype(int)
ROUNDS = 3
WAYS = ("token PCA", "first gradient step", "third gradient step")
VALUES = ("mean pooling", "learned query")
STYLES = ("causal", "mean", "learned")
# Finite-size bias of an overlap or a squared cosine, in units of 1/d; and of PCA next to its transition.
BIAS = 2.0
TRANSITION_BIAS = 1.0


def compute(settings: Settings) -> xr.Dataset:
    """Overlaps of learned queries, and alignments of the values learned with them."""
    trials = 30 if settings.full else 10
    overlap, overlap_error = np.empty((3, len(SIZES))), np.empty((3, len(SIZES)))
    value, value_error = np.empty((2, len(SIZES))), np.empty((2, len(SIZES)))
    for i, n in enumerate(SIZES):
        drawn = MODEL.simulate_learning(int(n), rounds=ROUNDS, trials=trials, rng=settings.sweep_seed(15, i))
        for j, draws in enumerate((drawn.token_pca, drawn.overlaps[:, 1], drawn.overlaps[:, ROUNDS])):
            overlap[j, i], overlap_error[j, i] = mean_and_error(draws)
        for j, step in enumerate((0, ROUNDS)):
            value[j, i], value_error[j, i] = mean_and_error(drawn.values[:, step])

    def predicted(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        learned = [MODEL.learned(int(n), rounds=ROUNDS) for n in sizes]
        ways = [[q.token_pca for q in learned], [q.first_step for q in learned], [q.overlap for q in learned]]
        return np.array(ways), np.array([[q.values[0] for q in learned], [q.values[-1] for q in learned]])

    at, at_value = predicted(SIZES)
    curve, value_curve = predicted(FINE)
    return xr.Dataset(
        {
            "overlap": (("way", "n"), overlap),
            "overlap_error": (("way", "n"), overlap_error),
            "predicted": (("way", "n"), at),
            "value": (("attention", "n"), value),
            "value_error": (("attention", "n"), value_error),
            "predicted_value": (("attention", "n"), at_value),
            "curve": (("way", "fine_n"), curve),
            "value_curve": (("attention", "fine_n"), value_curve),
        },
        coords={"way": list(WAYS), "attention": list(VALUES), "n": SIZES, "fine_n": FINE},
        attrs={"d": MODEL.d, "T": MODEL.T, "L": MODEL.L, "mu": MODEL.mu, "nu": MODEL.nu, "trials": trials},
    )


def draw(ds: xr.Dataset) -> Figure:
    """Overlap of the query, and alignment of the value, against the number of sequences of a step."""
    figure, axes = plotting.new_figure(1, 2, width=10.4, height=4.2)
    left, right = axes[0]
    for way, name in zip(WAYS, STYLES, strict=True):
        part, style = ds.sel(way=way), palette.METHODS[name]
        left.plot(ds["fine_n"], part["curve"], color=style.color, linestyle=style.linestyle)
        mean, error = part["overlap"].values, part["overlap_error"].values
        plotting.plot_simulated(left, ds["n"].values, mean, error, name, label=way)
    left.set(ylabel="overlap of the query with the key")
    plotting.panel_label(left, "a", "the query")
    for attention, name in zip(VALUES, ("mean", "learned"), strict=True):
        part, style = ds.sel(attention=attention), palette.METHODS[name]
        right.plot(ds["fine_n"], part["value_curve"], color=style.color, linestyle=style.linestyle)
        mean, error = part["value"].values, part["value_error"].values
        plotting.plot_simulated(right, ds["n"].values, mean, error, name, label=attention)
    right.set(ylabel="alignment of the value with the signal")
    plotting.panel_label(right, "b", "what it finds")
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set(xlabel="sequences of each step", ylim=(-0.02, 1.02))
        ax.legend(loc="upper left")
    return figure  # type: ignore[no-any-return]


def judge(ds: xr.Dataset) -> tuple[Check, ...]:
    """Overlaps and values; and whether iterating helps where one step is not enough."""
    d = int(ds.attrs["d"])
    bias = np.full((3, len(SIZES)), BIAS / d)
    predicted = ds["predicted"].values.copy()
    bias[0] += np.where(predicted[0] < 0.7, TRANSITION_BIAS * d ** (-1 / 3), 0.0)
    predicted[0, predicted[0] == 0] = np.nan  # nothing to compare below the threshold
    gain = ds["overlap"].sel(way=WAYS[2]) - ds["overlap"].sel(way=WAYS[1])
    better = (ds["value"].sel(attention=VALUES[1]) - ds["value"].sel(attention=VALUES[0])).values
    return (
        compare(
            "overlap of the query",
            predicted,
            ds["overlap"].values,
            ds["overlap_error"].values,
            bias=bias,
            bias_text=f"{BIAS:g}/d; d^(-1/3) more for token PCA below an overlap of 0.7",
            where=lambda index: f"{WAYS[index[0]]}, n={SIZES[index[1]]}",
        ),
        compare(
            "alignment of the value",
            ds["predicted_value"].values,
            ds["value"].values,
            ds["value_error"].values,
            bias=BIAS / d,
            bias_text=f"{BIAS:g}/d",
            where=lambda index: f"{VALUES[index[0]]}, n={SIZES[index[1]]}",
        ),
        within("overlap lost by the third step", max(0.0, -float(gain.min())), 0.05, "smallest change", markers=6),
        within("value lost by the learned query", max(0.0, -float(better[3:].min())), 0.0, "n >= 400", markers=3),
    )


FIGURE = FigureSpec(
    number=15,
    name="learned-query",
    title="A query that is learned",
    caption=(
        "One of ten tokens is relevant (mu = 1.2, nu = 2.2, d = 100). (a) Overlap of a query found by PCA of the "
        "tokens, which needs no labels and has a threshold, and by gradient steps on labels from uniform attention, "
        "which has none. (b) Alignment of the value learned from mean pooling, and with the query of the third step. "
        "Curves: the state evolution; markers: gradient steps on drawn tokens, fresh ones in each step, two standard "
        "errors."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
)
