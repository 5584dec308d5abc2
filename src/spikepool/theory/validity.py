"""Where a number of theory holds, carried by the object that has the number.

All limits are for d, V, N → ∞. What they leave out is known: the closed form takes weights spread over many tokens, an
outlier within d^(-1/3) of its threshold is not yet what it becomes, and outliers closer than they fluctuate mix. A
result outside these ranges reports it, with a reason and the size of what to expect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from spikepool.kit.showing import Result

# Effective tokens 1/kappa below which the closed form of the spectrum is an approximation, unless mu is CLEAR times its
# threshold: against the exact engine (390 random models at d = 400) its alignment is off by up to .23 there, and by up
# to .02 beyond, as that of spread-out weights.
FEW_TOKENS = 3.0
CLEAR = 2.0
# Effective tokens below which the closed form of the ridge accuracy is an approximation, as it is with weights of both
# signs: over 55 random models at d = 150 it differs from the exact one by up to .02 below and .006 above.
FEW_TOKENS_RIDGE = 3.0
# An excess within this many d^(-1/3) of the critical one, relatively, is near the threshold. Prefix model, mean
# weights, d = 200, 160 draws: the mean alignment is .04 above its limit at 0.8, .004 at 1.6; the alignment's deviation
# is predicted 3.7, 2.4, 1.5 and 1.2 times too large at 0.4, 0.8, 1.6 and 2.2, and right to about a tenth at 3 and 4.
NEAR = 1.0
NEAR_FLUCTUATIONS = 2.5
# Below this kappa A_4/(A_2 Q) the closed form of token weights holds. Over 36 settings (Zipf .7 to 1.2, six weightings,
# weak and strong signals) the alignment is too high by at most half of the ratio, 0.26 where it is 0.49.
RARE_TOKENS = 0.05
# Change of an alignment by mixing with a neighbouring outlier that is worth a reason.
MIXING = 0.01
# Sizes below which terms of order 1/d are no longer small.
SMALL = 40
# Gauss-Hermite quadrature of means over a standard normal variable.
_NORMAL_NODES, _NORMAL_WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_NORMAL_WEIGHTS = _NORMAL_WEIGHTS / _NORMAL_WEIGHTS.sum()


class OutlierLike(Protocol):
    """Anything with an eigenvalue and an alignment."""

    @property
    def eigenvalue(self) -> float:
        """Eigenvalue of S."""

    @property
    def alignment(self) -> float:
        """Squared cosine of its eigenvector with the signal."""


@dataclass(frozen=True)
class Validity(Result, schema="validity"):
    """Whether a result lies in the range where its theory holds.

    Attributes
    ----------
    reasons : tuple of str
        Why not, each with what to expect; empty when it does.

    Examples
    --------
    >>> import numpy as np, spikepool as sp
    >>> model = sp.SequenceModel(d=400, V=900, N=400, R=np.eye(1), mu=1.3)
    >>> bool(model.predict([1.0]).validity)
    False
    """

    reasons: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when there is nothing against it."""
        return not self.reasons

    def __bool__(self) -> bool:
        return self.ok

    def _record(self) -> dict[str, Any]:
        return {"ok": self.ok, "reasons": list(self.reasons)}

    def summary(self) -> str:
        """The reasons in a line."""
        return "within its range" if self.ok else "; ".join(self.reasons)


# Nothing speaks against a result.
SOUND = Validity()


def validity_of(*reasons: str | None) -> Validity:
    """The reasons that are given."""
    return Validity(tuple(reason for reason in reasons if reason is not None))


def few_tokens(kappa: float, mu: float, threshold: float) -> str | None:
    """Why the closed form of the spectrum is an approximation for these weights."""
    effective = 1 / kappa
    if effective >= FEW_TOKENS or (math.isfinite(threshold) and mu > CLEAR * threshold > 0):
        return None
    return (
        f"the closed form is for weights spread over many tokens and these have {effective:.3g} effective ones: "
        "alignments near the threshold may be off by 0.2, eigenvalues by a tenth; use exact=True"
    )


def rare_tokens(concentration: float) -> str | None:
    """Why the closed form is an approximation for these token weights: single occurrences of rare tokens count."""
    if concentration <= RARE_TOKENS:
        return None
    return (
        f"the token weights boost rare tokens so far that single occurrences count (kappa A4/(A2 Q) = "
        f"{concentration:.2g}): alignments may be too high by {min(0.5, concentration / 2):.2g}; use exact=True"
    )


def no_signal(mu: float, outliers: Sequence[OutlierLike]) -> str | None:
    """Why an outlier at mu = 0 is not a signal."""
    if mu > 0 or not any(getattr(outlier, "kind", "") == "classes" for outlier in outliers):
        return None
    return (
        "mu = 0: there is no signal, and the outlier of kind 'classes' is the difference of the class means of a table "
        "that was drawn once"
    )


def near_threshold(excess: float, critical: float, d: int, width: float = NEAR) -> str | None:
    """Why a number next to the threshold is not what one draw shows; `excess` and its critical value in any unit."""
    distance = abs(excess / critical - 1) if critical > 0 else math.inf
    if not distance < width * d ** (-1 / 3):
        return None
    return (
        f"the spike is within {100 * distance:.2g} % of its threshold, which d = {d} blurs over "
        f"{100 * width * d ** (-1 / 3):.2g} %: alignments of single draws scatter by about {d ** (-1 / 3):.2f}"
    )


def small_sizes(**sizes: int) -> str | None:
    """Why limits say little about so few dimensions, tokens or sequences."""
    name, least = min(sizes.items(), key=lambda item: item[1])
    return None if least >= SMALL else f"{name} = {least} is small for a limit: terms of order 1/{name} count"


def mixing_share(gap: float, eigenvalue: float, d: int, N: int | None = None) -> float:
    """Mean share of its neighbour in the eigenvector of an outlier, for two outliers `gap` apart.

    The directions of two spikes overlap by chance, by 1/sqrt(d) on the left and 1/sqrt(N) on the right, which couples
    their outliers by a normal c of variance ``eigenvalue² (1/d + 1/N)/2``. In the basis of the two, the pair is
    ``[[gap, c], [c, 0]]``, and the share is the mean of ``(1 − gap/sqrt(gap² + 4c²))/2``.
    """
    coupling = eigenvalue * math.sqrt((1 / d + 1 / (N or d)) / 2)
    c = coupling * _NORMAL_NODES
    return float(_NORMAL_WEIGHTS @ (1 - gap / np.sqrt(gap**2 + 4 * c**2 + 1e-300)) / 2)


def neighbours(outliers: Sequence[OutlierLike], d: int, N: int | None = None) -> str | None:
    """Why the alignments of two outliers hold together but not one by one: they lie so close that they mix."""
    worst, loss = 0.0, 0.0
    for first, second in pairwise(outliers):
        share = mixing_share(first.eigenvalue - second.eigenvalue, first.eigenvalue, d, N)
        change = share * abs(first.alignment - second.alignment)
        if change > loss:
            worst, loss = share, change
    if loss < MIXING:
        return None
    return (
        f"two outliers lie so close that they mix: in a draw each eigenvector holds about {100 * worst:.2g} % of "
        f"its neighbour; their alignments hold as a sum, and one by one they are off by about {loss:.2g}"
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


def unresolved(count: int) -> str | None:
    """Why the threshold is not sharp: usage outliers that this size does not tell from the bulk."""
    if not count:
        return None
    return (
        f"{count} outliers of frequent tokens are not told from the bulk at this size; the threshold counts them as "
        "bulk, and the signal rises over a range of mu around it"
    )


def ridge_range(kappa: float, signed: bool) -> str | None:
    """Why the closed form of the ridge accuracy is an approximation for these weights."""
    if 1 / kappa >= FEW_TOKENS_RIDGE * (1 - 1e-6) and not signed:
        return None
    what = "weights of both signs" if signed else f"{1 / kappa:.3g} effective tokens"
    return (
        f"the closed form is for weights spread over many tokens, not for {what}: it may be off by 0.06; use exact=True"
    )
