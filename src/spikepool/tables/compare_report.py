"""The comparison of two tables in words, in plain data and as HTML."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from spikepool.kit.showing import html_table, number, record

HEADER = ("", "rows", "columns", "outliers", "bulk edge", "largest", "trusted", "stable")


def spectra_rows(found: Any) -> list[tuple[Any, ...]]:
    """One row per table: size, count, edge, and whether the fit is trusted."""
    return [
        (name, *fit.shape_, fit.n_outliers_, fit.edge_, float(fit.eigenvalues_[0]), fit.trusted_, fit.stable_)
        for name, fit in _named(found)
    ]


def _named(found: Any) -> list[tuple[str, Any]]:
    return [(f"first: {found.first.name_}", found.first), (f"second: {found.second.name_}", found.second)]


def overlap_rows(found: Any) -> list[tuple[Any, ...]]:
    """One row per size: overlaps, the largest angle, and what unrelated spaces would show."""
    return [(str(o.k), o.coordinates, o.tokens, _degrees(o.largest_angle), o.chance) for o in found.overlaps]


def change_sentence(found: Any) -> str:
    """How far the tables and their tokens are apart, or why that cannot be said."""
    if not found.common:
        return "The rows cannot be matched (different numbers of rows and no common names), so tokens are not compared."
    noun = "tokens" if found.first.rows_are_tokens_ else "rows"
    if not found.moved and found.changes.max() < 1e-5:
        return f"{found.common:,} common {noun}: the tables are equal up to rounding and a shift of all rows."
    text = f"{found.common:,} common {noun}: the second table differs from the first by "
    if found.change is not None:
        text += f"{found.change:.1%} of its size as stored, "
    text += f"{found.rotated_change:.1%} after the best rotation."
    quantiles = np.quantile(found.changes, [0.5, 0.9, 0.99])
    how = "" if found.basis == "as stored" else ", after rotation because the coordinates are unrelated"
    return text + (
        f" Half of the {noun} moved by less than {quantiles[0]:.3g} of a typical vector, 90 % by less than "
        f"{quantiles[1]:.3g}, 99 % by less than {quantiles[2]:.3g}{how}."
    )


def _degrees(angle: float | None) -> str:
    return "–" if angle is None else f"{angle:.1f}°"


def summary(found: Any) -> str:
    """A page of text."""
    lines = []
    for name, fit in _named(found):
        believed = {None: "not tested", True: "trusted", False: "not to be trusted"}[fit.trusted_]
        settled = {None: "", True: ", count stable", False: ", count not stable"}[fit.stable_]
        V, d = fit.shape_
        lines.append(f"{name}: {V} x {d}, {fit.n_outliers_} outliers beyond {fit.edge_:.4g} ({believed}{settled})")
    lines.append("overlap of the leading spaces (1 the same, chance for unrelated ones):")
    lines.append("      k  coordinates   tokens   largest angle   chance")
    for o in found.overlaps:
        cells = (number(o.coordinates, 3), number(o.tokens, 3), _degrees(o.largest_angle), number(o.chance, 2))
        lines.append(f"  {o.k:5d}  {cells[0]:>11s}  {cells[1]:>7s}  {cells[2]:>14s}  {cells[3]:>7s}")
    lines.append(change_sentence(found))
    for token in found.moved:
        name = f"row {token.row}" if token.token is None else f"{token.token!r} (row {token.row})"
        lines.append(f"  {name}: moved by {token.change:.3g} of a typical vector, cosine {token.cosine:.3f}")
    return "\n".join(lines)


def as_dict(found: Any) -> dict[str, Any]:
    """Everything but the changes of single tokens, of which quantiles are kept."""
    levels = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
    quantiles = None if found.changes is None else {f"{q:g}": float(np.quantile(found.changes, q)) for q in levels}
    names = ("overlaps", "common", "basis", "change", "rotated_change", "moved")
    spectra = {"first": found.first.to_dict(), "second": found.second.to_dict()}
    return record(found, *names, change_quantiles=quantiles, **spectra)


def as_html(found: Any) -> str:
    """The same as tables."""
    spectra = html_table(HEADER, spectra_rows(found), title="Two tables")
    spaces = html_table(
        ("k", "coordinates", "tokens", "largest angle", "chance"),
        overlap_rows(found),
        title="Overlap of the leading spaces",
    )
    moved = ""
    if found.moved:
        rows = [(t.token or f"row {t.row}", t.change, t.cosine) for t in found.moved]
        moved = html_table(("moved most", "change", "cosine"), rows)
    return f"{spectra}{spaces}<p>{html.escape(change_sentence(found))}</p>{moved}"
