"""How far the accuracy or R² that a pilot shows may be from the one it stands for.

The leave-one-out accuracy of n0 rows is a mean over rows, but not over independent ones: every row is also one that
the others are fitted to. Where few rows carry a class or a part of it, the accuracy varies between pilots by more than
counting says. Two disjoint halves A and B of the pilot are independent pilots of half the size. With z the probit of
the leave-one-out accuracy as a smooth count (:func:`spikepool.forecasting.margins.likely_right`), or −ln(MSE/var(y)),

    E (z_A − z_B)² = 2 var(z of n0/2 rows) ≈ 4 var(z of n0 rows),

averaged over random halvings. Nothing is linearised, and groups of rows stay together. The jackknife, which leaves one
row out at a time, states twice the observed variance of accuracies in the median of 17 kinds of rows (up to four
times), because a count is nearly a step in the fitted values, and 1.4 times that of R² (`docs/kinds.md`).

Rare large errors that the pilot of a regression has not seen are not in it. Its variance is multiplied by the kurtosis
of the left-out residuals over that of a Gaussian, where this is larger.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from spikepool.data.folds import split_groups
from spikepool.forecasting.leave_out import chosen_penalty, decompose, leave_group_out
from spikepool.forecasting.margins import likely_right, margins
from spikepool.kit.arrays import FloatArray, IntArray

# Reweightings of the pilot's rows and random halvings of them: draws behind a variance.
REWEIGHTINGS = 30


def level_variance(
    X: FloatArray,
    Y: FloatArray,
    labels: IntArray | None,
    groups: IntArray,
    penalties: FloatArray,
    rng: np.random.Generator,
) -> float:
    """Variance over pilots of the probit of the leave-one-group-out accuracy, or of −ln(MSE/var(y)).

    Parameters
    ----------
    X : array (n, d)
        Features.
    Y : array (n, k)
        ±1 indicators of `labels`, or real targets.
    labels, groups : array (n,)
        Classes (None for regression), and groups of rows that stay together.
    penalties : array
        Ridge penalties, of which every half takes the one of generalised cross-validation.
    """
    n, differences = len(Y), []
    for _ in range(REWEIGHTINGS):
        halves = split_groups(groups, n // 2, rng)
        if min(len(rows) for rows in halves) > 1:
            one, other = (
                _level(X[rows], Y[rows], None if labels is None else labels[rows], groups[rows], penalties)
                for rows in halves
            )
            differences.append((one - other) ** 2 / sum(n / len(rows) for rows in halves))
    return float(np.mean(differences)) if differences else 0.0


def heavy_tails(residual: FloatArray) -> float:
    """Kurtosis of left-out residuals over that of a Gaussian, where it is larger."""
    square = max(float((residual**2).mean()), 1e-150)
    return max(1.0, float((residual**4).mean()) / (3 * square**2))


def _level(X: FloatArray, Y: FloatArray, labels: IntArray | None, groups: IntArray, penalties: FloatArray) -> float:
    parts, Z = decompose(X - X.mean(axis=0)), Y - Y.mean(axis=0)
    f = leave_group_out(parts, Y, groups, float(penalties[chosen_penalty(parts, Z, penalties)]))
    if labels is None:
        return float(np.log(max(float((Z**2).sum()), 1e-300) / max(float(((Y - f) ** 2).sum()), 1e-300)))
    edge = 0.5 / len(Y)  # none or all correct does not mean an accuracy of 0 or 1
    return float(ndtri(np.clip(likely_right(margins(f, labels)).mean(), edge, 1 - edge)))
