"""The flattest spectrum that explains the sample: equal eigenvalues wherever the sample does not tell them apart.

Sample eigenvalues of equal population eigenvalues spread out, and a spectrum fitted to them one by one keeps some of
that spread: its spans seem better defined than they are. Here the spectrum starts as one level. As long as an
eigenvalue of the sample lies outside what draws from the levels give, the level that holds it is split in two, where
the residuals change most, into no more levels than the largest span has components. Spans that end inside a level have
no direction of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy.ndimage import uniform_filter1d
from scipy.stats import norm

from spikepool.kit.arrays import FloatArray
from spikepool.kit.statistics import SIGNIFICANCE
from spikepool.trust.draws import Draw
from spikepool.trust.population import FLOOR
from spikepool.trust.sample import SPANS

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
