"""Which token weights to choose: for recovery of a direction, and for a classifier of the same table.

*Recovery.* At order mu^-2 the loss of alignment is ``(d/mu²)[sum p² a² (a + (G−1) ā)² + A_2 Q/N]/Q²`` with Q = s'M s of
:mod:`spikepool.theory.token_weights`. For G >> 1 its minimum is ``a = 1/(p + 1/(G N))``: the SIF form, with its
constant derived.

*Classification* of sequences from the same table wants nearly the opposite, because the table's noise is the same in
training and at test: frequent tokens carry information about their class.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtr

from spikepool.errors import DomainError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray


def recovery_token_weights(counts: ArrayLike, *, length: float, gain: float = 1.0) -> FloatArray:
    """Token weights ``1/(n_v + T/G)`` that recover the hidden direction best from a corpus with these counts.

    They minimise the loss of alignment of the top eigenvector of the pooled covariance at a strong signal and G >> 1;
    with ``n_v = N T p_v`` they are ``1/(p_v + 1/(G N))`` up to a factor, the SIF weights with their constant derived:
    one over the number of sequences times the gain of the positions.

    Parameters
    ----------
    counts : array_like of shape (V,)
        How often each token occurs in the corpus.
    length : float
        Tokens per sequence, T.
    gain : float
        G = alpha/kappa of the position weights: 1 for independent signs, T for signs that all agree.

    Returns
    -------
    numpy.ndarray of shape (V,)
        Weights with a mean of one over the occurrences of the corpus.

    Notes
    -----
    These weights are for *recovery* of a direction that the table's noise hides. A classifier of sequences from the
    same table wants nearly the opposite: the table's noise is the same in training and at test, so that frequent tokens
    carry information about their class (:func:`spikepool.theory.token_weight_choice.same_table_score`).

    Examples
    --------
    >>> import spikepool as sp
    >>> sp.recovery_token_weights([90, 9, 1], length=10, gain=10).round(3)
    array([ 0.46 ,  4.186, 20.929])
    """
    n = check.finite_array(counts, "counts", ndim=1)
    if n.min() < 0 or n.sum() == 0:
        raise DomainError("counts must be at least 0, with one above", n, "Count the tokens of the corpus")
    T, G = check.positive(length, "length"), check.positive(gain, "gain")
    a = 1 / (n + T / G)
    return np.asarray(a * float(n.sum()) / float(n @ a))


def same_table_score(frequencies: ArrayLike, token_weights: ArrayLike, mu: float, d: int) -> float:
    """Squared correlation q of the best linear token score with the classes, for a table that is used again.

    A classifier beta of pooled sequences scores token v by a_v beta'e_v. Least squares on many sequences projects the
    classes on the span of the table, weighted by g² = p a², and the squared correlation in the measure p is

        q = sum p f + mu²/(1 + mu²) (sum sqrt(p f (1 − f)))²/d,    f = rho g²/(1 + rho g²),  sum f = d.

    The table's own noise is part of the score (the first term), because it is the same in training and at test. So a
    classifier wants the weight on the tokens that occur, and a = 1 is close to the optimum; weights that recover the
    direction u (:func:`spikepool.recovery_token_weights`) make it worse.

    Parameters
    ----------
    frequencies, token_weights : array_like of shape (V,)
        p, of balanced classes, and a.
    mu : float
        Norm of the hidden signal.
    d : int
        Embedding dimension, below the number of tokens that occur.
    """
    p = check.finite_array(frequencies, "frequencies", ndim=1)
    if p.min() < 0 or p.sum() <= 0:
        raise DomainError("frequencies must be at least 0, with one above", p, "Pass counts or probabilities")
    p = p / p.sum()
    g2 = p * check.token_weights(token_weights, len(p)) ** 2
    strength, d = check.non_negative(mu, "mu"), check.size(d, "d")
    used = g2[g2 > 0]
    if d >= len(used):
        raise DomainError(f"d must be below the {len(used)} tokens with weight", d, "A larger table fits every class")
    low, high = d / float(used.sum()), d / float(used.sum())
    while np.sum(high * used / (1 + high * used)) < d:
        high *= 4
    rho = float(brentq(lambda x: float(np.sum(x * used / (1 + x * used))) - d, low, high, xtol=1e-300, rtol=1e-14))
    f = rho * g2 / (1 + rho * g2)
    cross = float(np.sqrt(p * f * (1 - f)).sum()) ** 2 / d
    return float(p @ f) + strength**2 / (1 + strength**2) * cross


def same_table_accuracy(score: float, length: float, correlation: float) -> float:
    """Accuracy ``Phi(sqrt(T r q/(1 − r q)))`` of a classifier of token score q on sequences of T exchangeable tokens.

    Parameters
    ----------
    score : float
        q of :func:`same_table_score`.
    length : float
        T.
    correlation : float
        r, that of the signs of two positions; their common part is the label.
    """
    rq = check.fraction(correlation, "correlation", closed=True) * check.fraction(score, "score", closed=True)
    if rq == 1:
        return 1.0
    return float(ndtr(math.sqrt(check.positive(length, "length") * rq / (1 - rq))))
