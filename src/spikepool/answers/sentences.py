"""Verdicts and next steps in words. Each function takes a result and returns (verdict, advice)."""

from __future__ import annotations

from typing import Any

import numpy as np

from spikepool.kit.text import number
from spikepool.pooling.catalogue import poolings
from spikepool.pooling.learned_report import verdict

# Gain of the forecast from four times the rows below which more rows are called of little use.
LITTLE_GAIN = 0.01


def choose(fitted: Any) -> tuple[str, str]:
    """Whether attention, or another pooling, helps, as a labelled comparison found."""
    if not fitted.candidates_:
        words = poolings()[fitted.decision_].description + ("" if fitted.layer_ is None else f", layer {fitted.layer_}")
        return (
            f"Features: {words}. Nothing was compared: {fitted.reason_}.",
            "Pass more rows, of more than one position, to compare poolings.",
        )
    score = f"{fitted._score_name} {fitted.fitted_.score:.3f} on rows left out"
    mean = fitted.candidates_[0]
    if fitted.prediction_ == "mean":
        return (
            f"{verdict(fitted)}. Mean pooling has {score}.",
            "Pool by the mean; more labelled rows could still tell small differences apart.",
        )
    return (
        f"{verdict(fitted)}; {score}, {mean.label} {mean.score:.3f}.",
        f"Use the model as fitted here; its transform gives the features of {fitted._chosen}.",
    )


def spectral(fitted: Any) -> tuple[str, str]:
    """The pooling that was chosen without labels."""
    if fitted.decision_ == "mean":
        return (
            "Keep the mean: without labels there is no significant evidence for other weights.",
            "Pass labels to compare more poolings, learned ones among them.",
        )
    return (
        "Weights by position that promise more signal than the mean, found without labels.",
        "Use SpectralPooling().fit(X).transform(X); pass labels to check the gain on a task.",
    )


def trust(diagnosis: Any) -> tuple[str, str]:
    """Which components a diagnosis stands behind."""
    if diagnosis.verdict == "coloured":
        return _spans(diagnosis)
    if diagnosis.verdict == "signal":
        m, first = len(diagnosis.outliers), diagnosis.outliers[0]
        more = (
            f"{number(first.required_samples)} rows would bring the first to {diagnosis.target:g}."
            if first.required_samples is not None
            else f"No number of rows brings the first to {diagnosis.target:g}; it needs a stronger signal."
        )
        return (
            f"{m} component{'s' if m > 1 else ''} stand{'' if m > 1 else 's'} out of isotropic noise; the first has an "
            f"alignment of {first.alignment:.3f} ± {first.alignment_standard_error:.1g} with the direction behind it.",
            f"Keep {m} component{'s' if m > 1 else ''} at most. {more}",
        )
    if diagnosis.verdict == "no signal":
        return (
            "No component stands out of isotropic noise.",
            "Do not interpret principal components of these features; gather more rows or change the features.",
        )
    return (
        f"No number is given: {getattr(diagnosis, 'reason', 'the rows fit neither description')}.",
        "Check the rows for duplicates, mixtures and dependence, and pass groups where rows belong together.",
    )


def _spans(diagnosis: Any) -> tuple[str, str]:
    known = [s for s in diagnosis.spans if s.interval[0] >= diagnosis.target]
    best = max(diagnosis.spans, key=lambda s: s.overlap)
    if known:
        k = known[-1].k
        words = "The first component is reliable" if k == 1 else f"The top {k} components are reliable together"
        text = f"{words}: overlap {_span(known[-1])} with the population's."
        keep = "Keep the first component" if k == 1 else f"Keep the top {k} as a whole"
    else:
        text = f"No span is reliable at {diagnosis.target:g}; the best is the top {best.k}, overlap {_span(best)}."
        keep = "Treat principal components as exploratory"
    resolved = sum(component.resolved for component in diagnosis.components)
    text += f" Taken singly, {resolved} of the first {len(diagnosis.components)} can be interpreted."
    planned = [s for s in diagnosis.spans if s.required_samples is not None and s.interval[0] < diagnosis.target]
    n = diagnosis.n_effective
    wider = [s for s in planned if s.required_samples[1] > n and _rough(s.required_samples[1]) != _rough(n)]
    if not wider:
        if known and 0 < resolved == len(diagnosis.components):
            return text, f"{keep.removesuffix(' as a whole')}; each of the first {resolved} stands for itself."
        return text, f"{keep}; do not interpret the others singly."
    span = wider[0]
    low, high = span.required_samples
    if low > n:
        plan = f"{_rough(low)} to {_rough(high)} rows would bring the top {span.k} to {diagnosis.target:g}"
    else:  # the interval holds the target: these rows may be enough
        plan = f"the top {span.k} may be at {diagnosis.target:g} already, and {_rough(high)} rows make sure of it"
    return text, f"{keep}; {plan}."


def _span(span: Any) -> str:
    return f"{span.overlap:.2f} (90 %: {span.interval[0]:.2f} to {span.interval[1]:.2f})"


def _rough(rows: float) -> str:
    """Round to two significant digits."""
    return f"{int(float(f'{rows:.2g}')):,}"


def plan(result: Any) -> tuple[str, str]:
    """What more labelled rows bring, from the forecast's own numbers."""
    if result.verdict == "at chance":
        return (
            "The pilot is at chance: it shows no signal that a forecast could extend.",
            "Check that labels and rows belong together; then try other features or label several times as many rows.",
        )
    rows, score = np.asarray(result.n), np.asarray(result.score)
    there = min(2, len(rows) - 1)
    text = f"{_capital(result.estimator)}: {result.score_name} {_at(result, rows[0])}; {_at(result, rows[there])}."
    if result.target is not None:
        text += f" {_capital(result.target_line())}."
    if not result.self_check.ok:
        return text, "Rely on the forecast less than its interval says: the curve misses the pilot's own points."
    if not result.known[there]:
        return text, "Label as many rows again and repeat the forecast."
    gain = float(score[there] - score[0]) * (1 if result.higher_is_better else -1)
    promise = f"{rows[there] / rows[0]:.2g} times as many rows promise {100 * gain:+.1f} points"
    if result.target is not None:
        high = result.required_samples[2]
        if high is not None and high <= result.pilot_rows:
            return text, "The rows at hand are enough for the target."
        if not result.allows_target:
            return text, f"Change the features or the model to reach the target; {promise}."
        if high is None:
            return text, "Label as many rows again and repeat the forecast before ordering more for the target."
    if gain < LITTLE_GAIN:
        return (
            text,
            f"More rows like these bring {result.estimator} little (its limit is about {result.limit:.2f}): "
            "try other features (layer, encoder), another model, or cleaner labels.",
        )
    return text, f"Label more rows: {promise}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _at(result: Any, n: int) -> str:
    place = int(np.flatnonzero(np.asarray(result.n) == n)[0])
    if not result.known[place]:
        return f"not known with {int(n):,} rows"
    low, high = np.asarray(result.interval)[place]
    return f"{result.score[place]:.3f} with {int(n):,} rows ({result.level:.0%}: {low:.3f} to {high:.3f})"
