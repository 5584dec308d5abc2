"""Scales on which learning curves are nearly straight: the probit of scores in an interval, the logarithm of losses.

    both bounds finite     z = Phi^{-1}((s − a)/(b − a))
    upper bound alone      z = −ln(b − s)                   (R², negated losses)
    lower bound alone      z = ln(s − a)

and the opposite sign where lower scores are better: z rises as the model improves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from spikepool.errors import DomainError, InvalidInputError
from spikepool.kit.arrays import FloatArray

# A score this close to its bound, as a part of the range (or of the largest distance to the bound), counts as this far.
EDGE = 1e-4


@dataclass(frozen=True)
class ScoreScale:
    """A transformation of scores.

    Attributes
    ----------
    low, high : float
        Bounds; infinite where there is none.
    higher_is_better : bool
    """

    low: float = 0.0
    high: float = 1.0
    higher_is_better: bool = True

    @property
    def _sign(self) -> float:
        return 1.0 if self.higher_is_better else -1.0

    def to_z(self, score: FloatArray) -> FloatArray:
        """Transformed scores; those at a bound are moved inside."""
        s = np.asarray(score, dtype=np.float64)
        if np.isfinite(self.low) and np.isfinite(self.high):
            return np.asarray(self._sign * ndtri(np.clip((s - self.low) / (self.high - self.low), EDGE, 1 - EDGE)))
        gap = self.high - s if np.isfinite(self.high) else s - self.low
        inner = np.log(np.maximum(gap, EDGE * max(float(np.max(gap)), 1e-300)))
        return np.asarray(self._sign * (-inner if np.isfinite(self.high) else inner))

    def to_score(self, z: FloatArray) -> FloatArray:
        """Scores of transformed values."""
        v = self._sign * np.asarray(z, dtype=np.float64)
        if np.isfinite(self.low) and np.isfinite(self.high):
            return np.asarray(self.low + (self.high - self.low) * ndtr(v))
        return np.asarray(self.high - np.exp(-v) if np.isfinite(self.high) else self.low + np.exp(v))

    def slope(self, score: FloatArray) -> FloatArray:
        """|dz/ds|, by which errors of the score become errors of z."""
        s = np.asarray(score, dtype=np.float64)
        if np.isfinite(self.low) and np.isfinite(self.high):
            z = self.to_z(s)
            return np.asarray(np.sqrt(2 * np.pi) * np.exp(z**2 / 2) / (self.high - self.low))
        gap = np.abs((self.high if np.isfinite(self.high) else self.low) - s)
        return np.asarray(1 / np.maximum(gap, EDGE * max(float(np.max(gap)), 1e-300)))

    def check(self, scores: FloatArray, name: str) -> None:
        """Raise unless all scores lie within the bounds."""
        outside = scores[(scores < self.low) | (scores > self.high)]
        if len(outside):
            raise DomainError(
                f"{name} must lie between {self.low:g} and {self.high:g}",
                float(outside[0]),
                "Divide percentages by 100, or pass bounds=(low, high)",
            )


def score_scale(bounds: tuple[float | None, float | None], higher_is_better: bool) -> ScoreScale:
    """The scale for bounds, None for one that does not exist."""
    try:
        low, high = bounds
        a, b = -np.inf if low is None else float(low), np.inf if high is None else float(high)
    except (TypeError, ValueError):
        raise InvalidInputError("bounds must be a pair of numbers or None", bounds, "Pass (0, 1)") from None
    if not a < b or (np.isinf(a) and np.isinf(b)):
        raise InvalidInputError(
            "at least one of the bounds must be finite, the first the smaller", bounds, "Pass (0, 1)"
        )
    return ScoreScale(a, b, higher_is_better)


# Bounds of scikit-learn's scorers by how their names begin; those of other scorers are inferred from their values.
_UNIT = (
    "accuracy",
    "balanced_accuracy",
    "f1",
    "precision",
    "recall",
    "jaccard",
    "roc_auc",
    "average_precision",
    "top_k",
)
_ONE = ("r2", "explained_variance", "d2_")
_SIGNED = ("matthews", "cohen_kappa")


def scorer_bounds(name: str | None, scores: FloatArray) -> tuple[float | None, float | None]:
    """Bounds of a scorer of scikit-learn by its name, or by the scores it gave."""
    if name is not None:
        for bounds, starts in (
            ((0.0, 1.0), _UNIT),
            ((None, 1.0), _ONE),
            ((-1.0, 1.0), _SIGNED),
            ((None, 0.0), ("neg_",)),
        ):
            if name.startswith(starts):
                return bounds
    largest, smallest = float(scores.max()), float(scores.min())
    if largest <= 0:
        return (None, 0.0)
    if largest <= 1:
        return (0.0, 1.0) if smallest >= 0 else (None, 1.0)
    return (0.0, None)
