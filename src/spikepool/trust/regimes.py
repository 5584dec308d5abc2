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
# since variances that fall as 1/sqrt(rank) come near one and put eigenvalues beyond it. All but one in a hundred of the
# model's signals stay below. With a vocabulary that is given, and not fitted to the bulk, the law is further off.
_SIGNAL_DISTANCE = (0.012, 2.0)
_SIGNAL_DISTANCE_KNOWN = (0.02, 2.5)
# Outliers all within this many margins of the edge are looked at together with the first components inside: of several
# words that are about as frequent some may lie beyond it and some not, and each of them alone is hardly skewed. At this
# level one signal in fifty so close to the edge is lost. Not where vocabulary and weights, and with them the edge, are
# known.
_NEAR_MARGINS = 6.0
_NEAR_COMPONENTS = 2
_NEAR_LEVEL = 0.002
# Rows below which counts of tokens cannot be told from a signal next to the edge: twice the margin is asked for. Fewer
# do where vocabulary and weights are known, and with them the edge.
_TELLING_ROWS = 1000
# The same for components inside the bulk: below this level tokens are so few or unequal that the edge is blurred.
_BLUR_LEVEL = 0.05
# Components inside the bulk that are looked at.
_BLUR_COMPONENTS = 10

# Features below which a fitted vocabulary explains any spectrum, unequal variances as well as pooled noise.
_TELLING_FEATURES = 30
# Probability of equal variances below which so few features are not called noise.
_EQUAL_LEVEL = 0.001


def equal_variances_level(values: FloatArray, n: int) -> float:
    """p-value of John's test that `n` centred rows whose covariance has eigenvalues `values` have equal variances."""
    d = len(values)
    departure = float(np.mean((values / values.mean() - 1) ** 2))
    return float(chi2.sf((n - 1) * d / 2 * departure, d * (d + 1) / 2 - 1))


def _standardised(scores: FloatArray) -> FloatArray:
    centred = scores - scores.mean(axis=0)
    return np.asarray(centred / np.maximum(centred.std(axis=0), np.finfo(float).tiny))


def joint_skewness_level(scores: FloatArray, inside: int = 0) -> float:
    """p-value of Mardia's skewness: ``n/6 Σ_ijk (mean y_i y_j y_k)²`` is chi² with m(m+1)(m+2)/6 degrees of freedom.

    Unlike the skewness of each component it does not depend on how equal eigenvalues mix theirs. `scores` (n, m) are
    uncorrelated. Moments of the last `inside` of them alone are left out, with their degrees of freedom: components of
    the bulk may be skewed, but a signal's latent is independent of them.
    """
    y = _standardised(scores)
    m = y.shape[1]

    def moments(part: FloatArray) -> float:
        return sum(float((((part * column[:, None]).T @ part / len(part)) ** 2).sum()) for column in part.T)

    total = moments(y) - (moments(y[:, m - inside :]) if inside else 0.0)
    freedom = (m * (m + 1) * (m + 2) - inside * (inside + 1) * (inside + 2)) / 6
    return float(chi2.sf(len(y) * total / 6, freedom))


def counts_tokens(scores: FloatArray, inside: FloatArray | None = None) -> bool:
    """Whether scores (n, m) along outliers look like counts of tokens, alone or together with those `inside`."""
    y = _standardised(scores)
    kurtosis = float(((y**4).mean(axis=0) - 3).max() / np.sqrt(24 / len(y)))
    if kurtosis > _KURTOSIS_DEVIATIONS or joint_skewness_level(scores) < _SKEWNESS_LEVEL:
        return True
    if inside is None or not inside.shape[1]:
        return False
    return joint_skewness_level(np.hstack([scores, inside]), inside.shape[1]) < _NEAR_LEVEL


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
    unequal : bool
        Whether the variances differ: noise of a vocabulary that was fitted, or features of unequal variance. The
        spectrum alone does not tell which.
    """

    fit: BulkFit
    n_outliers: int
    verdict: str | None
    reason: str
    unequal: bool = False


def read_isotropic(rows: Rows, delta: float | None, factor: float) -> IsotropicReading:
    """Fit the bulk of isotropic pooled noise, and tell a signal from tokens that are frequent."""
    fit = fit_bulk(rows.values, rows.d / (rows.n - 1), delta, factor)
    words = f"distance {fit.distance:.4f}, {fit_word(fit.distance, rows.d)} fit"
    if fit_word(fit.distance, rows.d) == "poor":
        return IsotropicReading(fit, 0, None, f"not the bulk of isotropic noise ({words})")
    if delta is None and rows.d < _TELLING_FEATURES and equal_variances_level(rows.values, rows.n) < _EQUAL_LEVEL:
        reason = f"the spectrum of {rows.d} features cannot tell pooled noise from unequal variances without V"
        return IsotropicReading(fit, 0, None, reason)
    count = fit.n_outliers
    known = delta is not None and factor != 1.0
    telling = _TELLING_ROWS / 2 if known else _TELLING_ROWS
    if count:
        scores = rows.scores(count + _BLUR_COMPONENTS)
        inside = scores[:, count:]
        if rows.n < telling or (inside.shape[1] and edge_is_blurred(inside)):
            # twice the margin where tokens are few or unequal: their own eigenvalues stray beyond the edge
            count = int(np.sum(rows.values[:count] > fit.edge + 2 * fit.margin))
    if not count:
        reason = f"no component stands out of the bulk of isotropic noise ({words})"
        unequal = delta is None and equal_variances_level(rows.values, rows.n) < _EQUAL_LEVEL
        if unequal:
            reason += "; unequal variances may have the same bulk"
        return IsotropicReading(fit, 0, "no signal", reason, unequal)
    near = not known and rows.values[0] <= fit.edge + _NEAR_MARGINS * fit.margin
    if counts_tokens(scores[:, :count], scores[:, count : count + _NEAR_COMPONENTS] if near else None):
        reason = (
            f"{count} eigenvalue(s) beyond an isotropic bulk, scored like counts of frequent tokens or a rare class"
        )
        return IsotropicReading(fit, count, None, reason)
    constant, multiple = _SIGNAL_DISTANCE if delta is None else _SIGNAL_DISTANCE_KNOWN
    if fit.distance > constant + multiple / rows.d:
        return IsotropicReading(
            fit, count, None, f"{count} eigenvalue(s) beyond a bulk that is not quite isotropic ({words})"
        )
    bulk = f"scale {fit.law.scale:.4g}, d/V {fit.law.delta:.3g}, edge {fit.edge:.4g} (+{fit.margin:.2g})"
    return IsotropicReading(fit, count, "signal", f"{count} outlier(s) beyond isotropic noise ({bulk}; {words})")
