"""What more labelled rows will bring, and how many are enough: the forecast from a pilot."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from spikepool.data.description import Description
from spikepool.errors import ShapeError
from spikepool.forecasting.curve import LearningCurve, fit_curve
from spikepool.forecasting.curve_reading import asked_sizes, curve_fields
from spikepool.forecasting.level import REWEIGHTINGS
from spikepool.forecasting.measured_curve import CLEAR
from spikepool.forecasting.pilot import FRACTIONS, Pilot, explained, measure_pilot, weighted_mean
from spikepool.forecasting.pilot_input import (
    MOST_ROWS,
    ForecastWarning,
    PilotInput,
    in_memory,
    read_pilot,
    take_part,
)
from spikepool.forecasting.result import CurveFit, Forecast
from spikepool.forecasting.score_scale import EDGE
from spikepool.forecasting.token_rows import numbered_rows, over_texts, over_tokens
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.progress import Progress

# Root mean square difference between curve and measured points, a + b/sqrt(n0), that no development task exceeded.
# Below it the difference says nothing about the error of the forecast (rank correlations of −.03 to .18).
_USUAL_ERROR = (0.015, 0.65)
# Standard errors by which the pilot's explained variance must exceed zero.
_SIGNIFICANCE = 1.645


def forecast(
    C: Any,
    y: Any,
    n: ArrayLike | None = None,
    target: float | None = None,
    *,
    task: str = "auto",
    groups: Any = None,
    estimator: Any = None,
    scoring: Any = None,
    mask: Any = None,
    standardize: bool = False,
    level: float = 0.9,
    n_jobs: int | None = None,
    random_state: Any = 0,
    progress: bool | None = None,
    description: Description | None = None,
) -> Forecast:
    """Forecast the score of a model on `n` labelled rows from a pilot of fewer.

    The default is the accuracy (R² for real targets) of ridge regression on ±1 class indicators with a penalty by
    generalised cross-validation. The pilot's leave-one-out errors over penalties show in which principal
    directions the target's power lies, the sample's spectrum shows how fast ridge learns each of them
    (:mod:`spikepool.forecasting.spectrum`), and the pilot's own sizes show how explained variance turns into
    accuracy. An inverse power law through the pilot enters with a quarter of the weight near it.

    With `estimator` or `scoring` the score of that model is forecast: it is cross-validated at sizes below the pilot
    (:mod:`spikepool.forecasting.cross_validation`; 35 fits), and the measured curve is continued as by
    :func:`spikepool.forecast_curve`; that of a linear model may follow the curve of ridge, as far as its points do.

    Parameters
    ----------
    C : array_like (n0, d), or tokens or texts with `estimator`
        Pooled features of the pilot, one row per document; at least 20 distinct rows, better 200. A memory map is
        an array as well. Of more than 20,000 rows the forecast is made from 20,000, in runs of neighbours spread over
        all of them.
    y : array_like (n0,)
        Labels of two or more classes, or real numbers.
    n : array_like of int, optional
        Numbers of labelled rows to forecast; 1, 2, 4 and 8 times the pilot by default. They may be below the pilot.
    target : float, optional
        Score for which rows are wanted.
    task : {"auto", "classification", "regression"}
        By default a y with fractions is regression, anything else classification.
    groups : array_like (n0,), optional
        Rows that belong together (sentences of one document, recordings of one person) and must not be on both sides
        of a split. Identical rows are grouped in any case, and identical rows with the same label merged.
    estimator : scikit-learn estimator, optional
        Any classifier, regressor or pipeline; ridge by default. With tokens (n0, T, d) as `C` one that takes tokens,
        such as ``LearnedPoolingClassifier()``, with texts ``TextClassifier()``: all that it learns is then learned anew
        at every size.
    scoring : str or callable, optional
        Any scorer of scikit-learn; "accuracy" for classifiers and "r2" for regressors by default.
    mask : array_like (n0, T), optional
        Observed tokens, where `C` holds tokens.
    standardize : bool
        Divide features by their standard deviation first; the forecast is then for ridge on features scaled so.
    level : float
        Level of the intervals.
    n_jobs : int, optional
        Processes for the fits of `estimator`; one by default.
    random_state : int, Generator, ...
        Seeds the draws of training sets and the reweightings.
    progress : bool, optional
        Show a progress bar; by default on a terminal when it takes more than two seconds.
    description : spikepool.data.description.Description, optional
        Copies and order of the rows, where they have been looked for already.

    Returns
    -------
    Forecast

    Warns
    -----
    ForecastWarning
        Repeated rows, small pilots, classes with hardly a row, labels at chance, a curve that misses the pilot's own
        points: each also in ``warnings``, ``verdict`` or ``self_check`` of the result.

    Notes
    -----
    The forecast assumes that future rows come from the same population as the pilot, with the same classes.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import spikepool as sp
    >>> X, y = load_digits(return_X_y=True)
    >>> f = sp.forecast(X[:300], y[:300], n=[600, 1200], target=0.93)
    >>> bool((f.accuracy > 0.85).all() and (f.accuracy < 1).all())
    True
    """
    if n is None and hasattr(y, "__len__") and len(y) > MOST_ROWS:
        n = asked_sizes(None, len(y))  # of all the rows, not of those that are used
    model: Any = estimator
    cut: tuple[str, ...] = ()
    if estimator is not None:
        C, y, groups, mask, cut = take_part(C, y, groups, mask)
        rows = in_memory(C, "C")
        if np.ndim(rows) == 3:
            model, C = over_tokens(estimator, np.asarray(rows), mask, groups)
            mask = None
        elif np.ndim(rows) == 1 and np.asarray(rows).dtype.kind in "OU":
            model, C = over_texts(estimator, np.asarray(rows), groups)
    if mask is not None:
        raise ShapeError("mask belongs to tokens and needs an estimator", remedy="Pass estimator=, or drop the mask")
    pilot, cautions = _read(C, y, task=task, groups=groups, standardize=standardize, description=description)
    cautions += cut
    if estimator is None and scoring in (None, "accuracy" if pilot.labels is not None else "r2"):
        curve = fit_pilot(pilot, random_state=random_state, progress=progress)
        result = summarise(curve, n, target, level=level, warnings=cautions)
    else:
        from spikepool.forecasting.estimator_curve import forecast_estimator

        result = forecast_estimator(
            pilot if model is estimator else numbered_rows(pilot),
            model,
            scoring,
            n,
            target,
            level=level,
            n_jobs=n_jobs,
            random_state=random_state,
            progress=progress,
            warnings=cautions,
        )
    for text in warnings_of(result):
        warnings.warn(text, ForecastWarning, stacklevel=2)
    return result


def _read(
    C: Any, y: Any, *, task: str, groups: Any, standardize: bool, description: Description | None
) -> tuple[PilotInput, tuple[str, ...]]:
    """The pilot, and what to say of it."""
    check.flag(standardize, "standardize")
    C, y, groups, _, cautions = take_part(C, y, groups, None)
    given = read_pilot(C, y, groups=groups, task=task, standardize=standardize, description=description)
    return given, given.warnings + cautions


def fit_pilot(given: PilotInput, *, random_state: Any, progress: bool | None) -> LearningCurve:
    """Measure ridge on the pilot and fit its curve."""
    rng = check.generator(random_state)
    with Progress(len(FRACTIONS) + REWEIGHTINGS + 1, "forecast", show=progress) as bar:
        pilot = measure_pilot(given.X, given.Y, given.labels, given.groups, rng, progress=bar)
        return fit_curve(pilot, rng, bar)


def summarise(
    curve: LearningCurve, n: ArrayLike | None, target: float | None, *, level: float, warnings: tuple[str, ...] = ()
) -> Forecast:
    """The forecast of a fitted curve of ridge at the sizes and for the target asked for."""
    pilot = curve.pilot
    if target is not None:
        target = check.fraction(target, "target", closed=False)
    measured_n, measured, error = _measured(pilot)
    gain = -pilot.sizes[0].chosen_excess / pilot.energy.mean()
    learned = float(gain.mean()) > _SIGNIFICANCE * float(gain.std(ddof=1)) / np.sqrt(pilot.rows) + 1e-9
    chance = 0.0 if pilot.shares is None else float(pilot.shares.max())
    if pilot.shares is not None:
        z = float(ndtri(np.clip(measured[0], EDGE, 1 - EDGE)))
        level_error = np.exp(-(z**2) / 2) * np.sqrt(pilot.level_variance / (2 * np.pi))  # which accounts for groups
        deviation = max(float(error[0]), float(level_error))
        # a few outliers may take all of the explained variance, and none of the accuracy
        learned = learned or float(measured[0]) - chance > CLEAR * deviation + 1e-9
    sizes = asked_sizes(n, pilot.rows)
    return Forecast(
        estimator="ridge",
        score_name="accuracy" if curve.classification else "R²",
        task="classification" if curve.classification else "regression",
        mse=curve.mse(sizes)[:, 0],
        chance=chance,
        pilot_rows=pilot.rows,
        dimension=pilot.dimension,
        classes=pilot.classes,
        measured_n=measured_n,
        measured_score=measured,
        measured_error=error,
        verdict="learning" if learned else "at chance",
        self_check=_self_check(curve, measured_n, measured),
        warnings=warnings,
        **curve_fields(curve, sizes, target, level, measured_n, pilot.rows),
    )


def warnings_of(result: Forecast) -> list[str]:
    """What a caller who does not print the forecast should hear."""
    messages = list(result.warnings)
    if result.verdict == "at chance":
        messages.append("the pilot's labels are at chance: no signal to extrapolate")
    if not result.self_check.ok:
        messages.append("the fitted curve misses the pilot's own points by more than on the development tasks")
    return messages


def _measured(pilot: Pilot) -> tuple[IntArray, FloatArray, FloatArray]:
    """Sizes, scores and standard errors of the scores over rows that the pilot showed."""
    points = []
    for size in pilot.sizes:
        if size.tested.sum() == 0:
            continue
        if pilot.shares is None:
            mean = float(explained(pilot, size.chosen_excess, size.tested))
            influence = (size.chosen_excess + mean * pilot.energy) / float(weighted_mean(pilot.energy, size.tested))
        else:
            mean = float(weighted_mean(size.chosen_correct, size.tested))
            influence = size.chosen_correct - mean
        spread = np.sqrt(weighted_mean(influence**2, size.tested) / np.count_nonzero(size.tested))
        points.append((size.n, mean, float(spread)))
    n, score, error = np.array(points).T
    return n.astype(np.intp), score, error


def _self_check(curve: LearningCurve, n: IntArray, measured: FloatArray) -> CurveFit:
    pilot = curve.pilot
    weight = n**2 / (n**2).sum()
    centre, _, _ = curve.band(n, 0.9)
    score_error = float(np.sqrt(weight @ (curve.to_score(centre) - measured) ** 2))
    r2 = np.array([float(explained(pilot, s.chosen_excess, s.tested)) for s in pilot.sizes if s.tested.sum() > 0])
    r2_error = float(np.sqrt(weight @ (1 - curve.mse(n)[:, 0] - r2) ** 2))
    usual = _USUAL_ERROR[0] + _USUAL_ERROR[1] / np.sqrt(pilot.rows)
    if not curve.classification:
        usual *= 2  # R² scatters twice as much; the largest 2 % of the development tasks were beyond it
    return CurveFit(score_error, r2_error, bool(score_error <= usual))
