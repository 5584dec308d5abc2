"""Figure 9: the second outlier, along the vocabulary's mean, and what centring does to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from spikepool.drawing import palette, plotting
from spikepool.reproduce.base import (
    OUTLIER_BIAS,
    Check,
    FigureSpec,
    Settings,
    alignment_bias,
    compare,
    eigenvalue_bias,
    mean_and_error,
)
from spikepool.reproduce.setting import Sizes, prefix_model, weights_for
from spikepool.simulation.simulate import simulate_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MU = np.round(np.linspace(0.2, 3.0, 15), 10)
CENTRINGS = ("not centred", "centred")
# Two nearby levels of a finite matrix mix: with a coupling of the order of the spread of their gap over draws, the
# eigenvector of one takes up a share (coupling/gap)² of the other, and at the crossing they swap places.
MIXING = 1.5


def compute(settings: Settings) -> xr.Dataset:
    """Top two eigenpairs of S with and without centring, mean weights."""
    sizes, trials = Sizes.scaled(), 60 if settings.full else 30
    fine = np.linspace(0.0, 3.0, 301)
    shape = (2, len(MU))
    eigenvalue, eigenvalue_error, spread = np.empty((*shape, 2)), np.empty((*shape, 2)), np.empty(shape)
    alignment, alignment_error, predicted = np.empty(shape), np.empty(shape), np.empty(shape)
    signal, second = np.full((2, len(fine)), np.nan), np.full((2, len(fine)), np.nan)
    at_signal, at_second = np.full(shape, np.nan), np.full(shape, np.nan)
    curve = np.empty((2, len(fine)))
    edge = threshold = np.nan
    for i, centring in enumerate(CENTRINGS):
        model = prefix_model(sizes, centered=centring == "centred")
        w = weights_for(model.R)["mean"]
        for j, mu in enumerate(fine):
            p = model.replace(mu=float(mu)).predict(w)
            edge, threshold, curve[i, j] = p.edge, p.mu_sample, p.alignment
            for outlier in p.outliers:
                (signal if outlier.kind == "signal" else second)[i, j] = outlier.eigenvalue
        draws = simulate_grid(model, {"mean": w}, MU, trials, rng=settings.rng(9, i))
        eigenvalue[i], eigenvalue_error[i] = mean_and_error(draws.eigenvalues[0], axis=1)
        spread[i] = np.std(draws.eigenvalues[0, :, :, 0] - draws.eigenvalues[0, :, :, 1], axis=1, ddof=1)
        alignment[i], alignment_error[i] = mean_and_error(draws.alignments[0, :, :, 0])
        for j, mu in enumerate(MU):
            p = model.replace(mu=float(mu)).predict(w)
            predicted[i, j] = p.alignment
            for outlier in p.outliers:
                (at_signal if outlier.kind == "signal" else at_second)[i, j] = outlier.eigenvalue
    dims = ("centring", "mu")
    return xr.Dataset(
        {
            "eigenvalues": ((*dims, "rank"), eigenvalue),
            "eigenvalues_error": ((*dims, "rank"), eigenvalue_error),
            "gap_spread": (dims, spread),
            "alignment": (dims, alignment),
            "alignment_error": (dims, alignment_error),
            "predicted_alignment": (dims, predicted),
            "predicted_signal": (dims, at_signal),
            "predicted_second": (dims, at_second),
            "signal_curve": (("centring", "fine_mu"), signal),
            "second_curve": (("centring", "fine_mu"), second),
            "alignment_curve": (("centring", "fine_mu"), curve),
        },
        coords={"centring": list(CENTRINGS), "mu": MU, "fine_mu": fine, "rank": [1, 2]},
        attrs={
            "d": sizes.d,
            "V": sizes.V,
            "N": sizes.N,
            "T": 10,
            "L": 3,
            "weights": "mean",
            "trials": trials,
            "edge": float(edge),
            "threshold": float(threshold),
        },
    )


def draw(ds: xr.Dataset) -> Figure:
    """Top two eigenvalues without centring, and the top eigenvector's alignment with and without."""
    figure, axes = plotting.new_figure(1, 2, width=9.6, height=4.2)
    left, right = axes[0]
    part = ds.sel(centring="not centred")
    fine, mu = ds["fine_mu"].values, ds["mu"].values
    left.plot(fine, part["signal_curve"], color=palette.SIGNAL_COLOR, label="predicted: signal")
    left.plot(
        fine,
        part["second_curve"],
        color=palette.MEAN_OUTLIER_COLOR,
        linestyle="-.",
        label="predicted: vocabulary mean",
    )
    left.axhline(ds.attrs["edge"], color=palette.INK, linestyle=(0, (1, 1.5)), linewidth=1.2, label="bulk edge")
    for rank, marker, face in ((1, "o", palette.INK), (2, "o", "white")):
        left.errorbar(
            mu,
            part["eigenvalues"].sel(rank=rank),
            yerr=2 * part["eigenvalues_error"].sel(rank=rank),
            fmt=marker,
            color=palette.INK,
            markerfacecolor=face,
            capsize=1.8,
            elinewidth=1,
            label="simulated: largest" if rank == 1 else "simulated: second",
        )
    left.set(xlabel=r"signal strength $\mu$", ylabel="eigenvalue of $S$, not centred", ylim=(0.3, None))
    left.legend(loc="upper left")
    plotting.panel_label(left, "a", "two outliers trade places")
    for centring, line, marker, face in (("centred", "-", "s", ""), ("not centred", "--", "o", "white")):
        part = ds.sel(centring=centring)
        color = palette.METHODS["mean"].color if centring == "centred" else palette.MEAN_OUTLIER_COLOR
        right.plot(fine, part["alignment_curve"], color=color, linestyle=line)
        right.errorbar(
            mu,
            part["alignment"],
            yerr=2 * part["alignment_error"],
            fmt=marker,
            color=color,
            markerfacecolor=face or color,
            capsize=1.8,
            elinewidth=1,
            label=centring,
        )
    right.set(xlabel=r"signal strength $\mu$", ylabel=r"alignment of the top eigenvector", ylim=(-0.02, 1))
    right.legend(loc="upper left")
    plotting.panel_label(right, "b", "centring restores the signal")
    return figure  # type: ignore[no-any-return]


def judge(ds: xr.Dataset) -> tuple[Check, ...]:
    """Both outliers and both alignments; where the outliers mix, a share of the jump is allowed."""
    d = int(ds.attrs["d"])
    mu = ds["mu"].values
    raw = ds.sel(centring="not centred")
    pair = np.stack([raw["predicted_signal"].values, raw["predicted_second"].values], axis=1)
    pair = np.where(np.isnan(pair), ds.attrs["edge"], pair)
    ordered = -np.sort(-pair, axis=1)
    gap = ordered[:, 0] - ordered[:, 1]
    spread = raw["gap_spread"].values
    share = np.minimum(1.0, (MIXING * spread / np.maximum(gap, 1e-12)) ** 2)
    # a repelled pair of levels moves by up to half the spread of their difference
    bias = eigenvalue_bias(ordered, ordered <= 1.15 * ds.attrs["edge"], d) + (share * spread)[:, None]
    jump = float(np.abs(np.diff(raw["alignment_curve"].values)).max())
    alignment_allow = alignment_bias(mu[None, :], ds.attrs["threshold"], d) * np.ones((2, 1))
    alignment_allow[0] += jump * share
    return (
        compare(
            "top two eigenvalues, not centred",
            ordered,
            raw["eigenvalues"].values,
            raw["eigenvalues_error"].values,
            bias=bias,
            bias_text=f"{OUTLIER_BIAS:g}/d relative; 3 d^(-2/3) at the edge; level repulsion near the crossing",
            where=lambda index: f"mu={mu[index[0]]:.3g}, rank {index[1] + 1}",
        ),
        compare(
            "alignment of the top eigenvector",
            ds["predicted_alignment"].values,
            ds["alignment"].values,
            ds["alignment_error"].values,
            bias=alignment_allow,
            bias_text="1/(d(e²+d^(-2/3))), plus level mixing: the jump times min(1, (1.5 spread/gap)²)",
            where=lambda index: f"{CENTRINGS[index[0]]}, mu={mu[index[1]]:.3g}",
        ),
    )


FIGURE = FigureSpec(
    number=9,
    name="second-outlier",
    title="The second outlier and centring",
    caption=(
        "Mean weights in the prefix model at the paper's sizes. (a) Without centring S has a second "
        "outlier, along the mean of the vocabulary's noise, which knows nothing of the signal; below mu "
        "of about 1.8 it is the largest eigenvalue. (b) The top eigenvector is then useless, however "
        "detectable the signal; subtracting the mean of the pooled vectors removes the second outlier. "
        "Around the crossing finite matrices mix the two."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
)
