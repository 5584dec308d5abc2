"""What each regime contributes to a diagnosis: outliers of a signal, or spans and components of coloured features."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.progress import Progress
from spikepool.kit.statistics import SIGNIFICANCE
from spikepool.trust.coloured import Simulated, simulate
from spikepool.trust.isotropic import DiagnosedOutlier, explain, mixed
from spikepool.trust.memory_rows import MemoryRows
from spikepool.trust.planning import Curve, collection_interval, curve, required_rows, with_collection
from spikepool.trust.regimes import IsotropicReading
from spikepool.trust.result import Component, SelfCheck, Span
from spikepool.trust.sample import COMPONENTS, FEWEST_ROWS, span_sizes
from spikepool.trust.spans import angle, have_order, overlap_of, steady_spans

# Difference of log eigenvalues, in sqrt(E[s²]/n), which two equal population eigenvalues exceed with probability
# exp(−x²/8).
_RESOLVED_GAP = math.sqrt(-8 * math.log(SIGNIFICANCE))


@dataclass(frozen=True)
class Findings:
    """What one regime contributes to the result."""

    verdict: str
    reason: str
    n_effective: int
    outliers: tuple[DiagnosedOutlier, ...] = ()
    components: tuple[Component, ...] = ()
    spans: tuple[Span, ...] | None = None
    self_check: SelfCheck | None = None
    curve: Curve | None = None
    population: FloatArray | None = None


def signal_findings(
    rows: MemoryRows, isotropic: IsotropicReading, findings: Findings, target: float, gain: float | None
) -> Findings:
    """Invert each outlier to the spike that caused it."""
    values = rows.values[: isotropic.n_outliers]
    alone = [explain(float(value), isotropic.fit, rows.d, target, gain) for value in values]
    outliers = tuple(mixed(alone, isotropic.fit, rows.d, rows.n, target))
    apart = -np.diff(np.log(values)) > _RESOLVED_GAP / np.sqrt(rows.n)
    # components that are not told apart may be mixed in any proportion
    outliers = tuple(
        o if apart[max(i - 1, 0) : i + 1].all() else replace(o, interval=(0.0, o.interval[1]))
        for i, o in enumerate(outliers)
    )
    components = tuple(
        _component(o.alignment, o.interval, o.eigenvalue, vector, bool(apart[max(i - 1, 0) : i + 1].all()))
        for i, (o, vector) in enumerate(zip(outliers, rows.vectors, strict=False))
    )
    return replace(findings, outliers=outliers, components=components)


def coloured_findings(
    rows: MemoryRows,
    units: IntArray,
    grouped: bool,
    reason: str,
    target: float,
    population_size: int | None,
    rng: np.random.Generator,
    progress: bool | None,
) -> tuple[Findings, tuple[float, float]]:
    """Simulate; with the agreement of contiguous and of random halves.

    Simulated draws are the same for every seed: intervals of the same rows differ by what splits and resamples of the
    rows say.
    """
    n_units = int(units.max()) + 1
    if n_units < FEWEST_ROWS:
        return Findings("poor fit", f"{reason}; {n_units} independent rows say nothing else", n_units), (1.0, 0.0)
    sample = rows.sample(units, grouped, rng)
    share = 0.0 if population_size is None else rows.n / population_size
    collection = sample.n_effective / share if share else None
    with Progress(100, "simulating", show=progress) as bar:
        simulated = simulate(sample, np.random.default_rng(0), bar.advance, collection)
    steady = steady_spans(sample.ks)
    observed, expected = (
        float(halves[steady].mean()) for halves in (simulated.observed_halves, simulated.simulated_halves)
    )
    order = float(sample.contiguous[steady].mean()), observed
    ordered = have_order(simulated.observed_halves, sample.ks, len(sample.values))
    centre = angle(simulated.overlap)
    below, above = np.hypot(simulated.half_width, simulated.lower), simulated.half_width
    overlap, low, high = (overlap_of(value) for value in (centre, centre - below, centre + above))
    overlap, low, high = collection_interval(simulated, overlap, low, high, simulated.kept)
    ok = simulated.difference <= simulated.tolerance and ordered and not simulated.one_level
    if simulated.one_level:
        reason += "; rows of equal variances have these eigenvalues as well, and no leading components"
    elif not ordered:
        reason += "; halves of the rows agree as they do without leading components, or with too few rows to see them"
    verdict = "coloured" if ok else "poor fit"
    findings = Findings(verdict, reason, sample.n_effective, self_check=SelfCheck(observed, expected, ok))
    if not ok:
        return findings, order
    path = curve(simulated, sample.n_effective, collection)
    spans = tuple(
        Span(int(k), float(o), (float(lo), float(hi)), needed)
        for k, o, lo, hi, needed in zip(
            sample.ks, overlap, low, high, required_rows(path, sample.ks, target), strict=True
        )
    )
    return replace(
        findings,
        spans=spans,
        components=_single(rows, simulated, sample.n_effective),
        curve=path,
        population=simulated.tau,
    ), order


def _single(rows: MemoryRows, simulated: Simulated, n: int, tail: float = 1 / 31) -> tuple[Component, ...]:
    """Single components with 90 % intervals: quantiles of the draws, widened on the angle.

    `tail` is the share of the draws beyond each end: the largest and smallest of 30.
    """
    components = []
    logs = np.log(np.maximum(rows.values[: COMPONENTS + 1], np.finfo(float).tiny))
    apart = -np.diff(logs) > _RESOLVED_GAP * np.sqrt(simulated.kurtosis / n)
    for i in range(min(COMPONENTS, simulated.single.shape[1])):
        draws = angle(simulated.single[:, i])
        centre = draws.mean()
        ends = np.quantile(draws, (tail, 1 - tail))
        low, high = simulated.widening * np.maximum([centre - ends[0], ends[1] - centre], 0.0)
        kept = float(simulated.kept[np.searchsorted(simulated.ks, i + 1)])  # that of the span it belongs to
        alignment, least, most = (
            float(with_collection(overlap_of(value), kept)) for value in (centre, centre - low, centre + high)
        )
        gaps = bool(apart[max(i - 1, 0) : i + 1].all())
        components.append(_component(alignment, (least, most), float(rows.values[i]), rows.vectors[i], gaps))
    return tuple(components)


def _component(
    alignment: float, interval: tuple[float, float], value: float, vector: FloatArray, gaps: bool
) -> Component:
    """A component; resolved if its interval is at most .5 wide and more than half of it is its namesake."""
    resolved = gaps and interval[1] - interval[0] <= 0.5 and alignment >= 0.5
    return Component(alignment, interval, resolved, value, vector)


def with_fewer_rows(findings: Findings, rows: float) -> Findings:
    """The findings when the rows may be worth as few as `rows` independent ones: fewer spans, lower ends, no plans.

    Whether rows that resemble each other depend on each other or are only sorted cannot be seen; the intervals hold
    both.
    """
    assert findings.spans is not None
    assert findings.curve is not None
    _, low, _ = findings.curve.at(max(rows, float(findings.curve.rows[0])))
    allowed = span_sizes(rows, len(findings.spans) and findings.spans[-1].k * 2)
    spans = tuple(
        replace(span, interval=(min(span.interval[0], float(end)), span.interval[1]), required_samples=None)
        for span, end in zip(findings.spans, low, strict=True)
        if span.k <= allowed[-1]
    )
    components = tuple(replace(c, interval=(0.0, c.interval[1]), resolved=False) for c in findings.components)
    return replace(findings, spans=spans, components=components, curve=findings.curve.first(len(spans)))
