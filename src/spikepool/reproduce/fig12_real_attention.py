"""Figure 12: does attention help, in a real model? Every head's own attention rows as pooling weights."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from spikepool.drawing import palette, plotting
from spikepool.reproduce.base import Check, FigureSpec, Settings, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Which attention rows are the weights: those of the token that is read out, or their average over queries.
ROWS = ("reader", "average")
MODELS = {"minilm": "MiniLM", "smollm2": "SmolLM2"}
# Two standard errors: what a head gains or loses is then more than chance.
CLEAR = 2.0
# Of the heads whose weights lower alpha/kappa at most this part may gain clearly all the same: chance gives 2.3%.
LUCKY = 0.05
# Least rank correlation, over the heads of a model, of the gain in alpha/kappa with the gain in accuracy.
RANK_CORRELATION = 0.3


def recorded() -> dict[str, Any]:
    """The measurement that travels with the package: models and texts do not."""
    text = files("spikepool.reproduce").joinpath("recorded/attention_heads.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def compute(settings: Settings) -> xr.Dataset:
    """The recorded measurement as a data set; heads that a model does not have are NaN."""
    del settings  # nothing is drawn at random, and the full report shows the same
    record = recorded()
    cases = record["cases"]
    n_blocks = max(len(case["blocks"]) for case in cases.values())
    n_heads = max(case["heads"] for case in cases.values())
    by_head = np.full((3, len(cases), n_blocks, len(ROWS), n_heads), np.nan)
    by_block = np.full((4, len(cases), n_blocks), np.nan)
    chosen = np.full((2, len(cases), n_blocks, len(ROWS)), np.nan)
    for i, case in enumerate(cases.values()):
        for j, block in enumerate(case["blocks"]):
            by_block[:, i, j] = block["block"], block["mean"], *block["query"]
            for k, kind in enumerate(ROWS):
                rows = block["rows"][kind]
                heads = slice(0, case["heads"])
                by_head[:2, i, j, k, heads] = np.transpose(rows["gain"])
                by_head[2, i, j, k, heads] = rows["ratio"]
                chosen[:, i, j, k] = rows["chosen"]
    dims = ("case", "block", "rows", "head")
    return xr.Dataset(
        {
            "gain": (dims, by_head[0]),
            "gain_error": (dims, by_head[1]),
            "ratio": (dims, by_head[2]),
            "chosen": (dims[:3], chosen[0]),
            "chosen_error": (dims[:3], chosen[1]),
            "layer": (dims[:2], by_block[0]),
            "mean": (dims[:2], by_block[1]),
            "query": (dims[:2], by_block[2]),
            "query_error": (dims[:2], by_block[3]),
            "texts": (dims[:1], [case["texts"] for case in cases.values()]),
        },
        coords={"case": list(cases), "rows": list(ROWS)},
        attrs={"measured": record["measured"], "command": record["command"]},
    )


def draw(ds: xr.Dataset) -> Figure:
    """Above: accuracy of every head by layer, in points over the mean; below: against its gain in alpha/kappa."""
    cases = [str(case) for case in ds["case"].values]
    figure, axes = plotting.new_figure(2, len(cases), width=2.7 * len(cases), height=6.4, sharey=True)
    colors = {"reader": palette.METHODS["mean"].on_light, "average": palette.METHODS["causal"].on_light}
    learned = palette.method_style("learned")
    for column, (letter, case) in enumerate(zip("abcdefgh", cases, strict=False)):
        part = ds.sel(case=case)
        top, bottom = axes[0, column], axes[1, column]
        place = np.arange(part.sizes["block"])
        for shift, kind in ((-0.16, "reader"), (0.16, "average")):
            rows = part.sel(rows=kind)
            gain, ratio = 100 * rows["gain"].values, rows["ratio"].values
            x = np.repeat(place + shift, gain.shape[1])
            top.plot(x, gain.ravel(), ".", color=colors[kind], markersize=4, alpha=0.55, label=_ROW_NAMES[kind])
            top.errorbar(
                place + shift,
                100 * rows["chosen"],
                yerr=100 * rows["chosen_error"],
                fmt="_",
                color=colors[kind],
                markersize=9,
                capsize=2,
                label="best head, chosen on other texts" if kind == "average" else None,
            )
            bottom.plot(ratio.ravel(), gain.ravel(), ".", color=colors[kind], markersize=4, alpha=0.55)
        plotting.panel_label(bottom, "efgh"[column % 4], "the same heads")
        top.errorbar(
            place,
            100 * part["query"],
            yerr=100 * part["query_error"],
            fmt=learned.marker + "-",
            color=learned.color,
            markersize=4,
            linewidth=1,
            capsize=2,
            label="one learned query",
        )
        corpus, model = case.split("/")
        plotting.panel_label(top, letter, f"{MODELS.get(model, model)}, {corpus}")
        top.set_xticks(place, [str(int(layer)) for layer in part["layer"].values])
        top.set_xlabel("layer whose input is pooled")
        bottom.set_xscale("log")
        bottom.set_xticks(_RATIO_TICKS, [f"{tick:g}" for tick in _RATIO_TICKS])
        bottom.minorticks_off()
        bottom.set_xlabel(r"$\alpha/\kappa$ over that of the mean")
        bottom.axvline(1.0, color=palette.MUTED, linewidth=0.8)
        for ax in (top, bottom):
            ax.axhline(0.0, color=palette.MUTED, linewidth=0.8)
            # linear to five points; a few heads of the first layer lose more than fifty
            ax.set_yscale("symlog", linthresh=5.0, linscale=1.5)
            ax.set_yticks(_POINT_TICKS, [str(tick) for tick in _POINT_TICKS])
            ax.set_ylim(-100, 12)
    axes[0, 0].set_ylabel("accuracy minus that of the mean (points)")
    axes[1, 0].set_ylabel("accuracy minus that of the mean (points)")
    axes[0, 0].legend(loc="upper left", fontsize=8)
    return figure  # type: ignore[no-any-return]


_RATIO_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0)
_POINT_TICKS = (-80, -40, -20, -10, -5, 0, 5, 10)
_ROW_NAMES = {"reader": "rows of [CLS] or the last token", "average": "rows averaged over queries"}


def judge(ds: xr.Dataset) -> tuple[Check, ...]:
    """Whether the theory's number, alpha/kappa, is what it takes: no head gains without it, and it orders the heads."""
    checks = []
    for case in ds["case"].values:
        part = ds.sel(case=case)
        gain, error, ratio = (part[name].values.ravel() for name in ("gain", "gain_error", "ratio"))
        known = np.isfinite(gain)
        gain, error, ratio = gain[known], error[known], ratio[known]
        lower = ratio < 1
        lucky = gain[lower] > CLEAR * error[lower]
        ranks = np.corrcoef(gain.argsort().argsort(), ratio.argsort().argsort())[0, 1]
        checks += [
            within(
                f"{case}: heads that lower alpha/kappa and yet gain clearly, as a part of those that lower it",
                float(lucky.mean()),
                LUCKY,
                f"{int(lucky.sum())} of {int(lower.sum())} heads",
                markers=int(lower.sum()),
            ),
            within(
                f"{case}: one minus the rank correlation of alpha/kappa and accuracy over heads",
                float(1 - ranks),
                1 - RANK_CORRELATION,
                f"correlation {ranks:.2f}",
                markers=len(gain),
                note="alpha/kappa counts variance in all directions alike; a ridge uses some of them more than others",
            ),
        ]
    return tuple(checks)


FIGURE = FigureSpec(
    number=12,
    name="real-attention",
    title="Does attention help, in a real model?",
    caption=(
        "The input of each layer of a trained model is pooled with the attention rows of each of its heads; a ridge "
        "predicts one of twenty labels; a dot is a head, zero is the mean over the same tokens. Bars: the head that is "
        "best on the other folds, and one learned query, with standard errors. Below, the same heads by "
        "their alpha/kappa (between-class over within-class variance of the pooled features, over that of the mean): "
        "heads that raise it help more often, with a rank correlation that the comparisons below state. "
        "Recorded numbers, because models and texts are not part of the package; "
        "benchmarks/studies/attention_heads.py measures them anew."
    ),
    compute=compute,
    draw=draw,
    judge=judge,
    descriptive=True,
)
