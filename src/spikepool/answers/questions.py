"""The three questions: each is asked of rows that were read, and one that cannot be answered says why."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from spikepool.answers import sentences
from spikepool.answers.evaluations import picture
from spikepool.answers.result import Answer
from spikepool.data.description import Description
from spikepool.errors import SpikepoolError
from spikepool.kit.arrays import AnyArray
from spikepool.pooling.catalogue import poolings
from spikepool.pooling.learned_report import leading_candidates, leading_label
from spikepool.trust.diagnosis import UncenteredWarning, diagnose

CHOOSE = "which pooling serves these tokens best?"
TRUST = "which components of the features are real?"
PLAN = "what will more labelled rows bring?"


def choose(
    rows: Any, labels: Any, mask: Any, groups: Any, regression: bool, options: dict[str, Any], known: Any = None
) -> Answer:
    """Which pooling is best; `known` is a pooling that was fitted to the same rows."""
    from spikepool.pooling.learned import LearnedPoolingClassifier, LearnedPoolingRegressor
    from spikepool.pooling.spectral import SpectralPooling

    def ask() -> Answer:
        if labels is None:
            fitted: Any = SpectralPooling().fit(rows, mask=mask)
            verdict, advice = sentences.spectral(fitted)
            return Answer(CHOOSE, verdict, advice, fitted, pictures=(lambda ax: _draw_weights(ax, fitted.weights_),))
        kind = LearnedPoolingRegressor if regression else LearnedPoolingClassifier
        fitted = known or kind(**options).fit(rows, labels, mask=mask, groups=groups)
        verdict, advice = sentences.choose(fitted)
        pictures: list[Callable[[Any], Any]] = []
        if fitted.candidates_:
            shown = leading_candidates(fitted.candidates_)
            pictures.append(picture("draw_candidates", shown, leading_label(fitted), fitted._score_name))
        if not_diagnosed(fitted):
            pictures.append(lambda ax: fitted.plot(ax, "weights"))
        return Answer(CHOOSE, verdict, advice, fitted, pictures=tuple(pictures))

    return _asked(CHOOSE, ask)


def trust(features: Any, groups: Any, random_state: Any, facts: Description | None, span_target: float = 0.9) -> Answer:
    """Which components are real; a span is reliable from an overlap of `span_target`."""

    def ask() -> Answer:
        options = {"groups": groups, "random_state": random_state, "description": facts}
        diagnosis = diagnose(features, target=span_target, **options)
        verdict, advice = sentences.trust(diagnosis)
        drawn = ("spans", "rows") if diagnosis.verdict == "coloured" else ("spectrum",)
        pictures = tuple((lambda ax, what=what: diagnosis.plot(ax, what)) for what in drawn)
        return Answer(TRUST, verdict, advice, diagnosis, notes=tuple(diagnosis.warnings), pictures=pictures)

    return _asked(TRUST, ask)


def plan(
    rows: Any,
    features: Any,
    labels: AnyArray,
    mask: Any,
    groups: Any,
    target: float | None,
    pooling: Any,
    options: dict[str, Any],
) -> Answer:
    """What more rows will bring."""
    from spikepool.forecasting.forecast import forecast
    from spikepool.pooling.refitted import leading_candidate, leading_words

    def ask() -> Answer:
        if pooling is not None and not_diagnosed(pooling):
            # weights that have seen the labels would flatter the forecast: they are learned anew at every size, and the
            # choice that was made is handed over, so that nothing is compared twice
            again = leading_candidate(pooling)
            refit = {**options, "description": None}
            curve = forecast(rows, labels, target=target, estimator=again, mask=mask, groups=groups, **refit)
            curve = replace(curve, estimator=leading_words(pooling))
        else:
            curve = forecast(features, labels, target=target, groups=groups, **options)
        verdict, advice = sentences.plan(curve)
        chosen = getattr(pooling, "accuracy_", None)
        if target is not None and chosen is not None and chosen >= target > curve.score[0]:
            # the forecast is of the leading candidate alone, the chosen classifier may weigh several
            advice = f"Use the classifier of the first answer: it has accuracy {chosen:.3f} on rows left out."
        return Answer(PLAN, verdict, advice, curve, notes=tuple(curve.warnings), pictures=(lambda ax: curve.plot(ax),))

    return _asked(PLAN, ask)


def _asked(question: str, ask: Callable[[], Answer]) -> Answer:
    """The answer, or why there is none; warnings become notes."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", UserWarning)
        try:
            answer = ask()
        except SpikepoolError as err:
            reason = " ".join(str(err).split())
            return Answer(question, "Not answered.", reason, notes=(reason,))
    # features are centred here, so that a dominating mean does not matter
    shown = [w for w in raised if issubclass(w.category, UserWarning) and w.category is not UncenteredWarning]
    messages = dict.fromkeys(str(w.message) for w in shown)
    fresh = tuple(text for text in messages if text not in answer.notes and text not in answer.details())
    return Answer(
        question, answer.verdict, answer.advice, answer.result, (*answer.notes, *fresh), pictures=answer.pictures
    )


def not_diagnosed(pooling: Any) -> bool:
    """Whether features have seen the labels, or are of positions and not of a sequence."""
    spec = poolings().get(pooling.decision_)
    return spec is not None and (spec.learned or spec.keeps_positions)


def mean_of_tokens(rows: Any, mask: Any) -> AnyArray:
    """Mean over the observed tokens, (n, d)."""
    from spikepool.pooling.spectral import SpectralPooling

    return np.asarray(SpectralPooling(weights="mean").fit(rows, mask=mask).transform(rows, mask=mask))


def _draw_weights(ax: Any, weights: Any) -> Any:
    from spikepool.drawing.predictions import draw_weights

    return draw_weights(weights, ax)
