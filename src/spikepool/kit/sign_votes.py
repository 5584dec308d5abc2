"""Probability that a noisy score has the right sign, by inversion of its characteristic function.

For a real Y with characteristic function phi, the midpoint form of the Gil-Pelaez integral

    P(Y > 0) = 1/2 + (h/pi) sum_{j>=0} Im phi(t_j)/t_j,    t_j = (j + 1/2) h

is exact (not an approximation) when |Y| < 2 pi/h almost surely: the sum is the Fourier series of the square wave. Here
Y is bounded plus Gaussian noise, so that both the wrap-around and the truncation are below rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spikepool.errors import ConvergenceError
from spikepool.kit.arrays import ComplexArray, FloatArray

# Gaussian tails beyond this many standard deviations, and exp(−t²/2) beyond this t, are below 1e-18.
_TAIL = 9.0
_MAX_NODES = 1_000_000
_CHUNK = 1 << 12


def node_count(bound: float, noise: float) -> float:
    """Terms of the sum that :func:`positive_probability` needs."""
    return _TAIL * bound / (2 * np.pi * noise) + 1 if noise > 0 else np.inf


def positive_probability(transform: Callable[[FloatArray], ComplexArray], bound: float, noise: float) -> float:
    """P(Y > 0) for Y of characteristic function `transform`.

    Parameters
    ----------
    transform : callable
        phi at an array of points t >= 0.
    bound : float
        Bound of |Y|: that of its bounded part plus nine standard deviations of its Gaussian part.
    noise : float
        Smallest standard deviation of the Gaussian part: |phi(t)| <= exp(−noise² t²/2).
    """
    step = 2 * np.pi / bound
    nodes = node_count(bound, noise)
    if nodes > _MAX_NODES:
        raise ConvergenceError(
            "the noise of the score is too small against its signal for an exact sum over many signs",
            noise / bound,
            "Lower mu: the accuracy has converged long before",
            residual=noise / bound,
        )
    total = 0.0
    for start in range(0, int(np.ceil(nodes)), _CHUNK):
        t: FloatArray = (np.arange(start, min(start + _CHUNK, np.ceil(nodes)), dtype=np.float64) + 0.5) * step
        total += float(np.sum(transform(t).imag / t))
    # outside [0, 1] by rounding only
    return float(min(max(0.5 + step / np.pi * total, 0.0), 1.0))


def sign_sum_probability(offset: float, steps: FloatArray, noise: float) -> float:
    """P(offset + sum_j steps_j s_j + noise·g > 0) for independent uniform signs s and standard normal g."""

    def transform(t: FloatArray) -> ComplexArray:
        value: ComplexArray = np.exp(1j * offset * t - (noise * t) ** 2 / 2)
        for step in steps:
            value *= np.cos(step * t)
        return value

    bound = abs(offset) + float(np.abs(steps).sum()) + _TAIL * noise
    return positive_probability(transform, bound, noise)
