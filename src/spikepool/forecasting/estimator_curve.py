"""The learning curve of any scikit-learn estimator: cross-validated at sizes below the pilot, then continued.

Rows in random order, classes in proportion and groups together, are cut into five blocks. For each block and each of
seven sizes s, from a tenth to four fifths of the pilot, the estimator is fitted to the s rows that follow the block,
the first rows following the last, and predicts the block. The score at s is that of the predictions of all n rows
together: the macro-F1 of a block of forty rows is not that of many. All sizes are tested on the same rows, and their
errors are alike:

    cov(s, t) = V [exp(−c |log2 s − log2 t|) + rho (1 + delta_st (n sum_i w_is² − 1))].

V and c come from the delete-a-part jackknife over tested rows, averaged over sizes. The second part is from the rows as
training rows: an estimator that is smooth in them varies as a mean over them, with w_is the weight of row i in the
training sets of size s, sum_i w_is = 1. Errors that are common to all sizes leave the slope as it is.

The points are continued by :mod:`spikepool.forecasting.damped_slope`. The curve of ridge on the same rows guides those
of estimators with coefficients, which learn alike; trees and neighbours do not
(``benchmarks/studies/forecast_estimators.py``).
"""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from spikepool.data.folds import fold_blocks
from spikepool.errors import InvalidInputError, SizeError
from spikepool.forecasting.curve import fit_curve
from spikepool.forecasting.learner_families import learner_family, learner_name
from spikepool.forecasting.level import REWEIGHTINGS
from spikepool.forecasting.measured_curve import CLEAR, FEWEST_SIZES, ProcessCurve
from spikepool.forecasting.pilot import FEWEST_TRAINED, FRACTIONS, measure_pilot
from spikepool.forecasting.pilot_input import FOLDS, PilotInput
from spikepool.forecasting.result import CurveFit, Forecast, asked_sizes, curve_fields
from spikepool.forecasting.score_scale import ScoreScale, score_scale, scorer_bounds
from spikepool.forecasting.token_rows import OverTokens
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.kit.progress import Progress

_RESPONSES = ("predict", "predict_proba", "decision_function")
_LINEAR = "linear"
Responses = dict[str, AnyArray]


# Near interpolation, where learning curves fall and rise again (double descent), fits to labels in random order vary
# more on new rows than on their training rows: warned of and refused from these ratios of mean squares. An unbounded
# score of coefficients is refused where fits to labels in random order have this many times the loss of a constant.
AMPLIFIED, INTERPOLATING, HARMFUL = 1.25, 2.0, 3.0
# Variance rho of a score through the rows it is trained on, in units of that through the rows it is tested on.
TRAINED_SHARE = 2.0


@dataclass(frozen=True)
class MeasuredSizes:
    """Scores of an estimator at sizes below the pilot.

    Attributes
    ----------
    rows : int
        Rows of the pilot.
    n, score : array (p,)
        Sizes, increasing, and scores.
    without : array (p, G)
        Scores without each of G parts of the tested rows.
    reuse : array (p,)
        n sum_i w_is², 1 where every row has the same part in the training sets.
    linear : bool
        Whether the fitted estimators have coefficients.
    varied : array (p,)
        Whether predictions at a size differ between rows. Where a rare class is never predicted, the score does not
        vary, and says nothing about the error of those that do.
    shuffled : array (REWEIGHTINGS,)
        Scores of the predictions at the largest size for labels in random orders.
    amplification, noise_score : float
        Of fits to labels in random order, at the largest size: mean square of the predictions of new rows over that of
        training rows, and the score on new rows.
    nothing : float
        Score of a model that does not look at the features; NaN where the scorer does not accept it.
    """

    rows: int
    n: FloatArray
    score: FloatArray
    without: FloatArray
    reuse: FloatArray
    linear: bool = False
    varied: AnyArray | None = None
    shuffled: FloatArray | None = None
    amplification: float = 0.0
    noise_score: float = np.nan
    nothing: float = np.nan

    def chance(self, bounded: bool) -> tuple[float | None, float]:
        """Score of knowing nothing, None where unknown, and the one that a signal must exceed.

        A constant prediction is no rival where the score punishes wrong predictions without limit: there the same
        predictions of labels in random order are.
        """
        assert self.shuffled is not None
        mean, error = float(self.shuffled.mean()), float(self.shuffled.std()) / np.sqrt(len(self.shuffled))
        known = None if np.isnan(self.nothing) else self.nothing
        if not bounded:
            return known, mean
        level = mean if known is None or mean > known + 2 * error else known
        return level, level

    def doubts(self, curve: ProcessCurve, bounded: bool, name: str) -> tuple[str, ...]:
        """What to say of an estimator near interpolation, or of a class that it does not predict; raises SizeError.

        An unbounded score of such an estimator is refused unless the measured curve clearly rises.
        """
        size, ratio, notes = int(self.n[-1]), self.amplification, []
        harm = 1.0 if bounded else (curve.scale.high - self.noise_score) / max(curve.scale.high - self.nothing, 1e-300)
        harmful = self.linear and harm > HARMFUL
        seen = (
            f"have {harm:.1f} times the loss of a constant prediction on new rows"
            if harmful and ratio <= INTERPOLATING
            else f"vary {ratio:.2f} times as much on new rows as on training rows"
        )
        if ratio > INTERPOLATING or (harmful and curve.trend() < CLEAR):
            raise SizeError(
                f"{name} is near interpolation: its predictions of labels in random order {seen}. The learning curve "
                "falls and rises again (double descent), which smaller sizes do not show. Rows of the largest fit",
                size,
                "Regularise the estimator (shrinkage, a smaller C), use fewer features, or label several times as many",
            )
        if ratio > AMPLIFIED or harmful:
            notes.append(
                f"{name} is not far from interpolation at {size:,} rows: its predictions of labels in random order "
                f"{seen}, and the measured curve may be a dip"
            )
        if self.varied is not None and not self.varied.all():
            notes.append(
                f"at {int((~self.varied).sum())} of {len(self.n)} measured sizes {name} predicts the same for every "
                "row: a class is too rare for the pilot's smaller sizes, and the forecast is likely too low"
            )
        return tuple(notes)

    def curve(
        self,
        scale: ScoreScale,
        guide: Callable[[FloatArray], FloatArray] | None = None,
        family: str | None = None,
    ) -> ProcessCurve:
        """The points of a curve, with the covariance of their errors; V and c are taken on the transformed scale."""
        score, least = self.score, float(np.finfo(float).tiny)
        if np.isfinite(scale.low) and np.isfinite(scale.high):
            edge = 0.5 / self.rows  # the best or worst score of n rows is not evidence of a perfect one
            width = scale.high - scale.low
            score = np.clip(score, scale.low + edge * width, scale.high - edge * width)
            least = edge * width**2 / self.rows
        slope = scale.slope(score)
        left = (self.without - self.without.mean(axis=1, keepdims=True)) * slope[:, None]
        jackknife = (left.shape[1] - 1) / left.shape[1] * left @ left.T
        variance = np.maximum(np.diag(jackknife), least * slope**2)
        apart = np.abs(np.log2(self.n[:, None] / self.n))
        # decay of the correlation by least squares of its logarithm; sizes that are all but unrelated count as such
        logs = np.log(np.clip(jackknife / np.sqrt(np.outer(variance, variance)), 0.05, 1.0))
        rate = max(-float((logs * apart).sum() / (apart**2).sum()), 1e-3)
        parts = np.exp(-rate * apart) + TRAINED_SHARE * (1 + np.diag(np.maximum(self.reuse - 1, 0.0)))
        varied = slice(None) if self.varied is None or not self.varied.any() else self.varied
        covariance = float(variance[varied].mean()) * parts / np.outer(slope, slope)
        return ProcessCurve(self.n, score, covariance, scale, guide, family)


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
    noise = _noise_fits(model, scorer, X, y[orders[0]], classes, tasks[-len(ends) :])
    return MeasuredSizes(
        n, measured, score, np.array(without), reuse, linear, np.array(varied), np.array(chance), *noise
    )


def _noise_fits(
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


def forecast_estimator(
    pilot: PilotInput,
    estimator: Any,
    scoring: Any,
    n: ArrayLike | None,
    target: float | None,
    *,
    level: float,
    n_jobs: int | None,
    random_state: Any,
    progress: bool | None,
    warnings: tuple[str, ...],
) -> Forecast:
    """The forecast of `estimator` (ridge as scikit-learn has it when None) under `scoring`."""
    from sklearn.base import is_classifier, is_regressor

    classification = pilot.labels is not None
    model = _default(classification) if estimator is None else estimator
    if isinstance(model, type) or not (hasattr(model, "fit") and hasattr(model, "get_params")):
        raise InvalidInputError("estimator must be a scikit-learn estimator", model, "Pass LogisticRegression()")
    if (classification and is_regressor(model)) or (not classification and is_classifier(model)):
        kind = "labels of classes" if classification else "real numbers"
        raise InvalidInputError(
            f"y has {kind}, and the estimator is for the other kind", model, "Pass task=, or another"
        )
    scorer, name = _scorer(scoring, classification)
    X = pilot.X * pilot.scale if not pilot.standardized else pilot.X
    if pilot.labels is None:
        y: AnyArray = pilot.Y[:, 0] if pilot.Y.shape[1] == 1 else pilot.Y
    else:
        assert pilot.classes is not None
        y = pilot.classes[pilot.labels]
    rng = check.generator(random_state)
    points = measure_sizes(model, scorer, X, y, pilot, rng, n_jobs=n_jobs, progress=progress, name=_model_name(model))
    scale = score_scale(scorer_bounds(name, points.score), True)
    if target is not None:
        target = float(target)
        if not scale.low < target < scale.high:
            raise InvalidInputError(
                f"target must lie between {scale.low:g} and {scale.high:g}", target, "Check the scorer"
            )
    family = learner_family(model) or ("linear" if points.linear else None)
    curve = points.curve(scale, _ridge(pilot, scale, rng) if points.linear else None, family)
    assert curve.covariance is not None
    bounded = bool(np.isfinite(scale.low) and np.isfinite(scale.high))
    chance, beaten = points.chance(bounded)
    shares = None if pilot.labels is None else np.bincount(pilot.labels) / len(X)
    errors = np.sqrt(np.diag(curve.covariance))
    learned = float(points.score.max()) - beaten > 2 * float(errors[-1])
    warnings += points.doubts(curve, bounded, _model_name(model))
    at = asked_sizes(n, len(X))
    warnings_ = tuple(curve.warnings())
    return Forecast(
        estimator=_model_name(model),
        score_name=_score_words(name, scoring),
        task="classification" if classification else "regression",
        mse=None,
        chance=chance,
        pilot_rows=len(X),
        dimension=model.given.dimension if isinstance(model, OverTokens) else X.shape[1],
        classes=0 if shares is None else len(shares),
        measured_n=points.n[::-1].astype(np.intp),
        measured_score=points.score[::-1],
        measured_error=errors[::-1],
        verdict="learning" if learned else "at chance",
        self_check=CurveFit(curve.misfit(), None, not warnings_),
        warnings=warnings + warnings_,
        **curve_fields(curve, at, target, level, points.n.astype(np.intp), len(X)),
    )


def _ridge(pilot: PilotInput, scale: ScoreScale, rng: np.random.Generator) -> Callable[[FloatArray], FloatArray]:
    """Curve of ridge: probit of accuracy for scores in an interval, minus the logarithm of the error for losses.

    The error of a classifier is its share of wrong answers, to which log losses are nearly proportional; that of a
    regression is its mean square.
    """
    ridge = fit_curve(measure_pilot(pilot.X, pilot.Y, pilot.labels, pilot.groups, rng), rng, reweightings=0)
    if np.isfinite(scale.low) or not ridge.classification:
        return lambda n: ridge.transformed(n)[:, 0]
    return lambda n: np.asarray(-log_ndtr(-ridge.transformed(n)[:, 0]))


def _default(classification: bool) -> Any:
    from sklearn.linear_model import RidgeClassifierCV, RidgeCV

    penalties = np.logspace(-3, 3, 13)
    return RidgeClassifierCV(penalties) if classification else RidgeCV(penalties)


def _scorer(scoring: Any, classification: bool) -> tuple[Any, str | None]:
    """A scorer and its name, None for a function."""
    from sklearn.metrics import get_scorer, get_scorer_names

    if scoring is None:
        scoring = "accuracy" if classification else "r2"
    if callable(scoring):
        return scoring, None
    try:
        return get_scorer(scoring), str(scoring)
    except (ValueError, TypeError):
        near = ", ".join([s for s in get_scorer_names() if str(scoring)[:3] in s][:5]) or "accuracy, f1_macro, r2"
        raise InvalidInputError("scoring must be a scorer of scikit-learn", scoring, f"Such as {near}") from None


def _score_words(name: str | None, scoring: Any) -> str:
    if name is None:
        return str(getattr(scoring, "__name__", "score")).strip("_<>")
    return {"r2": "R²"}.get(name, name)


def _model_name(model: Any) -> str:
    """Name of an estimator; of the last step of a pipeline."""
    return learner_name(model.estimator if isinstance(model, OverTokens) else model)
