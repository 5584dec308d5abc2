"""The candidates that were compared: a table for reading and the words for the decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any


@dataclass(frozen=True)
class Candidate:
    """One pooling, in one layer, judged on rows that its weights and its ridge had not seen.

    Attributes
    ----------
    name : str
        Name of the pooling.
    learned : bool
        Whether it was learned from the targets, in every fold anew.
    score : float
        Cross-validated accuracy; R² in regression.
    gain, error : float
        Score minus that of the mean (of the last layer) on the same rows, and the standard error of this paired
        difference (as if the largest difference had been seen once more in each direction).
    loss : float
        Out-of-fold squared error, relative to the variance of the targets; the lowest is ``decision_``.
    weight : float
        Weight of its predictions in the stack.
    layer : hashable or None
        Name or number of the layer; None where X has one layer.
    """

    name: str
    learned: bool
    score: float
    gain: float
    error: float
    loss: float = float("nan")
    weight: float = 0.0
    layer: Any = None

    @property
    def label(self) -> str:
        """Name, with the layer where there are several."""
        return self.name if self.layer is None else f"{self.name} @ {self.layer}"


def _cells(c: Candidate, reference: str) -> tuple[str, ...]:
    difference = ("", "") if c.label == reference else (f"{c.gain:+.4f}", f"{c.error:.4f}")
    return (c.label, f"{c.score:.4f}", *difference, f"{c.loss:.4f}", f"{c.weight:.2f}" if c.weight else "")


def candidate_table(candidates: Sequence[Candidate], chosen: str, score_name: str) -> str:
    """The candidates as lines of text; the single best one is marked."""
    width = max(12, *(len(c.label) for c in candidates))
    lines = [f"{'pooling':<{width}} {score_name:>8} {'gain':>8} {'s.e.':>7} {'loss':>7} {'weight':>7}"]
    for c in candidates:
        label, score, gain, error, loss, weight = _cells(c, candidates[0].label)
        mark = " <" if c.label == chosen else ""
        lines.append(f"{label:<{width}} {score:>8} {gain:>8} {error:>7} {loss:>7} {weight:>7}{mark}".rstrip())
    return "\n".join(lines)


def candidate_html(candidates: Sequence[Candidate], chosen: str, score_name: str) -> str:
    """The candidates as an HTML table."""
    rows = []
    for c in candidates:
        tag = "th" if c.label == chosen else "td"
        cells = _cells(c, candidates[0].label)
        rows.append(
            "<tr>" + "".join(f"<{tag} style='text-align:right'>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
        )
    names = ("pooling", score_name, "gain over the mean", "s.e.", "squared error", "weight in the stack")
    head = "<tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
