"""The Marchenko–Pastur law, the limit of infinite vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from spikepool.kit import validation as check
from spikepool.laws._product_law import ProductLaw


@dataclass(frozen=True)
class MarchenkoPastur(ProductLaw):
    """Limiting spectrum of ``scale/n · G G'`` for a p × n matrix G of independent unit-variance entries.

    The density is ``sqrt((b−x)(x−a)) / (2π ratio scale x)`` on ``scale (1 ∓ sqrt(ratio))²``, with an atom of mass
    ``1 − 1/ratio`` at zero when ratio > 1. It is :class:`FreeProductLaw` with one ratio equal to zero.

    Parameters
    ----------
    ratio : float
        p/n, from 0 (a point mass at `scale`) upwards.
    scale : float
        Variance of the entries.

    Examples
    --------
    >>> from spikepool import MarchenkoPastur
    >>> MarchenkoPastur(0.25).support()
    (0.25, 2.25)
    """

    ratio: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", check.non_negative(self.ratio, "ratio"))
        object.__setattr__(self, "scale", check.positive(self.scale, "scale"))

    @property
    def delta(self) -> float:  # type: ignore[override]
        """Zero: the first ratio of the free product."""
        return 0.0

    @property
    def gamma(self) -> float:  # type: ignore[override]
        """The ratio, as the second ratio of the free product."""
        return self.ratio
