"""Figure 16: what a second layer of attention adds where relevant tokens come in runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from spikepool.drawing import palette, plotting
from spikepool.kit.arrays import FloatArray
from spikepool.model import QueryModel
from spikepool.reproduce.base import Check, FigureSpec, Settings, alignment_bias, compare, mean_and_error, within
from spikepool.theory.content_gains import gate_gain, posterior_gain
from spikepool.theory.query_spectrum import top_alignment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# (a) a two-state chain: share of relevant tokens, mark, length, and mean lengths of runs (1/(1 − share): independent)
SHARE, NU, LENGTH = 0.15, 1.0, 40
RUNS = np.array([1 / (1 - SHARE), 2.0, 4.0, 8.0, 16.0])
# (b) one span of four neighbours
SPAN = QueryModel(d=100, N=400, T=40, L=4, mu=1.0, nu=1.0, relevance="span")
SIZES = np.array([150, 300, 600, 1200, 2400])
FINE = np.unique(np.round(np.geomspace(100, 3200, 16)).astype(int))
POOLINGS = ("mean", "one layer", "two layers")
STYLES = {"mean": "mean", "one layer": "causal", "two layers": "optimal", "limit": "learned"}
# Share of the gap between one layer and the limit that two layers have to close, where tokens come in runs.
CLOSED = 0.85


def spans(pooling: str, N: int) -> QueryModel:
    """The model of panel b: the mean, the gate of a token's own score, or means of four tokens and a softmax."""
    model = SPAN.replace(N=int(N))
    if pooling == "mean":
        return model.replace(beta=0.0)
    if pooling == "one layer":
        return model.replace(kernel="sigmoid")
    return model.replace(kernel="softmax", window=SPAN.L)


def chains(run: float, n: int, rng: np.random.Generator) -> tuple[NDArray[np.bool_], FloatArray]:
    """Relevance and scores of n sequences of a stationary two-state chain, in plain numpy."""
    leave, enter = 1 / run, SHARE / (1 - SHARE) / run
    r = np.empty((n, LENGTH), dtype=bool)
    r[:, 0] = rng.random(n) < SHARE
    for t in range(1, LENGTH):
        r[:, t] = rng.random(n) < np.where(r[:, t - 1], 1 - leave, enter)
    return r, NU * r + rng.standard_normal(r.shape)


def gains(w: FloatArray, r: NDArray[np.bool_], parts: int = 10) -> tuple[float, float]:
    """(E A)²/E kappa over that of the mean, and its standard error from `parts` parts."""

    def one(w: FloatArray, r: NDArray[np.bool_]) -> float:
        return float((w * r).sum(axis=1).mean() ** 2 / (w**2).sum(axis=1).mean() / (LENGTH * SHARE**2))

    values = [one(a, b) for a, b in zip(np.array_split(w, parts), np.array_split(r, parts), strict=True)]
    return one(w, r), float(np.std(values, ddof=1) / np.sqrt(parts))


def two_layers(h: FloatArray, decay: float, offset: float) -> FloatArray:
    """sigma(nu sum_s decay^|t−s| h_s + offset): a layer that averages neighbours, and a gate of its scores."""
    lag = np.abs(np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH)))
    return np.asarray(expit(NU * h @ decay**lag + offset))


def fitted(run: float, rng: np.random.Generator) -> tuple[float, float]:
    """Decay and offset of the two layers with the largest gain on drawn sequences."""
    r, h = chains(run, 2000, rng)
    decay = max(0.02, 0.88 * (1 - 1 / ((1 - SHARE) * run)))  # somewhat below the correlation of neighbours
    # the sum of the neighbours' log-likelihoods has this offset
    offset = float(logit(SHARE)) - NU**2 / 2 * (1 + decay) / (1 - decay)
    found = minimize(
        lambda x: -gains(two_layers(h, float(expit(x[0])), float(x[1])), r)[0],
        (float(logit(decay)), offset),
        method="Nelder-Mead",
        options={"initial_simplex": [[logit(decay) + i, offset + j] for i, j in ((0, 0), (0.4, 0), (0, 1.0))]}
        | {"xatol": 0.03, "fatol": 1e-3, "maxiter": 60},
    )
    return float(expit(found.x[0])), float(found.x[1])


def posterior(run: float, h: FloatArray) -> FloatArray:
    """P(relevant | all scores) of the chain by forward and backward sums, in plain numpy."""
    leave, enter = 1 / run, SHARE / (1 - SHARE) / run
    move = np.array([[1 - enter, enter], [leave, 1 - leave]])
    seen = np.stack([np.ones_like(h), np.exp(NU * h - NU**2 / 2)], axis=2)
    forward, backward = np.empty_like(seen), np.ones_like(seen)
    forward[:, 0] = seen[:, 0] * [1 - SHARE, SHARE]
    for t in range(1, LENGTH):
        forward[:, t] = (forward[:, t - 1] @ move) * seen[:, t]
        forward[:, t] /= forward[:, t].sum(axis=1, keepdims=True)
    for t in range(LENGTH - 2, -1, -1):
        backward[:, t] = (backward[:, t + 1] * seen[:, t + 1]) @ move.T
        backward[:, t] /= backward[:, t].sum(axis=1, keepdims=True)
    both = forward * backward
    return np.asarray(both[:, :, 1] / both.sum(axis=2))


def compute(settings: Settings) -> xr.Dataset:
    """Gains against the run length, and alignments against the number of sequences."""
    trials, count = (48, 60_000) if settings.full else (16, 15_000)
    chain = QueryModel(d=100, N=400, T=LENGTH, L=round(SHARE * LENGTH), mu=1.0, nu=NU, relevance="chain", run=4.0)
    limit = np.array([posterior_gain(chain.replace(run=float(run))) for run in RUNS])
    drawn, error = np.empty((3, len(RUNS))), np.empty((3, len(RUNS)))
    for i, run in enumerate(RUNS):
        rng = settings.rng(16, i)
        decay, offset = fitted(float(run), rng)
        r, h = chains(float(run), count, rng)
        weights = (expit(NU * h - NU**2 / 2 + logit(SHARE)), two_layers(h, decay, offset), posterior(float(run), h))
        for j, w in enumerate(weights):
            drawn[j, i], error[j, i] = gains(w, r)
    curve = np.array([[top_alignment(spans(name, N))[0] for N in FINE] for name in POOLINGS])
    shape = (len(POOLINGS), len(SIZES))
    predicted, threshold, alignment, deviation = (np.empty(shape) for _ in range(4))
    for i, name in enumerate(POOLINGS):
        for j, N in enumerate(SIZES):
            model = spans(name, N)
            predicted[i, j], threshold[i, j] = top_alignment(model)
            seed = settings.sweep_seed(16, 100 + j)
            alignment[i, j], deviation[i, j] = mean_and_error(model.simulate(trials=trials, rng=seed).alignment)
    return xr.Dataset(
        {
            "one_layer": ((), float(gate_gain(NU, SHARE))),
            "limit": (("run",), limit),
            "gain": (("layers", "run"), drawn),
            "gain_error": (("layers", "run"), error),
            "curve": (("pooling", "fine"), curve),
            "predicted": (("pooling", "N"), predicted),
            "threshold": (("pooling", "N"), threshold),
            "alignment": (("pooling", "N"), alignment),
            "error": (("pooling", "N"), deviation),
        },
        coords={
            "run": RUNS,
            "layers": ["one layer", "two layers", "limit"],
            "pooling": list(POOLINGS),
            "N": SIZES,
            "fine": FINE,
        },
        attrs={"d": SPAN.d, "mu": SPAN.mu, "trials": trials},
    )


def draw(ds: xr.Dataset) -> Figure:
    """Gain against the mean run length on the left, alignment against N on the right."""
    figure, axes = plotting.new_figure(1, 2, width=10.4, height=4.2)
    left, right = axes[0]
    left.axhline(float(ds["one_layer"]), color=palette.METHODS["causal"].color, linestyle="-.")
    style = palette.METHODS["learned"]
    left.plot(ds["run"], ds["limit"], color=style.color, linestyle=style.linestyle)
    for name in ("one layer", "two layers", "limit"):
        part = ds.sel(layers=name)
        plotting.plot_simulated(left, RUNS, part["gain"].values, part["gain_error"].values, STYLES[name], label=name)
    left.set(
        xlabel="mean length of a run of relevant tokens", ylabel="gain over the mean", xscale="log", ylim=(0, None)
    )
    left.set_xticks(RUNS, [f"{run:.3g}" for run in RUNS])
    left.minorticks_off()
    left.legend(loc="upper left")
    plotting.panel_label(left, "a", "gain of layers")
    for name in POOLINGS:
        style = palette.METHODS[STYLES[name]]
        right.plot(ds["fine"], ds["curve"].sel(pooling=name), color=style.color, linestyle=style.linestyle)
        part = ds.sel(pooling=name)
        plotting.plot_simulated(right, SIZES, part["alignment"].values, part["error"].values, STYLES[name], label=name)
    right.axhline(0.8, color=palette.MUTED, linewidth=1, linestyle=":")
    right.set(xlabel="number of sequences N", ylabel="alignment with the signal", xscale="log", ylim=(-0.02, 1))
    right.set_xticks(SIZES, [str(N) for N in SIZES])
    right.minorticks_off()
    right.legend(loc="upper left")
    plotting.panel_label(right, "b", "one span of four tokens")
    return figure  # type: ignore[no-any-return]


def judge(ds: xr.Dataset) -> tuple[Check, ...]:
    """Gains against their formulas, the share of the gap that two layers close, and alignments."""
    d, gain, error = int(ds.attrs["d"]), ds["gain"].values, ds["gain_error"].values
    one, limit = np.full(len(RUNS), float(ds["one_layer"])), ds["limit"].values
    closed = (gain[1] - gain[0])[1:] / (gain[2] - gain[0])[1:]
    return (
        compare(
            "gain of one layer: no run length in it",
            one,
            gain[0],
            error[0],
            where=lambda index: f"run {RUNS[index[0]]:.3g}",
        ),
        compare(
            "gain of the posterior",
            limit,
            gain[2],
            error[2],
            bias=0.02 * limit,
            bias_text="2 % of the gain, the scatter of the predicted one",
            where=lambda index: f"run {RUNS[index[0]]:.3g}",
        ),
        within(
            "part of the gap to the limit that two layers leave",
            float(1 - closed.min()),
            1 - CLOSED,
            f"run {RUNS[1 + int(np.argmin(closed))]:g}",
            markers=len(closed),
        ),
        within(
            "gain of two layers over one for independent tokens",
            float(gain[1, 0] / gain[0, 0] - 1),
            0.02,
            "independent",
        ),
        compare(
            "alignment of spans",
            ds["predicted"].values,
            ds["alignment"].values,
            ds["error"].values,
            bias=alignment_bias(float(ds.attrs["mu"]), ds["threshold"].values, d),
            bias_text="1/(d(e²+d^(-2/3)))",
            where=lambda index: f"{POOLINGS[index[0]]}, N={SIZES[index[1]]}",
        ),
    )


FIGURE = FigureSpec(
    number=16,
    name="depth",
    title="What a second layer of attention adds",
    caption=(
        "(a) Relevant tokens come in runs (a two-state chain, share .15 of 40 tokens, mark 1). One layer sees a "
        "token's own score, and its gain over the mean does not depend on the runs (line: closed form). Two layers, a "
        "local average and a gate, reach nearly the limit, the posterior probability given all scores (dotted: "
        "theory). Without runs, left, a second layer adds nothing. Markers: drawn in plain numpy. (b) One span of four "
        "neighbours among 40 tokens: alignment against the number of sequences for the mean, a gate of the own score, "
        "and two layers, which are here the exact posterior. Curves: theory; markers: simulated, two standard errors; "
        "the dotted line is an alignment of 0.8."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
)
