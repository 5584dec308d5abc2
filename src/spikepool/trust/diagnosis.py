"""Is this component real? What the rows of pooled features say about the population they came from."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.data.description import Description
from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.theory import spikes
from spikepool.trust.bulk_fit import FEWEST_NONZERO, BulkFit, edge_factor
from spikepool.trust.findings import Findings, coloured_findings, signal_findings, with_fewer_rows
from spikepool.trust.isotropic import DiagnosedOutlier
from spikepool.trust.memory_rows import MemoryRows, spanned
from spikepool.trust.reading import open_rows
from spikepool.trust.regimes import IsotropicReading, read_isotropic
from spikepool.trust.result import Diagnosis
from spikepool.trust.sample import drift_caution
from spikepool.trust.usage import explaining_usage

__all__ = ["DiagnosedOutlier", "Diagnosis", "UncenteredWarning", "diagnose"]


class UncenteredWarning(UserWarning):
    """The top component of the uncentred covariance is the mean of the features, not a signal."""


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
        Pooled features, one row per sequence; at least four rows and four features. They are centred here.
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
    findings = Findings(isotropic.verdict or "", isotropic.reason, n if group is not None else len(facts.counts))
    cautions = [facts.caution(kind) for kind in ("duplicates", "near-duplicates", "dominating rows")]
    halves = (1.0, 0.0)
    if isotropic.verdict == "signal":
        findings = signal_findings(rows, isotropic, findings, target, gain)
    elif isotropic.verdict is None or isotropic.unequal:
        simulated, halves = coloured_findings(
            rows, units, group is not None, isotropic.reason, target, population_size, rng, progress
        )
        # noise of a fitted vocabulary, unless halves of the rows agree on the components
        if isotropic.verdict is None or simulated.verdict == "coloured":
            findings, believed = simulated, False
    if group is None:
        cautions.append(facts.caution("order") or drift_caution(*halves))
    if findings.curve is not None and (facts.near_share is not None or facts.ordered):
        findings = with_fewer_rows(findings, findings.n_effective * facts.independent_share())
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


def _read(rows: MemoryRows, delta: float | None, factor: float | None) -> tuple[MemoryRows, IsotropicReading]:
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


def _mean_is_top(rows: MemoryRows, fit: BulkFit, isotropic: bool) -> bool:
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
