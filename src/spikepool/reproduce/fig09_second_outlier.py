"""Figure 9: the second outlier, along the vocabulary's mean, and what centring does to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spikepool.drawing import palette, plotting
from spikepool.kit.arrays import FloatArray
from spikepool.model import SequenceModel
from spikepool.reproduce.base import (
    OUTLIER_BIAS,
    Check,
    FigureSpec,
    Settings,
    Sizes,
    alignment_bias,
    compare,
    eigenvalue_bias,
    mean_and_error,
    prefix_model,
    weights_for,
)
from spikepool.simulation.simulate import simulate_grid
from spikepool.theory.uncentred import mixed_alignment
from spikepool.world.weights import causal_weights, mean_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Panel c: independent positions, where every weighting has the same alpha/kappa.
EQUAL_MU = np.array([0.6, 0.9, 1.2, 1.5, 1.8, 2.4, 3.0])
EQUAL = ("mean", "causal", "optimal")
MU = np.round(np.linspace(0.2, 3.0, 15), 10)
CENTRINGS = ("not centred", "centred")
# Two nearby levels of a finite matrix mix: with a coupling of the order of the spread of their gap over draws, the
# eigenvector of one takes up a share (coupling/gap)² of the other, and at the crossing they swap places.
MIXING = 1.5
EQUAL_BIAS = 0.5


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
        draws = simulate_grid(model, {"mean": w}, MU, trials, k=2, rng=settings.rng(9, i))
        eigenvalue[i], eigenvalue_error[i] = mean_and_error(draws.eigenvalues[0], axis=1)
        spread[i] = np.std(draws.eigenvalues[0, :, :, 0] - draws.eigenvalues[0, :, :, 1], axis=1, ddof=1)
        alignment[i], alignment_error[i] = mean_and_error(draws.alignments[0, :, :, 0])
        for j, mu in enumerate(MU):
            p = model.replace(mu=float(mu)).predict(w)
            predicted[i, j] = p.alignment
            for outlier in p.outliers:
                (at_signal if outlier.kind == "signal" else at_second)[i, j] = outlier.eigenvalue
    equal = _equal_gain(settings, sizes, fine, trials)
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
            **equal,
        },
        coords={
            "centring": list(CENTRINGS),
            "mu": MU,
            "fine_mu": fine,
            "rank": [1, 2],
            "equal_weights": list(EQUAL),
            "equal_mu": EQUAL_MU,
        },
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


def _equal_gain(settings: Settings, sizes: Sizes, fine: FloatArray, trials: int) -> dict[str, Any]:
    """Alignments for R = I without centring: mean, causal, and the weights that are best for this covariance."""
    model = SequenceModel(d=sizes.d, V=sizes.V, N=sizes.N, R=np.eye(10), mu=1.0, centered=False)

    def weights(name: str, mu: float) -> FloatArray:
        if name == "optimal":
            return model.replace(mu=mu).optimal_weights()
        return (mean_weights if name == "mean" else causal_weights)(10)

    def predicted(name: str, mu: float) -> float:
        world = model.replace(mu=mu)
        return mixed_alignment(world.predict(weights(name, mu)), world.d, world.N)

    points = fine[::6]
    curve = np.array([[predicted(name, float(mu)) for mu in points] for name in EQUAL])
    at = np.array([[predicted(name, float(mu)) for mu in EQUAL_MU] for name in EQUAL])
    drawn = np.empty((len(EQUAL), len(EQUAL_MU), trials))
    for i, name in enumerate(EQUAL):
        for j, mu in enumerate(EQUAL_MU):
            w = weights(name, float(mu))
            simulated = model.replace(mu=float(mu)).simulate(w, trials=trials, k=1, rng=settings.rng(9, 10 + j))
            drawn[i, j] = simulated.alignment
    mean, error = mean_and_error(drawn)
    dims = ("equal_weights", "equal_mu")
    return {
        "equal_curve": (("equal_weights", "equal_fine"), curve),
        "equal_fine_mu": (("equal_fine",), points),
        "equal_predicted": (dims, at),
        "equal_alignment": (dims, mean),
        "equal_error": (dims, error),
    }


def draw(ds: xr.Dataset) -> Figure:
    """Top two eigenvalues without centring, the top eigenvector's alignment, and weights of equal alpha/kappa."""
    figure, axes = plotting.new_figure(1, 3, width=10.4, height=3.9)
    left, right, last = axes[0]
    for name in ds["equal_weights"].values:
        part = ds.sel(equal_weights=name)
        style = palette.method_style(str(name))
        last.plot(ds["equal_fine_mu"], part["equal_curve"], color=style.color, linestyle=style.linestyle)
        label = "best for this covariance" if name == "optimal" else style.label
        mean, error = part["equal_alignment"].values, part["equal_error"].values
        plotting.plot_simulated(last, ds["equal_mu"].values, mean, error, str(name), label=label)
    last.set(xlabel=r"signal strength $\mu$", ylabel="alignment of the top eigenvector", ylim=(-0.02, 1))
    last.legend(loc="upper left")
    plotting.panel_label(last, "c", r"$R = I$, not centred: $\alpha/\kappa = 1$ for all")
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
        compare(
            "weights of equal alpha/kappa, not centred",
            ds["equal_predicted"].values,
            ds["equal_alignment"].values,
            ds["equal_error"].values,
            bias=EQUAL_BIAS * d ** (-1 / 3) * np.ones((len(EQUAL), len(EQUAL_MU))),
            bias_text=f"{EQUAL_BIAS:g} d^(-1/3), for the transition and the mixing share",
            where=lambda index: f"{EQUAL[index[0]]} weights, mu={EQUAL_MU[index[1]]:g}",
        ),
    )


FIGURE = FigureSpec(
    number=9,
    name="second-outlier",
    title="The second outlier and centring",
    caption=(
        "Mean weights in the prefix model at the paper's sizes. (a) Without centring S has a second "
        "outlier, along the mean of the vocabulary's noise, which carries no information on the signal; below mu "
        "of about 1.8 it is the largest eigenvalue. (b) The top eigenvector is then useless, however "
        "detectable the signal; subtracting the mean of the pooled vectors removes the second outlier. "
        "Around the crossing finite matrices mix the two. (c) Without centring alpha itself matters: with independent "
        "positions every weighting has alpha/kappa = 1, and yet causal weights align where the mean does not, because "
        "their alpha is twice as large and puts the signal in front of the vocabulary mean."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
)
