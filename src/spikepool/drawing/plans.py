"""Pictures of a plan: sequences against the alignment they reach, and the vocabularies that reach a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spikepool.drawing import palette, plotting
from spikepool.kit.arrays import FloatArray


def draw_requirements(
    ax: Any, targets: Sequence[float], samples: Mapping[str, Sequence[int | None]], *, N: int, target: float
) -> Any:
    """Sequences that each weighting needs against the alignment to reach; a line ends where no number is enough."""
    ax = plotting.own_axes(ax)
    for place, (name, needed) in enumerate(samples.items()):
        values = [np.nan if n is None else float(n) for n in needed]
        style = palette.series_style(name, place) | {"marker": ""}
        never = all(n is None for n in needed)
        ax.plot(targets, values, label=f"{name}: never" if never else name, **style)
    ax.axhline(N, color=palette.INK, linewidth=1, linestyle=":", label=f"N = {N:,} now")
    ax.axvline(target, color=palette.TARGET, linewidth=1, linestyle="--", label=f"target {target:g}")
    ax.set_yscale("log")
    ax.set(xlabel="alignment to reach", ylabel="sequences N", xlim=(0, 1))
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, borderaxespad=0)
    return ax


def draw_vocabulary_range(
    ax: Any,
    minimum: float,
    maximum: float,
    curve: tuple[FloatArray, FloatArray] | None,
    target: float | None,
) -> Any:
    """The range of vocabularies that reach a target, over the alignment at each size where it is known."""
    ax = plotting.own_axes(ax)
    right = maximum if np.isfinite(maximum) else 100 * minimum
    if curve is not None:
        V, alignment = curve
        shown = (minimum / 30 <= V) & (30 * right >= V)
        right = right if np.isfinite(maximum) else float(V[shown][-1])
        ax.plot(V[shown], alignment[shown], color=palette.INK, label="predicted alignment")
    label = f"V from {minimum:,}" + (f" to {int(maximum):,}" if np.isfinite(maximum) else "")
    ax.axvspan(minimum, right, color=palette.METHODS["optimal"].color, alpha=0.15, lw=0, label=label)
    if target is not None:
        ax.axhline(target, color=palette.TARGET, linewidth=1, linestyle="--", label=f"target {target:g}")
    ax.set_xscale("log")
    ax.set(xlabel="vocabulary V", ylabel="alignment", ylim=(0, 1))
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, borderaxespad=0)
    return ax
