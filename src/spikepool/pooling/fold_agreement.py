r"""One pooling from those that the folds of a comparison found: what was compared is what is used.

Weights learned once more on all rows need not be those that the comparison was about: where rows are few and features
many, one fit finds a query that another does not, and the loss on its own rows does not tell which of them serves
others. Rows that a fit has not seen do. So

1. two fits agree when the departures of their weights from equal ones have a cosine above ``AGREEMENT`` over all
   learning tokens;
2. of the sets of folds that agree with one of them, the one is used that gained most on the rows its folds had not
   seen;
3. the fit on all rows, of which no row can judge, joins that set if it agrees too;
4. a token's weight is the average over the set, P_nt = (1/|G|) Σ_{k in G} P_nt^k. Fits from few rows differ by noise,
   and it averages out; fits that disagree are not averaged, for the average of opposite ones is the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.pooling.learning_rows import LearningRows
from spikepool.pooling.poolings import LearnedWeights

# Cosine between departures from equal weights above which two fits found the same. Few rows of many features: .3 and .7
# are as good (43.8, 43.9 and 43.2 points over the mean with .3, .5 and .7).
AGREEMENT = 0.5


def agreeing_pooling(
    found: Sequence[LearnedWeights],
    whole: LearnedWeights,
    data: LearningRows,
    gain: FloatArray,
    folds: IntArray,
) -> LearnedWeights:
    """The average of the fits that agree and gained most.

    Parameters
    ----------
    found : sequence
        The pooling learned without each fold.
    whole : LearnedWeights
        The same learned on all rows.
    data : LearningRows
        These rows.
    gain : array (n,)
        What each row gained by the pooling learned without its fold.
    folds : array (n,) of int
        Fold of each row.
    """
    alike = agreement([*found, whole], data) > AGREEMENT
    by_fold = np.bincount(folds, gain, minlength=len(found))
    kept = alike[int((alike[:-1, :-1] @ by_fold).argmax())]
    parameters = [fit.parameters for fit, keep in zip((*found, whole), kept, strict=True) if keep]
    return replace(whole, parameters=np.concatenate(parameters))


def agreement(fits: Sequence[LearnedWeights], data: LearningRows) -> FloatArray:
    """Cosines (fits, fits) between departures from equal weights; equal weights agree with each other alone."""
    equal = data.usable / np.maximum(data.usable.sum(axis=1, keepdims=True), 1)
    departures = [fit.weigh(data.z, data.observed, data.usable) - equal[:, None] for fit in fits]
    sizes = np.array([np.linalg.norm(departure) for departure in departures])
    none = sizes <= np.finfo(np.float64).eps * np.linalg.norm(equal)
    products = np.array([[np.vdot(a, b) for a in departures] for b in departures])
    size = np.where(none, np.inf, sizes)
    cosines = products / np.outer(size, size) + np.outer(none, none)
    np.fill_diagonal(cosines, 1.0)
    return np.asarray(cosines)
