"""Pictures of a diagnosis: eigenvalues, overlaps of spans, and overlaps with more rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from spikepool.drawing import palette, plotting
from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check

PICTURES = ("spectrum", "spans", "rows")
# Spans whose curve against the number of rows is drawn; those of one or two components hang on single gaps.
_SMALLEST_CURVE = 5
_TITLES = {
    "spectrum": "Eigenvalues of the features",
    "spans": "Overlap of the top k components",
    "rows": "Overlap with more rows",
}


def draw_diagnosis(diagnosis: Any, ax: Any = None, what: str | None = None) -> Any:
    """One picture of a diagnosis on `ax`; returns the axes."""
    if what is None:
        what = "spectrum" if diagnosis.spans is None else "spans"
    check.choice(what, "what", PICTURES)
    if what != "spectrum" and diagnosis.spans is None:
        raise InvalidInputError(
            f"spans cannot be drawn when the verdict is {diagnosis.verdict!r}", what, "Draw what='spectrum'"
        )
    ax = plotting.own_axes(ax)
    {"spectrum": draw_spectrum, "spans": draw_spans, "rows": draw_rows}[what](diagnosis, ax)
    ax.set_title(_TITLES[what], loc="left")
    return ax


def draw_spectrum(diagnosis: Any, ax: Any) -> Any:
    """Eigenvalues with what was fitted to them: the bulk where noise is isotropic, else the population spectrum."""
    return _bulk(diagnosis, ax) if diagnosis.isotropic else _ranked(diagnosis, ax)


def _ranked(diagnosis: Any, ax: Any) -> Any:
    values = diagnosis.eigenvalues[diagnosis.eigenvalues > 1e-10 * diagnosis.eigenvalues[0]]
    sample = palette.METHODS["mean"]
    ax.loglog(np.arange(1, len(values) + 1), values, color=sample.color, label="eigenvalues of the rows")
    if diagnosis.population is not None:
        tau = diagnosis.population[: len(values)]
        ax.loglog(np.arange(1, len(tau) + 1), tau, color=palette.INK, ls="--", label="fitted population")
    # beyond half the rows the fitted spectrum only keeps the trace, and may fall steeply
    ax.set(xlabel="rank", ylabel="eigenvalue of the covariance", ylim=(0.5 * values[-1], 2 * values[0]))
    ax.legend(loc="lower left")
    return ax


def _bulk(diagnosis: Any, ax: Any) -> Any:
    bulk = diagnosis.eigenvalues[len(diagnosis.outliers) :]
    bulk = bulk[bulk > 1e-10 * diagnosis.eigenvalues[0]]
    share = len(bulk) / len(diagnosis.eigenvalues)
    counts, bins = np.histogram(bulk, bins=min(60, max(10, len(bulk) // 8)), density=True)
    ax.stairs(counts * share, bins, fill=True, color="0.8", label="bulk eigenvalues")
    left, right = diagnosis.bulk.support()
    x = left + (right - left) * np.linspace(0, 1, 400)[1:-1] ** 2
    density = diagnosis.bulk.pdf(x)
    ax.plot(x, density, color=palette.INK, lw=1.5, label="fitted law")
    ax.axvline(diagnosis.edge + diagnosis.margin, color=palette.MUTED, ls="--", lw=1, label="edge and margin")
    for number, outlier in enumerate(diagnosis.outliers):
        ax.axvline(outlier.eigenvalue, color=palette.SIGNAL_COLOR, lw=1.2, label="outliers" if number == 0 else None)
    ax.set(xlabel="eigenvalue of the covariance", ylabel="density")
    ax.set_ylim(0, 1.15 * max(float((counts * share).max()), float(density[len(x) // 20 :].max())))
    ax.legend(framealpha=1, edgecolor="none")
    return ax


def draw_spans(diagnosis: Any, ax: Any) -> Any:
    """Overlap of the top k with the population's against k, with its 90 % band and the target."""
    k = [span.k for span in diagnosis.spans]
    low, high = zip(*(span.interval for span in diagnosis.spans), strict=True)
    style = palette.METHODS["causal"]
    ax.fill_between(k, low, high, color=style.color, alpha=0.18, lw=0, label="90 % interval")
    ax.plot(k, [span.overlap for span in diagnosis.spans], color=style.color, marker=style.marker, label="overlap")
    ax.axhline(diagnosis.target, color=palette.MUTED, ls=":", lw=1.2, label=f"target {diagnosis.target:g}")
    ax.set_xscale("log")
    ax.set_xticks(k, [str(size) for size in k])
    ax.minorticks_off()
    ax.set(xlabel="k, components in the span", ylabel="overlap with the population's", ylim=(0, 1.02))
    ax.legend(loc="lower right")
    return ax


def draw_rows(diagnosis: Any, ax: Any) -> Any:
    """Overlap against the number of independent rows, for each span of five or more components."""
    curve, spans = diagnosis.curve, diagnosis.spans
    drawn = [j for j, span in enumerate(spans) if span.k >= _SMALLEST_CURVE] or list(range(len(spans)))
    styles = list(palette.METHODS.values())
    for style, j in zip(styles, drawn, strict=False):
        ax.fill_between(curve.rows, curve.low[:, j], curve.high[:, j], color=style.color, alpha=0.12, lw=0)
        ax.plot(curve.rows, curve.overlap[:, j], color=style.color, ls=style.linestyle, label=f"top {spans[j].k}")
    ax.axvline(diagnosis.n_effective, color=palette.INK, lw=1, label=f"{diagnosis.n_effective:,} rows here")
    ax.axhline(diagnosis.target, color=palette.MUTED, ls=":", lw=1.2, label=f"target {diagnosis.target:g}")
    ax.set_xscale("log")
    ax.set(xlabel="independent rows", ylabel="overlap with the population's", ylim=(0, 1.02))
    ax.legend(loc="lower right")
    return ax
