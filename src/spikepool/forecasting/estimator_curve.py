"""The forecast of any scikit-learn estimator from its scores at sizes below the pilot.

The estimator is cross-validated (:mod:`spikepool.forecasting.cross_validation`), and the points are continued by
:mod:`spikepool.forecasting.damped_slope`. The curve of ridge on the same rows guides those of estimators with
coefficients, which learn alike; trees and neighbours do not (``benchmarks/studies/forecast_estimators.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from spikepool.errors import InvalidInputError
from spikepool.forecasting.cross_validation import measure_sizes
from spikepool.forecasting.curve import fit_curve
from spikepool.forecasting.curve_reading import asked_sizes, curve_fields
from spikepool.forecasting.learner_families import learner_family, learner_name
from spikepool.forecasting.pilot import measure_pilot
from spikepool.forecasting.pilot_input import PilotInput
from spikepool.forecasting.result import CurveFit, Forecast
from spikepool.forecasting.score_scale import ScoreScale, score_scale, scorer_bounds
from spikepool.forecasting.token_rows import OverTokens
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray


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
