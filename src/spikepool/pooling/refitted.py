"""The leading candidate of a comparison, refitted to other rows: its pooling and its head, nothing left out.

A forecast fits a model some dozens of times. A comparison leaves rows out to choose a pooling, a penalty and the scale
of the probabilities. The first two are known here, and the scale does not change the predicted classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.pooling.learned import LearnedPoolingClassifier, LearnedPoolingRegressor


class _Refitted:
    """No row is left out; scores are kept, since labels and probabilities are asked of the same rows."""

    _known: tuple[Any, Any] = (None, None)

    def _folds(self, strata: IntArray, *_: Any) -> IntArray:
        self._known = None, None
        return np.full(len(strata), -1, dtype=np.intp)

    def _predict_scores(self, X: Any, mask: Any) -> FloatArray:
        if self._known[0] is not X:
            self._known = X, super()._predict_scores(X, mask)  # type: ignore[misc]
        return self._known[1]  # type: ignore[no-any-return]


class RefittedClassifier(_Refitted, LearnedPoolingClassifier):
    """A classifier with the pooling and the head that it is given."""


class RefittedRegressor(_Refitted, LearnedPoolingRegressor):
    """A regressor with the pooling and the head that it is given."""


def leading_candidate(fitted: Any) -> Any:
    """The leading candidate of a fitted classifier or regressor as an estimator that can be fitted to other rows."""
    kind = RefittedClassifier if hasattr(fitted, "classes_") else RefittedRegressor
    head = getattr(fitted, "_leading_head", fitted.head)
    return kind(**{**fitted.get_params(deep=False), "pooling": fitted.decision_, "head": head})


def leading_words(fitted: Any) -> str:
    """The same in words: "attention pooling of layer 4 alone with logistic regression"."""
    head = getattr(fitted, "_leading_head", None)
    layer = "" if fitted.layer_ is None else f" of layer {fitted.layer_}"
    alone = " alone" if len(fitted.fitted_.parts) > 1 else ""
    with_head = "" if head is None else f" with {head.name} regression"
    return f"{fitted.decision_} pooling{layer}{alone}{with_head}"
