"""Rows for a target overlap: the simulated curve of the overlap against the number of rows, and where it crosses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.statistics import NORMAL_90
from spikepool.trust.coloured import Simulated
from spikepool.trust.effort import FURTHEST, effort
from spikepool.trust.population import FLOOR
from spikepool.trust.sample import SMALLEST_STEADY_SPAN
from spikepool.trust.spans import angle, overlap_of

# A range wider than this factor is not reported.
_WIDEST_RANGE = 12.0
# Growth of the relative half-width of an interval with every doubling of the rows.
_WIDER_A_DOUBLING = 0.5


def _log_loss(overlap: FloatArray) -> FloatArray:
    """``log(1 − O)``, which falls by log 2 for twice the rows where they are many."""
    return np.asarray(np.log(np.maximum(1 - overlap, FLOOR)))


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
        """Overlap, low and high (len(ks),) at `n` rows; the log of the loss 1 − O is interpolated in log n."""
        x = math.log(n)
        return (
            self._at(self.overlap, x),
            self._at(self.low, x),
            self._at(self.high, x),
        )

    def first(self, count: int) -> Curve:
        """The curves of the first `count` spans."""
        return Curve(self.rows, self.overlap[:, :count], self.low[:, :count], self.high[:, :count])

    def _at(self, values: FloatArray, x: float) -> FloatArray:
        return np.array([1 - math.exp(np.interp(x, np.log(self.rows), column)) for column in _log_loss(values).T])


def curve(simulated: Simulated, n: int, collection: float | None = None) -> Curve:
    """The curve around a sample of n independent rows.

    The scatter of an overlap shrinks with the loss 1 − O, on the angle as its root, which is an error of the loss by a
    constant share; with every doubling of the rows that share grows. `collection` is the number of independent rows of
    the finite collection that overlaps are with, where it is not an unlimited population; the curve ends there.
    """
    work = effort(n, len(simulated.tau))
    smallest = 2 * int(simulated.ks[-1])
    rows = np.unique([max(int(n * multiple), smallest) for multiple in work.multiples] + [n])
    overlap = np.array([simulated.overlap if m == n else simulated.at(int(m), work.curve_draws) for m in rows])
    # few draws scatter: what fewer rows had is no more than what these have, so that the curve passes through it
    overlap = np.maximum.accumulate(
        np.where(rows[:, None] < n, np.minimum(overlap, simulated.overlap), overlap), axis=0
    )
    if work.multiples[-1] < FURTHEST:
        loss = (1 - overlap[-1:]) * work.multiples[-1] / FURTHEST
        rows, overlap = np.append(rows, int(n * FURTHEST)), np.concatenate([overlap, 1 - loss])
    share = np.sqrt((1 - overlap) / np.maximum(1 - simulated.overlap, FLOOR))
    further = 1 + _WIDER_A_DOUBLING * np.abs(np.log2(rows / n))[:, None]
    width = simulated.half_width * share * further
    low = overlap_of(angle(overlap) - np.hypot(width, simulated.lower))
    high = overlap_of(angle(overlap) + width)
    overlaps = Curve(rows, overlap, np.maximum.accumulate(low, axis=0), np.maximum.accumulate(high, axis=0))
    if collection is None:
        return overlaps
    # close to the whole the loss falls faster than any power: more points
    last = min(float(rows[-1]), collection)
    dense = np.unique(np.append(np.geomspace(rows[0], last, len(rows) ** 2).astype(int), n))
    overlap, low, high = (np.array(part) for part in zip(*(overlaps.at(m) for m in dense), strict=True))
    # the share of the loss that is kept is known at n rows, all of none and none of all
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.nan_to_num(np.log1p(-simulated.kept) / math.log(n / collection), nan=1.0)
    kept = 1 - np.minimum(dense[:, None] / collection, 1.0) ** power
    expected, low, high = collection_interval(simulated, overlap, low, high, kept)
    return Curve(dense, expected, np.maximum.accumulate(low, axis=0), np.maximum.accumulate(high, axis=0))


def collection_interval(
    simulated: Simulated, overlap: FloatArray, low: FloatArray, high: FloatArray, kept: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Overlap with a finite collection and its 90 % interval: on the log of the loss, with the scatter it adds."""
    loss, most, least = (np.maximum(1 - value, FLOOR) for value in (overlap, low, high))
    added = NORMAL_90 * simulated.kept_scatter
    below, above = np.hypot(np.log(most / loss), added), np.hypot(np.log(loss / least), added)
    expected, highest = with_collection(overlap, kept), with_collection(1 - loss * np.exp(-above), kept)
    with np.errstate(divide="ignore", invalid="ignore"):
        swap = simulated.kept_swap * np.nan_to_num(kept / simulated.kept)
    lowest = np.minimum(with_collection(1 - loss * np.exp(below), kept), expected - swap)
    return expected, np.maximum(lowest, 0.0), highest


def with_collection(overlap: FloatArray, kept: FloatArray | float) -> FloatArray:
    """Overlap with a finite collection from that with its population: a share `kept` of the loss remains."""
    return np.asarray(1 - (1 - overlap) * kept)


def required_rows(overlaps: Curve, ks: IntArray, target: float) -> list[tuple[int, int] | None]:
    """For each span the range of rows in which its overlap reaches `target`; None where no range is worth stating.

    That is for k below 5, whose overlap hangs on single gaps of the spectrum; where the range spans more than a factor
    of twelve; and where the target is not reached, with 95 % confidence, within 32 times the rows.
    """
    ranges: list[tuple[int, int] | None] = []
    for j, k in enumerate(ks):
        low = _crossing(overlaps.rows, overlaps.high[:, j], target)
        high = _crossing(overlaps.rows, overlaps.low[:, j], target)
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
    y0, y1, y = (float(v) for v in _log_loss(np.array([values[i - 1], values[i], target])))
    share = (y - y0) / (y1 - y0)
    return float(rows[i - 1] * (rows[i] / rows[i - 1]) ** share)
