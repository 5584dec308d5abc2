r"""How far the accuracy or R² that a pilot shows may be from the one it stands for.

The leave-one-out accuracy of n0 rows is a mean over rows, but not over independent ones: every row is also one that
the others are fitted to. Where few rows carry a class or a part of it, the accuracy varies between pilots by more than
counting says. Two disjoint halves A and B of the pilot are independent pilots of half the size. With z the probit of
the leave-one-out accuracy as a smooth count (:func:`spikepool.forecasting.margins.likely_right`),

    E (z_A − z_B)² = 2 var(z of n0/2 rows) ≈ 4 var(z of n0 rows),

averaged over random halvings. Nothing is linearised. The jackknife is not used for accuracies: a count is nearly a step
in the fitted values, and the jackknife states twice the observed variance in the median of 17 kinds of rows, up to four
times (`docs/kinds.md`). Groups of rows stay together.

For regression the squared errors are smooth in the fit, and the jackknife holds. With c_i the squared error of row i
over the mean one when it is left out, c_i(j) when row j is left out as well, and t_j the squared target of row j over
the mean one,

    L_j = c_j − t_j + sum_{i != j} (c_i − c_i(j)),        var(ln(MSE/var(y))) ≈ var(L)/n0.

Left-out residuals e_i = r_i/(1 − H_ii) change by H_ij e_j/(1 − H_ii) up to terms in H_ij², so that no fit is made
again. The jackknife is known to err to the large side (Efron and Stein). Rare large errors that a pilot has not seen
are not in it. It is multiplied by the kurtosis of the left-out residuals over that of a Gaussian, where this is larger.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from spikepool.forecasting.leave_out import (
    Decomposition,
    chosen_penalty,
    decompose,
    group_inverse,
    leave_group_out,
    split_groups,
)
from spikepool.forecasting.margins import likely_right, margins
from spikepool.kit.arrays import FloatArray, IntArray

# Reweightings of the pilot's rows and random halvings of them: draws behind a variance.
REWEIGHTINGS = 30
# Groups of rows that are left out beside each row of a regression, evenly spaced over the pilot; 300 gave the same
# widths.
_LEFT_OUT = 200


def probit_variance(
    X: FloatArray, Y: FloatArray, labels: IntArray, groups: IntArray, penalties: FloatArray, rng: np.random.Generator
) -> float:
    """Variance over pilots of the probit of the leave-one-group-out accuracy, from random halves of one.

    Parameters
    ----------
    X : array (n, d)
        Features.
    Y : array (n, classes)
        ±1 indicators of `labels`.
    labels, groups : array (n,)
        Classes, and groups of rows that stay together.
    penalties : array
        Ridge penalties, of which every half takes the one of generalised cross-validation.
    """
    n, found = len(Y), []

    def level(rows: IntArray) -> float:
        parts = decompose(X[rows] - X[rows].mean(axis=0))
        chosen = chosen_penalty(parts, Y[rows] - Y[rows].mean(axis=0), penalties)
        f = leave_group_out(parts, Y[rows], groups[rows], float(penalties[chosen]))
        edge = 0.5 / len(rows)  # none or all correct does not mean an accuracy of 0 or 1
        return float(ndtri(np.clip(likely_right(margins(f, labels[rows])).mean(), edge, 1 - edge)))

    for _ in range(REWEIGHTINGS):
        one, other = split_groups(groups, n // 2, rng)
        if min(len(one), len(other)) > 1:
            found.append((level(one) - level(other)) ** 2 / (n / len(one) + n / len(other)))
    return float(np.mean(found)) if found else 0.0


def error_variance(parts: Decomposition, Y: FloatArray, groups: IntArray, penalty: float) -> float:
    """Variance of ln(MSE/var(y)) over pilots: the jackknife, times a factor for residuals with heavy tails.

    Parameters
    ----------
    parts : Decomposition
        Of the centred features.
    Y : array (n, targets)
        Real targets.
    groups : array (n,)
        Groups of rows that leave together.
    penalty : float
        The ridge penalty.
    """
    n, Z = len(Y), Y - Y.mean(axis=0)
    share = parts.squared / (parts.squared + penalty)
    invert = group_inverse(parts, groups, penalty)
    left_out = invert(Z - parts.left @ (share[:, None] * (parts.left.T @ Z)))
    error = max(float((left_out**2).sum()) / n, 1e-300)

    def score(residual: FloatArray) -> FloatArray:
        return np.asarray((residual**2).sum(axis=1) / error)

    count = score(left_out)
    own = count - (Z**2).sum(axis=1) / max(float((Z**2).sum()) / n, 1e-300)
    names = np.unique(groups)
    if len(names) < 2:
        return 0.0
    removed = names[np.linspace(0, len(names) - 1, min(len(names), _LEFT_OUT)).round().astype(np.intp)]
    influence = np.empty(len(removed))
    for index, name in enumerate(removed):
        gone = groups == name
        reach = 1 / n + (parts.left * share) @ parts.left[gone].T
        without = score(left_out + invert(reach @ left_out[gone]))
        influence[index] = own[gone].sum() + (count - without)[~gone].sum()
    square = max(float((left_out**2).mean()), 1e-150)
    tails = max(1.0, float((left_out**4).mean()) / (3 * square**2))
    return tails * len(names) / n**2 * float(influence.var(ddof=1))
