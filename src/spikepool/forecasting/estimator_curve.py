"""The learning curve of any scikit-learn estimator: cross-validated at sizes below the pilot, then continued.

Training sets of seven sizes from a tenth to nine tenths of the pilot are drawn five times each, in whole groups and,
for classes, with the pilot's class frequencies; the rest of the rows is tested on. The mean scores are points of a
curve for :mod:`spikepool.forecasting.process_curve`. All points are tested on the same rows of one pilot: the error of
its level is common to them and is added to the forecast.
"""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import InvalidInputError, SizeError
from spikepool.forecasting.asked import asked_sizes, curve_fields
from spikepool.forecasting.curve import fit_curve
from spikepool.forecasting.pilot import FEWEST_TRAINED, measure_pilot
from spikepool.forecasting.pilot_input import PilotInput
from spikepool.forecasting.process_curve import FEWEST_SIZES, ProcessCurve, point_errors
from spikepool.forecasting.result import CurveFit, Forecast
from spikepool.forecasting.score_scale import score_scale, scorer_bounds
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.kit.constants import constant
from spikepool.kit.progress import Progress

SIZES, REPEATS = 7, 5
_FRACTIONS = np.geomspace(0.1, 0.9, SIZES)
LEVEL_VARIANCE = constant(
    "forecasting.estimator_curve.LEVEL_VARIANCE",
    4.0,
    "Variance of the pilot's own level in units of that of a test on as many rows; the part beyond 1 is from training",
    "Raised from 1.5, at which intervals covered .64 to .85 in `benchmarks/studies/forecast_estimators.py`",
)
GUIDE_ERROR = constant(
    "forecasting.estimator_curve.GUIDE_ERROR",
    0.4,
    "Error of the rise of ridge as that of another classifier on the same features, as a part of it",
    "A choice: rises of logistic regression, boosting and neighbours on banking77 differ by this from that of ridge",
)


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
    sizes, scores, tested = _measure(model, scorer, X, y, pilot, rng, n_jobs, progress, _model_name(model))
    errors = point_errors(sizes, scores)
    mean = np.nanmean(scores, axis=1)
    scale = score_scale(scorer_bounds(name, mean), True)
    if target is not None:
        target = float(target)
        if not scale.low < target < scale.high:
            raise InvalidInputError(
                f"target must lie between {scale.low:g} and {scale.high:g}", target, "Check the scorer"
            )
    # variance of a test on all rows, from repeats on parts of them
    repeated = (errors * np.sqrt(np.isfinite(scores).sum(axis=1))) ** 2
    own = LEVEL_VARIANCE * float(np.median(repeated * tested)) / len(X)
    guide = None
    if classification and (scale.low, scale.high) == (0.0, 1.0):
        guide = _ridge_guide(pilot, sizes, scale.to_z(mean), random_state)
    curve = ProcessCurve(sizes, mean, errors, scale, own * float(scale.slope(mean)[-1]) ** 2, guide)
    shares = None if pilot.labels is None else np.bincount(pilot.labels) / len(X)
    chance = {"accuracy": None if shares is None else float(shares.max()), "r2": 0.0}.get(name or "")
    if shares is not None and name == "balanced_accuracy":
        chance = 1 / len(shares)
    deviation = float(np.hypot(errors[-1], np.sqrt(own)))
    learned = chance is None or float(mean.max()) - chance > 2 * deviation
    at = asked_sizes(n, len(X))
    told = warnings + tuple(curve.warnings())
    order = np.argsort(sizes)[::-1]
    misfit = curve.misfit()
    return Forecast(
        estimator=_model_name(model),
        score_name=_score_words(name, scoring),
        task="classification" if classification else "regression",
        mse=None,
        chance=chance,
        pilot_rows=len(X),
        dimension=X.shape[1],
        classes=0 if shares is None else len(shares),
        measured_n=sizes[order].astype(np.intp),
        measured_score=mean[order],
        measured_error=np.hypot(errors, np.sqrt(own))[order],
        verdict="learning" if learned else "at chance",
        self_check=CurveFit(misfit, None, bool(misfit <= 3 * float(np.max(errors)) + 0.5 / len(X))),
        warnings=told,
        **curve_fields(curve, at, target, level, sizes.astype(np.intp), len(X)),
    )


def _ridge_guide(
    pilot: PilotInput, sizes: FloatArray, z: FloatArray, random_state: Any
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Points at 2, 4 and 8 times the pilot that rise from the estimator's last one as the forecast of ridge does.

    Few repeats know the slope of a curve badly; that of ridge on the same features comes from its deterministic
    equivalents. The estimator's own rise is taken to differ from it by about `GUIDE_ERROR` of itself.
    """
    rng = check.generator(random_state)
    curve = fit_curve(measure_pilot(pilot.X, pilot.Y, pilot.labels, pilot.groups, rng), rng)
    n = len(pilot.X) * np.array([2.0, 4.0, 8.0])
    ridge = curve.band(np.append(sizes[-1], n), 0.9)[0]
    rise = np.maximum(ridge[1:] - ridge[0], 0.0)
    # three points that err together count as one
    return n, z[-1] + rise, 3 * ((GUIDE_ERROR * rise) ** 2 + 0.05**2)


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
    steps = getattr(model, "steps", None)
    return type(steps[-1][1] if steps else model).__name__


def _measure(
    model: Any,
    scorer: Any,
    X: FloatArray,
    y: AnyArray,
    pilot: PilotInput,
    rng: np.random.Generator,
    n_jobs: int | None,
    progress: bool | None,
    name: str,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Training sizes (p,), scores (p, repeats) and numbers of tested rows (p,)."""
    from joblib import Parallel, delayed

    n, labels = len(X), pilot.labels
    least = max(FEWEST_TRAINED, 0 if labels is None else 2 * int(labels.max() + 1))
    wanted = np.unique(np.round(np.clip(_FRACTIONS * n, min(least, 0.5 * n), None)).astype(int))
    tasks = [(size, *_split(pilot.groups, labels, int(size), rng)) for size in wanted for _ in range(REPEATS)]
    results: list[float] = []
    with Progress(len(tasks), f"{name}: {len(tasks)} fits", show=progress) as bar:
        if n_jobs in (None, 1):
            for _, train, test in tasks:
                results.append(_score_once(model, scorer, X, y, train, test))
                bar.advance()
        else:
            runs = Parallel(n_jobs=n_jobs, return_as="generator")(
                delayed(_score_once)(model, scorer, X, y, train, test) for _, train, test in tasks
            )
            for value in runs:
                results.append(value)
                bar.advance()
    scores = np.array(results).reshape(len(wanted), REPEATS)
    trained = np.array([len(train) for _, train, _ in tasks], dtype=np.float64).reshape(scores.shape).mean(axis=1)
    tested = np.array([len(test) for _, _, test in tasks], dtype=np.float64).reshape(scores.shape).mean(axis=1)
    good = np.isfinite(scores).sum(axis=1) >= 2
    if good.sum() < FEWEST_SIZES:
        raise SizeError(
            f"{name} could be scored at {int(good.sum())} sizes of the pilot only, and {FEWEST_SIZES} are needed",
            n,
            "Label more rows, or choose another scorer",
        )
    _, first = np.unique(trained[good], return_index=True)
    return trained[good][first], scores[good][first], tested[good][first]


def _score_once(model: Any, scorer: Callable[..., float], X: FloatArray, y: AnyArray, train: Any, test: Any) -> float:
    """Score of a clone fitted to `train`; NaN where it cannot be fitted or scored (a class without a row)."""
    from sklearn.base import clone

    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")
        try:
            return float(scorer(clone(model).fit(X[train], y[train]), X[test], y[test]))
        except ValueError:
            return float("nan")


def _split(groups: IntArray, labels: IntArray | None, size: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """About `size` training rows in whole groups, classes in the pilot's proportions, and all other rows."""
    n = len(groups)
    number = np.unique(groups, return_inverse=True)[1].ravel()
    rows = rng.permutation(n)
    if labels is None or number.max() + 1 < n:
        order = rng.permutation(int(number.max()) + 1)
        before = np.concatenate([[0], np.cumsum(np.bincount(number)[order])[:-1]])
        inside = np.empty(len(order), dtype=bool)
        inside[order] = before < size
        return rows[inside[number[rows]]], rows[~inside[number[rows]]]
    # rank of each row within its class, as a part of the class: the smallest parts are trained on
    part = np.empty(n)
    for k in range(int(labels.max()) + 1):
        mine = rows[labels[rows] == k]
        part[mine] = (np.arange(len(mine)) + rng.random()) / max(len(mine), 1)
    order = np.argsort(part, kind="stable")
    return order[:size], order[size:]
