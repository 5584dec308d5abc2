"""Signal or usage: do the scores along an outlier look like a signal's, or like the count of a frequent token?

A frequent word, or a few of them, put eigenvalues beyond the bulk of pooled noise just as a signal does. The spectrum
cannot tell, the rows can: the score of a row along such a direction counts the word's appearances, which is skewed
(most rows have none, some have one, few two) or, for a difference of two words, heavy-tailed. The pooled latent of a
signal is symmetric and no heavier than a Gaussian. A rare class is skewed as well; it is not called a signal of the
model either, and the coloured regime says how well its direction is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from spikepool.kit.arrays import FloatArray
from spikepool.trust.bulk_fit import BulkFit, fit_bulk, fit_word
from spikepool.trust.rows import Rows

# Probability under Gaussian scores below which the outliers' joint skewness is a count's.
_SKEWNESS_LEVEL = 0.02
# Standard deviations of the largest excess kurtosis above which it is.
_KURTOSIS_DEVIATIONS = 2.5
# A signal is claimed over a bulk at most this far from the law, as (constant, multiple of 1/d): closer than a fair fit,
# since unequal variances of few dimensions come near one. Signals of the model stay below .02 + 1.5/d.
_SIGNAL_DISTANCE = (0.02, 2.5)
# Rows below which counts of tokens cannot be told from a signal next to the edge: twice the margin is asked for. Fewer
# do where vocabulary and weights are known, and with them the edge.
_TELLING_ROWS = 1000
_TELLING_ROWS_KNOWN = 500
# The same for components inside the bulk: below this level tokens are so few or unequal that the edge is blurred.
_BLUR_LEVEL = 0.05
# Components inside the bulk that are looked at.
_BLUR_COMPONENTS = 10


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


@dataclass(frozen=True)
class IsotropicReading:
    """The rows read as isotropic pooled noise.

    Attributes
    ----------
    fit : BulkFit
    n_outliers : int
        Outliers that count.
    verdict : {"signal", "no signal"} or None
        None: the rows are not isotropic pooled noise, with or without a signal.
    reason : str
    """

    fit: BulkFit
    n_outliers: int
    verdict: str | None
    reason: str


def read_isotropic(rows: Rows, delta: float | None, factor: float) -> IsotropicReading:
    """Fit the bulk of isotropic pooled noise, and tell a signal from tokens that are frequent."""
    fit = fit_bulk(rows.values, rows.d / (rows.n - 1), delta, factor)
    words = f"distance {fit.distance:.4f}, {fit_word(fit.distance, rows.d)} fit"
    if fit_word(fit.distance, rows.d) == "poor":
        return IsotropicReading(fit, 0, None, f"not the bulk of isotropic noise ({words})")
    count = fit.n_outliers
    telling = _TELLING_ROWS if delta is None or factor == 1.0 else _TELLING_ROWS_KNOWN
    if count:
        scores = rows.scores(count + _BLUR_COMPONENTS)
        inside = scores[:, count:]
        if rows.n < telling or (inside.shape[1] and edge_is_blurred(inside)):
            # twice the margin where tokens are few or unequal: their own eigenvalues stray beyond the edge
            count = int(np.sum(rows.values[:count] > fit.edge + 2 * fit.margin))
    if not count:
        return IsotropicReading(fit, 0, "no signal", f"nothing beyond the bulk of isotropic noise ({words})")
    if counts_tokens(scores[:, :count]):
        reason = (
            f"{count} eigenvalue(s) beyond an isotropic bulk, scored like counts of frequent tokens or a rare class"
        )
        return IsotropicReading(fit, count, None, reason)
    constant, multiple = _SIGNAL_DISTANCE
    if fit.distance > constant + multiple / rows.d:
        return IsotropicReading(
            fit, count, None, f"{count} eigenvalue(s) beyond a bulk that is not quite isotropic ({words})"
        )
    bulk = f"scale {fit.law.scale:.4g}, d/V {fit.law.delta:.3g}, edge {fit.edge:.4g} (+{fit.margin:.2g})"
    return IsotropicReading(fit, count, "signal", f"{count} outlier(s) beyond isotropic noise ({bulk}; {words})")
