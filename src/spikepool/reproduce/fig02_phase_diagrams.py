"""Figure 2: alignment over the (mu, delta) plane, mean and optimal weights, with the threshold curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spikepool.drawing import plotting
from spikepool.model import SequenceModel
from spikepool.reproduce.base import Check, FigureSpec, Settings, alignment_bias, compare, mean_and_error, weights_for
from spikepool.simulation.simulate import simulate_grid
from spikepool.theory.closed_form import centred_alignment, signal_threshold
from spikepool.world.correlation import spiked_correlation
from spikepool.world.weights import gains

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAMMA = 0.5
T, STRENGTH, SUPPORT = 20, 10.0, 5
READINGS = ("real latents", "signs")
METHODS = ("mean", "optimal")
SPOT_MU = (0.3, 0.7, 1.1, 1.5, 1.9, 2.3)
SPOT_DELTA = (0.25, 0.75, 1.25, 1.75)


def _correlation(reading: str) -> Any:
    return spiked_correlation(T, STRENGTH, SUPPORT, normalize=reading == "signs")


def compute(settings: Settings) -> xr.Dataset:
    """Theory on a fine grid, simulation on a coarse one."""
    d, trials = (600, 24) if settings.full else (500, 10)
    mu = np.linspace(0.0, 2.6, 131)
    delta = np.linspace(0.05, 2.0, 118)
    shape = (len(READINGS), len(METHODS))
    theory = np.empty((*shape, len(delta), len(mu)))
    threshold = np.empty((*shape, len(delta)))
    spots = (*shape, len(SPOT_DELTA), len(SPOT_MU))
    simulated, error, predicted, critical = (np.empty(spots) for _ in range(4))
    for i, reading in enumerate(READINGS):
        R = _correlation(reading)
        means = reading == "signs"
        weights = {method: weights_for(R)[method] for method in METHODS}
        for j, w in enumerate(weights.values()):
            alpha, kappa = gains(w, R)
            ratio = alpha / kappa
            theory[i, j] = centred_alignment(mu, ratio, delta[:, None], GAMMA, class_means=means)
            threshold[i, j] = signal_threshold(ratio, delta, GAMMA, class_means=means)
        for row, target in enumerate(SPOT_DELTA):
            model = SequenceModel(
                d=d,
                V=2 * round(d / target / 2),
                N=round(d / GAMMA),
                R=R,
                mu=1.0,
                latent="signs" if means else "gaussian",
            )
            draws = simulate_grid(model, weights, SPOT_MU, trials, rng=settings.rng(2, 10 * i + row))
            simulated[i, :, row], error[i, :, row] = mean_and_error(draws.alignments[..., 0])
            for j, w in enumerate(weights.values()):
                predictions = [model.replace(mu=strength).predict(w) for strength in SPOT_MU]
                predicted[i, j, row] = [p.alignment for p in predictions]
                critical[i, j, row] = [p.mu_sample for p in predictions]
    grid = ("reading", "weights", "delta", "mu")
    spot = ("reading", "weights", "spot_delta", "spot_mu")
    return xr.Dataset(
        {
            "alignment": (grid, theory),
            "threshold": (grid[:3], threshold),
            "predicted": (spot, predicted),
            "spot_threshold": (spot, critical),
            "simulated": (spot, simulated),
            "standard_error": (spot, error),
        },
        coords={
            "reading": list(READINGS),
            "weights": list(METHODS),
            "mu": mu,
            "delta": delta,
            "spot_mu": list(SPOT_MU),
            "spot_delta": list(SPOT_DELTA),
        },
        attrs={"d": d, "gamma": GAMMA, "T": T, "strength": STRENGTH, "support": SUPPORT, "trials": trials},
    )


def draw(ds: xr.Dataset) -> Figure:
    """Two rows (readings of the spiked correlation), two columns (weights)."""
    figure, axes = plotting.new_figure(2, 2, width=9.0, height=6.6, sharex=True, sharey=True)
    titles = {"real latents": "$R$ as printed", "signs": "$R$ normalised"}
    letters = iter("abcd")
    mesh = None
    for i, reading in enumerate(ds["reading"].values):
        for j, method in enumerate(ds["weights"].values):
            ax = axes[i, j]
            part = ds.sel(reading=reading, weights=method)
            mesh = plotting.plot_phase_diagram(ax, part["mu"], part["delta"], part["alignment"])
            ax.plot(part["threshold"], part["delta"], color="white", linestyle="--", linewidth=1.8)
            columns, rows = np.meshgrid(part["spot_mu"], part["spot_delta"])
            ax.scatter(
                columns,
                rows,
                c=part["simulated"].values,
                cmap="viridis",
                vmin=0,
                vmax=1,
                s=46,
                edgecolors="white",
                linewidths=1.0,
                zorder=3,
            )
            ax.set_xlim(float(ds["mu"][0]), float(ds["mu"][-1]))
            ax.set_ylim(float(ds["delta"][0]), float(ds["delta"][-1]))
            plotting.panel_label(ax, next(letters), f"{method} weights, {titles[str(reading)]}")
            if i == 1:
                ax.set_xlabel(r"signal strength $\mu$")
            if j == 0:
                ax.set_ylabel(r"vocabulary ratio $\delta = d/V$")
    bar = figure.colorbar(mesh, ax=list(axes.ravel()), shrink=0.8, pad=0.02)
    bar.set_label(r"alignment $\langle \hat u, u\rangle^2$")
    return figure  # type: ignore[no-any-return]


def judge(ds: xr.Dataset) -> tuple[Check, ...]:
    """Simulated spots against the map, for each reading."""
    checks = []
    for reading in ds["reading"].values:
        part = ds.sel(reading=reading)
        bias = alignment_bias(
            np.broadcast_to(part["spot_mu"].values, part["predicted"].shape),
            part["spot_threshold"].values,
            int(ds.attrs["d"]),
        )

        def where(index: tuple[int, ...], part: xr.Dataset = part) -> str:
            method, row, column = index
            return (
                f"{part['weights'].values[method]} weights, delta={part['spot_delta'].values[row]:g}, "
                f"mu={part['spot_mu'].values[column]:g}"
            )

        checks.append(
            compare(
                f"alignment, {reading}",
                part["predicted"].values,
                part["simulated"].values,
                part["standard_error"].values,
                bias=bias,
                bias_text="1/(d(e²+d^(-2/3))), e = mu/mu_samp − 1",
                where=where,
            )
        )
    return tuple(checks)


FIGURE = FigureSpec(
    number=2,
    name="phase-diagrams",
    title="Phase diagrams",
    caption=(
        "Alignment of the top eigenvector with the signal over signal strength and vocabulary ratio, "
        "gamma = 0.5, T = 20, for the spiked correlation I + 10 vv' on the first five positions. Dashed "
        "white: the sample threshold mu_samp. Circles: simulations, filled with their own measured "
        "alignment, so that a circle that disappears into the map agrees with it. Top row: R as the paper "
        "prints it, which needs real-valued latents because its diagonal is not one; bottom row: the same "
        "R normalised to a correlation matrix of ±1 signs, where the table's own class means help near "
        "the threshold."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
)
