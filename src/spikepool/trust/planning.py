"""Rows for a target overlap: the simulated curve of the overlap against the number of rows, and where it crosses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.trust.coloured import SMALLEST_STEADY_SPAN, Simulated, angle, overlap_of
from spikepool.trust.effort import effort

# A range wider than this factor is no plan.
_WIDEST_RANGE = 12.0


@dataclass(frozen=True)
class Curve:
    """Overlaps of the spans against the number of independent rows.

    Attributes
    ----------
    rows : numpy.ndarray of int of shape (m,)
    overlap, low, high : numpy.ndarray of shape (m, len(ks))
        Expected overlaps and their 90 % intervals; they never fall as rows are added.
    """

    rows: IntArray
    overlap: FloatArray
    low: FloatArray
    high: FloatArray

    def at(self, n: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Overlap, low and high (len(ks),) at `n` rows, interpolated in log n on the scale arcsin sqrt."""
        x = math.log(n)
        return (
            self._at(self.overlap, x),
            self._at(self.low, x),
            self._at(self.high, x),
        )

    def _at(self, values: FloatArray, x: float) -> FloatArray:
        at, angles = np.log(self.rows), angle(values)
        return overlap_of(np.array([np.interp(x, at, column) for column in angles.T]))


def curve(simulated: Simulated, n: int) -> Curve:
    """The curve around a sample of n independent rows.

    The scatter of an overlap shrinks with the loss 1 − O, on the angle as its root; what extrapolation adds keeps the
    interval at half its width at n or more.
    """
    work = effort(n, len(simulated.tau))
    smallest = 2 * int(simulated.ks[-1])
    rows = np.unique([max(int(n * multiple), smallest) for multiple in work.multiples] + [n])
    overlap = np.array([simulated.overlap if m == n else simulated.at(int(m), work.curve_draws) for m in rows])
    overlap = np.maximum.accumulate(overlap, axis=0)
    share = np.sqrt((1 - overlap) / np.maximum(1 - simulated.overlap, 1e-9))
    width = simulated.half_width * np.clip(share, 0.5, 1.5)
    low, high = overlap_of(angle(overlap) - width), overlap_of(angle(overlap) + width)
    return Curve(rows, overlap, np.maximum.accumulate(low, axis=0), np.maximum.accumulate(high, axis=0))


def required_rows(found: Curve, ks: IntArray, target: float) -> list[tuple[int, int] | None]:
    """For each span the range of rows in which its overlap reaches `target`; None where no range is worth stating.

    That is for k below 5, whose overlap hangs on single gaps of the spectrum; where the range spans more than a factor
    of twelve; and where the target is not reached, with 95 % confidence, within 32 times the rows.
    """
    ranges: list[tuple[int, int] | None] = []
    for j, k in enumerate(ks):
        low = _crossing(found.rows, found.high[:, j], target)
        high = _crossing(found.rows, found.low[:, j], target)
        if k < SMALLEST_STEADY_SPAN or low is None or high is None or high > _WIDEST_RANGE * low:
            ranges.append(None)
        else:
            ranges.append((math.floor(low), math.ceil(high)))
    return ranges


def _crossing(rows: IntArray, values: FloatArray, target: float) -> float | None:
    """Rows at which a rising curve reaches `target`; its first when it begins above, None when it never does."""
    above = np.flatnonzero(values >= target)
    if not len(above):
        return None
    i = int(above[0])
    if i == 0:
        return float(rows[0])
    y0, y1, y = (float(angle(np.array(v))) for v in (values[i - 1], values[i], target))
    share = (y - y0) / (y1 - y0)
    return float(rows[i - 1] * (rows[i] / rows[i - 1]) ** share)
