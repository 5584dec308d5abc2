"""The figures of the report, one module each: compute -> dataset -> draw.

Figures 1 to 7 are the paper's; the others are ours: its errata in one picture, the second outlier, finite sequences,
the convergence of real attention weights, what the heads of trained models do as pooling weights, token weights,
attention with a query, given or learned, what a second layer adds, and what any method can reach.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable

from spikepool.errors import InvalidInputError, require

require("xarray", "reproduce")

from spikepool.reproduce.base import Check, FigureSpec, Settings  # noqa: E402

_MODULES: tuple[str, ...] = (
    "fig01_model",
    "fig02_phase_diagrams",
    "fig03_bulk",
    "fig04_alignment",
    "fig05_thresholds",
    "fig06_classification",
    "fig07_real_table",
    "fig08_errata",
    "fig09_second_outlier",
    "fig10_finite_length",
    "fig11_attention",
    "fig12_real_attention",
    "fig13_token_weights",
    "fig14_temperature",
    "fig15_learned_query",
    "fig16_depth",
    "fig17_limits",
)

FIGURES: dict[int, FigureSpec] = {
    spec.number: spec for spec in (importlib.import_module(f"spikepool.reproduce.{name}").FIGURE for name in _MODULES)
}


def select(figures: Iterable[int | str] | None = None) -> list[FigureSpec]:
    """The figures with these numbers or names (4, "fig4", "alignment"), in order and once each; all by default."""
    names = {str(number): number for number in FIGURES} | {spec.name: number for number, spec in FIGURES.items()}
    wanted = set()
    for figure in figures or FIGURES:
        key = re.sub(r"^(fig(ure)?)?[ .-]*0*(?=\d)", "", str(figure).lower().replace("_", "-"))
        if key not in names:
            known = ", ".join(f"{number} {spec.name}" for number, spec in FIGURES.items())
            raise InvalidInputError("no such figure", figure, f"Choose from {known}")
        wanted.add(names[key])
    return [FIGURES[number] for number in sorted(wanted)]


__all__ = ["FIGURES", "Check", "FigureSpec", "Settings", "select"]
