"""The contract every spectral law keeps.

A law is a probability measure on [0, inf): a point mass at zero (`atom`), possibly other point masses, and a
continuous part. The names are those of :mod:`scipy.stats`; the classes are plain and immutable.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import DomainError, NonFiniteError
from spikepool.kit import validation as check
from spikepool.kit.arrays import ComplexArray, FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.pages import html_table
from spikepool.kit.text import number
from spikepool.laws._transforms import FreeTransforms

# A Stieltjes transform closer than this to an atom is beyond the largest double: the point counts as on the atom.
SMALLEST_POINT = 1e-300


class SpectralLaw(FreeTransforms, ABC):
    """Base class of the spectral laws: `pdf cdf ppf stieltjes support intervals atom moment mean var rvs`.

    Also the transforms of free probability: `r_transform s_transform free_cumulant companion_stieltjes negative_moment
    log_moment`.

    Array arguments may have any shape and the result has the same; a scalar gives a scalar. `pdf` is the
    density of the continuous part, `cdf` counts the point masses.
    """

    @property
    @abstractmethod
    def atom(self) -> float:
        """Mass at zero."""

    @abstractmethod
    def intervals(self) -> FloatArray:
        """Intervals that carry the continuous part, as a (k, 2) array in increasing order."""

    @abstractmethod
    def pdf(self, x: ArrayLike) -> Any:
        """Density of the continuous part at real `x`."""

    @abstractmethod
    def cdf(self, x: ArrayLike) -> Any:
        """Mass of ``[0, x]``, the atom at zero included."""

    @abstractmethod
    def ppf(self, q: ArrayLike) -> Any:
        """Quantile: the smallest x with ``cdf(x) >= q``."""

    @abstractmethod
    def stieltjes(self, z: ArrayLike) -> Any:
        """Stieltjes transform m(z) = ∫ dF(x)/(x − z), off the real support, in either half plane."""

    @abstractmethod
    def moment(self, k: int) -> float:
        """Moment of order `k`, ∫ x^k dF(x); ``moment(0)`` is 1."""

    def support(self) -> tuple[float, float]:
        """Left and right end of the continuous part; `intervals` lists the pieces."""
        pieces = self.intervals()
        return float(pieces[0, 0]), float(pieces[-1, 1])

    def mean(self) -> float:
        """Mean, the first moment."""
        return self.moment(1)

    def var(self) -> float:
        """Variance."""
        return self.moment(2) - self.moment(1) ** 2

    def std(self) -> float:
        """Standard deviation."""
        return float(np.sqrt(max(self.var(), 0.0)))

    def rvs(self, size: int | tuple[int, ...] = 1, *, rng: Any = None) -> FloatArray:
        """Draw independent values by inversion of the distribution function."""
        shape = tuple(check.size(n, "size", minimum=0) for n in (size if isinstance(size, tuple) else (size,)))
        count = math.prod(shape)
        require_memory(100 * count, f"a draw of {count} values", "Draw fewer at a time")
        uniform = check.generator(rng).random(shape)
        return np.asarray(self.ppf(uniform), dtype=np.float64)

    def _repr_html_(self) -> str:
        pieces = "; ".join(f"{number(a)} to {number(b)}" for a, b in self.intervals()) or "none"
        rows = [
            ("continuous part", pieces),
            ("mass at zero", self.atom),
            ("mean", self.mean()),
            ("standard deviation", self.std()),
        ]
        return html_table((), rows, title=type(self).__name__)

    def plot(self, ax: Any = None) -> Any:
        """Density of the continuous part and the mass at zero; returns the axes."""
        from spikepool.drawing.predictions import draw_law

        return draw_law(self, ax)


def _is_complex(x: ArrayLike) -> bool:
    try:
        return np.iscomplexobj(x)
    except ValueError:  # not an array at all: a ragged list
        return False


def real_points(x: ArrayLike, name: str = "x") -> FloatArray:
    """Real evaluation points; infinities are allowed (a density and a cdf have values there), NaN is not."""
    if _is_complex(x):
        raise DomainError(f"{name} must be real", x, "Use stieltjes for complex points")
    points = check.real_array(x, name)
    if np.isnan(points).any():
        raise NonFiniteError(f"{name} contains NaN", x, "Remove the NaN entries")
    return points


def probabilities(q: ArrayLike) -> FloatArray:
    """Probabilities in [0, 1]."""
    values = check.finite_array(q, "q", empty=True)
    if values.size and (values.min() < 0 or values.max() > 1):
        raise DomainError("q must lie in [0, 1]", q, "Pass probabilities")
    return values


def complex_points(z: ArrayLike) -> ComplexArray:
    """Finite complex evaluation points."""
    points = np.asarray(z, dtype=np.complex128) if _is_complex(z) else check.real_array(z, "z").astype(np.complex128)
    if not np.all(np.isfinite(points)):
        raise NonFiniteError("z contains NaN or infinities", z, "Pass finite points")
    return points


def like_input(result: NDArray[Any], template: NDArray[Any]) -> Any:
    """A Python scalar when the input was one, else the array in the shape of the input."""
    return result.reshape(template.shape)[()]
