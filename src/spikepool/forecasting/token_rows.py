"""Forecasts of a classifier of tokens: its pooling, stack and heads are learned anew at every size.

The machinery for any estimator asks for rows of features. Here the feature of a row is its number, and
:class:`OverTokens` looks its tokens up.

Features of a pilot's tokens, by a pooling that is fitted again on the pilot and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import GroupKFold
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from spikepool.data.estimator_input import shape_of
from spikepool.data.in_memory import label_array
from spikepool.errors import InvalidInputError, ShapeError
from spikepool.forecasting.pilot_input import FOLDS, PilotInput, fold_groups, in_memory, labels_in_memory
from spikepool.kit.arrays import AnyArray, FloatArray
from spikepool.ridge.gcv import fit_ridge

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
        if hasattr(self.fitted_, "classes_"):
            self.classes_ = self.fitted_.classes_
        return self

    def _answer(self, name: str, X: FloatArray) -> Any:
        rows = X[:, 0].astype(np.intp)
        return getattr(self.fitted_, name)(self.given.tokens[rows], **self.given.masked(rows))

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


def pool_pilot(pooling: Any, tokens: Any, y: Any, *, mask: Any = None, groups: Any = None) -> FloatArray:
    """Pooled features (n, d) of the pilot.

    A pooling that does not look at labels is fitted once, to the pilot's tokens. One that does would carry the labels
    of the left-out rows into their features, and leave-one-out would flatter: it is fitted in five folds, and each
    row is pooled by the fit that has not seen it. The folds' weights differ, and heads may come in another order: a
    linear map, fitted on the rows the fold was trained on, carries its features to the coordinates of the whole fit.
    One that compares poolings first does so on the whole pilot alone: a fold with fewer rows may still decide for the
    mean where the pilot has decided for learned weights, and the forecast would be that of a mixture.
    """
    needed = ("fit", "transform", "get_params")
    if isinstance(pooling, type) or not all(hasattr(pooling, name) for name in needed):
        raise InvalidInputError(
            "pooling must be an estimator with fit and transform", pooling, "Pass for example SpectralPooling()"
        )
    source = in_memory(tokens, "tokens")
    if not np.ma.isMaskedArray(source):  # which carries its mask to the pooling
        shape_of(source)
        source = np.asarray(source)
    observed = None if mask is None else np.asarray(in_memory(mask, "mask"))
    labels = label_array(labels_in_memory(y))
    if source.ndim < 2 or len(source) != len(labels):
        raise ShapeError("tokens and y must have one entry per row", source.shape, "Pass (n, T, d) and (n,)")

    def fitted(estimator: Any, rows: AnyArray) -> Any:
        again = clone(estimator)
        # only features are wanted of a pooling that has been chosen, not its predictions
        named = getattr(again, "pooling", "auto") != "auto"
        fit = again.fit_pooling if named and hasattr(again, "fit_pooling") else again.fit
        return fit(source[rows], labels[rows], **_masked(observed, rows))

    everything = np.arange(len(source))
    whole = fitted(pooling, everything)
    if not looks_at_labels(pooling):
        return np.asarray(whole.transform(source, **_masked(observed, everything)), dtype=np.float64)
    common = _pooled(whole, source, observed, everything)
    features, settled = np.empty_like(common), _as_decided(pooling, whole)
    for train, test in GroupKFold(FOLDS).split(everything, groups=fold_groups(groups, len(source))):
        fold = fitted(settled, train)
        seen, unseen = _pooled(fold, source, observed, train), _pooled(fold, source, observed, test)
        features[test] = _carried(seen, common[train], unseen)
    return features


def _as_decided(pooling: Any, fitted: Any) -> Any:
    """`pooling` with the choice that its fit has made, if it makes one."""
    if hasattr(fitted, "decision_") and pooling.get_params().get("pooling") == "auto":
        return clone(pooling).set_params(pooling=fitted.decision_)
    return pooling


def _pooled(pooling: Any, tokens: AnyArray, mask: AnyArray | None, rows: AnyArray) -> FloatArray:
    return np.asarray(pooling.transform(tokens[rows], **_masked(mask, rows)), dtype=np.float64)


def _carried(features: FloatArray, common: FloatArray, rows: FloatArray) -> FloatArray:
    """`rows` carried by a ridge map of `features` to `common`, its penalty by generalised cross-validation.

    Two fits of one kind are taken to agree unless the rows show otherwise: ridge is fitted to their difference. Least
    squares would carry what differs by chance as well: with 240 features of 320 rows it took two points of accuracy,
    twelve when one of the fits had chosen another number of heads.
    """
    if features.shape == common.shape:
        return np.asarray(rows + fit_ridge(features, common - features).predict(rows))
    return np.asarray(fit_ridge(features, common).predict(rows))


def _masked(mask: AnyArray | None, rows: AnyArray) -> dict[str, AnyArray]:
    return {} if mask is None else {"mask": mask[rows]}


def looks_at_labels(pooling: Any) -> bool:
    """Whether a pooling learns from labels."""
    return bool(is_classifier(pooling) or is_regressor(pooling) or get_tags(pooling).target_tags.required)
