"""The candidates that a learned pooling compared: a table for reading and the words for the decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """One pooling, judged on rows that its weights and its ridge had not seen.

    Attributes
    ----------
    name : str
        Name of the pooling.
    learned : bool
        Whether its weights were learned, in every fold anew.
    score : float
        Cross-validated accuracy; R² in regression.
    gain, error : float
        Score minus that of the mean on the same rows, and the standard error of this paired difference (as if the
        largest difference had been seen once more in each direction).
    """

    name: str
    learned: bool
    score: float
    gain: float
    error: float


def candidate_table(candidates: Sequence[Candidate], chosen: str, score_name: str) -> str:
    """The candidates as lines of text, the chosen one marked."""
    lines = [f"{'pooling':<12} {score_name:>8} {'gain':>8} {'s.e.':>7}"]
    for c in candidates:
        mark = " <" if c.name == chosen else ""
        difference = f"{'':>8} {'':>7}" if c.name == "mean" else f"{c.gain:>+8.4f} {c.error:>7.4f}"
        lines.append(f"{c.name:<12} {c.score:>8.4f} {difference}{mark}".rstrip())
    return "\n".join(lines)


def candidate_html(candidates: Sequence[Candidate], chosen: str, score_name: str) -> str:
    """The candidates as an HTML table."""
    rows = []
    for c in candidates:
        cells = (c.name, f"{c.score:.4f}", "" if c.name == "mean" else f"{c.gain:+.4f} ± {c.error:.4f}")
        tag = "th" if c.name == chosen else "td"
        rows.append("<tr>" + "".join(f"<{tag} style='text-align:right'>{cell}</{tag}>" for cell in cells) + "</tr>")
    head = f"<tr><th>pooling</th><th>{score_name}</th><th>gain over the mean (± s.e.)</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
