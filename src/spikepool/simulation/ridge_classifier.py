"""The ridge classifier of the paper's experiment, as an estimator of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from spikepool.errors import InvalidInputError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray


class RidgeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Two-class least squares with ridge penalty and no intercept, the classifier of the paper's experiment.

    ``beta = (C C' + ridge·n I)⁻¹ C y`` with the pooled columns C and labels y = ±1; a sequence is classified by the
    sign of beta'c.

    Parameters
    ----------
    ridge : float
        Penalty, above 0.
    weights : array_like of shape (T,), optional
        Pooling weights for token input (n, T, d); the mean when not given. Features given as (n, d) are taken as
        already pooled.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels; the second counts as +1.
    coef_ : ndarray of shape (d,)
        beta.
    n_features_in_ : int
        d.
    """

    def __init__(self, ridge: float = 1.0, weights: ArrayLike | None = None) -> None:
        self.ridge = ridge
        self.weights = weights

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _pool(self, X: Any, *, reset: bool) -> FloatArray:
        """Pooled features (n, d) of token input (n, T, d), or of features given as (n, d)."""
        if np.asarray(X).ndim != 3:
            if self.weights is not None:
                raise ShapeError("with weights, X must be tokens of shape (n, T, d)", np.asarray(X), "Pass 3 axes")
            return np.asarray(validate_data(self, X, reset=reset, dtype=np.float64))
        tokens = check_array(X, allow_nd=True, dtype=np.float64)
        T = tokens.shape[1]
        w = np.full(T, 1 / T) if self.weights is None else check.weight_vector(self.weights, T)
        if reset:
            self.n_features_in_ = tokens.shape[2]
        elif tokens.shape[2] != self.n_features_in_:
            raise ShapeError(f"X must have {self.n_features_in_} features", tokens, "Use the features of the fit")
        return np.asarray(np.einsum("t,ntd->nd", w, tokens))

    def fit(self, X: ArrayLike, y: ArrayLike) -> RidgeClassifier:
        """Fit on tokens (n, T, d) or pooled features (n, d) with labels of two classes."""
        ridge = check.ridge_penalty(self.ridge)
        C = self._pool(X, reset=True)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(C, labels)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) != 2:
            noun = "class" if len(self.classes_) == 1 else "classes"
            raise InvalidInputError(
                f"Only binary classification is supported. y has {len(self.classes_)} {noun}",
                self.classes_,
                "Pass labels of two kinds, or wrap in OneVsRestClassifier",
            )
        signs = 2.0 * codes - 1.0
        n, d = C.shape
        if d <= n:
            self.coef_ = np.linalg.solve(C.T @ C + ridge * n * np.eye(d), C.T @ signs)
        else:
            self.coef_ = C.T @ np.linalg.solve(C @ C.T + ridge * n * np.eye(n), signs)
        return self

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Scores beta'c; positive for the second class."""
        check_is_fitted(self)
        return np.asarray(self._pool(X, reset=False) @ self.coef_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels by the sign of the score."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(np.intp)])
