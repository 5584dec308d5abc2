"""A law as atoms: nodes and weights that integrate analytic functions as the law does."""

from __future__ import annotations

import numpy as np

from spikepool.errors import ConvergenceError
from spikepool.kit.quadrature import tanh_sinh
from spikepool.laws.atomic import AtomicLaw
from spikepool.laws.base import SpectralLaw


def discretise(law: SpectralLaw, nodes: int = 400) -> AtomicLaw:
    """Atoms that integrate analytic functions like `law` does: double exponential nodes on each interval.

    Raises
    ------
    ConvergenceError
        If the nodes miss the law's mass or its mean by more than 1e-8 of it.
    """
    if isinstance(law, AtomicLaw):
        return law
    u, v, weights = tanh_sinh(nodes)
    places, masses = [np.zeros(1)], [np.array([law.atom])]
    for low, high in law.intervals():
        width = high - low
        x = np.where(u < 0.5, low + width * u, high - width * v)
        # nodes that rounding put on an end carry no mass
        inside = (x > low) & (x < high)
        places.append(x[inside])
        masses.append(width * weights[inside] * np.asarray(law.pdf(x[inside])))
    values, mass = np.concatenate(places), np.concatenate(masses)
    errors = (abs(float(mass.sum()) - 1), abs(float(mass @ values) / law.mean() - 1))
    if max(errors) > 1e-8:
        raise ConvergenceError(
            "quadrature of a population law does not reproduce its mass and mean; the error is",
            max(errors),
            "Pass the law as an AtomicLaw of its quantiles",
            residual=max(errors),
        )
    return AtomicLaw(values, mass / mass.sum())
