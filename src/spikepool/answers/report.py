"""Ask the three questions of one data set, in order; a question that cannot be answered says why."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from spikepool import __version__
from spikepool.answers import questions as ask
from spikepool.answers.evaluations import evaluated
from spikepool.answers.result import Answer, DataReport
from spikepool.answers.text_source import text_source
from spikepool.data.description import Caution, Description, numbered
from spikepool.data.estimator_input import shape_of
from spikepool.data.in_memory import as_array, padded
from spikepool.data.labels import decided_task, label_array
from spikepool.data.paths import is_path
from spikepool.data.reading import read_array, read_column, read_mask
from spikepool.errors import InvalidInputError, ShapeError, SpikepoolError
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray
from spikepool.kit.progress import Stages, Told
from spikepool.pooling.layers import split_layers

_LISTED_CLASSES = 20
# Facts about the rows that are stated once for all ask.
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
                ask.CHOOSE,
                "The rows are pooled already, so there is nothing to choose.",
                "Pass tokens (n, T, d) instead of features to compare poolings.",
            )
            pooling = None
        else:
            with stages.stage("choose"):
                given = {name: _part(layer, there) for name, layer in stack.items()} if layered else _part(rows, there)
                fitted = getattr(model, "pooling_", None)
                choose = ask.choose(
                    given, labels, _part(mask, there), _part(groups, there), regression, options, fitted
                )
                if source is not None and labels is not None and not regression and choose.result is not None:
                    kept_texts = source.texts if isinstance(there, slice) else list(compress(source.texts, there))
                    choose = evaluated(choose, given, labels, _part(mask, there), kept_texts)
                pooling = choose.result
                if layered and labels is not None and pooling is not None:
                    rows = as_array(stack[pooling.layer_])
                everything = stack if layered else rows
                of_mean = pooling is None or ask.not_diagnosed(pooling)
                features = (
                    ask.mean_of_tokens(rows, mask) if of_mean else np.asarray(pooling.transform(everything, mask=mask))
                )
        facts = _described(features, labels if isinstance(there, slice) and not regression else None, groups)
        with stages.stage("trust"):
            trust = ask.trust(features, groups, random_state, facts)
        if labels is None:
            plan = Answer(
                ask.PLAN, "Not asked: no labels were given.", "Label a few hundred rows and pass them as labels."
            )
        else:
            with stages.stage("plan"):
                kind = {"task": "regression" if regression else "classification"}
                inputs = (_part(rows, there), _part(features, there), labels, _part(mask, there), _part(groups, there))
                known = facts if isinstance(there, slice) else None
                plan = ask.plan(*inputs, target, pooling, {**options, **kind, "description": known})
                if choose.evaluations and plan.result is not None:
                    plan = replace(plan, numbers=plan.result.summary(squared_error=False))
    if choose.result is None and trust.result is None and plan.result is None:
        raise InvalidInputError(f"none of the questions can be answered. {trust.notes[0].rstrip('.')}")
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
