"""Signal or usage: do the scores along an outlier look like a signal's, or like the count of a frequent token?

A frequent word, or a few of them, put eigenvalues beyond the bulk of pooled noise just as a signal does. The spectrum
cannot tell, the rows can: the score of a row along such a direction counts the word's appearances, which is skewed
(most rows have none, some have one, few two) or, for a difference of two words, heavy-tailed. The pooled latent of a
signal is symmetric and no heavier than a Gaussian. A rare class is skewed as well; it is not called a signal of the
model either, and the coloured regime says how well its direction is known.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from spikepool.kit.arrays import FloatArray

# Probability under Gaussian scores below which the outliers' joint skewness is a count's.
_SKEWNESS_LEVEL = 0.02
# Standard deviations of the largest excess kurtosis above which it is.
_KURTOSIS_DEVIATIONS = 2.5
# The same for components inside the bulk: below this level tokens are so few or unequal that the edge is blurred.
_BLUR_LEVEL = 0.05
# Components inside the bulk that are looked at.
BLUR_COMPONENTS = 10


def _standardised(scores: FloatArray) -> FloatArray:
    centred = scores - scores.mean(axis=0)
    return np.asarray(centred / np.maximum(centred.std(axis=0), np.finfo(float).tiny))


def joint_skewness_level(scores: FloatArray) -> float:
    """p-value of Mardia's skewness: ``n/6 Σ_ijk (mean y_i y_j y_k)²`` is chi² with m(m+1)(m+2)/6 degrees of freedom.

    Unlike the skewness of each component it does not depend on how equal eigenvalues mix theirs. `scores` (n, m) are
    uncorrelated.
    """
    y = _standardised(scores)
    n, m = y.shape
    total = sum(float((((y * y[:, [i]]).T @ y / n) ** 2).sum()) for i in range(m))
    return float(chi2.sf(n * total / 6, m * (m + 1) * (m + 2) / 6))


def counts_tokens(scores: FloatArray) -> bool:
    """Whether scores (n, m) along outliers look like counts of tokens."""
    y = _standardised(scores)
    kurtosis = float(((y**4).mean(axis=0) - 3).max() / np.sqrt(24 / len(y)))
    return kurtosis > _KURTOSIS_DEVIATIONS or joint_skewness_level(scores) < _SKEWNESS_LEVEL


def edge_is_blurred(scores: FloatArray) -> bool:
    """Whether scores (n, m) along the first components inside the bulk are skewed, one by one."""
    y = _standardised(scores)
    n, m = y.shape
    return bool(chi2.sf(n / 6 * float(((y**3).mean(axis=0) ** 2).sum()), m) < _BLUR_LEVEL)
