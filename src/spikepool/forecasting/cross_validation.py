"""Cross-validation of any scikit-learn estimator at sizes below the pilot.

Rows in random order, classes in proportion and groups together, are cut into five blocks. For each block and each of
seven sizes s, from a tenth to four fifths of the pilot, the estimator is fitted to the s rows that follow the block,
the first rows following the last, and predicts the block. The score at s is that of the predictions of all n rows
together: the macro-F1 of a block of forty rows is not that of many.
"""

from __future__ import annotations

import warnings as python_warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from spikepool.data.folds import fold_blocks
from spikepool.errors import InvalidInputError, SizeError
from spikepool.forecasting.level import REWEIGHTINGS
from spikepool.forecasting.measured_curve import FEWEST_SIZES
from spikepool.forecasting.measured_sizes import MeasuredSizes
from spikepool.forecasting.pilot import FEWEST_TRAINED, FRACTIONS
from spikepool.forecasting.pilot_input import FOLDS, PilotInput
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.kit.progress import Progress

_RESPONSES = ("predict", "predict_proba", "decision_function")
_LINEAR = "linear"
Responses = dict[str, AnyArray]


class OutOfFold(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Predictions of given rows, as the estimator that a scorer asks for them."""

    def __init__(self, model: Any, classes: AnyArray | None, responses: Responses) -> None:
        self.model, self.responses = model, responses
        if classes is not None:
            self.classes_ = classes

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.model)

    def __getattr__(self, name: str) -> Any:
        if name not in vars(self).get("responses", ()):
            raise AttributeError(f"no {name} from every fit: the model lacks it, or a training set lacks a class")

        def respond(X: Any) -> AnyArray:
            response = self.responses[name]
            if len(X) != len(response):
                raise InvalidInputError("the scorer asks for other rows", len(X), "Score the rows that it is given")
            return response

        respond.__name__ = name  # scorers look methods up by name
        return respond


def measure_sizes(
    model: Any,
    scorer: Any,
    X: FloatArray,
    y: AnyArray,
    pilot: PilotInput,
    rng: np.random.Generator,
    *,
    n_jobs: int | None,
    progress: bool | None,
    name: str,
) -> MeasuredSizes:
    """Fit and score `model` at every size that the pilot allows."""
    order, ends = fold_blocks(pilot.groups, pilot.labels, FOLDS, rng)
    n, blocks = len(order), np.diff(ends, prepend=0)
    least = max(FEWEST_TRAINED, 0 if pilot.labels is None else 2 * int(pilot.labels.max() + 1))
    largest = n - int(blocks.max())
    first = min(max(least, FRACTIONS[-1] * n), n // 2, largest)
    sizes = np.unique(np.geomspace(first, min(FRACTIONS[0] * n, largest), len(FRACTIONS)).round().astype(int))
    tasks = [
        (order[np.arange(end, end + size) % n], order[end - block : end])
        for size in sizes
        for end, block in zip(ends, blocks, strict=True)
    ]
    responses = _fit_all(model, X, y, tasks, n_jobs, progress, name)
    parts = rng.permutation(int(pilot.groups.max()) + 1)[pilot.groups] % REWEIGHTINGS
    classes = None if pilot.labels is None else np.unique(y)
    kept, without, varied, reason, linear = [], [], [], "", True
    for i, size in enumerate(sizes):
        of_block = slice(i * len(ends), (i + 1) * len(ends))
        together = _together(responses[of_block], [test for _, test in tasks[of_block]], n)
        try:
            values = _scores(model, scorer, X, y, classes, together, parts)
        except (AttributeError, ValueError) as error:
            reason = f" ({error})"
            continue
        if np.isfinite(values).all():
            weights = (
                np.bincount(np.concatenate([train for train, _ in tasks[of_block]]), minlength=n) / size / len(ends)
            )
            kept.append((size, values[0], n * weights @ weights))
            linear = linear and bool(together[_LINEAR].all())
            without.append(values[1:])
            varied.append(len(np.unique(together["predict"], axis=0)) > 1)
            last = together
    if len(kept) < FEWEST_SIZES:
        raise SizeError(
            f"{name} could be scored at {len(kept)} sizes of the pilot only, and {FEWEST_SIZES} are needed{reason}",
            n,
            "Label more rows, or choose another scorer",
        )
    measured, score, reuse = np.array(kept).T
    shuffle = rng.spawn(1)[0]  # the stream of the curve stays as it is
    orders = [shuffle.permutation(n) for _ in range(REWEIGHTINGS)]
    chance = [_scores(model, scorer, X, y[order], classes, last, np.zeros(n), (-1,))[0] for order in orders]
    noise = noise_fits(model, scorer, X, y[orders[0]], classes, tasks[-len(ends) :])
    return MeasuredSizes(
        n, measured, score, np.array(without), reuse, linear, np.array(varied), np.array(chance), *noise
    )


def noise_fits(
    model: Any, scorer: Any, X: FloatArray, y: AnyArray, classes: AnyArray | None, tasks: list[Any]
) -> tuple[float, float, float]:
    """Amplification and score of fits to `y`, labels in random order, and the score of knowing nothing."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    ratios, parts = [], []
    for train, test in tasks:
        rows = np.concatenate([train, test])
        values = _responses(model, X, y, train, rows)
        for name in ("decision_function", "predict_proba", "predict"):
            if name in values and np.issubdtype(values[name].dtype, np.number):
                inside, outside = np.split(values[name].reshape(len(rows), -1).astype(np.float64), [len(train)])
                centre = inside.mean(axis=0)
                ratios.append(float(((outside - centre) ** 2).mean() / max(((inside - centre) ** 2).mean(), 1e-300)))
                break
        parts.append({name: value[len(train) :] for name, value in values.items()})
    together = _together(parts, [test for _, test in tasks], len(X))
    constant = (DummyRegressor() if classes is None else DummyClassifier()).fit(X, y)
    scores = []
    for answers in (OutOfFold(model, classes, together), constant):
        try:
            scores.append(float(scorer(answers, X, y)))
        except (AttributeError, ValueError):
            scores.append(np.nan)
    return (float(np.median(ratios)) if ratios else 0.0), scores[0], scores[1]


def _fit_all(
    model: Any, X: FloatArray, y: AnyArray, tasks: list[Any], n_jobs: int | None, progress: bool | None, name: str
) -> list[Responses]:
    from joblib import Parallel, delayed

    responses = []
    with Progress(len(tasks), f"{name}: {len(tasks)} fits", show=progress) as bar:
        runs = Parallel(n_jobs=n_jobs or 1, return_as="generator")(
            delayed(_responses)(model, X, y, train, test) for train, test in tasks
        )
        for value in runs:
            responses.append(value)
            bar.advance()
    return responses


def _responses(model: Any, X: FloatArray, y: AnyArray, train: IntArray, test: IntArray) -> Responses:
    """What a clone fitted to `train` says of `test`; nothing where it cannot be fitted or lacks a class."""
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")
        try:
            fitted = clone(model).fit(X[train], y[train])
        except ValueError:
            return {}
        every = not hasattr(fitted, "classes_") or len(fitted.classes_) == len(np.unique(y))
        names = _RESPONSES if every else _RESPONSES[:1]
        responses = {name: np.asarray(getattr(fitted, name)(X[test])) for name in names if hasattr(fitted, name)}
        last = fitted.steps[-1][1] if hasattr(fitted, "steps") else fitted
        return responses | {_LINEAR: np.full(len(test), hasattr(last, "coef_"))}


def _together(parts: list[Responses], tests: list[IntArray], n: int) -> Responses:
    """Responses of all rows, of the kinds that every fit gave."""
    joined = {}
    for name in set.intersection(*(set(part) for part in parts)):
        first = parts[0][name]
        joined[name] = np.empty((n, *first.shape[1:]), dtype=np.result_type(*(part[name] for part in parts)))
        for part, test in zip(parts, tests, strict=True):
            joined[name][test] = part[name]
    return joined


def _scores(
    model: Any,
    scorer: Any,
    X: FloatArray,
    y: AnyArray,
    classes: AnyArray | None,
    responses: Responses,
    parts: AnyArray,
    left_out: tuple[int, ...] | None = None,
) -> FloatArray:
    """Score of all rows, then without each part of them; raises what the scorer raises."""
    values = []
    for part in (-1, *np.unique(parts)) if left_out is None else left_out:
        rows = parts != part
        answers = OutOfFold(model, classes, {name: value[rows] for name, value in responses.items()})
        values.append(float(scorer(answers, X[rows], y[rows])))
    return np.array(values)
