r"""Probabilities from ridge scores: p = softmax(a·f), the scale a by maximum likelihood on out-of-fold scores.

One parameter cannot change which class is largest, so that `predict` and `predict_proba` agree; scores of rows that the
ridge has not seen keep it from being overconfident. For two classes p = 1/(1 + exp(−2af)).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from spikepool.kit.arrays import FloatArray, IntArray

# Range of ln a; scores are about ±1.
LOG_SCALE = (-4.0, 5.0)
# Where no row could be left out: scores of ±1 are then probabilities of .12 and .88.
DEFAULT_SCALE = 1.0


def class_scores(values: FloatArray) -> FloatArray:
    """Scores (n, K) of all classes; for two classes from one column f they are −f and f."""
    return np.column_stack([-values, values]) if values.shape[1] == 1 else values


def fit_scale(values: FloatArray, codes: IntArray, weights: FloatArray) -> float:
    """The scale a of largest likelihood, given out-of-fold values (n, k), classes (n,) and row weights."""
    scores = class_scores(values)
    own = scores[np.arange(len(codes)), codes]

    def loss(log_scale: float) -> float:
        a = np.exp(log_scale)
        return float(weights @ (logsumexp(a * scores, axis=1) - a * own))

    return float(np.exp(minimize_scalar(loss, bounds=LOG_SCALE, method="bounded").x))


def probabilities(values: FloatArray, scale: float) -> FloatArray:
    """Probabilities (n, K) of the classes."""
    return np.asarray(softmax(scale * class_scores(values), axis=1))
