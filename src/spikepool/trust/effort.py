"""How much to simulate: as much as a few seconds allow, and where an eigendecomposition takes that long, the least."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

# Smaller side of the rows beyond which one eigendecomposition takes about a second.
LARGE_SIDE = 1500
# Bytes of rows that are worked on at a time.
BLOCK_BYTES = 32 * 2**20


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
        Simulated halves (each is compared with every other), samples, and samples that show the overlaps of a refitted
        spectrum, or of another number of rows.
    resampling_rows : int
        Rows for each component at which resampling and simulation have equal weight.
    fitted : bool
        Whether every eigenvalue is fitted, from shrunken ones. Then the fit is repeated on its own draws, and the
        flattest spectrum is sought as well; resampling widens the interval and does not move the prediction.
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
    resampling_rows: int
    redrawn: bool
    multiples: tuple[float, ...]
    fitted: bool = False


FULL = Effort(4, 10, 2, 2, 8, 10, 4, 50, True, (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 32.0))
LEAST = Effort(1, 3, 1, 2, 2, 4, 1, 50, False, (0.5, 1.0, 2.0, 4.0))
# Rows enough for every eigenvalue to be fitted. Resampled rows show a flat part as better known than it is.
FITTED = replace(FULL, rounds=1, round_draws=6, resampling_rows=300, fitted=True)
# Dimension up to which that is quick.
_QUICK_DIMENSION = 600
# Dimensions of all draws together, and half of those of all splits and resamples: more of them where one is quick.
# Draws that the fit is compared with are a third as many.
_DRAWN_DIMENSIONS = 3000
# Multiple of the rows up to which is planned.
FURTHEST = FULL.multiples[-1]


def fitted_eigenvalues(n: float, d: int) -> int:
    """Population eigenvalues that are fitted one by one: half as many as rows."""
    return int(max(1, min(d, n // 2)))


def effort(n: float, d: int) -> Effort:
    """What `n` rows of dimension `d` get."""
    if min(n, d) > LARGE_SIDE:
        return LEAST
    work = FITTED if fitted_eigenvalues(n, d) == d <= _QUICK_DIMENSION else FULL
    times = _DRAWN_DIMENSIONS / d
    return replace(
        work,
        splits=int(np.clip(2 * times, work.splits, 32 * work.splits)),
        resamples=int(np.clip(2 * times, work.resamples, 8 * work.resamples)),
        round_draws=int(np.clip(times / 3, work.round_draws, 4 * work.round_draws)),
        draws=int(np.clip(times, work.draws, 8 * work.draws)),
    )
