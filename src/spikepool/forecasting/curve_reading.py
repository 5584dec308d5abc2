"""Reading a fitted learning curve: scores with intervals at the sizes asked for, and the rows for a target."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import ShapeError
from spikepool.forecasting.sizes import ASKED, FURTHEST, MULTIPLES, crossing
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray, IntArray

# Rows at which the better end of the band, its centre and the worse end reach a target; None for one that never does.
Rows = tuple[int | None, int | None, int | None]
# Level of the band that rows for a target are read from.
ROWS_LEVEL = 0.8


class Curve(Protocol):
    """A fitted learning curve on a transformed scale that rises as the model improves."""

    @property
    def rows(self) -> float:
        """The largest size that was measured."""

    @property
    def limit(self) -> float:
        """Score that the curve approaches."""

    def band(self, n: ArrayLike, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Centre, lower and upper end on the transformed scale."""

    def to_score(self, transformed: FloatArray) -> FloatArray:
        """Scores from the transformed scale."""

    def goal(self, target: float) -> float:
        """The target on the transformed scale."""

    def probability(self, n: ArrayLike, goal: float) -> FloatArray:
        """Probability that the transformed score at each size is the goal or better."""


def curve_fields(
    curve: Curve, sizes: IntArray, target: float | None, level: float, measured_n: IntArray, rows: int
) -> dict[str, Any]:
    """The fields of a :class:`spikepool.Forecast` that any fitted curve gives."""
    level = check.fraction(level, "level", closed=False)
    required: Rows | None = None
    probability = None
    if target is not None:
        asked, goal = [rows * k for k in ASKED], curve.goal(target)
        probability = tuple(zip(asked, curve.probability(asked, goal).tolist(), strict=True))
        required = required_rows(curve, goal, rows)
    ends = [*sizes.tolist(), *measured_n.tolist(), *(found for found in required or () if found is not None)]
    grid = np.geomspace(min(ends), min(max(ends), FURTHEST * max(rows, int(sizes.max()))), 80)
    score, interval = _scores(curve, sizes, level)
    curve_score, curve_interval = _scores(curve, grid, level)
    return {
        "n": sizes,
        "score": score,
        "interval": interval,
        "level": level,
        "target": target,
        "target_probability": probability,
        "required_samples": required,
        "limit": curve.limit,
        "curve_n": grid,
        "curve_score": curve_score,
        "curve_interval": curve_interval,
        "curve": curve,
    }


def required_rows(curve: Curve, goal: float, rows: int, level: float = ROWS_LEVEL) -> Rows:
    """Rows at which the better end, the centre and the worse end of the band reach the goal."""
    sizes = np.maximum(curve.rows * MULTIPLES, 4.0)
    centre, low, high = curve.band(sizes, level)
    ends = (crossing(sizes, line, goal) for line in (high, centre, low))
    first, best, last = (None if n is None else max(int(np.ceil(n)), rows) for n in ends)
    return first, best, last


def asked_sizes(n: ArrayLike | None, rows: int) -> IntArray:
    """Sizes to forecast: those asked for, or 1, 2, 4 and 8 times the rows."""
    if n is None:
        return np.array([rows * k for k in ASKED], dtype=np.intp)
    values = np.atleast_1d(check.finite_array(n, "n"))
    if values.ndim != 1:
        raise ShapeError(
            "n must be a number or a list of numbers of rows", values.shape, "Pass for example [500, 1000]"
        )
    for value in values:
        check.size(float(value), "n", minimum=2)
    return values.astype(np.intp)


def _scores(curve: Curve, n: ArrayLike, level: float) -> tuple[FloatArray, FloatArray]:
    centre, low, high = (curve.to_score(part) for part in curve.band(n, level))
    return centre, np.stack([np.minimum(low, high), np.maximum(low, high)], axis=1)
