"""The figures of the report, one module each: compute -> dataset -> draw.

Figures 1 to 7 are the paper's; the others are ours: its errata in one picture, the second outlier, finite sequences,
the convergence of real attention weights, what the heads of trained models do as pooling weights, token weights, and
attention with a query, given or learned.
"""

from __future__ import annotations

import importlib
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
)

FIGURES: dict[int, FigureSpec] = {
    spec.number: spec for spec in (importlib.import_module(f"spikepool.reproduce.{name}").FIGURE for name in _MODULES)
}


def select(numbers: Iterable[int] | None = None) -> list[FigureSpec]:
    """The figures with these numbers, in order and once each; all of them when none is given."""
    wanted = sorted(set(numbers or FIGURES))
    for number in wanted:
        if number not in FIGURES:
            raise InvalidInputError("no such figure", number, f"Choose from {', '.join(map(str, FIGURES))}")
    return [FIGURES[number] for number in wanted]


__all__ = ["FIGURES", "Check", "FigureSpec", "Settings", "select"]
