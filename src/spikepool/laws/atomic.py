"""Laws made of point masses: eigenvalues of a matrix, token usage, and any law as nodes and weights.

:func:`discretise` gives the nodes and weights that integrate analytic functions as a law does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import ConvergenceError, DomainError, OnSupportError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.quadrature import tanh_sinh
from spikepool.laws.base import SMALLEST_POINT, SpectralLaw, complex_points, like_input, probabilities, real_points

# points x atoms that are held at once
_BLOCK = 1 << 20


class AtomicLaw(SpectralLaw):
    """Point masses on [0, inf): ``F = sum_i weights_i · (unit mass at values_i)``.

    Parameters
    ----------
    values : array_like of shape (k,)
        Places of the atoms, at least 0, in any order; equal ones are merged.
    weights : array_like of shape (k,), optional
        Masses, at least 0 with unit sum; equal when not given.

    Notes
    -----
    There is no continuous part: `pdf` is zero everywhere, `intervals` is empty, and `support` gives the smallest
    and the largest atom.

    Examples
    --------
    >>> from spikepool import AtomicLaw
    >>> law = AtomicLaw([0.0, 1.0, 3.0], weights=[0.5, 0.25, 0.25])
    >>> law.atom, law.mean(), float(law.cdf(1.0))
    (0.5, 1.0, 0.75)
    """

    def __init__(self, values: ArrayLike, weights: ArrayLike | None = None) -> None:
        places = check.finite_array(values, "values", ndim=1)
        if places.min() < 0:
            raise DomainError("values must be at least 0", float(places.min()), "Remove negative atoms")
        if weights is None:
            masses = np.full(len(places), 1 / len(places))
        else:
            masses = check.finite_array(weights, "weights", ndim=1)
            if len(masses) != len(places):
                raise ShapeError(f"weights must have {len(places)} entries, one for each atom", masses, "Match values")
            if masses.min() < 0:
                raise DomainError("weights must be at least 0", float(masses.min()), "Pass probabilities")
            total = float(masses.sum())
            if abs(total - 1) > check.IDENTITY_TOLERANCE:
                raise DomainError("weights must sum to one; their sum is", total, "Divide them by their sum")
        merged, place = np.unique(places, return_inverse=True)
        summed = np.bincount(place, weights=masses, minlength=len(merged))
        keep = summed > 0
        self.values: FloatArray = merged[keep]
        self.weights: FloatArray = summed[keep] / summed[keep].sum()
        self.values.setflags(write=False)
        self.weights.setflags(write=False)

    def __repr__(self) -> str:
        low, high = self.support()
        return f"AtomicLaw({len(self.values)} atoms on [{low:.6g}, {high:.6g}])"

    @property
    def atom(self) -> float:
        """Mass at zero."""
        return float(self.weights[0]) if self.values[0] == 0 else 0.0

    def intervals(self) -> FloatArray:
        """Empty: the law has point masses only."""
        return np.empty((0, 2))

    def support(self) -> tuple[float, float]:
        """Smallest and largest atom."""
        return float(self.values[0]), float(self.values[-1])

    def pdf(self, x: ArrayLike) -> Any:
        """Zero: the law has point masses only."""
        points = real_points(x)
        return like_input(np.zeros(points.shape), points)

    def cdf(self, x: ArrayLike) -> Any:
        """Mass of [0, x]."""
        points = real_points(x)
        steps = np.concatenate([[0.0], np.minimum(np.cumsum(self.weights), 1.0)])
        steps[-1] = 1.0
        return like_input(steps[np.searchsorted(self.values, points.ravel(), side="right")], points)

    def ppf(self, q: ArrayLike) -> Any:
        """Smallest atom at which the distribution function reaches `q`."""
        levels = probabilities(q)
        cumulative = np.cumsum(self.weights)
        # a level that is a sum of weights must give that atom, not the next, whatever rounding did to the sum
        place = np.searchsorted(cumulative, levels.ravel() - 1e-15, side="left")
        return like_input(self.values[np.minimum(place, len(self.values) - 1)], levels)

    def stieltjes(self, z: ArrayLike) -> Any:
        """Sum of weights/(values − z); real z is allowed away from the atoms.

        Raises
        ------
        OnSupportError
            At an atom, or so close to one that the value is beyond the largest double.
        """
        points = complex_points(z)
        flat = points.ravel()
        result = np.empty(len(flat), dtype=np.complex128)
        step = max(1, _BLOCK // len(self.values))
        for start in range(0, len(flat), step):
            block = flat[start : start + step, None]
            distance = self.values - block
            on_atom = (np.abs(distance) < SMALLEST_POINT).any(axis=1)
            if on_atom.any():
                raise OnSupportError("z is an atom of the law", complex(block[on_atom][0, 0]), "Move off the atom")
            result[start : start + step] = (1 / distance) @ self.weights
        return like_input(result.real if np.isrealobj(np.asarray(z)) else result, points)

    def moment(self, k: int) -> float:
        """Sum of weights · values^k."""
        return float(self.weights @ self.values ** check.size(k, "k", minimum=0))

    def plot(self, ax: Any = None) -> Any:
        """A stem for each point mass; returns the axes."""
        from spikepool.drawing.predictions import draw_law

        return draw_law(self, ax, masses=(self.values, self.weights))


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
