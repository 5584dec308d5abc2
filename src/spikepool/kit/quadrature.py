"""Integrals on an interval and derivatives of analytic functions: quadrature for the laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import FloatArray


def tanh_sinh(n: int = 200, reach: float = 3.4) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Nodes of double exponential quadrature on [0, 1]: ``(u, 1 − u, weights)``.

    Integrable singularities of any algebraic order at either end are allowed; the distances to both ends are
    given, so that neither is lost to rounding.
    """
    k = np.linspace(-reach, reach, n)
    step = k[1] - k[0]
    argument = np.pi * np.sinh(k)
    u, v = 1 / (1 + np.exp(-argument)), 1 / (1 + np.exp(argument))
    return u, v, step * np.pi * np.cosh(k) * u * v


def derivative(f: Callable[[Any], Any], z: NDArray[Any], radius: FloatArray, n: int = 16) -> NDArray[Any]:
    """f'(z) of an analytic f as the mean over `n` points of a circle (Cauchy's formula).

    The error is that of f over `radius`, plus (radius over the distance to the nearest singularity)^n.
    """
    turn = np.exp(2j * np.pi * (np.arange(n) + 0.5) / n)
    points = np.asarray(z)[..., None] + np.asarray(radius)[..., None] * turn
    result: NDArray[Any] = np.mean(f(points) * turn.conj(), axis=-1) / radius
    return result
