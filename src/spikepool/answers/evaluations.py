"""The classifier of a report judged beside two tuned logistic regressions, on the same rows left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import softmax

from spikepool.answers.result import MOST_LABELS, Answer
from spikepool.data.estimator_input import shape_of
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.kit.threads import serial_map
from spikepool.pooling.design import of_features
from spikepool.pooling.evaluation import Evaluation, evaluate
from spikepool.pooling.heads import LogisticHead
from spikepool.pooling.judging import Classes, Task


def evaluated(answer: Answer, rows: Any, labels: AnyArray, mask: Any, texts: list[str]) -> Answer:
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
    pictures = [*compared, picture("draw_calibration", ours.bins)]
    if len(ours.labels) <= MOST_LABELS:
        pictures.append(picture("draw_confusion", ours.labels, ours.confusion))
    return replace(answer, pictures=tuple(pictures), evaluations=evaluations)


def tuned_logistic(C: FloatArray, objective: Classes, folds: IntArray) -> FloatArray:
    """Probabilities (n, K) of rows left out, from logistic regression on features C (n, F), its penalty tuned."""
    ones = np.ones(len(C))
    task = Task(objective, ones, folds, np.arange(len(C)), np.where(folds >= 0, ones, 0.0))
    whole = of_features(C, ones, scaled=True)
    scores = LogisticHead().judge(lambda _: whole, task, serial_map).scores
    return np.asarray(softmax(objective.weigh([scores], task.judging)[0] * scores, axis=1))


def picture(function: str, *given: Any) -> Callable[[Any], Any]:
    """A picture by one of the functions that draw poolings."""

    def draw(ax: Any) -> Any:
        from spikepool.drawing import poolings

        return getattr(poolings, function)(ax, *given)

    return draw
