"""The analysis of a table in words and in plain data."""

from __future__ import annotations

import html
from typing import Any

from spikepool.kit.pages import html_table
from spikepool.kit.results import plain, record
from spikepool.kit.text import number
from spikepool.laws.bulk_edge import USUAL_SHARE

NEAR = 0.8  # share of the margin from which a rejected count is worth mentioning
HEAVY = 0.05  # share of an eigenvalue that makes a single row heavy


def can_be_trusted(fit: Any, copies: float = 0.05) -> bool:
    """Whether the bulk predicts held-out rows, and no more than the share `copies` of the rows are copies of others."""
    return bool(fit.heldout_.within_sampling_error) and fit.n_copies_ <= copies * fit.shape_[0]


def verdict(fit: Any) -> str:
    """What is concluded, what it rests on, and what it does not show; a few sentences."""
    k = fit.n_outliers_
    noun = "eigenvalue stands" if k == 1 else "eigenvalues stand"
    doubted = fit.heldout_ is not None and not can_be_trusted(fit)
    bulk = "the fitted bulk" if doubted else "the bulk, which noise of unequal variances explains"
    text = f"{k or 'No'} {noun} beyond {bulk} (edge {fit.edge_:.4g})."
    if doubted and fit.heldout_.within_sampling_error:
        text += (
            f" {fit.n_copies_:,} of {fit.shape_[0]:,} rows are exact copies of others: they are not independent draws,"
            " and the count is not a test."
        )
    tenth = int(USUAL_SHARE * fit.rank_)
    if k > tenth:
        text += (
            f" That is {k / fit.rank_:.0%} of the spectrum: a second group of directions rather than single outliers."
        )
    rest = fit.statistics_[k : max(k, tenth)]
    if len(rest) and rest.max() > NEAR * fit.margin_:
        more = k + int(rest.argmax()) + 1
        text += (
            f" The count is borderline: with a margin of {rest.max():.3g} units instead of {fit.margin_:.3g}"
            f" it is {more}."
        )
    held = fit.heldout_
    if held is not None:
        error = f"{100 * held.distance:.2g} % of the mean eigenvalue"
        usual = f"sampling alone: {100 * held.expected:.2g} %, 95 % below {100 * held.limit:.2g} %"
        text += " The bulk fitted on half of the rows predicts the other half"
        if held.within_sampling_error:
            text += f" within sampling error: off by {error} ({usual})."
        else:
            text += (
                f" to {error}, further off than sampling explains ({usual}; p = {held.p_value:.2g}): the rows do not"
                " behave as independent draws of one Gaussian law, so the count describes this table and is not a test."
            )
    if fit.half_counts_ is not None and {*fit.half_counts_} != {k}:
        counts = " and ".join(map(str, fit.half_counts_))
        text += f" The halves of the rows on their own show {counts} outliers: the count is not stable."
    others = [null.count for null in fit.nulls_ if null.name != "coloured"]
    text += f" Under other assumptions about the noise the count is {min(others)} to {max(others)}."
    heavy = [row for row in fit.influential_rows_ if row.share > HEAVY]
    if heavy:
        rows = "1 row carries" if len(heavy) == 1 else f"{len(heavy)} rows carry"
        text += f" {rows} more than {HEAVY:.0%} of an outlying direction each."
    return text


def summary(fit: Any) -> str:
    """A page of text: sizes, bulk, outliers, nulls, held-out prediction, heavy rows, verdict."""
    V, d = fit.shape_
    population = fit.population_
    rows, columns = ("tokens", "coordinates") if fit.rows_are_tokens_ else ("rows", "columns")
    m = fit.measures_
    lines = [
        f"{fit.name_}: {V} {rows} x {d} {columns} (d/V = {d / V:.4g}), rank {fit.rank_}",
        f"as stored: Frobenius norm {m.frobenius:.4g}, spectral norm {m.spectral:.4g}, stable rank {m.stable_rank:.4g},"
        f" effective rank {m.effective_rank:.4g}, condition {number(m.condition)}, power-law alpha {number(m.alpha)}",
        f"bulk: {len(population.atoms)} eigenvalues, population {population.atoms[0]:.4g} to "
        f"{population.atoms[-1]:.4g}, right edge {fit.edge_:.4g}, Tracy-Widom scale {population.scale:.2g}",
        f"outliers: {fit.n_outliers_} above {fit.threshold_:.4g}",
    ]
    for i, outlier in enumerate(fit.outliers_[:10], 1):
        lines.append(
            f"  {i:3d}  eigenvalue {outlier.eigenvalue:.4g}, population {outlier.population_eigenvalue:.4g}, "
            f"{outlier.distance:.1f} units beyond the edge"
        )
    if fit.n_outliers_ > 10:
        lines.append(f"  ... and {fit.n_outliers_ - 10} more")
    lines.append("count under each null:")
    for null in fit.nulls_:
        lines.append(f"  {null.name:9s} {null.count:5d}  above {null.threshold:.4g}: {null.meaning}")
        lines.append(f"  {'':9s} {'':5s}  ({null.note})")
    held = fit.heldout_
    if held is not None:
        lines.append(
            f"held-out half: off by {100 * held.distance:.3g} % (sampling alone {100 * held.expected:.3g} %, "
            f"95 % limit {100 * held.limit:.3g} %, p = {held.p_value:.3g}); "
            f"with the observed eigenvalues as population {100 * held.plug_in_distance:.3g} %"
        )
    if fit.influential_rows_:
        lines.append("rows that weigh most on an outlying direction (share of its eigenvalue):")
        for row in fit.influential_rows_:
            name = f"row {row.row}" if row.token is None else f"{row.token!r} (row {row.row})"
            lines.append(f"  {name}: {row.share:.3%} of direction {row.direction}, norm {row.norm:.4g}")
    lines.append("verdict: " + fit.verdict_)
    return "\n".join(lines)


def as_dict(fit: Any) -> dict[str, Any]:
    """Plain data for JSON; arrays become lists."""
    names = [*("name", "rank", "edge", "threshold", "n_outliers", "measures", "outliers", "counts", "nulls")]
    names += ("influential_rows", "trusted", "stable", "verdict", "eigenvalues")
    held = fit.heldout_
    if held is not None:
        held = record(held, within_sampling_error=held.within_sampling_error, counts=fit.half_counts_)
    fields: dict[str, Any] = {"V": fit.shape_[0], "d": fit.shape_[1]}
    fields |= {name: plain(getattr(fit, f"{name}_")) for name in names}
    return fields | {"heldout": held, "population": plain(fit.population_.atoms)}


def as_html(fit: Any) -> str:
    """The verdict and the counts as HTML."""
    V, d = fit.shape_
    title = f"{fit.name_}: {V} x {d}, {fit.n_outliers_} beyond a bulk with edge {number(fit.edge_)}"
    rows = [(null.name, null.count, null.threshold) for null in fit.nulls_]
    verdict = f"<p>{html.escape(fit.verdict_)}</p>"
    return html_table(("null", "outliers", "above"), rows, title=title) + verdict
