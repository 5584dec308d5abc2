"""Figure 17: what pooling, token pairs and any method can reach."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from spikepool.drawing import palette, plotting
from spikepool.model import QueryModel
from spikepool.reproduce.base import Check, FigureSpec, Settings, alignment_bias, compare, mean_and_error, within
from spikepool.theory.query_spectrum import top_alignment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = QueryModel(d=100, N=400, T=20, L=1, mu=2.0, nu=1.2)
MU = np.array([1.0, 1.4, 1.8, 2.4, 3.0])
FINE = np.array([0.7, 0.85, 1.0, 1.15, 1.3, 1.5, 1.8, 2.1, 2.4, 2.7, 3.0])
POOLINGS = ("mean", "gate", "best pooling", "token pairs")
STYLES = {"mean": "mean", "gate": "causal", "best pooling": "optimal", "token pairs": "learned"}
# By how much a method may be above a stronger one: the scatter of predictions over their draws.
TIE = 0.015


def model(pooling: str, mu: float) -> QueryModel:
    """The model of one kind of pooling."""
    at = MODEL.replace(mu=float(mu))
    if pooling == "mean":
        return at.replace(beta=0.0)
    return at.replace(kernel="sigmoid" if pooling == "gate" else "optimal")


def compute(settings: Settings) -> xr.Dataset:
    """Alignments against mu, predicted on a fine grid with the limits, and simulated."""
    trials = 48 if settings.full else 12
    limits = [MODEL.replace(mu=float(mu)).limits() for mu in FINE]
    curve = np.array(
        [[top_alignment(model(name, mu))[0] for mu in FINE] for name in POOLINGS[:2]]
        + [[limit.alignment_pooling for limit in limits], [limit.alignment_pairs for limit in limits]]
    )
    first = limits[0]
    threshold = np.array([first.mu_mean, top_alignment(model("gate", 2.0))[1], first.mu_pooling, first.mu_pairs])
    alignment, error = np.empty((len(POOLINGS), len(MU))), np.empty((len(POOLINGS), len(MU)))
    for i, name in enumerate(POOLINGS):
        for j, mu in enumerate(MU):
            seed = settings.sweep_seed(17, j)
            drawn = model(name, mu).simulate(trials=trials, rng=seed, pairs=name == "token pairs")
            alignment[i, j], error[i, j] = mean_and_error(drawn.alignment)
    return xr.Dataset(
        {
            "curve": (("pooling", "fine"), curve),
            "bayes": (("fine",), [limit.alignment_bayes for limit in limits]),
            "threshold": (("pooling",), threshold),
            "predicted": (("pooling", "mu"), np.array([[np.interp(mu, FINE, row) for mu in MU] for row in curve])),
            "alignment": (("pooling", "mu"), alignment),
            "error": (("pooling", "mu"), error),
        },
        coords={"pooling": list(POOLINGS), "fine": FINE, "mu": MU},
        attrs={"d": MODEL.d, "N": MODEL.N, "T": MODEL.T, "L": MODEL.L, "nu": MODEL.nu, "trials": trials},
    )


def draw(ds: xr.Dataset) -> Figure:
    """Alignment against mu, with the Bayes limit as a line."""
    figure, axes = plotting.new_figure(1, 1, width=6.4, height=4.4)
    ax = axes[0, 0]
    ax.plot(ds["fine"], ds["bayes"], color=palette.INK, linewidth=1.6, label="Bayes limit")
    for i, name in enumerate(POOLINGS):
        style = palette.METHODS[STYLES[name]]
        ax.plot(ds["fine"], ds["curve"][i], color=style.color, linestyle=style.linestyle)
        part = ds.isel(pooling=i)
        plotting.plot_simulated(ax, MU, part["alignment"].values, part["error"].values, STYLES[name], label=name)
    ax.set(xlabel=r"signal strength $\mu$", ylabel="alignment with the signal", ylim=(-0.02, 1))
    ax.legend(loc="upper left")
    return figure  # type: ignore[no-any-return]


def judge(ds: xr.Dataset) -> tuple[Check, ...]:
    """Alignments of the four methods, and their order up to the Bayes limit."""
    d = int(ds.attrs["d"])
    bias = alignment_bias(MU, np.maximum(ds["threshold"].values, 0.1)[:, None], d)
    curves = [*ds["curve"].values, ds["bayes"].values]
    names = [*POOLINGS, "Bayes limit"]
    above = [float(np.max(lower - upper)) for lower, upper in pairwise(curves)]
    worst = int(np.argmax(above))
    simulated = ds["alignment"].values
    return (
        compare(
            "alignment",
            ds["predicted"].values,
            simulated,
            ds["error"].values,
            bias=bias + 0.005,
            bias_text="1/(d(e²+d^(-2/3))), and .005 of a curve between its points",
            where=lambda index: f"{POOLINGS[index[0]]}, mu={MU[index[1]]:g}",
        ),
        within(
            "a method above the next stronger one",
            max(0.0, above[worst]),
            TIE,
            f"{names[worst]} above {names[worst + 1]}",
            markers=4 * len(FINE),
        ),
        within(
            "gate above the best pooling, simulated",
            max(0.0, float(np.max(simulated[1] - simulated[2] - 3 * ds["error"].values[1]))),
            0.01,
            "simulated",
            markers=len(MU),
        ),
    )


FIGURE = FigureSpec(
    number=17,
    name="limits",
    title="What pooling, token pairs and any method can reach",
    caption=(
        "One of twenty tokens is relevant, at an unknown place, and marked (nu = 1.2). Curves: theory; markers: "
        "simulated, two standard errors. The gate weighs a token by the probability that it is relevant; the best "
        "pooling, the top eigenvector of what the scores tell of the relevance, is here hard attention on the most "
        "probable token and is far better. One pooled vector per sequence does not reach the limit of any method "
        "(solid): the best weighting of pairs of tokens, which is not a pooling, comes close and has its threshold."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
)
