"""How much to simulate: as much as a few seconds allow, and where an eigendecomposition takes that long, the least."""

from __future__ import annotations

from dataclasses import dataclass

# Multiple of the rows up to which is planned.
FURTHEST = 32.0
# Smaller side of the rows beyond which one eigendecomposition takes about a second.
LARGE_SIDE = 1500


@dataclass(frozen=True)
class Effort:
    """Numbers of repetitions.

    Attributes
    ----------
    splits, resamples : int
        Random halves of the rows, and resamples of them.
    rounds, round_draws : int
        Rounds of the population spectrum, and draws of each.
    halves, draws, curve_draws : int
        Simulated halves (each is compared with every other), samples, and samples at each other number of rows.
    redrawn : bool
        Whether samples are drawn from redrawn spectra as well, which show the error of the fitted one.
    multiples : tuple of float
        Numbers of rows of the curve, as multiples of the sample's; past and future. Beyond them, up to `FURTHEST`, the
        loss falls as 1/n.
    """

    splits: int
    resamples: int
    rounds: int
    round_draws: int
    halves: int
    draws: int
    curve_draws: int
    redrawn: bool
    multiples: tuple[float, ...]


FULL = Effort(4, 10, 2, 2, 4, 10, 4, True, (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 32.0))
LEAST = Effort(1, 3, 1, 2, 2, 4, 1, False, (0.5, 1.0, 2.0, 4.0))


def effort(n: float, d: int) -> Effort:
    """What `n` rows of dimension `d` get."""
    return FULL if min(n, d) <= LARGE_SIDE else LEAST
