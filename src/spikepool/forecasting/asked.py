"""The answer of any fitted curve at the sizes and for the target asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import ShapeError
from spikepool.forecasting.crossing import ASKED, FURTHEST
from spikepool.forecasting.result import Curve, Rows
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray, IntArray


def curve_fields(
    curve: Curve, sizes: IntArray, target: float | None, level: float, measured_n: IntArray, rows: int
) -> dict[str, Any]:
    """The fields of a :class:`Forecast` that any fitted curve gives."""
    level = check.fraction(level, "level", closed=False)
    required: Rows | None = None
    if target is not None:
        low, best, high = (None if x is None else int(np.ceil(x)) for x in curve.required(target, level))
        required = (low, best, high)
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
        "required_samples": required,
        "limit": curve.limit,
        "curve_n": grid,
        "curve_score": curve_score,
        "curve_interval": curve_interval,
        "curve": curve,
    }


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
