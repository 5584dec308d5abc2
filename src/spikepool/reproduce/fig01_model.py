"""Figure 1: the model, drawn from a real small sample rather than as a sketch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from spikepool.drawing import palette, plotting
from spikepool.kit.statistics import standard_error
from spikepool.model import SequenceModel
from spikepool.reproduce.base import METHODS, Check, FigureSpec, Settings, compare, weights_for, within
from spikepool.world.correlation import prefix_correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

D, V, N, T, L, MU = 24, 20, 60, 8, 3, 2.0
SHOWN = 6
PLUS, MINUS = palette.CLASS_TINTS


def compute(settings: Settings) -> xr.Dataset:
    """Table, tokens, signs, pooled vectors and the top eigenvector of one small draw."""
    model = SequenceModel(d=D, V=V, N=N, R=prefix_correlation(T, L), mu=MU)
    sample = model.sample(rng=settings.rng(1))
    weights = weights_for(model.R)
    pooled = np.stack([sample.pooled(w) for w in weights.values()])
    centred = pooled - pooled.mean(axis=2, keepdims=True)
    top = np.empty((len(METHODS), D))
    for i, C in enumerate(centred):
        vector = np.linalg.eigh(C @ C.T / N)[1][:, -1]
        top[i] = vector * np.sign(vector @ sample.direction)
    return xr.Dataset(
        {
            "table": (("dimension", "token"), sample.table),
            "class": (("token",), sample.signs.astype(int)),
            "tokens": (("sequence", "position"), sample.tokens.astype(int)),
            "signs": (("sequence", "position"), sample.latent.astype(int)),
            "R": (("position", "position_2"), model.R),
            "w": (("weights", "position"), np.stack(list(weights.values()))),
            "pooled": (("weights", "dimension", "sequence"), pooled),
            "direction": (("dimension",), sample.direction),
            "top_eigenvector": (("weights", "dimension"), top),
        },
        coords={"weights": list(METHODS)},
        attrs={"d": D, "V": V, "N": N, "T": T, "L": L, "mu": MU},
    )


def draw(ds: xr.Dataset) -> Figure:
    """(a) table, (b) sequences, (c) weights and pooled vectors, (d) recovered direction."""
    figure, axes = plotting.new_figure(2, 2, width=9.6, height=7.0)
    _draw_table(axes[0, 0], ds)
    _draw_sequences(axes[0, 1], ds)
    _draw_weights(axes[1, 0], ds)
    _draw_direction(axes[1, 1], ds)
    return figure  # type: ignore[no-any-return]


def _draw_table(ax: Axes, ds: xr.Dataset) -> None:
    order = np.argsort(-ds["class"].values, kind="stable")
    # rows sorted by the hidden direction, so that the two classes are visible to the eye
    rows = np.argsort(ds["direction"].values)[::-1]
    E = ds["table"].values[rows][:, order]
    limit = float(np.abs(E).max())
    ax.grid(False)
    ax.imshow(E, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
    half = len(order) / 2
    ax.axvline(half - 0.5, color=palette.INK, linewidth=1)
    ax.set_xticks(range(len(order)), [str(v) for v in order], fontsize=7.5)
    ax.set_yticks([])
    ax.set(xlabel="token $v$", ylabel=f"$d = {ds.attrs['d']}$ coordinates, sorted by $u$")
    for start, text, color in ((0.0, r"$s_v=+1$:  $+\mu u + z_v$", PLUS), (half, r"$s_v=-1$:  $-\mu u + z_v$", MINUS)):
        ax.text(
            start + half / 2 - 0.5,
            -1.0,
            text,
            ha="center",
            va="bottom",
            fontsize=8.5,
            bbox={"facecolor": color, "edgecolor": "none", "pad": 2},
        )
    ax.set_title("(a) embedding table $E$", loc="left", pad=22)


def _draw_sequences(ax: Axes, ds: xr.Dataset) -> None:
    from matplotlib.patches import Rectangle

    tokens, signs = ds["tokens"].values[:SHOWN], ds["signs"].values[:SHOWN]
    for n in range(SHOWN):
        for t in range(T):
            color = PLUS if signs[n, t] > 0 else MINUS
            ax.add_patch(Rectangle((t + 0.04, n + 0.1), 0.92, 0.8, facecolor=color, edgecolor="white"))
            sign = "+" if signs[n, t] > 0 else "−"
            ax.text(t + 0.5, n + 0.5, f"{sign} {tokens[n, t]}", ha="center", va="center", fontsize=8.5)
    ax.add_patch(Rectangle((0.0, 0.02), L, SHOWN - 0.04, fill=False, edgecolor=palette.INK, linewidth=1.3, zorder=3))
    ax.text(L / 2, -0.12, f"prefix, $L={L}$: one sign", ha="center", va="bottom", fontsize=8.5)
    ax.text((L + T) / 2, -0.12, "independent signs", ha="center", va="bottom", fontsize=8.5)
    ax.set(xlim=(-0.05, T + 0.05), ylim=(SHOWN + 0.05, -0.05))
    ax.set_xticks(np.arange(T) + 0.5, [str(t + 1) for t in range(T)])
    ax.set_yticks(np.arange(SHOWN) + 0.5, [str(n + 1) for n in range(SHOWN)])
    ax.set(xlabel="position $t$", ylabel="sequence $n$")
    ax.grid(False)
    ax.set_title("(b) sequences: sign and token", loc="left", pad=22)


def _draw_weights(ax: Axes, ds: xr.Dataset) -> None:
    positions = np.arange(1, T + 1)
    for method in ds["weights"].values:
        style = palette.method_style(str(method))
        ax.plot(
            positions,
            ds["w"].sel(weights=method),
            color=style.color,
            marker=style.marker,
            linestyle=style.linestyle,
            label=style.label,
            markersize=5.5,
        )
    ax.set(xlabel="position $t$", ylabel="weight $w_t$", ylim=(-0.02, 0.5))
    ax.legend(title=r"pooling $c_n = \sum_t w_t\, e_{x_{n,t}}$", loc="upper right")
    plotting.panel_label(ax, "c", "pooling weights")


def _draw_direction(ax: Axes, ds: xr.Dataset) -> None:
    u = ds["direction"].values
    rows = np.argsort(u)[::-1]
    x = np.arange(1, len(u) + 1)
    ax.bar(x, u[rows], color=palette.BARS, label="hidden direction $u$")
    for method in ds["weights"].values:
        style = palette.method_style(str(method))
        v = ds["top_eigenvector"].sel(weights=method).values
        ax.plot(
            x,
            v[rows],
            linestyle="none",
            marker=style.marker,
            color=style.color,
            markersize=4.2,
            label=f"{style.label}: alignment {float(v @ u) ** 2:.2f}",
        )
    ax.set(xlabel="coordinate, sorted by $u$", ylabel="entry of the unit vector")
    ax.legend(loc="lower left", fontsize=8)
    plotting.panel_label(ax, "d", f"top eigenvector of $S$ from $N={ds.attrs['N']}$ sequences")


def judge(ds: xr.Dataset) -> tuple[Check, ...]:
    """The drawn sample keeps the model's definition: pooling by loop, token classes, sign correlations."""
    E, tokens, signs = ds["table"].values, ds["tokens"].values, ds["signs"].values
    worst = 0.0
    for i in range(len(METHODS)):
        w, C = ds["w"].values[i], ds["pooled"].values[i]
        direct = np.stack([sum(w[t] * E[:, row[t]] for t in range(T)) for row in tokens], axis=1)
        worst = max(worst, float(np.abs(direct - C).max()))
    mismatches = float(np.mean(ds["class"].values[tokens] != signs))
    pairs = np.triu_indices(T, 1)
    products = signs[:, pairs[0]] * signs[:, pairs[1]]
    R = ds["R"].values[pairs]
    error = np.maximum(standard_error(products), 1e-12)
    return (
        within("pooled vectors against the definition, by loop", worst, 1e-10, "largest entry", markers=N * D * 3),
        within("tokens whose class is not their sign", mismatches, 0.0, "share", markers=N * T),
        compare(
            "correlation of the drawn signs with R",
            R,
            products.mean(axis=0),
            error,
            where=lambda index: f"positions {pairs[0][index[0]] + 1} and {pairs[1][index[0]] + 1}",
        ),
    )


FIGURE = FigureSpec(
    number=1,
    name="model",
    title="The model",
    caption=(
        "A real draw with d = 24, V = 20, T = 8 and prefix length 3. (a) The embedding table: columns are "
        "tokens of class + (blue) and − (orange), centred at plus and minus the hidden signal. (b) Six of "
        "the 60 sequences: each position has a sign, then a token of that class. The prefix shares one "
        "sign. (c) Three ways to pool a sequence into one vector. (d) What principal component analysis "
        "of the pooled vectors recovers of the hidden direction."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
)
