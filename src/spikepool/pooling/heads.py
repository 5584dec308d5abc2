r"""Logistic heads beside the ridge: class scores that are added, with weights found on rows left out.

Ridge compares poolings in closed form, but a logistic regression on the features it chose is often the better
classifier, most of all where classes are many. The scores f_c of the ridge, of logistic regression on the chosen
features and of logistic regression on the mean are combined,

    p = softmax(Σ_c v_c f_c),      v = argmax Σ_i w_i log p(y_i | x_i)   over v >= 0,

the f_c of row i being those of fits without its fold. The ridge predicts alone where the combination does not raise
the out-of-fold log-likelihood by one standard error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.fold_ridge import Standardised
from spikepool.pooling.learning_rows import LearningRows
from spikepool.pooling.registry import Pooling
from spikepool.pooling.rules import RulePooling
from spikepool.pooling.selection import ERRORS_REQUIRED, Fitted, Task
from spikepool.pooling.stacking import paired

# Inverse penalty on standardised features: scikit-learn's default.
INVERSE_PENALTY, STEPS, TOLERANCE = 1.0, 200, 1e-3
# Rows times features times classes beyond which a head would take longer than the comparison of poolings.
MOST_WORK = 6e8
# Score of a class that a fold has not seen.
UNSEEN = -30.0


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """coef (F, K) on the features as they are, intercept (K,)."""

    coef: FloatArray
    intercept: FloatArray

    def predict(self, C: FloatArray) -> FloatArray:
        """Scores (n, K), whose softmax are probabilities."""
        return np.asarray(C @ self.coef + self.intercept)


def fit_logistic(C: FloatArray, codes: IntArray, classes: int, weights: FloatArray) -> LogisticFit:
    """Multinomial logistic regression on standardised features C (n, F) for classes 0 to K − 1."""
    standard = Standardised.of(C, weights)
    S = ((C - standard.centre) / standard.scale).astype(np.float32)
    model = LogisticRegression(C=INVERSE_PENALTY, max_iter=STEPS, tol=TOLERANCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # early stopping acts as a penalty
        warnings.simplefilter("ignore", UserWarning)  # many classes for few rows: the check of y has warned
        model.fit(S, codes, sample_weight=weights)
    coef, intercept = np.zeros((C.shape[1], classes)), np.full(classes, UNSEEN)
    found, level = model.coef_.T.astype(np.float64), model.intercept_.astype(np.float64)
    if len(model.classes_) == 2:
        found, level = np.column_stack([-found, found]) / 2, np.r_[-level, level] / 2
    coef[:, model.classes_], intercept[model.classes_] = found, level
    coef /= standard.scale[:, None]
    return LogisticFit(coef, intercept - standard.centre @ coef)


@dataclass(frozen=True, eq=False)
class Heads:
    """Weight of the ridge's scores, the logistic heads with theirs, and out-of-fold probabilities (n, K)."""

    ridge: float
    parts: tuple[tuple[float, Any, Pooling, LogisticFit], ...]
    values: FloatArray


def mix_heads(
    best: Fitted, rows: LearningRows, task: Task, codes: IntArray, ridge: FloatArray, over: Callable[..., list[Any]]
) -> Heads:
    """Fit logistic heads on the features of `best` and on the mean, and weigh them beside the ridge.

    Parameters
    ----------
    best : Fitted
        The single best candidate.
    rows : LearningRows
        Of its layer.
    task : Task
        Targets, weights and folds.
    codes : array (n,) of int
        Classes.
    ridge : array (n, K)
        Out-of-fold scores of the ridge, scaled so that their softmax are its probabilities.
    over : callable
        Map over the folds.
    """
    n, K = ridge.shape
    count = int(task.folds.max()) + 1
    candidates: list[tuple[Pooling, Sequence[Pooling]]] = [(best.pooling, best.without)]
    if best.pooling.name != "mean":
        candidates.append((RulePooling("mean"), ()))
    used, fits, scores = [], [], [ridge]
    for pooling, without in candidates:
        if n * len(pooling.feature_names(rows.source.d)) * K > MOST_WORK:
            continue
        C = rows.features(pooling)

        def one_fold(k: int, C: FloatArray = C, without: Sequence[Pooling] = without) -> tuple[IntArray, FloatArray]:
            train, test = np.flatnonzero(task.folds != k), np.flatnonzero(task.folds == k)
            mine = rows.features(without[k]) if without else C
            fit = fit_logistic(mine[train], codes[train], K, task.weights[train])
            return test, fit.predict(mine[test])

        left_out = np.empty((n, K))
        if any(len(np.unique(codes[task.folds != k])) < 2 for k in range(count)):
            continue
        for test, found in over(one_fold, count):
            left_out[test] = found
        used.append(pooling)
        fits.append(fit_logistic(C, codes, K, task.weights))
        scores.append(left_out)
    # a row whose class its training folds lack says nothing of how good a head is where classes are known
    known = np.array([np.isin(codes[i], codes[task.folds != task.folds[i]]) for i in range(n)])
    weights = np.where(known, task.weights, 0.0)
    if not weights.any():
        return Heads(1.0, (), np.asarray(softmax(ridge, axis=1)))
    v = score_weights(scores, codes, weights)
    total = np.asarray(sum(share * f for share, f in zip(v, scores, strict=True)))
    rows_of = np.arange(n)
    gain, error = paired(
        log_softmax(total, axis=1)[rows_of, codes] - log_softmax(ridge, axis=1)[rows_of, codes],
        weights,
        task.clusters,
    )
    if not gain > ERRORS_REQUIRED * error:
        return Heads(1.0, (), np.asarray(softmax(ridge, axis=1)))
    parts = tuple((float(w), best.layer, p, f) for w, p, f in zip(v[1:], used, fits, strict=True) if w > 0)
    return Heads(float(v[0]), parts, np.asarray(softmax(total, axis=1)))


def score_weights(scores: Sequence[FloatArray], codes: IntArray, weights: FloatArray) -> FloatArray:
    """V >= 0 of largest likelihood for softmax(Σ v_c f_c); a convex problem of few unknowns."""
    stacked = np.stack(scores)
    own = stacked[:, np.arange(len(codes)), codes] @ weights / weights.sum()

    def loss(v: FloatArray) -> tuple[float, FloatArray]:
        total = np.tensordot(v, stacked, axes=1)
        normal = logsumexp(total, axis=1)
        p = np.exp(total - normal[:, None]) * (weights / weights.sum())[:, None]
        return float(weights @ normal / weights.sum() - v @ own), np.einsum("cnk,nk->c", stacked, p) - own

    start = np.r_[1.0, np.zeros(len(scores) - 1)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(scores))
    return np.asarray(found.x)
