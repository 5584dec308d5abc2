"""The bulk of pooled covariances: the free product of two Marchenko–Pastur laws."""

from __future__ import annotations

from dataclasses import dataclass

from spikepool.kit import validation as check
from spikepool.laws._product_law import ProductLaw


@dataclass(frozen=True)
class FreeProductLaw(ProductLaw):
    """``scale · (MP_delta ⊠ MP_gamma)``, the limiting bulk of S (Theorem 1 of the paper).

    Its Stieltjes transform m solves, with kappa the scale,

        delta gamma kappa z² m³ − kappa z (delta + gamma − 2 delta gamma) m² − (z + kappa (delta−1)(1−gamma)) m − 1 = 0.

    It is the limit of spread-out weights; at finite sequence length :class:`spikepool.GeneralizedLaw` is exact.

    Parameters
    ----------
    delta, gamma : float
        Aspect ratios d/V and d/N, from 0 (exactly) upwards. With one of them 0 it is a Marchenko–Pastur law, with
        if both are 0, the law is a point mass at `scale`; above 1 there is an atom at zero.
    scale : float
        Multiplies the law; the noise gain kappa for pooled covariances.

    Examples
    --------
    >>> from spikepool import FreeProductLaw
    >>> law = FreeProductLaw(delta=0.625, gamma=0.5)
    >>> [round(end, 6) for end in law.support()]
    [0.016713, 4.710744]
    """

    delta: float
    gamma: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", check.non_negative(self.delta, "delta"))
        object.__setattr__(self, "gamma", check.non_negative(self.gamma, "gamma"))
        object.__setattr__(self, "scale", check.positive(self.scale, "scale"))
