r"""The analysis of a table in words and in plain data.

Norms, ranks and the power-law exponent of a weight: the numbers that other tools report.

With σ_1 ≥ σ_2 ≥ ... the singular values of W as stored (not centred) and λ_i = σ_i²:

.. math:: \|W\|_F^2 = \sum \lambda_i, \quad \text{stable rank} = \|W\|_F^2/\lambda_1, \quad
          \text{effective rank} = \exp\Big(−\sum p_i \log p_i\Big),\ p_i = \lambda_i/\|W\|_F^2.

The exponent is that of WeightWatcher's default fit. For each λ_min among the λ_i above 1e-5, with the n values from it
on,

.. math:: \alpha = 1 + n \Big/ \sum \log(\lambda_i/\lambda_{\min}),

and the λ_min is taken whose fit has the smallest Kolmogorov-Smirnov distance max |1 − (λ/λ_min)^{1−α} − i/n|, where
i = 0 ... n−1 counts the values from λ_min on.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.kit.showing import html_table, number, plain, record
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


# WeightWatcher's: smaller eigenvalues are left out, and below 20 of them another fit is made.
SMALLEST_EIGENVALUE = 1e-5
FEWEST_EIGENVALUES = 20


@dataclass(frozen=True)
class Measures:
    """Norms, ranks and exponent of a weight.

    Attributes
    ----------
    frobenius, spectral : float
        ‖W‖_F and σ_1.
    stable_rank, effective_rank : float
    condition : float
        σ_1 over the smallest singular value; infinite beyond about 1e6, where that is rounding.
    alpha : float or None
        Power-law exponent of the eigenvalues of W'W; None below 20 eigenvalues larger than 1e-5.
    """

    frobenius: float
    spectral: float
    stable_rank: float
    effective_rank: float
    condition: float
    alpha: float | None


def measure(eigenvalues: FloatArray) -> Measures:
    """Measures of a weight from all min(V, d) eigenvalues of W'W, largest first."""
    total, top, least = (float(value) for value in (eigenvalues.sum(), eigenvalues[0], eigenvalues[-1]))
    # eigenvalues of W'W in double precision are off by 1e-16 of the largest, times their number
    small = 1e-15 * len(eigenvalues) * top
    return Measures(
        frobenius=float(np.sqrt(total)),
        spectral=float(np.sqrt(top)),
        stable_rank=stable_rank(eigenvalues),
        effective_rank=effective_rank(eigenvalues),
        condition=float(np.sqrt(top / least)) if least > small else float("inf"),
        alpha=power_law_exponent(eigenvalues),
    )


def stable_rank(eigenvalues: FloatArray) -> float:
    """Sum over the largest; 0 where all are zero."""
    top = float(eigenvalues[0]) if len(eigenvalues) else 0.0
    return float(eigenvalues.sum()) / top if top > 0 else 0.0


def effective_rank(eigenvalues: FloatArray) -> float:
    """Exp of the entropy of the shares; 0 where all are zero."""
    positive = eigenvalues[eigenvalues > 0]
    share = positive / positive.sum()
    return float(np.exp(-np.sum(share * np.log(share)))) if len(share) else 0.0


def power_law_exponent(eigenvalues: FloatArray) -> float | None:
    """WeightWatcher's alpha of eigenvalues sorted from the largest, or None where there are too few."""
    logs = np.log(eigenvalues[eigenvalues > SMALLEST_EIGENVALUE][::-1])
    N = len(logs)
    if N < FEWEST_EIGENVALUES:
        return None
    n = np.arange(N, 0, -1)
    excess = np.cumsum(logs[::-1])[::-1] - n * logs
    best, alpha = 2.0, None
    for i in np.flatnonzero(excess[:-1] > 0):
        slope = n[i] / excess[i]
        distance = np.abs(1 - np.exp(-slope * (logs[i:] - logs[i])) - np.arange(n[i]) / n[i]).max()
        if distance < best:
            best, alpha = float(distance), float(1 + slope)
    return alpha
