"""Ask the three questions of one data set, in order; a question that cannot be answered says why."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np
from scipy.special import softmax

from spikepool import __version__
from spikepool.answers import sentences
from spikepool.answers.result import MOST_LABELS, Answer, DataReport
from spikepool.answers.text_source import text_source
from spikepool.data.description import Caution, Description, numbered
from spikepool.data.estimator_input import shape_of
from spikepool.data.in_memory import as_array, padded
from spikepool.data.labels import decided_task, label_array
from spikepool.data.paths import is_path
from spikepool.data.reading import read_array, read_column, read_mask
from spikepool.errors import InvalidInputError, ShapeError, SpikepoolError
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.kit.progress import Stages, Told
from spikepool.kit.threads import serial_map
from spikepool.pooling.catalogue import poolings
from spikepool.pooling.evaluation import Evaluation, evaluate
from spikepool.pooling.heads import LogisticHead, of_features
from spikepool.pooling.judging import Classes, Task
from spikepool.pooling.learned_report import leading_candidates
from spikepool.pooling.learning_rows import split_layers
from spikepool.trust.diagnosis import UncenteredWarning, diagnose

CHOOSE = "which pooling serves these tokens best?"
TRUST = "which components of the features are real?"
PLAN = "what will more labelled rows bring?"
# Overlap of a span from which the report calls it known.
SPAN_TARGET = 0.9
_LISTED_CLASSES = 20
# Facts about the rows that are stated once for all questions.
KINDS = ("duplicates", "near-duplicates", "order", "dominating rows")
# Time of each question, about, for the progress bar alone.
SHARES = {"choose": 6.0, "trust": 1.0, "plan": 3.0}


def report(
    X: Any,
    y: Any = None,
    *,
    mask: Any = None,
    groups: Any = None,
    target: float | None = None,
    task: str = "auto",
    text: str | None = None,
    label: str | None = None,
    group: str | None = None,
    encoder: Any = "minilm",
    layers: Any = None,
    max_tokens: int = 128,
    random_state: Any = 0,
    progress: bool | Told | None = None,
    model: Any = None,
) -> DataReport:
    """Choose, trust, plan: three answers about one data set, each with its verdict, its picture and the next step.

    Parameters
    ----------
    X : array of shape (n, T, d), (n, layers, T, d) or (n, d), a mapping of layers, texts, a data frame, or a path
        Tokens, features that are pooled already, or texts: a list of strings, or a file or data frame with a column of
        texts, which are encoded first.
    y : array of shape (n,), optional
        Labels, or real numbers. Without them poolings are compared by :class:`spikepool.SpectralPooling`, and
        nothing is forecast.
    mask : array of shape (n, T), optional
        True where a token is observed.
    groups : array of shape (n,), optional
        Rows that belong together and must not be split.
    target : float, optional
        Accuracy (or R²) to plan for.
    task : {"auto", "classification", "regression"}
        By default a y with fractions is regression, anything else classification.
    text, label, group : str, optional
        Columns of a file or data frame of texts; found by their usual names where these are obvious.
    encoder, layers, max_tokens
        For texts, as in :class:`spikepool.TextClassifier`; by default ``layers="auto"``.
    random_state : int or numpy Generator
    progress : bool or callable, optional
        Show a progress bar; by default on a terminal or in a notebook, when the work is long. A function is called
        with the share that is done, from 0 to 1, and what is being done, instead.
    model : TextClassifier or TextRegressor, optional
        Fitted to the same texts and labels: it is the first answer, and nothing is encoded or compared again.

    Returns
    -------
    DataReport

    Notes
    -----
    Learned weights have seen the labels of their rows. The forecast therefore refits the pooling at every size, and the
    diagnosis looks at the mean of the tokens, in the layer that was chosen.
    """
    source = text_source(X, y, groups, text, label, group, encoder, layers, max_tokens, model, task, random_state)
    there: Any = slice(None)
    if source is not None:
        X, y, mask, groups, model = source.X, source.labels, source.mask, source.groups, source.model
        there = slice(None) if source.labelled.all() or y is None else source.labelled
    stack = split_layers(read_array(X) if is_path(X) else X)
    layered = len(stack) > 1
    rows, mask = padded(next(reversed(stack.values())) if layered else X, mask)  # the last layer has the shape
    rows = as_array(rows)
    shape = shape_of(rows)
    mask = read_mask(mask, shape) if is_path(mask) else mask
    y = read_column(y, rows=shape[0]) if is_path(y) else y
    if len(shape) not in (2, 3):
        raise ShapeError("X must be features (n, d) or tokens (n, T, d)", shape, "Pass one of these shapes")
    if mask is not None and len(shape) == 2:
        raise InvalidInputError("a mask belongs to tokens (n, T, d)", shape, "Drop the mask")
    labels = None if y is None else label_array(y)
    count = shape[0] if isinstance(there, slice) else int(there.sum())
    if labels is not None and labels.shape != (count,):
        raise ShapeError("y must have one label per row", labels.shape, f"Pass {count} labels")
    if target is not None:
        check.fraction(target, "target", closed=False)
    regression = labels is not None and decided_task(labels, task) == "regression"
    options = {"random_state": random_state}
    with Stages({name: SHARES[name] for name in _asked_of(shape, labels)}, progress) as stages:
        if len(shape) == 2:
            features = rows
            choose = Answer(
                CHOOSE,
                "The rows are pooled already, so there is nothing to choose.",
                "Pass tokens (n, T, d) instead of features to compare poolings.",
            )
            pooling = None
        else:
            with stages.stage("choose"):
                given = {name: _part(layer, there) for name, layer in stack.items()} if layered else _part(rows, there)
                fitted = getattr(model, "pooling_", None)
                choose = _choose(given, labels, _part(mask, there), _part(groups, there), regression, options, fitted)
                if source is not None and labels is not None and not regression and choose.result is not None:
                    kept_texts = source.texts if isinstance(there, slice) else list(compress(source.texts, there))
                    choose = _evaluated(choose, given, labels, _part(mask, there), kept_texts)
                pooling = choose.result
                if layered and labels is not None and pooling is not None:
                    rows = as_array(stack[pooling.layer_])
                everything = stack if layered else rows
                of_mean = pooling is None or _not_diagnosed(pooling)
                features = _mean(rows, mask) if of_mean else np.asarray(pooling.transform(everything, mask=mask))
        facts = _described(features, labels if isinstance(there, slice) and not regression else None, groups)
        with stages.stage("trust"):
            trust = _trust(features, groups, random_state, facts)
        if labels is None:
            plan = Answer(PLAN, "Not asked: there are no labels.", "Label a few hundred rows and pass them as labels.")
        else:
            with stages.stage("plan"):
                kind = {"task": "regression" if regression else "classification"}
                inputs = (_part(rows, there), _part(features, there), labels, _part(mask, there), _part(groups, there))
                known = facts if isinstance(there, slice) else None
                plan = _plan(*inputs, target, pooling, {**options, **kind, "description": known})
                if choose.evaluations and plan.result is not None:
                    plan = replace(plan, numbers=plan.result.summary(squared_error=False))
    if choose.result is None and trust.result is None and plan.result is None:
        raise InvalidInputError(f"none of the questions can be answered: {trust.notes[0]}", shape, "Check the data")
    said, trust, plan = _said_once(facts, trust, plan)
    words = _describe(shape, labels, regression)
    if source is not None:
        words = f"{source.words}; {words}"
    notes = (*(() if source is None else source.notes), *said)
    return DataReport(words, choose, trust, plan, __version__, notes, _facts(shape, labels, regression, source))


def _facts(
    shape: tuple[int, ...], labels: AnyArray | None, regression: bool, source: Any
) -> tuple[tuple[str, str], ...]:
    """The data set in a table."""
    facts = [("Rows", f"{shape[0]:,}")]
    if source is not None:
        facts.append(("Texts", source.words))
    if labels is not None and not regression:
        names, counts = np.unique(labels, return_counts=True)
        listed = [f"{name} ({count:,})" for name, count in zip(names.tolist(), counts.tolist(), strict=True)]
        rest = len(listed) - _LISTED_CLASSES
        shown = ", ".join(listed[:_LISTED_CLASSES]) + (f" and {rest} more" if rest > 0 else "")
        facts.append((f"Classes ({len(names):,})", shown))
    if labels is not None:
        facts.append(("Labelled rows", f"{len(labels):,}"))
    return tuple(facts)


def _part(rows: Any, there: Any) -> Any:
    """The rows that have a label."""
    return rows if rows is None or isinstance(there, slice) else rows[there]


def _asked_of(shape: tuple[int, ...], labels: AnyArray | None) -> list[str]:
    """The questions that take time for rows of this shape."""
    return [*(["choose"] if len(shape) == 3 else []), "trust", *([] if labels is None else ["plan"])]


def _describe(shape: tuple[int, ...], labels: AnyArray | None, regression: bool) -> str:
    n = f"{shape[0]:,}"
    rows = f"{n} rows of {shape[1]:,} features" if len(shape) == 2 else f"{n} rows of {shape[1]} tokens x {shape[2]:,}"
    if labels is None:
        return f"{rows}, no labels"
    return f"{rows}, {'a real target' if regression else f'{len(np.unique(labels))} classes'}"


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


def _choose(
    rows: Any, labels: Any, mask: Any, groups: Any, regression: bool, options: dict[str, Any], known: Any = None
) -> Answer:
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
            pictures.append(_picture("draw_candidates", shown, fitted._chosen, fitted._score_name))
        if _not_diagnosed(fitted):
            pictures.append(lambda ax: fitted.plot(ax, "weights"))
        return Answer(CHOOSE, verdict, advice, fitted, pictures=tuple(pictures))

    return _asked(CHOOSE, ask)


def _picture(function: str, *given: Any) -> Callable[[Any], Any]:
    """A picture by one of the functions that draw poolings."""

    def draw(ax: Any) -> Any:
        from spikepool.drawing import poolings

        return getattr(poolings, function)(ax, *given)

    return draw


def _evaluated(answer: Answer, rows: Any, labels: AnyArray, mask: Any, texts: list[str]) -> Answer:
    """The answer with the classifier and two tuned logistic regressions judged on the same rows left out."""
    fitted = answer.result
    known = getattr(fitted, "_left_out", None)
    if known is None or len(labels) != len(texts):
        return answer
    learning, folds, values = known
    here = folds >= 0
    left_out = learning[here]
    classes, codes = fitted.classes_, np.searchsorted(fitted.classes_, labels[learning])

    def judged(p: AnyArray) -> Evaluation:
        result = evaluate(classes, p[here], labels[left_out], [texts[i] for i in left_out])
        rows = [{**one, "row": int(left_out[one["row"] - 1]) + 1} for one in result.mistakes]
        return replace(result, mistakes=tuple(rows))

    evaluations = {"this classifier": judged(values)}
    layers = rows if isinstance(rows, dict) else {None: rows}
    observed = np.ones(shape_of(layers[next(iter(layers))])[:2], dtype=bool) if mask is None else np.asarray(mask)
    observed = observed[learning]
    share = (observed / observed.sum(axis=1, keepdims=True)).astype(np.float32)
    first = observed.argmax(axis=1)
    means, firsts = [], []
    for tokens in layers.values():
        part = np.asarray(tokens)[learning]
        means.append(np.einsum("ntd,nt->nd", part, share, dtype=np.float32))
        firsts.append(part[np.arange(len(part)), first].astype(np.float32))
    of_layer = "" if len(layers) == 1 else f" of layer {next(reversed(layers))}"
    sides = "mean and first token" + (" of all layers" if len(layers) > 1 else "")
    for name, C in ((f"mean{of_layer}", means[-1]), (sides, np.concatenate([*means, *firsts], axis=1))):
        tuned = tuned_logistic(C, Classes(codes, len(classes)), folds)
        evaluations[f"tuned logistic regression, {name}"] = judged(tuned)
    ours = evaluations["this classifier"]
    compared = answer.pictures[:1] if fitted.candidates_ else ()
    pictures = [*compared, _picture("draw_calibration", ours.bins)]
    if len(ours.labels) <= MOST_LABELS:
        pictures.append(_picture("draw_confusion", ours.labels, ours.confusion))
    return replace(answer, pictures=tuple(pictures), evaluations=evaluations)


def tuned_logistic(C: FloatArray, objective: Classes, folds: IntArray) -> FloatArray:
    """Probabilities (n, K) of rows left out, from logistic regression on features C (n, F), its penalty tuned."""
    ones = np.ones(len(C))
    task = Task(objective, ones, folds, np.arange(len(C)), np.where(folds >= 0, ones, 0.0))
    whole = of_features(C, ones, scaled=True)
    scores = LogisticHead().judge(lambda _: whole, task, serial_map).scores
    return np.asarray(softmax(objective.weigh([scores], task.judging)[0] * scores, axis=1))


def _not_diagnosed(pooling: Any) -> bool:
    """Whether features have seen the labels, or are of positions and not of a sequence."""
    spec = poolings().get(pooling.decision_)
    return spec is not None and (spec.learned or spec.keeps_positions)


def _draw_weights(ax: Any, weights: Any) -> Any:
    from spikepool.drawing.predictions import draw_weights

    return draw_weights(weights, ax)


def _mean(rows: Any, mask: Any) -> AnyArray:
    from spikepool.pooling.spectral import SpectralPooling

    return np.asarray(SpectralPooling(weights="mean").fit(rows, mask=mask).transform(rows, mask=mask))


def _described(features: Any, labels: AnyArray | None, groups: Any) -> Description | None:
    """Copies, order and outlying rows of features; None where they cannot be read."""
    if len(features) < 2:
        return None
    try:
        rows = check.finite_array(features, "X", ndim=2)
    except SpikepoolError:
        return None
    numbers = [None if given is None else numbered(np.asarray(given))[0] for given in (labels, groups)]
    return Description(rows, *numbers)


def _said_once(facts: Description | None, *answers: Answer) -> tuple[tuple[str, ...], Answer, Answer]:
    """Notes about the rows, listed once for the whole report, and the answers without them."""
    facts_by_kind: dict[str, str] = {}
    rest = []
    for answer in answers:
        cautions = {note.kind: note for note in answer.notes if isinstance(note, Caution) and note.kind in KINDS}
        for kind, note in cautions.items():
            facts_by_kind.setdefault(kind, (None if facts is None else facts.caution(kind)) or note)
        rest.append(replace(answer, notes=tuple(note for note in answer.notes if note not in cautions.values())))
    trust, plan = rest
    return tuple(facts_by_kind[kind] for kind in KINDS if kind in facts_by_kind), trust, plan


def _trust(features: Any, groups: Any, random_state: Any, facts: Description | None) -> Answer:
    def ask() -> Answer:
        options = {"groups": groups, "random_state": random_state, "description": facts}
        diagnosis = diagnose(features, target=SPAN_TARGET, **options)
        verdict, advice = sentences.trust(diagnosis)
        drawn = ("spans", "rows") if diagnosis.verdict == "coloured" else ("spectrum",)
        pictures = tuple((lambda ax, what=what: diagnosis.plot(ax, what)) for what in drawn)
        return Answer(TRUST, verdict, advice, diagnosis, notes=tuple(diagnosis.warnings), pictures=pictures)

    return _asked(TRUST, ask)


def _plan(
    rows: Any,
    features: Any,
    labels: AnyArray,
    mask: Any,
    groups: Any,
    target: float | None,
    pooling: Any,
    options: dict[str, Any],
) -> Answer:
    from spikepool.forecasting.forecast import forecast
    from spikepool.pooling.refitted import leading_candidate, leading_words

    def ask() -> Answer:
        if pooling is not None and _not_diagnosed(pooling):
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
