"""Forecasts from measured points of a learning curve, whatever model they belong to."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import InvalidInputError, ShapeError, SizeError
from spikepool.forecasting.curve_reading import asked_sizes, curve_fields
from spikepool.forecasting.learner_families import learner_family, learner_name
from spikepool.forecasting.measured_curve import FEWEST_SIZES, ProcessCurve, point_errors
from spikepool.forecasting.pilot_input import ForecastWarning
from spikepool.forecasting.result import CurveFit, Forecast
from spikepool.forecasting.score_scale import score_scale
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray


def forecast_curve(
    n: ArrayLike,
    scores: ArrayLike,
    at: ArrayLike | None = None,
    target: float | None = None,
    *,
    higher_is_better: bool = True,
    bounds: tuple[float | None, float | None] | None = None,
    level: float = 0.9,
    estimator: Any = "the model",
    score_name: str = "score",
) -> Forecast:
    """Forecast a learning curve from measured points.

    The slope of the transformed score against log2 n is a damped Gaussian process whose prior was learned from a
    public database of learning curves (:mod:`spikepool.forecasting.damped_slope`); the forecast is its posterior.

    Parameters
    ----------
    n : array_like (m,)
        Training sizes, at least four different ones. The same size may occur several times.
    scores : array_like (m,) or (m, repeats)
        Scores measured at these sizes on rows not trained on; NaN for a missing repeat.
    at : array_like of int, optional
        Sizes to forecast; 1, 2, 4 and 8 times the largest by default.
    target : float, optional
        Score for which rows are wanted.
    higher_is_better : bool
        False for losses.
    bounds : (float or None, float or None), optional
        Smallest and largest possible score, None for one that does not exist; (0, 1) by default, (0, None) for losses.
    level : float
        Level of the intervals.
    estimator : str or estimator
        Name of the model for the sentences and the axes. An estimator of scikit-learn, its class, or the name of its
        class also selects the prior of its family: curves of naive Bayes flatten before those of linear models, and
        these before those of nearest neighbours, trees, ensembles and neural networks.
    score_name : str
        Name of the score.

    Returns
    -------
    Forecast
        ``score``, ``interval``, ``required_samples`` (low, best, high), ``limit``; print it, or plot it.

    Warns
    -----
    ForecastWarning
        Curves that fall, double descent, points that disagree; each also in ``warnings``.

    Examples
    --------
    >>> import spikepool as sp
    >>> f = sp.forecast_curve([64, 128, 256, 512], [0.71, 0.77, 0.81, 0.84], at=[1024, 4096], target=0.9)
    >>> bool(0.84 < f.score[0] < f.score[1] < 0.95)
    True
    """
    check.flag(higher_is_better, "higher_is_better")
    scale = score_scale(
        ((0.0, 1.0) if higher_is_better else (0.0, None)) if bounds is None else bounds, higher_is_better
    )
    sizes, values = _read(n, scores)
    scale.check(values[np.isfinite(values)], "scores")
    mean = np.nanmean(values, axis=1)
    error = point_errors(sizes, values) if (np.isfinite(values).sum(axis=1) > 1).sum() >= 2 else None
    if target is not None:
        target = float(target)
        if not scale.low < target < scale.high:
            raise InvalidInputError(f"target must lie between {scale.low:g} and {scale.high:g}", target, "Pass bounds=")
    covariance = None if error is None else np.diag(error**2)
    curve = ProcessCurve(sizes, mean, covariance, scale, family=learner_family(estimator))
    rows = int(sizes[-1])
    order = slice(None, None, -1)
    warnings_ = tuple(curve.warnings())
    result = Forecast(
        estimator=estimator if isinstance(estimator, str) else learner_name(estimator),
        score_name=str(score_name),
        task="curve",
        mse=None,
        chance=None,
        pilot_rows=rows,
        dimension=0,
        classes=0,
        measured_n=sizes[order].astype(np.intp),
        measured_score=mean[order],
        measured_error=(np.full(len(sizes), np.nan) if error is None else error)[order],
        verdict="learning",
        self_check=CurveFit(curve.misfit(), None, not warnings_),
        warnings=warnings_,
        higher_is_better=higher_is_better,
        **curve_fields(curve, asked_sizes(at, rows), target, level, sizes.astype(np.intp), rows),
    )
    for text in result.warnings:
        warnings.warn(text, ForecastWarning, stacklevel=2)
    return result


def _read(n: Any, scores: Any) -> tuple[FloatArray, FloatArray]:
    """Distinct sizes (p,), increasing, and their scores (p, repeats), NaN where there are fewer."""
    sizes = check.finite_array(n, "n", ndim=1)
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            "scores must be numbers", type(scores).__name__, "Pass an array (m,) or (m, repeats)"
        ) from None
    if values.ndim not in (1, 2) or len(values) != len(sizes):
        raise ShapeError(
            f"scores must have one row for each of the {len(sizes)} sizes", values.shape, "Pass (m,) or (m, r)"
        )
    if np.isinf(values).any():
        raise InvalidInputError("scores must be finite, or NaN for a missing repeat", np.inf, "Check the runs")
    if (sizes < 1).any():
        raise InvalidInputError("sizes must be at least 1", float(sizes.min()), "Pass numbers of training rows")
    table = values[:, None] if values.ndim == 1 else values
    distinct = np.unique(sizes)
    lists = [table[sizes == size].ravel() for size in distinct]
    lists = [found[np.isfinite(found)] for found in lists]
    measured = np.array([len(found) > 0 for found in lists])
    if measured.sum() < FEWEST_SIZES:
        raise SizeError(
            f"a curve needs at least {FEWEST_SIZES} different sizes",
            int(measured.sum()),
            "Measure more, also smaller ones",
        )
    kept = [found for found in lists if len(found)]
    padded = np.full((len(kept), max(len(found) for found in kept)), np.nan)
    for row, found in zip(padded, kept, strict=True):
        row[: len(found)] = found
    return distinct[measured], padded
