"""Overlaps of spans: the angle on which they scatter evenly, and whether halves of the rows have an order."""

from __future__ import annotations

import math

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.trust.sample import SMALLEST_STEADY_SPAN


def angle(overlap: FloatArray) -> FloatArray:
    """``arcsin sqrt(O)``, on which the scatter of an overlap hardly depends on its size."""
    return np.asarray(np.arcsin(np.sqrt(np.clip(overlap, 0.0, 1.0))))


def overlap_of(value: FloatArray) -> FloatArray:
    """The overlap of an angle, which may lie outside [0, pi/2]."""
    return np.asarray(np.sin(np.clip(value, 0.0, math.pi / 2)) ** 2)


def steady_spans(ks: IntArray) -> IntArray:
    """Positions of the spans that decide: k >= 5, or all when there are none."""
    steady = np.flatnonzero(ks >= SMALLEST_STEADY_SPAN)
    return steady if len(steady) else np.arange(len(ks))


def have_order(halves: FloatArray, ks: IntArray, d: int, *, least: float = 0.15, steepest: float = 0.75) -> bool:
    """Whether the agreement of halves (len(ks),) is that of components in an order, and not of a flat spectrum.

    In a flat spectrum, without order among its leading components, the agreement grows as k. It may do so up to some
    span if the largest one is shared far beyond the chance k/d: its directions are in common, though their order is
    not.

    Parameters
    ----------
    halves : array (len(ks),)
    ks : array of int
    d : int
        Dimension.
    least : float
        Least mean agreement over the steady spans, and least excess over chance of the largest.
    steepest : float
        Power of k with which the agreement may grow to the largest span, from the smallest steady one or from the one
        before.
    """
    steady = steady_spans(ks)
    first, before, last = (int(steady[i]) for i in (0, max(len(steady) - 2, 0), -1))

    def levels_off(i: int) -> bool:
        return bool(halves[i] >= (ks[i] / ks[last]) ** steepest * halves[last])

    shared = halves[last] - ks[last] / d >= least
    return bool(halves[steady].mean() >= least) and (levels_off(first) or (shared and levels_off(before)))
