"""The forecast as an estimator: fit to a pilot once, ask for any number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from spikepool.forecasting.forecast import fit_pilot, read, summarise
from spikepool.forecasting.result import Forecast
from spikepool.kit.arrays import FloatArray


class LearningCurveForecast(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learning curve of ridge, fitted to a labelled pilot.

    ``fit`` takes the features and labels of the pilot; ``predict`` takes numbers of rows and gives scores.

    Parameters
    ----------
    task, pooling, standardize, level, random_state
        As in :func:`spikepool.forecast`.

    Attributes
    ----------
    curve_ : LearningCurve
        The fitted curve, with the pilot's statistics.
    limit_ : float
        Score that it approaches.
    warnings_ : tuple of str
        What may be wrong with the pilot.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import spikepool as sp
    >>> X, y = load_digits(return_X_y=True)
    >>> curve = sp.LearningCurveForecast().fit(X[:300], y[:300])
    >>> curve.predict([600, 1200]).shape
    (2,)
    """

    def __init__(
        self,
        task: str = "auto",
        *,
        pooling: Any = None,
        standardize: bool = False,
        level: float = 0.9,
        random_state: Any = 0,
    ) -> None:
        self.task = task
        self.pooling = pooling
        self.standardize = standardize
        self.level = level
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, groups: Any = None, mask: Any = None) -> LearningCurveForecast:
        """Measure the pilot and fit the curve."""
        pilot, self.warnings_ = read(
            X,
            y,
            task=self.task,
            groups=groups,
            pooling=self.pooling,
            mask=mask,
            standardize=self.standardize,
        )
        self.curve_ = fit_pilot(pilot, random_state=self.random_state, progress=None)
        self.limit_ = self.curve_.limit
        return self

    def predict(self, n: ArrayLike) -> FloatArray:
        """Scores at `n` rows."""
        return np.asarray(self.forecast(n).score)

    def forecast(self, n: ArrayLike | None = None, target: float | None = None) -> Forecast:
        """The full forecast at `n` rows and for a target."""
        check_is_fitted(self, "curve_")
        return summarise(self.curve_, n, target, level=self.level, warnings=self.warnings_)

    def plot(self, ax: Any = None) -> Any:
        """The curve with its interval and the points of the pilot; returns the axes."""
        return self.forecast().plot(ax)
