"""Figure 14: attention with a query, against the slope of its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from spikepool.drawing import palette, plotting
from spikepool.model import QueryModel
from spikepool.reproduce.base import Check, FigureSpec, Settings, alignment_bias, compare, mean_and_error, within
from spikepool.theory.query_spectrum import top_alignment
from spikepool.world.query_fields import KERNELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = QueryModel(d=100, N=400, T=16, L=2, mu=1.4, nu=1.5)
VOCABULARIES = ("tokens never repeat", "V = 1000")
V = (None, 1000)
MU = (1.4, 2.0)
BETA = np.array([0.0, 0.3, 0.7, 1.5, 2.5])
FINE = (
    np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1, 1.25, 1.5, 2, 2.5]),
    np.array([0, 0.15, 0.3, 0.5, 0.7, 1, 1.5, 2, 2.5]),
)
LABELS = {"softmax": "softmax", "sigmoid": "sigmoid gate", "linear": "rectified linear"}
STYLES = {"softmax": "mean", "sigmoid": "optimal", "linear": "causal"}
# Draws of the tokens behind a prediction for a finite vocabulary.
TOKEN_DRAWS = 3
# By how much the softmax at its best slope may be above the gate at its best: the scatter of these draws.
TIE = 0.01


def compute(settings: Settings) -> xr.Dataset:
    """Predicted and simulated alignments for three kernels, with and without a vocabulary."""
    trials = 60 if settings.full else 16
    shape = (2, len(KERNELS), len(BETA))
    predicted, scatter, threshold = np.empty(shape), np.zeros(shape), np.empty(shape)
    alignment, error = np.empty(shape), np.empty(shape)
    data: dict[str, object] = {}
    for i in range(2):
        curve = np.empty((len(KERNELS), len(FINE[i])))
        for j, kernel in enumerate(KERNELS):
            model = MODEL.replace(V=V[i], mu=MU[i], kernel=kernel)
            curve[j] = [top_alignment(model.replace(beta=float(beta)))[0] for beta in FINE[i]]
            for k, beta in enumerate(BETA):
                at = model.replace(beta=float(beta))
                pairs = [top_alignment(at, rng=seed) for seed in range(1 if V[i] is None else TOKEN_DRAWS)]
                values = np.array([value for value, _ in pairs])
                predicted[i, j, k], threshold[i, j, k] = values.mean(), pairs[0][1]
                scatter[i, j, k] = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
                # the same tokens for every kernel and slope
                drawn = at.simulate(trials=trials, rng=settings.sweep_seed(14, i))
                alignment[i, j, k], error[i, j, k] = mean_and_error(drawn.alignment)
        data[f"curve_{i}"] = (("kernel", f"fine_{i}"), curve)
    dims = ("vocabulary", "kernel", "beta")
    return xr.Dataset(
        {
            "predicted": (dims, predicted),
            "scatter": (dims, scatter),
            "threshold": (dims, threshold),
            "alignment": (dims, alignment),
            "error": (dims, error),
            **data,
        },
        coords={
            "vocabulary": list(VOCABULARIES),
            "kernel": list(KERNELS),
            "beta": BETA,
            "fine_0": FINE[0],
            "fine_1": FINE[1],
        },
        attrs={
            "d": MODEL.d,
            "N": MODEL.N,
            "T": MODEL.T,
            "L": MODEL.L,
            "nu": MODEL.nu,
            "mu": list(MU),
            "trials": trials,
        },
    )


def draw(ds: xr.Dataset) -> Figure:
    """Alignment against beta: tokens that never repeat on the left, a finite vocabulary on the right."""
    figure, axes = plotting.new_figure(1, 2, width=10.4, height=4.2)
    for i, ax in enumerate(axes[0]):
        for kernel in KERNELS:
            style = palette.METHODS[STYLES[kernel]]
            ax.plot(ds[f"fine_{i}"], ds[f"curve_{i}"].sel(kernel=kernel), color=style.color, linestyle=style.linestyle)
            part = ds.isel(vocabulary=i).sel(kernel=kernel)
            mean, error = part["alignment"].values, part["error"].values
            plotting.plot_simulated(ax, BETA, mean, error, STYLES[kernel], label=LABELS[kernel])
        if i == 0:
            nu = float(ds.attrs["nu"])
            ax.axvline(nu, color=palette.MUTED, linewidth=1, linestyle=":")
            ax.annotate(r"$\beta = \nu m$", (nu, 0.03), xytext=(4, 0), textcoords="offset points", color=palette.NOTE)
        ax.set(xlabel=r"slope $\beta$ of the weights in the score", ylabel="alignment with the signal", ylim=(-0.02, 1))
        ax.legend(loc="lower right" if i == 0 else "upper right")
        plotting.panel_label(ax, "ab"[i], str(ds["vocabulary"].values[i]))
    return figure  # type: ignore[no-any-return]


def judge(ds: xr.Dataset) -> tuple[Check, ...]:
    """Alignments, the predicted best slope on the simulated grid, and the gate against the softmax."""
    d = int(ds.attrs["d"])
    bias = np.stack(
        [alignment_bias(MU[i], np.maximum(ds["threshold"].values[i], 0.1), d) for i in range(len(VOCABULARIES))]
    )
    error = np.hypot(ds["error"].values, ds["scatter"].values)
    checks = [
        compare(
            f"alignment, {name}",
            ds["predicted"].values[i],
            ds["alignment"].values[i],
            error[i],
            bias=bias[i],
            bias_text="1/(d(e²+d^(-2/3))); the scatter over draws of the tokens is part of the error",
            where=lambda index: f"{KERNELS[index[0]]}, beta={BETA[index[1]]:g}",
        )
        for i, name in enumerate(VOCABULARIES)
    ]
    for i, name in enumerate(VOCABULARIES):
        part = ds.isel(vocabulary=i)
        simulated, predicted = part["alignment"].values, part["predicted"].values
        chosen = predicted.argmax(axis=1)
        rows = np.arange(len(KERNELS))
        loss = simulated.max(axis=1) - simulated[rows, chosen]
        limit = 3 * float(np.hypot(error[i][rows, simulated.argmax(axis=1)], error[i][rows, chosen]).max())
        worst = int(np.argmax(loss))
        checks.append(
            within(f"loss by the predicted best slope, {name}", float(loss[worst]), limit, KERNELS[worst], markers=3)
        )
        best = dict(zip(KERNELS, ds[f"curve_{i}"].values.max(axis=1), strict=True))
        above = max(0.0, float(best["softmax"] - best["sigmoid"]))
        checks.append(within(f"softmax above the gate at their best slopes, {name}", above, TIE, "predicted"))
    fall = ds["alignment"].sel(kernel="softmax", beta=[0.3, 1.5]).values[1]
    ratio = float(fall[1] / fall[0])
    checks.append(within("softmax at slope 1.5 over slope 0.3, V = 1000", ratio, 0.8, "simulated", markers=2))
    return tuple(checks)


FIGURE = FigureSpec(
    number=14,
    name="temperature",
    title="Attention with a query, against its temperature",
    caption=(
        "Two of sixteen tokens are relevant, at unknown places, and a query of overlap 1 looks for them (nu = 1.5). "
        "Curves: theory; markers: simulated, two standard errors; slope 0 is mean pooling. (a) Tokens never repeat. "
        "Softmax is best near slope 0.8 and loses beyond, because exponential weights multiply the noise of the "
        "score; the sigmoid gate is best at slope nu, where it is the posterior probability that a token is relevant. "
        "(b) A vocabulary of 1,000: a token keeps its weight in every sequence, so that the few tokens with the "
        "largest scores dominate. Steep softmax attention then loses the signal; bounded weights lose less."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
)
