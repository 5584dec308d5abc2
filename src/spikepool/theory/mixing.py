"""Outliers that lie so close that they mix: what a draw shows of each holds as a sum and not one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from spikepool.theory.validity import WORTH, Caution, OutlierLike, Shift

# Outliers that are looked at for mixing, from the largest on.
_NEIGHBOURS = 8
_MIX = "two outliers lie so close that they mix: in a draw each eigenvector holds about"
# Gauss-Hermite quadrature of means over a standard normal variable.
_NORMAL_NODES, _NORMAL_WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_NORMAL_WEIGHTS = _NORMAL_WEIGHTS / _NORMAL_WEIGHTS.sum()


def mixed(share: float) -> float:
    """Mean share of a neighbour in an eigenvector: that of a normal coupling c whose mean c²/gap² is `share`."""
    return float(_NORMAL_WEIGHTS @ (1 - 1 / np.sqrt(1 + 4 * min(share, 1e300) * _NORMAL_NODES**2)) / 2)


def mixing_share(gap: float, eigenvalue: float, d: int, N: int | None = None) -> float:
    """Mean share of its neighbour in the eigenvector of an outlier, for two outliers `gap` apart.

    The directions of two spikes overlap by chance, by 1/sqrt(d) on the left and 1/sqrt(N) on the right, which couples
    their outliers by a normal c of variance ``eigenvalue² (1/d + 1/N)/2``. In the basis of the two, the pair is
    ``[[gap, c], [c, 0]]``, and the share is the mean of ``(1 − gap/sqrt(gap² + 4c²))/2``.
    """
    coupling = eigenvalue * math.sqrt((1 / d + 1 / (N or d)) / 2)
    c = coupling * _NORMAL_NODES
    return float(_NORMAL_WEIGHTS @ (1 - gap / np.sqrt(gap**2 + 4 * c**2 + 1e-300)) / 2)


def mixing_loss(
    outliers: Sequence[OutlierLike], i: int, d: int, N: int | None = None, edge: float | None = None
) -> tuple[float, float]:
    """What outlier `i` loses of its alignment to the others by mixing with them, and the largest share of one of them.

    Directions on the left overlap by chance, by 1/sqrt(d), and the eigenvector of one leans by that times the other's
    eigenvalue over their gap, from its own direction; what it holds of the other's is that with its own eigenvalue.
    Where right vectors are not known (`N` is given), they overlap by 1/sqrt(N) and couple both alike.
    An outlier next to the `edge` of the bulk holds little of its own spike, about ``sqrt(1 − (edge/eigenvalue)²)`` of
    it, and is coupled the less to its neighbour.
    """
    own = [1.0 if edge is None else math.sqrt(max(0.0, 1 - (edge / o.eigenvalue) ** 2)) for o in outliers]
    one, worst, loss = outliers[i], 0.0, 0.0
    for j, other in enumerate(outliers[:_NEIGHBOURS]):
        if j == i:
            continue
        product = one.eigenvalue * other.eigenvalue
        gap = max(abs(one.eigenvalue - other.eigenvalue), 1e-9 * one.eigenvalue)
        right = 0.0 if N is None else product / N
        taken, given = (
            mixed(own[i] * own[j] * (square**2 / d + right) / gap**2) for square in (other.eigenvalue, one.eigenvalue)
        )
        loss += taken * one.alignment - given * other.alignment
        worst = max(worst, taken)
    return loss, worst


def mixing(outliers: Sequence[OutlierLike], d: int, N: int | None = None, edge: float | None = None) -> Shift | None:
    """What the alignment of the largest outlier changes by, in a draw, because it mixes with the others."""
    if len(outliers) < 2:
        return None
    loss, worst = mixing_loss(outliers, 0, d, N, edge)
    return Shift(f"{_MIX} {100 * worst:.2g} % of its neighbour", -loss)


def neighbours(
    outliers: Sequence[OutlierLike], d: int, N: int | None = None, edge: float | None = None, *, top: bool = True
) -> Caution | None:
    """Why the alignments of outliers hold together but not one by one: they lie so close that they mix.

    Only what the signal's outliers lose to the others counts, and the largest one where `top` is set; see
    :func:`mixing_loss`.
    """
    places = range(0 if top else 1, len(outliers))
    concerned = [i for i in places if i == 0 or getattr(outliers[i], "kind", "signal") == "signal"]
    lost = [mixing_loss(outliers, i, d, N, edge) for i in concerned]
    loss = max((abs(loss) for loss, _ in lost), default=0.0)
    if loss < WORTH:
        return None
    worst = max(share for _, share in lost)
    return Caution(
        f"{_MIX} {100 * worst:.2g} % of its neighbour; their alignments hold as a sum, and one by one they are off by "
        f"about {loss:.2g}",
        loss,
    )


def repelling(outliers: Sequence[OutlierLike], d: int, N: int) -> str | None:
    """Why two outliers of nearly equal strength have other eigenvalues in a draw: chance couples them, and they repel.

    A gap g and a coupling c of :func:`mixing_share` give eigenvalues sqrt(g² + 4c²) apart.
    """
    for first, second in pairwise(outliers):
        gap = first.eigenvalue - second.eigenvalue
        coupling = first.eigenvalue * math.sqrt((1 / d + 1 / N) / 2)
        if gap < 2 * coupling:
            apart = math.hypot(gap, 2 * coupling)
            return (
                f"two spikes are nearly equal: their eigenvalues repel in a draw and lie about {apart:.2g} apart "
                f"instead of {gap:.2g}, and any rotation of their eigenvectors is as likely"
            )
    return None
