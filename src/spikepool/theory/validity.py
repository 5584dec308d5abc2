"""Where a number of theory holds, carried by the object that has the number.

All limits are for d, V, N → ∞. What they leave out is known: the closed form takes weights spread over many tokens, an
outlier within d^(-1/3) of its threshold is not yet what it becomes, and outliers closer than they fluctuate mix. A
result outside these ranges reports it, with a reason and the size of what to expect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from spikepool.kit.results import Result

# An excess within this many d^(-1/3) of the critical one, relatively, is near the threshold. Prefix model, mean
# weights, d = 200, 160 draws: the mean alignment is .04 above its limit at 0.8, .004 at 1.6; the alignment's deviation
# is predicted 3.7, 2.4, 1.5 and 1.2 times too large at 0.4, 0.8, 1.6 and 2.2, and right to about a tenth at 3 and 4.
NEAR = 1.0
NEAR_FLUCTUATIONS = 2.5
# Expected error of an alignment that is worth a reason, and the share of the scatter of single draws that comes on top:
# an error is worth a reason where a mean over 3,600 draws shows it, at three standard errors, to be larger than .01.
WORTH = 0.01
SCATTER_SHARE = 0.05
# Sizes below which terms of order 1/d are no longer small.
SMALL = 40


class OutlierLike(Protocol):
    """Anything with an eigenvalue and an alignment."""

    @property
    def eigenvalue(self) -> float:
        """Eigenvalue of S."""

    @property
    def alignment(self) -> float:
        """Squared cosine of its eigenvector with the signal."""


class Draws(NamedTuple):
    """Mean and standard deviation over draws at finite size of an alignment whose limit is another number."""

    mean: float
    scatter: float


class Shift(NamedTuple):
    """A change of the mean alignment over draws against its limit, and what causes it.

    One that is `at_most` is a bound from a fit: the change is between 0 and that.
    """

    cause: str
    change: float
    at_most: bool = False


class Caution(str):
    """A reason with the size of the error to expect, in units of the alignment or of the accuracy that it is about."""

    error: float

    def __new__(cls, text: str, error: float) -> Caution:
        """Attach the size to the text."""
        made = super().__new__(cls, text)
        made.error = float(error)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Caution, (str(self), self.error)


@dataclass(frozen=True)
class Validity(Result, schema="validity"):
    """Whether a result lies in the range where its theory holds.

    Attributes
    ----------
    reasons : tuple of str
        Why not, each with what to expect; empty when it does. A reason that is a :class:`Caution` has its size as a
        number, `.error`.

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

    @property
    def error(self) -> float:
        """Largest expected error of an alignment (or accuracy) that a reason names; 0 where none names one."""
        return max((getattr(reason, "error", 0.0) for reason in self.reasons), default=0.0)

    def __bool__(self) -> bool:
        return self.ok

    def _record(self) -> dict[str, Any]:
        return {"ok": self.ok, "reasons": [str(reason) for reason in self.reasons], "error": self.error}

    def summary(self) -> str:
        """The reasons in a line."""
        return "within its range" if self.ok else "; ".join(self.reasons)


# Nothing speaks against a result.
SOUND = Validity()


def validity_of(*reasons: str | None) -> Validity:
    """The reasons that are given."""
    return Validity(tuple(reason for reason in reasons if reason is not None))


def few_tokens(
    kappa: float, mu: float, threshold: float, slope: float = 0.6, concentration: float | None = None
) -> Shift | None:
    """What the closed form of the spectrum leaves out for these weights.

    With 1/kappa effective tokens the threshold is higher than the closed form says, by about
    ``0.12 c (threshold/mu)²`` of mu², c = sum w⁴/kappa², and the alignment above it is too high by the slope times that
    (`benchmarks/studies/flags.py`, and one or two tokens at three pairs of d/V and d/N).

    Parameters
    ----------
    kappa : float
        Noise gain of weights of unit sum.
    mu, threshold : float
        Strength of the signal and its threshold in the closed form.
    slope : float
        Derivative of the alignment by log mu².
    concentration : float, optional
        c; kappa, which it is for equal weights, when not given.
    """
    if not (kappa > 0 and mu > 0 and math.isfinite(threshold)) or mu <= threshold:
        return None
    c = kappa if concentration is None else concentration
    return Shift(
        f"the closed form is for weights spread over many tokens and these have {1 / kappa:.3g} effective ones",
        -min(0.5, 0.12 * c * (threshold / mu) ** 2 * slope),
        at_most=True,
    )


def rare_tokens(
    spread: float, gamma: float, slope: float, height: float = 1.0, known: Shift | None = None
) -> Shift | None:
    """What the closed form leaves out for these token weights: single occurrences of rare tokens count.

    Parameters
    ----------
    spread : float
        ``(c + V/(NT))(A_4/A_2² − 1)`` with c = sum w⁴/kappa²: the relative variance of the noise gain over sequences,
        and over tokens that occur NT/V times on average. It raises the threshold of mu² by about 0.25 (1 + d/N) of it
        (`benchmarks/studies/flags.py`).
    gamma : float
        d/N.
    slope : float
        Derivative of the alignment by log mu².
    height : float
        Eigenvalue of the top outlier over the edge of the bulk. Far beyond two the loss of alignment is that of the
        table, which the closed form has right.
    known : Shift, optional
        The part of it that is derived: the bound is for the rest.
    """
    bound = 0.25 * spread * (1 + gamma) * slope * min(1.0, 2 / height) ** 2
    return Shift(
        f"the token weights boost rare tokens so far that single occurrences count (the noise of a sequence varies by "
        f"{math.sqrt(spread):.2g} of its mean)",
        -min(0.5, max(0.0, bound + (0.0 if known is None else known.change))),
        at_most=True,
    )


def too_high(shift: Shift | None) -> Caution | None:
    """The caution of a shift that stands alone, where it is worth one."""
    if shift is None or -shift.change <= WORTH:
        return None
    return Caution(
        f"{shift.cause}: the alignment may be too high by {-shift.change:.2g}; use exact=True", -shift.change
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


def mean_of_draws(
    limit: float, draws: Draws | None, d: int, *left_out: Shift | None, cause: str | None = None
) -> Caution | None:
    """Why draws in d dimensions have another mean alignment than the limit: everything that moves it, added up.

    Parameters
    ----------
    limit : float
        The predicted alignment, of d → ∞.
    draws : Draws or None
        Those at this d (:mod:`spikepool.theory.finite_size`); None where they are not known.
    d : int
        Dimension.
    left_out : Shift or None
        What else the limit leaves out.
    cause : str, optional
        Why the draws differ, where it is not the threshold.
    """
    shifts = [shift for shift in left_out if shift is not None]
    if draws is not None:
        if cause is None:
            where = "below its threshold or beside a larger outlier" if limit < WORTH else "near its threshold"
            cause = f"the signal is {where}"
        shifts.append(Shift(cause, draws.mean - limit))
    # with and without the bounds: whichever lies further from the limit
    sure = [shift for shift in shifts if not shift.at_most]
    means = [min(1.0, max(0.0, limit + sum(shift.change for shift in some))) for some in (sure, shifts)]
    mean, counted = max(zip(means, (sure, shifts), strict=True), key=lambda one: abs(one[0] - limit))
    off = mean - limit
    if abs(off) <= WORTH + SCATTER_SHARE * (0.0 if draws is None else draws.scatter):
        return None
    largest = max(shift.change * off for shift in counted)
    named = [shift for shift in counted if 3 * shift.change * off >= largest]
    closed = any(shift.at_most for shift in named)
    return Caution(
        f"{'; and '.join(shift.cause for shift in named)}: at d = {d} the mean alignment over draws is about "
        f"{mean:.2g} instead of {limit:.2g}{'; use exact=True' if closed else ''}",
        abs(off),
    )


def small_sizes(**sizes: int) -> str | None:
    """Why limits say little about so few dimensions, tokens or sequences."""
    name, least = min(sizes.items(), key=lambda item: item[1])
    return None if least >= SMALL else f"{name} = {least} is small for a limit: terms of order 1/{name} count"


def ridge_range(kappa: float, signed: bool, ratio: float = 1.0) -> Caution | None:
    """Why the closed form of the ridge accuracy is an approximation for these weights.

    Parameters
    ----------
    kappa : float
        Noise gain, one over the effective tokens. The error is about ``0.04 kappa min(1, ratio)``: .01 to .03 for two
        effective tokens or one at d = 100 and as many rows or fewer, below .005 at three times as many.
    signed : bool
        Whether the weights have both signs.
    ratio : float
        d over the number of training rows.
    """
    error = 0.06 if signed else 0.04 * kappa * min(1.0, ratio)
    if error <= WORTH:
        return None
    what = "weights of both signs" if signed else f"{1 / kappa:.3g} effective tokens"
    return Caution(
        f"the closed form is for weights spread over many tokens, not for {what}: the accuracy may be off by "
        f"{error:.2g}; use exact=True",
        error,
    )


def unbalanced_labels(limit: float, mean: float, n_train: int) -> Caution | None:
    """Why so few training rows have another mean accuracy than the limit; see :mod:`spikepool.theory.ridge`."""
    if abs(limit - mean) <= WORTH:
        return None
    return Caution(
        f"the labels of {n_train} training sequences are not balanced by chance, and the mean of the table shifts all "
        f"scores: the mean accuracy over training sets is about {mean:.2g} instead of {limit:.2g}",
        abs(limit - mean),
    )
