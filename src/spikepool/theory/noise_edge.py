"""The top eigenvalue of S under noise alone: Tracy-Widom around the edge of the bulk.

The largest of d eigenvalues is ``E + (A d)^{-2/3} TW`` with E the right edge of the bulk law and ``A sqrt(E − x)/pi``
its density next to it. Sizes enter the law as d − 1/2, V − 2 − 1/2 (the two class means are not part of the bulk) and
N − 1/2, or N − 1 − 1/2 where S is centred; without these halves the centre is off by half a standard deviation at
d = 100. p-values of null draws then pass a Kolmogorov-Smirnov test from d = 100 on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from spikepool.kit import validation as check
from spikepool.laws.base import SpectralLaw
from spikepool.laws.free_product import FreeProductLaw
from spikepool.laws.tracy_widom import edge_amplitude, tracy_widom_isf, tracy_widom_sf


class Sizes(NamedTuple):
    """Dimension, vocabulary, sequences, and whether S is centred."""

    d: int
    V: int
    N: int
    centered: bool


@dataclass(frozen=True)
class NoiseEdge:
    """Centre and scale of the top eigenvalue under noise alone, whose standardised law is Tracy-Widom.

    Attributes
    ----------
    centre, scale : float
        The top eigenvalue of noise is ``centre + scale·TW``.
    """

    centre: float
    scale: float

    def p_value(self, eigenvalue: ArrayLike) -> Any:
        """P(top eigenvalue of noise > `eigenvalue`)."""
        return tracy_widom_sf((check.finite_array(eigenvalue, "eigenvalue") - self.centre) / self.scale)

    def critical(self, level: float) -> float:
        """The eigenvalue that noise exceeds with probability `level`."""
        return self.centre + self.scale * tracy_widom_isf(level)


def noise_edge(bulk: SpectralLaw, kappa: float, sizes: Sizes) -> NoiseEdge:
    """The law of the top eigenvalue of noise for a bulk with these sizes.

    Parameters
    ----------
    bulk : SpectralLaw
        Limiting law; where it is not the closed form its edge is corrected by the same factor as that one's.
    kappa : float
        Noise gain.
    sizes : Sizes
        d, V and N at least 4.
    """
    d, V, N = (check.size(value, name, minimum=4) for value, name in zip(sizes[:3], "dVN", strict=True))
    tokens, sequences = V - 2.5, N - (1.5 if sizes.centered else 0.5)
    finite = FreeProductLaw((d - 0.5) / tokens, (d - 0.5) / sequences, kappa * tokens / V * sequences / N)
    centre = finite.support()[1]
    law: SpectralLaw = finite
    if not isinstance(bulk, FreeProductLaw):
        law, centre = bulk, bulk.support()[1] * centre / FreeProductLaw(d / V, d / N, kappa).support()[1]
    return NoiseEdge(float(centre), (edge_amplitude(law) * d) ** (-2 / 3))
