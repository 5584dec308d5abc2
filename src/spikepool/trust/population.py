"""The population spectrum behind sample eigenvalues: what, seen through as many rows, gives the ones observed.

Sample eigenvalues spread more than those of the population. The spread is undone by simulation: starting from the
sample eigenvalues, ``tau_i <- tau_i · lambda_i / (geometric mean of the drawn lambda_i)``. Few rounds: each adds the
noise of its draws, and after two the bias is smaller than that.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from spikepool.kit.arrays import FloatArray
from spikepool.trust.draws import World, eigenvalues

_FLOOR = 1e-12  # of the largest eigenvalue: what is below is rounding


def population_spectrum(
    values: FloatArray, scales: FloatArray, n: int, rng: np.random.Generator, *, rounds: int = 2, draws: int = 2
) -> FloatArray:
    """Population eigenvalues (d,), descending, with the trace of the sample's.

    The first ``min(d, n/2)`` are fitted one by one. The rest of a sample's eigenvalues are mostly bias; theirs is a
    log-linear tail that keeps the trace.
    """
    d, trace = len(values), float(values.sum())
    fitted = int(max(1, min(d, n // 2)))
    observed = np.maximum(values, _FLOOR * values[0])
    tau = _with_tail(observed, fitted, trace)
    for _ in range(rounds):
        world = World(tau, scales)
        drawn = np.mean(
            [np.log(np.maximum(eigenvalues(world, n, rng), _FLOOR * values[0])) for _ in range(draws)], axis=0
        )
        tau = _with_tail(np.sort((tau * observed / np.exp(drawn))[:fitted])[::-1], fitted, trace, d)
    return tau


def _with_tail(head: FloatArray, fitted: int, trace: float, d: int | None = None) -> FloatArray:
    """The first `fitted` of `head`, continued as ``tau_m exp(−b j)`` to dimension d and the given trace."""
    d = len(head) if d is None else d
    head = head[:fitted]
    length, rest = d - fitted, trace - float(head.sum())
    if length <= 0:
        return np.asarray(head * (trace / head.sum()))
    j = np.arange(1, length + 1)
    last = float(head[-1])
    if rest <= last * _FLOOR * length:
        tail = np.full(length, last * _FLOOR)
    elif rest >= last * length:
        tail = np.full(length, last)  # flat: a tail never rises above the fitted part
    else:

        def missing(b: float) -> float:
            return float(last * np.exp(-b * j).sum() - rest)

        high = 1.0 / length
        while missing(high) > 0:
            high *= 2
        tail = last * np.exp(-brentq(missing, 0.0, high) * j)
    tau = np.concatenate([head, np.maximum(tail, last * _FLOOR)])
    return np.asarray(tau * (trace / tau.sum()))
