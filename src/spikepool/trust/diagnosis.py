"""Is this component real? What the rows of pooled features say about the population they came from."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.data.description import Description
from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.progress import Progress
from spikepool.kit.statistics import SIGNIFICANCE
from spikepool.theory import spikes
from spikepool.trust.bulk_fit import FEWEST_NONZERO, BulkFit, edge_factor
from spikepool.trust.coloured import Simulated, angle, have_order, overlap_of, simulate, steady_spans
from spikepool.trust.isotropic import DiagnosedOutlier, explain, mixed
from spikepool.trust.planning import Curve, collection_interval, curve, required_rows, with_collection
from spikepool.trust.reading import open_rows
from spikepool.trust.regimes import IsotropicReading, read_isotropic
from spikepool.trust.result import Component, Diagnosis, SelfCheck, Span
from spikepool.trust.sample import COMPONENTS, FEWEST_ROWS, Rows, drift_caution, span_sizes, spanned
from spikepool.trust.usage import explaining_usage

# A single component is resolved when its interval is no wider than this and more than half of it is its namesake.
_RESOLVED_WIDTH = 0.5
# Share of the draws of a single component beyond each end of its interval: the largest and smallest of 30.
_TAIL = 1 / 31
# Seed of the simulated draws.
_NODES = 0
# Difference of log eigenvalues, in sqrt(E[s²]/n), which two equal population eigenvalues exceed with probability
# exp(−x²/8).
_RESOLVED_GAP = math.sqrt(-8 * math.log(SIGNIFICANCE))


__all__ = ["DiagnosedOutlier", "Diagnosis", "UncenteredWarning", "diagnose"]


class UncenteredWarning(UserWarning):
    """The top component of the uncentred covariance is the mean of the features, not a signal."""


@dataclass(frozen=True)
class _Findings:
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


def diagnose(
    C: Any,
    V: int | None = None,
    weights: ArrayLike | None = None,
    *,
    alpha: float | None = None,
    target: float = 0.9,
    groups: ArrayLike | None = None,
    population_size: int | None = None,
    random_state: Any = 0,
    progress: bool | None = None,
    description: Description | None = None,
) -> Diagnosis:
    """Which principal components of pooled features are real, and how many rows would make them so.

    Two regimes, decided from the data. Where the bulk is that of *isotropic pooled noise*, each eigenvalue beyond its
    edge and a Tracy-Widom margin is inverted to the spike that caused it: its alignment with the unseen direction,
    standard errors, and the samples for `target`. Real features have unequal variances and heavy-tailed rows instead
    (*coloured*): there the agreement of the span of the top k components with the population's is simulated from the
    spectrum and the row scales, and checked on random halves of the rows.

    Parameters
    ----------
    C : array_like or memory map of shape (n_samples, d)
        Pooled features, one row a sequence; at least four of each. They are centred here. More than 200 MB (as float64)
        are read in blocks, twice, and never held.
    V : int, optional
        Vocabulary size; fitted from the bulk when not given.
    weights : array_like of shape (T,), optional
        Pooling weights; with them the variance of a token's noise is reported (``noise_variance``), and with `V` as
        well the edge is that of sequences of finite length, and a spectrum that the use of tokens explains (Zipf's
        frequencies of some exponent) is "no signal".
    alpha : float, optional
        Signal gain w'Rw. The spectrum shows the direction mu·u + zeta along which *this table's* classes differ, and
        the alignment is with that direction. With `alpha` and `weights` it is turned into the alignment with u
        itself, by the factor mu²/(mu² + delta) = 1 − alpha·delta/theta (in units of the token noise).
    target : float
        Alignment, or overlap of a span, to plan for.
    groups : array_like of shape (n_samples,), optional
        Rows of one group (a document, a speaker, a stretch of a series) depend on each other; they stay together when
        rows are split and resampled, and count for fewer.
    population_size : int, optional
        Rows of the finite collection that these were drawn from, at random and without replacement (an archive of
        which a part was encoded). Spans, components and plans of coloured features are then about the components of
        that collection, of which the sample is a part: the loss 1 − overlap shrinks by a factor that is simulated,
        1 − n/M where it is small. Without it they are about an unlimited population.
    random_state : int or numpy Generator
        Seed of the splits and resamples of the rows. Simulated draws are the same for every seed.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after a couple of seconds.
    description : spikepool.data.description.Description, optional
        Copies, order and outlying rows, where they have been looked for already.

    Returns
    -------
    Diagnosis

    Warns
    -----
    UncenteredWarning
        When the mean of the features dominates the uncentred covariance: a principal component of the raw
        features would be the mean, which carries no signal.

    Notes
    -----
    Agreement is with the population that the rows were drawn from. That the rows are drawn from the population of
    interest cannot be seen in them. Nothing is said of clusters: whether a clustering would be found again is another
    question (compare clusterings of two halves of the rows).

    Examples
    --------
    >>> import numpy as np, spikepool as sp
    >>> report = sp.diagnose(np.random.default_rng(0).standard_normal((400, 100)))
    >>> report.verdict
    'no signal'
    """
    target = check.fraction(target, "target", closed=False)
    V = None if V is None else check.size(V, "V", minimum=2)
    w = None if weights is None else check.weight_vector(weights)
    kappa = None if w is None else float(w @ w)
    if alpha is not None:
        alpha = check.positive(alpha, "alpha")
        if kappa is None:
            raise InvalidInputError("alpha needs the weights as well", alpha, "Pass weights=w")
    rng = check.generator(random_state)
    rows, group = open_rows(C, groups, description)
    n, d = rows.n, rows.d
    if population_size is not None:
        population_size = check.size(population_size, "population_size")
        if population_size < n:
            raise InvalidInputError(
                f"population_size must be at least the {n:,} rows at hand", population_size, "Count these as well"
            )
    factor = None if V is None or w is None else edge_factor(w, d, V, n)
    eigenvalues = rows.values
    rows, isotropic = _read(rows, None if V is None else d / V, factor)
    believed = isotropic.verdict is not None
    if not believed and V is not None and w is not None:
        exponent = explaining_usage(eigenvalues, n, V, w, rng)
        if exponent is not None:
            reason = f"noise pooled over tokens of frequencies rank^-{exponent:g} has this spectrum"
            isotropic = replace(isotropic, verdict="no signal", n_outliers=0, reason=reason)
    noise = None if kappa is None else isotropic.fit.law.scale / kappa
    gain = None if alpha is None or noise is None else alpha * noise
    facts = rows.description
    units = facts.units if group is None else group
    findings = _Findings(isotropic.verdict or "", isotropic.reason, n if group is not None else len(facts.counts))
    cautions = [facts.caution(kind) for kind in ("duplicates", "near-duplicates", "dominating rows")]
    halves = (1.0, 0.0)
    if isotropic.verdict == "signal":
        findings = _signal(rows, isotropic, findings, target, gain)
    elif isotropic.verdict is None or isotropic.unequal:
        simulated, halves = _coloured(
            rows, units, group is not None, isotropic.reason, target, population_size, rng, progress
        )
        # noise of a fitted vocabulary, unless halves of the rows agree on the components
        if isotropic.verdict is None or simulated.verdict == "coloured":
            findings, believed = simulated, False
    if group is None:
        cautions.append(facts.caution("order") or drift_caution(*halves))
    if findings.curve is not None and (facts.near_share is not None or facts.ordered):
        findings = _with_fewer_rows(findings, findings.n_effective * facts.independent_share())
    mean_is_top = _mean_is_top(rows, isotropic.fit, believed)
    if mean_is_top:
        warnings.warn(
            "the mean of the features dominates their uncentred covariance; centre them before taking components",
            UncenteredWarning,
            stacklevel=2,
        )
    return Diagnosis(
        verdict=findings.verdict,
        outliers=findings.outliers,
        spans=findings.spans,
        components=findings.components,
        self_check=findings.self_check,
        warnings=tuple(caution for caution in cautions if caution is not None),
        curve=findings.curve,
        population=None
        if findings.population is None
        else np.pad(findings.population, (0, d - len(findings.population))),
        reason=findings.reason,
        bulk=isotropic.fit.law,
        edge=isotropic.fit.edge,
        margin=isotropic.fit.margin,
        distance=isotropic.fit.distance,
        eigenvalues=eigenvalues,
        mean_is_top=mean_is_top,
        isotropic=believed,
        n_samples=n,
        n_effective=findings.n_effective,
        target=target,
        population_size=population_size,
        noise_variance=noise if believed else None,
    )


def _read(rows: Rows, delta: float | None, factor: float | None) -> tuple[Rows, IsotropicReading]:
    """The rows as isotropic noise: of their dimension, or of fewer that they span.

    A vocabulary below the dimension leaves eigenvalues of zero, which the law knows. Columns that repeat or sum up
    others leave them too, and then the noise is isotropic, if anywhere, in what the rows span.
    """
    deficient = rows.rank < min(len(rows.description.counts) - 1, rows.d)
    reading = None if deficient and rows.rank <= FEWEST_NONZERO * rows.d else read_isotropic(rows, delta, factor)
    if not deficient or (reading is not None and reading.verdict is not None):
        assert reading is not None
        return rows, reading
    inside = spanned(rows)
    reading = read_isotropic(inside)
    return inside, replace(reading, reason=f"{reading.reason}; the features span {rows.rank:,} dimensions")


def _with_fewer_rows(findings: _Findings, rows: float) -> _Findings:
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


def _signal(
    rows: Rows, isotropic: IsotropicReading, findings: _Findings, target: float, gain: float | None
) -> _Findings:
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


def _coloured(
    rows: Rows,
    units: IntArray,
    grouped: bool,
    reason: str,
    target: float,
    population_size: int | None,
    rng: np.random.Generator,
    progress: bool | None,
) -> tuple[_Findings, tuple[float, float]]:
    """Simulate; with the agreement of contiguous and of random halves."""
    n_units = int(units.max()) + 1
    if n_units < FEWEST_ROWS:
        return _Findings("poor fit", f"{reason}; {n_units} independent rows say nothing else", n_units), (1.0, 0.0)
    sample = rows.sample(units, grouped, rng)
    share = 0.0 if population_size is None else rows.n / population_size
    with Progress(100, "simulating", show=progress) as bar:
        # the same draws for every seed: intervals of the same rows differ by what splits and resamples of the rows say
        nodes = np.random.default_rng(_NODES)
        simulated = simulate(sample, nodes, bar.advance, sample.n_effective / share if share else None)
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
    findings = _Findings(verdict, reason, sample.n_effective, self_check=SelfCheck(observed, expected, ok))
    if not ok:
        return findings, order
    path = curve(simulated, sample.n_effective, sample.n_effective / share if share else None)
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


def _single(rows: Rows, simulated: Simulated, n: int) -> tuple[Component, ...]:
    """Single components with 90 % intervals: quantiles of the draws, widened on the angle."""
    components = []
    logs = np.log(np.maximum(rows.values[: COMPONENTS + 1], np.finfo(float).tiny))
    apart = -np.diff(logs) > _RESOLVED_GAP * np.sqrt(simulated.kurtosis / n)
    for i in range(min(COMPONENTS, simulated.single.shape[1])):
        draws = angle(simulated.single[:, i])
        centre = draws.mean()
        ends = np.quantile(draws, (_TAIL, 1 - _TAIL))
        low, high = simulated.widening * np.maximum([centre - ends[0], ends[1] - centre], 0.0)
        kept = float(simulated.kept[np.searchsorted(simulated.ks, i + 1)])  # that of the span it belongs to
        alignment, least, most = (
            float(with_collection(overlap_of(value), kept)) for value in (centre, centre - low, centre + high)
        )
        gaps = bool(apart[max(i - 1, 0) : i + 1].all())
        components.append(_component(alignment, (least, most), float(rows.values[i]), rows.vectors[i], gaps))
    return tuple(components)


def _component(
    alignment: float, interval: tuple[float, float], value: float, vector: FloatArray, gaps: bool = True
) -> Component:
    resolved = gaps and interval[1] - interval[0] <= _RESOLVED_WIDTH and alignment >= _RESOLVED_WIDTH
    return Component(alignment, interval, resolved, value, vector)


def _mean_is_top(rows: Rows, fit: BulkFit, isotropic: bool) -> bool:
    """Whether adding mean mean' to the centred covariance puts the mean on top.

    Over isotropic noise the sample mean of pure noise has squared norm scale·gamma, which stays inside the bulk; a
    spike of strength theta gives the outlier lambda(x) as any other. Elsewhere the norms are compared.
    """
    squared = float(np.sum(rows.mean**2))
    if not isotropic:
        return squared > float(rows.values[0])
    law = fit.law
    x = squared / law.scale - law.delta - law.gamma
    if x <= float(spikes.critical_excess(law.delta, law.gamma)):
        return False
    return bool(spikes.sample_outlier(x, law.delta, law.gamma, law.scale) > rows.values[0])
