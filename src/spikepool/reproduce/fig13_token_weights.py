"""Figure 13: token weights. Alignment against the constant of 1/(p + c), with the derived constant marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from spikepool.drawing import palette, plotting
from spikepool.model import SequenceModel
from spikepool.reproduce.base import Check, FigureSpec, Settings, compare, mean_and_error, within
from spikepool.theory.token_weights import SpreadPopulation
from spikepool.world.correlation import prefix_correlation
from spikepool.world.frequencies import zipf_frequencies
from spikepool.world.seeds import child_seed, seed_sequence
from spikepool.world.weights import mean_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T, L, ZIPF = 20, 16, 1.0
STRENGTHS = (1.0, 3.0)
# Constants of the curves and of the markers, in units of the derived one.
CURVE = np.geomspace(1 / 32, 1024, 16)
MARKERS = np.array([1 / 16, 1 / 4, 1.0, 4.0, 32.0, 512.0])
# A maximum of the closed form within this factor of the derived constant confirms it: 1/(G N) is the limit of G >> 1
# and of a strong signal, and a weak one raises it.
FACTOR = 3.0


def compute(settings: Settings) -> xr.Dataset:
    """Closed form over the constant, and simulated means at some of them, for a weak and a strong signal."""
    d, V, N, trials = (300, 4000, 1500, 20) if settings.full else (120, 1200, 500, 8)
    p, w = zipf_frequencies(V, ZIPF), mean_weights(T)
    base = SequenceModel(d, V, N, prefix_correlation(T, L), 1.0, frequencies=p)
    alpha, kappa = base.gains(w)
    derived = kappa / (alpha * N)

    def model(ratio: float, mu: float) -> SequenceModel:
        return base.replace(token_weights=1 / (p + ratio * derived), mu=mu)

    curve = np.array([[model(c, mu).predict(w).alignment for c in CURVE] for mu in STRENGTHS])
    plain = np.array([base.replace(mu=mu).predict(w).alignment for mu in STRENGTHS])
    shape = (len(STRENGTHS), len(MARKERS))
    predicted, simulated, error, bias = (np.empty(shape) for _ in range(4))
    for i, mu in enumerate(STRENGTHS):
        for j, c in enumerate(MARKERS):
            weighted = model(float(c), mu)
            seed = child_seed(seed_sequence(np.random.SeedSequence(settings.seed, spawn_key=(13,))), i)
            draws = weighted.simulate(w, trials=trials, k=1, rng=seed).alignment
            predicted[i, j] = weighted.predict(w).alignment
            simulated[i, j], error[i, j] = mean_and_error(draws)
            bias[i, j] = SpreadPopulation(weighted, alpha, kappa).concentration / 2 + 2 / d
    dims, markers = ("mu", "constant"), ("mu", "marker")
    return xr.Dataset(
        {
            "exact": (dims, curve),
            "equal_weights": (("mu",), plain),
            "predicted": (markers, predicted),
            "simulated": (markers, simulated),
            "standard_error": (markers, error),
            "bias": (markers, bias),
        },
        coords={"mu": list(STRENGTHS), "constant": CURVE * derived, "marker": MARKERS * derived},
        attrs={"d": d, "V": V, "N": N, "T": T, "trials": trials, "gain": alpha / kappa, "derived": derived},
    )


def draw(ds: xr.Dataset) -> Figure:
    """One curve for each signal strength, the derived constant as a vertical line, equal weights as dashes."""
    figure, axes = plotting.new_figure(1, 1, width=6.0, height=4.0)
    ax = axes[0, 0]
    for mu, method in zip(ds["mu"].values, ("causal", "optimal"), strict=True):
        part, style = ds.sel(mu=mu), palette.method_style(method)
        ax.plot(part["constant"], part["exact"], color=style.color, label=rf"$\mu = {mu:g}$, closed form")
        equal = float(part["equal_weights"])
        ax.axhline(equal, color=style.color, linestyle="--", linewidth=1)
        ax.text(float(part["constant"][-1]), equal + 0.015, rf"equal weights, $\mu = {mu:g}$", fontsize=8, ha="right")
        ax.errorbar(
            part["marker"],
            part["simulated"],
            yerr=2 * part["standard_error"],
            fmt=style.marker,
            color=style.color,
            capsize=2,
            elinewidth=1,
            label="simulated ± 2 SE",
        )
    ax.axvline(ds.attrs["derived"], color=palette.INK, linewidth=1, linestyle=":")
    ax.text(ds.attrs["derived"] * 1.1, 0.03, "derived: $1/(GN)$", fontsize=8, color=palette.NOTE)
    ax.set(xscale="log", ylim=(0, 1.02), xlabel="constant $c$ of $a_v = 1/(p_v + c)$")
    ax.set_ylabel(r"alignment $\langle \hat u, u\rangle^2$")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 0.1))
    return figure  # type: ignore[no-any-return]


def judge(ds: xr.Dataset) -> tuple[Check, ...]:
    """Markers against the closed form, and the derived constant against the maximum of the curve."""
    markers = ds["marker"].values
    best = np.array([float(ds["constant"][int(row.argmax())]) for row in ds["exact"].values])
    off = np.abs(np.log(best / ds.attrs["derived"]))
    loss = [float(row.max() - np.interp(ds.attrs["derived"], ds["constant"], row)) for row in ds["exact"].values]
    return (
        compare(
            "token weights against simulation",
            ds["predicted"].values,
            ds["simulated"].values,
            ds["standard_error"].values,
            bias=ds["bias"].values,
            bias_text="kappa A4/(2 A2 Q) + 2/d",
            where=lambda index: f"mu={STRENGTHS[index[0]]:g}, c={markers[index[1]]:.2g}",
            expected=True,
        ),
        within(
            "logarithm of the best constant over the derived one",
            float(off.max()),
            float(np.log(FACTOR)),
            f"mu={STRENGTHS[int(off.argmax())]:g}",
            markers=len(off),
        ),
        within(
            "alignment lost by the derived constant",
            max(loss),
            0.01,
            f"mu={STRENGTHS[int(np.argmax(loss))]:g}",
            markers=len(loss),
        ),
    )


FIGURE = FigureSpec(
    number=13,
    name="token-weights",
    title="Token weights",
    caption=(
        "Alignment of the top eigenvector with the hidden direction when token v of frequency p_v has weight "
        "1/(p_v + c), for Zipf frequencies. Lines: closed form; markers: simulated means with error bars of two "
        "standard errors; dashes: equal weights. Vertical line: the constant derived from the loss at a strong "
        "signal, one over the number of sequences times the gain of the positions."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
)
