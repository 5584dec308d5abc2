"""The picture of a spectral law: its density piece by piece, and its point masses."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from spikepool.drawing import palette, plotting
from spikepool.kit.arrays import FloatArray

_POINTS = 400  # of the density, on each interval


class LawLike(Protocol):
    """What is drawn of a law."""

    @property
    def atom(self) -> float: ...  # noqa: D102
    def intervals(self) -> FloatArray: ...  # noqa: D102
    def pdf(self, x: ArrayLike) -> Any: ...  # noqa: D102


def draw_law(law: LawLike, ax: Any = None, *, masses: tuple[FloatArray, FloatArray] | None = None) -> Any:
    """Density on every interval; a stem for each point mass in `masses` (places, weights), or for the atom at zero."""
    ax = plotting.own_axes(ax)
    heights = []
    for left, right in law.intervals():
        # densest near both ends, where it varies fastest
        x = left + (right - left) * np.sin(np.pi * np.linspace(0, 1, _POINTS + 2)[1:-1] / 2) ** 2
        heights.append(np.asarray(law.pdf(x)))
        ax.plot(x, heights[-1], color=palette.INK, label="density" if len(heights) == 1 else None)
    places, weights = masses if masses is not None else (np.zeros(1), np.array([law.atom]))
    shown = weights > 0
    if heights:
        # a density may diverge at an end; the height that nine tenths of it stay below shows the rest
        ax.set_ylim(0, 1.6 * float(np.quantile(np.concatenate(heights), 0.9)))
        ax.set_ylabel("density")
        if shown.any():
            label = f"mass {float(weights[shown].sum()):.3g} at zero"
            ax.axvline(0.0, color=palette.SIGNAL_COLOR, linewidth=2, label=label)
    elif shown.any():
        ax.vlines(places[shown], 0, weights[shown], color=palette.INK, label="point masses")
        ax.plot(places[shown], weights[shown], "o", color=palette.INK, markersize=4)
        ax.set_ylabel("mass")
        ax.set_ylim(bottom=0)
    ax.set_xlabel("eigenvalue")
    ax.legend(frameon=False)
    return ax
