"""Figure 11: real attention weights converge to the harmonic limit as d grows, at rate d^(-1/2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from spikepool.drawing import palette, plotting
from spikepool.model import SequenceModel
from spikepool.reproduce.base import PREFIX, Check, FigureSpec, Settings, compare, mean_and_error
from spikepool.world.correlation import prefix_correlation
from spikepool.world.weights import causal_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DELTA, MU = 0.625, 1.0
TAUS = (0.5, 1.0, 2.0)
SCALINGS = ("d", "sqrt_d")
# Relative bias of the first-order constant, in units of 1/d: the next order of the softmax's expansion.
RELATIVE_BIAS = 8.0


def expected_square(tau: float, R: NDArray[np.float64], d: int, V: int) -> float:
    """Leading order of E‖w_att − w_harmonic‖² at score scaling tau/d.

    Scores of distinct tokens are N(0, tau²/d) to leading order; row t with k keys then contributes
    ``tau²/d · (k−1)/k² / T²``. A token that occurs twice has a score near tau, which does not vanish with d (the
    paper's proof takes all tokens of a sequence to be distinct); positions t and s hold the same token with probability
    (1 + R_ts)/V, and V grows with d, so this adds a term of the same order.
    """
    T = len(R)
    spread = repeat = 0.0
    for t in range(1, T):
        k = t
        spread += (k - 1) / k**2
        share = np.exp(tau) / (k - 1 + np.exp(tau))
        rest = 1 / (k - 1 + np.exp(tau))
        jump = (share - 1 / k) ** 2 + (k - 1) * (rest - 1 / k) ** 2
        repeat += jump * float(np.sum(1 + R[t, :t])) / V
    return float((tau**2 / d * spread + repeat) / T**2)


def compute(settings: Settings) -> xr.Dataset:
    """Mean squared distance of attention weights to the harmonic ones over sequences and tables."""
    sizes = [64, 128, 256, 512, 1024, 2048] if settings.full else [64, 128, 256, 512, 1024]
    tables, sequences = (40, 200) if settings.full else (10, 100)
    R = prefix_correlation(PREFIX["T"], PREFIX["L"])
    limit = causal_weights(PREFIX["T"])
    shape = (len(SCALINGS), len(TAUS), len(sizes))
    square, error, theory = np.empty(shape), np.empty(shape), np.full(shape, np.nan)
    for k, d in enumerate(sizes):
        V = 2 * round(d / DELTA / 2)
        model = SequenceModel(d=d, V=V, N=sequences, R=R, mu=MU)
        rng = settings.rng(11, k)
        draws = np.empty((len(SCALINGS), len(TAUS), tables))
        for trial in range(tables):
            sample = model.sample(rng=rng)
            for i, scaling in enumerate(SCALINGS):
                for j, tau in enumerate(TAUS):
                    w = sample.attention_weights(tau, scaling)
                    draws[i, j, trial] = np.mean(np.sum((w - limit) ** 2, axis=1))
        square[:, :, k], error[:, :, k] = mean_and_error(draws)
        theory[0, :, k] = [expected_square(tau, R, d, V) for tau in TAUS]
    logs = np.log(np.asarray(sizes, dtype=float))
    centred = logs - logs.mean()
    slope = (np.log(square) / 2 @ centred) / (centred @ centred)
    slope_error = np.sqrt((error / square / 2) ** 2 @ centred**2) / (centred @ centred)
    dims = ("scaling", "tau", "d")
    return xr.Dataset(
        {
            "square": (dims, square),
            "standard_error": (dims, error),
            "theory": (dims, theory),
            "slope": (dims[:2], slope),
            "slope_error": (dims[:2], slope_error),
        },
        coords={"scaling": list(SCALINGS), "tau": list(TAUS), "d": sizes},
        attrs={
            "delta": DELTA,
            "mu": MU,
            "T": PREFIX["T"],
            "L": PREFIX["L"],
            "tables": tables,
            "sequences": sequences,
        },
    )


def draw(ds: xr.Dataset) -> Figure:
    """Root mean square distance against d, on logarithmic axes, for the two score scalings."""
    figure, axes = plotting.new_figure(1, 2, width=9.6, height=4.2, sharey=True)
    colors = palette.BLUES[1:]
    markers = ("v", "s", "o")
    titles = {"d": r"scores scaled by $\tau/d$: converge", "sqrt_d": r"scores scaled by $\tau/\sqrt{d}$: stay random"}
    for ax, letter, scaling in zip(axes[0], "ab", ds["scaling"].values, strict=True):
        part = ds.sel(scaling=scaling)
        for tau, color, marker in zip(part["tau"].values, colors, markers, strict=True):
            line = part.sel(tau=tau)
            rms = np.sqrt(line["square"].values)
            spread = line["standard_error"].values / rms
            name = rf"$\tau={tau:g}$, slope ${float(line['slope']):.3f}\pm{float(line['slope_error']):.3f}$"
            ax.errorbar(line["d"], rms, yerr=spread, fmt=marker, color=color, capsize=2, elinewidth=1, label=name)
            if np.isfinite(line["theory"]).all():
                ax.plot(line["d"], np.sqrt(line["theory"]), color=color, linewidth=1.4)
            else:
                ax.plot(line["d"], rms, color=color, linewidth=0.9, linestyle=":")
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(ds["d"].values, [str(int(d)) for d in ds["d"].values])
        ax.minorticks_off()
        ax.set_xlabel("dimension $d$  ($V = d/0.625$)")
        ax.legend(loc="lower left")
        plotting.panel_label(ax, letter, titles[str(scaling)])
    low = float(np.sqrt(ds["square"].min()))
    axes[0, 0].set_ylim(low / 4.5, None)
    axes[0, 0].set_ylabel(r"RMS of $\|w^{\mathrm{att}} - w^{\mathrm{harmonic}}\|$")
    return figure  # type: ignore[no-any-return]


def judge(ds: xr.Dataset) -> tuple[Check, ...]:
    """The constant and the slope at the scaling tau/d."""
    part = ds.sel(scaling="d")
    theory = part["theory"].values
    relative = RELATIVE_BIAS / part["d"].values[None, :] * np.asarray(TAUS)[:, None]

    def where(index: tuple[int, ...]) -> str:
        return f"tau={TAUS[index[0]]:g}, d={int(part['d'].values[index[1]])}"

    return (
        compare(
            "mean square distance against its leading order",
            theory,
            part["square"].values,
            part["standard_error"].values,
            bias=relative * theory,
            bias_text=f"{RELATIVE_BIAS:g}·tau/d relative",
            where=where,
        ),
        compare(
            "slope against −1/2",
            np.full(len(TAUS), -0.5),
            part["slope"].values,
            part["slope_error"].values,
            bias=0.02 * np.asarray(TAUS),
            bias_text="0.02·tau",
            where=lambda index: f"tau={TAUS[index[0]]:g}",
        ),
    )


FIGURE = FigureSpec(
    number=11,
    name="attention",
    title="Attention weights converge to the harmonic limit",
    caption=(
        "Root mean square distance between the weights of a real causal attention forward pass and the "
        "harmonic weights of its limit, T = 10. (a) With scores scaled by tau/d the distance falls as "
        "d^(-1/2); solid lines are the exact leading order, which has two terms: random scores, and "
        "tokens that occur twice in a sequence, whose score does not vanish (the paper's proof leaves "
        "these out). (b) With the usual tau/sqrt(d) the weights stay random."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
)
