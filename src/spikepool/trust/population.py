"""The population spectrum behind sample eigenvalues: what, seen through as many rows, gives the ones observed.

Sample eigenvalues spread more than those of the population. The spread is undone by simulation:
``tau_i <- tau_i · lambda_i / (geometric mean of the drawn lambda_i)``. Few rounds: each adds the noise of its draws.
The start matters more, since sample eigenvalues hardly depend on small differences within a flat part. Where every
eigenvalue is fitted, it is the spectrum of :mod:`spikepool.trust.population`, which is flat there, and one round
suffices; elsewhere it is that of the sample.

Nonlinear shrinkage: the variances of the population along the components of a sample.

Sample eigenvalues spread more than those of the population, and the variances along the sample's components spread
less. The latter are known from the sample eigenvalues alone (Ledoit and Péché): with the density f of the eigenvalues,
its Hilbert transform H and the ratio c of dimensions to rows,

    d_i = λ_i / ((π c λ_i f(λ_i))² + (1 − c − π c λ_i H(λ_i))²)

Density and transform are kernel estimates with the kernel and the bandwidth of the reference.

References
----------
O. Ledoit and M. Wolf, "Analytical nonlinear shrinkage of large-dimensional covariance matrices", Annals of Statistics
48 (2020).

The flattest spectrum that explains the sample: equal eigenvalues wherever the sample does not tell them apart.

Sample eigenvalues of equal population eigenvalues spread out, and a spectrum fitted to them one by one keeps some of
that spread: its spans seem better defined than they are. Here the spectrum starts as one level. As long as an
eigenvalue of the sample lies outside what draws from the levels give, the level that holds it is split in two, where
the residuals change most, into no more levels than the largest span has components. Spans that end inside a level have
no direction of their own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy.ndimage import uniform_filter1d
from scipy.optimize import brentq
from scipy.stats import norm

from spikepool.kit.arrays import FloatArray
from spikepool.kit.showing import SIGNIFICANCE
from spikepool.trust.draws import Draw, fitted_eigenvalues
from spikepool.trust.sample import SPANS

_EDGE = math.sqrt(5.0)  # of Epanechnikov's kernel with unit variance


def shrunken_eigenvalues(values: FloatArray, n: int) -> FloatArray:
    """Variances (d,), descending, along the components of `n` centred rows, which must be more than dimensions.

    Parameters
    ----------
    values : array of shape (d,)
        Sample eigenvalues, descending and positive.
    n : int
    """
    ratio, width = len(values) / (n - 1), (n - 1) ** (-1 / 3) * values
    x = (values[:, None] - values) / width
    density = np.mean(_kernel(x) / width, axis=1)
    transform = np.mean(_hilbert(x) / width, axis=1)
    scaled = math.pi * ratio * values
    return np.sort(values / ((scaled * density) ** 2 + (1 - ratio - scaled * transform) ** 2))[::-1]


def _kernel(x: FloatArray) -> FloatArray:
    return np.asarray(0.75 / _EDGE * np.maximum(1 - (x / _EDGE) ** 2, 0.0))


def _hilbert(x: FloatArray) -> FloatArray:
    """Hilbert transform of the kernel, −1/(π x) far from zero, where the terms of the closed form cancel."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = _EDGE / x
        logs = (1 - 1 / t**2) * np.log(np.abs((t - 1) / (t + 1)))
        near = -0.3 * x + 0.75 / _EDGE * np.where(np.isfinite(logs), logs, 0.0)
        far = -(t + t**3 / 5) / _EDGE
    return np.asarray(np.where(np.abs(x) < 100 * _EDGE, near, far) / math.pi)


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


# Eigenvalues over which the scatter is averaged.
_NEIGHBOURS = 7


def flat_levels(
    values: FloatArray, tau: FloatArray, draws: Sequence[Draw], widening: float = 1.0
) -> tuple[FloatArray, list[int]]:
    """Population eigenvalues (d,) in levels, and the ranks at which levels begin, with d at the end.

    Parameters
    ----------
    values : array (d,)
        Sample eigenvalues, descending.
    tau : array (d,)
        Fitted population eigenvalues; a level is their mean.
    draws : sequence of Draw
        Draws of as many rows as the sample has.
    widening : float
        Factor by which the eigenvalues of the sample scatter more than those of the draws.
    """
    floor = FLOOR * float(values[0])
    observed = np.log(np.maximum(values, floor))

    def eigenvalues(level: FloatArray) -> FloatArray:
        return np.array([np.log(np.maximum(draw.eigenvalues(level), floor)) for draw in draws])

    # standard deviations that the largest of so many departures seldom exceeds by chance
    clear, cuts = float(norm.isf(SIGNIFICANCE / (2 * len(tau)))), [0, len(tau)]
    while True:
        level = np.concatenate([np.full(b - a, tau[a:b].mean()) for a, b in itertools.pairwise(cuts)])
        missing = observed - eigenvalues(level).mean(axis=0)
        # a level whose eigenvalues are all too small, or too large, is moved and not split
        level *= np.exp(np.concatenate([np.full(b - a, missing[a:b].mean()) for a, b in itertools.pairwise(cuts)]))
        drawn = eigenvalues(level)
        rest = observed - drawn.mean(axis=0)
        # few draws know the scatter of one eigenvalue badly, and that of its neighbours is nearly the same
        scatter = uniform_filter1d(drawn.var(axis=0, ddof=1), _NEIGHBOURS, mode="nearest") * (1 + 1 / len(draws))
        beyond = np.abs(rest) / (widening * np.sqrt(np.maximum(scatter, 0.0) + 1e-24))
        whole = [(float(beyond[a:b].max()), a, b) for a, b in itertools.pairwise(cuts) if b - a > 1]
        worst, a, b = max(whole, default=(0.0, 0, 0))
        if worst <= clear or len(cuts) > SPANS[-1]:
            return level, cuts
        part, m = rest[a:b], np.arange(1, b - a)
        gain = (np.cumsum(part)[:-1] - m * part.mean()) ** 2 / (m * (b - a - m))
        cuts = sorted({*cuts, a + 1 + int(np.argmax(gain))})
