"""Estimators of tokens or texts, seen as estimators of row numbers: all that they learn is learned at every size.

The curve of any estimator (:mod:`spikepool.forecasting.estimator_curve`) asks for rows of features. Here the feature of
a row is its number, and :class:`OverTokens` looks its tokens or its text up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from spikepool.errors import ShapeError
from spikepool.forecasting.pilot_input import PilotInput, in_memory
from spikepool.kit.arrays import AnyArray, FloatArray

# Columns of the hashed words of a text, by which copies of texts are found.
HASHED_WORDS = 256


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Tokens (n, T, d) or texts (n,), mask and groups of the pilot; shared by all clones, never copied."""

    tokens: AnyArray
    mask: AnyArray | None
    groups: AnyArray | None

    def __deepcopy__(self, memo: Any) -> TokenRows:
        return self

    @property
    def dimension(self) -> int:
        """Of a token; 1 for texts, whose encoder belongs to the estimator."""
        return int(self.tokens.shape[2]) if self.tokens.ndim == 3 else 1

    def masked(self, rows: AnyArray) -> dict[str, AnyArray]:
        """The mask of some rows, as keyword arguments."""
        return {} if self.mask is None else {"mask": self.mask[rows]}


def _has(name: str) -> Any:
    return available_if(lambda self: hasattr(self.estimator, name))


class OverTokens(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """`estimator` on the tokens of the rows whose numbers are given as features (n, 1)."""

    def __init__(self, estimator: Any, given: TokenRows) -> None:
        self.estimator, self.given = estimator, given

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def fit(self, X: FloatArray, y: AnyArray) -> OverTokens:
        """Fit a clone to the tokens of these rows."""
        rows = X[:, 0].astype(np.intp)
        more = self.given.masked(rows)
        if self.given.groups is not None:
            more["groups"] = self.given.groups[rows]
        self.fitted_ = clone(self.estimator).fit(self.given.tokens[rows], y, **more)
        self._asked: tuple[Any, Any] = (None, None)
        if hasattr(self.fitted_, "classes_"):
            self.classes_ = self.fitted_.classes_
        return self

    def _answer(self, name: str, X: FloatArray) -> Any:
        rows = X[:, 0].astype(np.intp)
        if not np.array_equal(rows, self._asked[0]):  # labels, scores and probabilities are asked of the same rows
            self._asked = rows, self.given.tokens[rows]
        return getattr(self.fitted_, name)(self._asked[1], **self.given.masked(rows))

    def predict(self, X: FloatArray) -> Any:
        """What the fitted clone predicts."""
        return self._answer("predict", X)

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: FloatArray) -> Any:
        """Its probabilities."""
        return self._answer("predict_proba", X)

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: FloatArray) -> Any:
        """Its scores of classes."""
        return self._answer("decision_function", X)


def over_tokens(estimator: Any, tokens: AnyArray, mask: Any, groups: Any) -> tuple[OverTokens, FloatArray]:
    """The estimator of row numbers, and the means of the rows, by which copies and order are found."""
    observed = (
        np.ones(tokens.shape[:2], dtype=bool) if mask is None else np.asarray(in_memory(mask, "mask"), dtype=bool)
    )
    if observed.shape != tokens.shape[:2]:
        raise ShapeError("mask must have one entry per token", observed.shape, "Pass mask of shape (n, T)")
    total = np.where(observed[..., None], tokens, 0.0).sum(axis=1, dtype=np.float64)
    known = None if groups is None else np.asarray(in_memory(groups, "groups"))
    rows = TokenRows(tokens, None if mask is None else observed, known)
    return OverTokens(estimator, rows), total / np.maximum(observed.sum(axis=1, keepdims=True), 1)


def over_texts(estimator: Any, texts: AnyArray, groups: Any) -> tuple[OverTokens, FloatArray]:
    """The estimator of row numbers, and counts of words (hashed), by which copies and order are found."""
    known = None if groups is None else np.asarray(in_memory(groups, "groups"))
    words = HashingVectorizer(n_features=HASHED_WORDS, token_pattern=r"\S+").transform(texts.tolist())
    return OverTokens(estimator, TokenRows(texts, None, known)), np.asarray(words.toarray(), dtype=np.float64)


def numbered_rows(pilot: PilotInput) -> PilotInput:
    """The pilot with the numbers of its rows in place of features."""
    return replace(pilot, X=pilot.kept[:, None].astype(np.float64), scale=np.ones(1))
