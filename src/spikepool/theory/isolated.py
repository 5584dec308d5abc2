"""Which eigenvalues stand apart from the bulk of the others, and are spikes instead of part of its law."""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.kit.roots import dips_below

# At most this many eigenvalues are taken out of the bulk as spikes of their own.
MAX_SPIKES = 32
# Eigenvalues that stand apart from the rest but not from each other are spikes up to this many.
GROUP = 4
# The bulk keeps at least this share of the eigenvalues off zero.
BULK_SHARE = 0.75
# Eigenvalues closer than this, relative to their size, are equal: tokens of the same count.
EQUAL = 1e-9


def isolated(values: FloatArray, weights: FloatArray, singles: int, bound: float, *, resolved: bool) -> int:
    """How many of the largest eigenvalues lie outside the bulk of the others.

    The top k are spikes of their own if t_k is beyond the edge that the rest would have. With
    Q(x) = sum weight·t²/(t − x)², for isotropic noise that reads Q(t_k) < bound over the rest (see ``laws/_gaps.py``);
    they are told apart at this very size (`resolved`) if Q over all eigenvalues, the top k included, falls below the
    bound somewhere between t_{k+1} and t_k. Groups are taken from the top; one of more than a few members is a small
    separate bulk and ends the search.

    Parameters
    ----------
    values, weights : numpy.ndarray
        Descending, and their masses.
    singles : int
        How many of the first ones are single eigenvalues; no more can be isolated.
    bound : float
        What Q has to fall below in a gap.
    resolved : bool
        Whether their own masses count.
    """
    top = min(MAX_SPIKES, singles, len(values) - 1)
    if top < 1:
        return 0
    high, low = values[:top], values[1 : top + 1]
    apart = high - low > EQUAL * high
    squares = weights * values**2
    if resolved:
        counted = squares > 0
        poles, residues = values[counted], squares[counted]

        def excess(x: FloatArray, _: object = None) -> tuple[FloatArray, FloatArray]:
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                inverse = 1 / (poles - x[:, None])
                square = inverse * inverse
                return square @ residues - bound, 2 * ((square * inverse) @ residues)

        gap = np.zeros(top, dtype=bool)
        gap[apart] = dips_below(excess, low[apart], high[apart])[0]
    else:
        distance = np.where(apart, high, np.inf)[:, None] - values
        rest = np.arange(len(values)) > np.arange(top)[:, None]
        with np.errstate(divide="ignore"):
            gap = apart & (np.where(rest, squares / distance**2, 0.0).sum(axis=1) < bound)
    positive = weights * (values > 0)
    remains = positive.sum() - np.cumsum(positive)[:top] >= BULK_SHARE * positive.sum()
    count = 0
    for k in range(1, top + 1):
        if not remains[k - 1] or k - count > GROUP:
            break
        if gap[k - 1]:
            count = k
    return count
