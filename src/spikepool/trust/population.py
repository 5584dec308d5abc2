"""The population spectrum behind sample eigenvalues: what, seen through as many rows, gives the ones observed.

Sample eigenvalues spread more than those of the population. The spread is undone by simulation:
``tau_i <- tau_i · lambda_i / (geometric mean of the drawn lambda_i)``. Few rounds: each adds the noise of its draws.
The start matters more, since sample eigenvalues hardly depend on small differences within a flat part. Where every
eigenvalue is fitted, it is the spectrum of :mod:`spikepool.trust.shrinkage`, which is flat there, and one round
suffices; elsewhere it is that of the sample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq

from spikepool.kit.arrays import FloatArray
from spikepool.trust.draws import Draw
from spikepool.trust.effort import fitted_eigenvalues
from spikepool.trust.shrinkage import shrunken_eigenvalues

FLOOR = 1e-12  # of the largest eigenvalue: what is below is rounding


def population_spectrum(
    values: FloatArray, n: int, draws: Sequence[Draw], rounds: int = 2, shrunken: bool = False
) -> FloatArray:
    """Population eigenvalues (d,), descending, with the trace of the sample's.

    The first ``min(d, n/2)`` are fitted one by one. The rest of a sample's eigenvalues are mostly bias; theirs is a
    log-linear tail that keeps the trace.

    Parameters
    ----------
    values : array of shape (d,)
        Sample eigenvalues of n rows, descending.
    n : int
    draws : sequence of Draw
        Draws of as many rows; the same ones serve every round.
    rounds : int
    shrunken : bool
        Whether to start from the shrunken eigenvalues; every eigenvalue must be fitted.
    """
    observed = np.maximum(values, FLOOR * values[0])
    start = shrunken_eigenvalues(observed, n) if shrunken else observed
    tau = _with_tail(start, fitted_eigenvalues(n, len(values)), float(values.sum()))
    for _ in range(rounds):
        drawn = np.mean([np.log(np.maximum(draw.eigenvalues(tau), FLOOR * values[0])) for draw in draws], axis=0)
        tau = corrected(tau, values, np.exp(drawn), n)
    return tau


def corrected(tau: FloatArray, values: FloatArray, drawn: FloatArray, n: int) -> FloatArray:
    """One round: each of `tau` times the ratio of the eigenvalue observed to that drawn.

    With the eigenvalues of a single draw it is a spectrum that could have been fitted instead: their scatter around
    `tau` is that of the fit.
    """
    floor = FLOOR * values[0]
    ratio = np.maximum(values, floor) / np.maximum(drawn, floor)
    fitted = fitted_eigenvalues(n, len(values))
    return _with_tail(np.sort((tau * ratio)[:fitted])[::-1], fitted, float(values.sum()), len(values))


def _with_tail(head: FloatArray, fitted: int, trace: float, d: int | None = None) -> FloatArray:
    """The first `fitted` of `head`, continued as ``tau_m exp(−b j)`` to dimension d and the given trace."""
    d = len(head) if d is None else d
    head = head[:fitted]
    length, rest = d - fitted, trace - float(head.sum())
    if length <= 0:
        return np.asarray(head * (trace / head.sum()))
    j = np.arange(1, length + 1)
    last = float(head[-1])
    if rest <= last * FLOOR * length:
        tail = np.full(length, last * FLOOR)
    elif rest >= last * length:
        tail = np.full(length, last)  # flat: a tail never rises above the fitted part
    else:

        def missing(b: float) -> float:
            return float(last * np.exp(-b * j).sum() - rest)

        high = 1.0 / length
        while missing(high) > 0:
            high *= 2
        tail = last * np.exp(-brentq(missing, 0.0, high) * j)
    tau = np.concatenate([head, np.maximum(tail, last * FLOOR)])
    return np.asarray(tau * (trace / tau.sum()))
