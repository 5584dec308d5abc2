"""Figure 10: finite sequences. Distance of simulated spectra to the closed form and to the law given the tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from spikepool.drawing import palette, plotting
from spikepool.model import SequenceModel
from spikepool.reproduce.base import Check, FigureSpec, Settings, kolmogorov_distance, mean_and_error, within
from spikepool.world.seeds import child_seed
from spikepool.world.weights import causal_weights, mean_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DELTA, GAMMA = 0.625, 0.5
METHODS = ("mean", "causal")
LAWS = ("closed", "exact")
NAMES = {"closed": "the closed form", "exact": "the law given the tokens"}
LENGTHS = (1, 2, 3, 5, 10, 20, 50)
# Kolmogorov distance of a finite spectrum to its own exact law, in units of log(d)/d: eigenvalues are rigid, so that
# it falls faster than the 1/sqrt(d) of independent points. Measured at d = 300, 600 and 1200.
RIGIDITY = 0.9


def compute(settings: Settings) -> xr.Dataset:
    """Spectra of pure noise (mu = 0, independent positions) for several lengths, against both laws."""
    d, trials = (1200, 3) if settings.full else (300, 3)
    V, N = 2 * round(d / DELTA / 2), round(d / GAMMA)
    shape = (len(METHODS), len(LAWS), len(LENGTHS))
    distance, error = np.empty(shape), np.empty(shape)
    for i, method in enumerate(METHODS):
        for k, T in enumerate(LENGTHS):
            model = SequenceModel(d=d, V=V, N=N, R=np.eye(T), mu=0.0)
            w = mean_weights(T) if method == "mean" else causal_weights(T)
            closed = model.predict(w).bulk
            draws = np.empty((len(LAWS), trials))
            for trial in range(trials):
                seed = np.random.SeedSequence(settings.seed, spawn_key=(10, i, k, trial))
                eigenvalues = model.spectrum(w, rng=seed)
                # the law given the tokens of this very spectrum, which are those of its trial 0
                exact = model.predict(w, exact=True, rng=child_seed(seed, 0)).bulk
                for j, law in enumerate((closed, exact)):
                    draws[j, trial] = kolmogorov_distance(eigenvalues, law.cdf)
            distance[i, :, k], error[i, :, k] = mean_and_error(draws)
    dims = ("weights", "law", "T")
    return xr.Dataset(
        {"distance": (dims, distance), "standard_error": (dims, error)},
        coords={"weights": list(METHODS), "law": list(LAWS), "T": list(LENGTHS)},
        attrs={"d": d, "V": V, "N": N, "trials": trials},
    )


def _size_limit(ds: xr.Dataset) -> float:
    """Distance that the finite size of the matrix explains."""
    return float(RIGIDITY * np.log(ds.attrs["d"]) / ds.attrs["d"])


def draw(ds: xr.Dataset) -> Figure:
    """Distances against T on logarithmic axes, for mean and causal weights."""
    figure, axes = plotting.new_figure(1, 2, width=9.6, height=4.0, sharey=True)
    limit = _size_limit(ds)
    ticks = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
    for ax, letter, method in zip(axes[0], "ab", ds["weights"].values, strict=True):
        style = palette.method_style(str(method))
        for law, line, filled, label in (
            ("closed", "--", False, "to the closed form (long sequences)"),
            ("exact", "-", True, "to the law given the tokens"),
        ):
            part = ds.sel(weights=method, law=law)
            ax.errorbar(
                part["T"],
                part["distance"],
                yerr=2 * part["standard_error"],
                fmt=style.marker,
                linestyle=line,
                linewidth=1.2,
                color=style.color,
                markerfacecolor=style.color if filled else "white",
                capsize=2,
                elinewidth=1,
                label=label,
            )
        ax.axhspan(0, limit, color=palette.SHADE, zorder=0)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(ds["T"].values, [str(int(T)) for T in ds["T"].values])
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.set_xlabel("sequence length $T$")
        ax.legend(loc="upper right")
        plotting.panel_label(ax, letter, f"{method} weights")
    axes[0, 0].text(
        50, limit * 0.94, "explained by the size of the matrix", fontsize=8, va="top", ha="right", color=palette.NOTE
    )
    axes[0, 0].set_ylim(float(ds["distance"].min()) / 1.8, 1.5 * float(ds["distance"].max()))
    axes[0, 0].set_ylabel("Kolmogorov distance of the spectrum")
    return figure  # type: ignore[no-any-return]


def judge(ds: xr.Dataset) -> tuple[Check, ...]:
    """The law given the tokens everywhere; the closed form where it is meant to hold and where it is not."""
    limit = _size_limit(ds)
    checks = []
    for law in LAWS:
        values = ds["distance"].sel(law=law).values
        i, k = np.unravel_index(int(np.argmax(values)), values.shape)
        check = within(
            f"spectra against {NAMES[law]}",
            float(values.max()),
            limit,
            f"{METHODS[i]} weights, T={LENGTHS[k]}",
            markers=values.size,
            note="the closed form is the limit of long sequences with spread-out weights; at small T it is wrong.",
        )
        beyond = int(np.sum(values > limit))
        checks.append(Check(**{**vars(check), "beyond": beyond, "expected": law == "exact"}))
    return tuple(checks)


FIGURE = FigureSpec(
    number=10,
    name="finite-length",
    title="Finite sequences",
    caption=(
        "Kolmogorov distance between simulated spectra of S (pure noise, independent positions) and two "
        "laws. Open markers: the closed form, which holds for long sequences with spread-out "
        "weights. Filled: the law given the token usage, exact at any length. Shaded: distances that the "
        "finite size of the matrix explains. Causal weights spread slowly (their noise gain is twice that "
        "of the mean), so the closed form is worse for them."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
)
