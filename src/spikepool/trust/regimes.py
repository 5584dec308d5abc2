"""Isotropic pooled noise, with or without a signal, or something else: how the rows are read before any simulation.

A frequent word, or a few of them, put eigenvalues beyond the bulk of pooled noise just as a signal does. The spectrum
cannot tell, the rows can: the score of a row along such a direction counts the word's appearances, which is skewed
(most rows have none, some have one, few two) or, for a difference of two words, heavy-tailed. The pooled latent of a
signal is symmetric and no heavier than a Gaussian. A rare class is skewed as well; it is not called a signal of the
model either, and the coloured regime says how well its direction is known. What the use of tokens explains where
vocabulary and weights are known is in :mod:`spikepool.trust.usage`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, kurtosistest, norm

from spikepool.kit.arrays import FloatArray
from spikepool.kit.statistics import SIGNIFICANCE
from spikepool.trust.bulk_fit import BulkFit, fit_bulk, fit_word
from spikepool.trust.falling import falling_level
from spikepool.trust.memory_rows import MemoryRows

# Eigenvalues that are not zero below which a fitted vocabulary explains any spectrum, unequal variances as well as
# pooled noise. With fewer rows than features a vocabulary and a few outliers explain falling variances at any number,
# unless the outliers stand apart from the rest.
_TELLING_FEATURES = 40
# Outliers that stand apart may still be frequent words, whose skewness fewer rows than these hardly show. They are
# called a signal where nothing hints at it: where the p-value of the test exceeds one half.
_TELLING_ROWS = 150
_NO_HINT = 0.5
# Outliers all within this many margins of the edge are looked at together with so many components inside: of several
# words that are about as frequent some may lie beyond it and some not. Not where vocabulary and weights are known.
_NEAR_MARGINS = 6.0
_INSIDE_COMPONENTS = 2


def equal_variances_level(values: FloatArray, n: int) -> float:
    """p-value of John's test that `n` centred rows whose covariance has eigenvalues `values` have equal variances."""
    d = len(values)
    departure = float(np.mean((values / values.mean() - 1) ** 2))
    return float(chi2.sf((n - 1) * d / 2 * departure, d * (d + 1) / 2 - 1))


def vocabulary_level(fit: BulkFit, values: FloatArray) -> float:
    """p-value, one-sided, that the bulk varies no more than the vocabulary and the number of rows explain.

    The squared coefficient of variation of d bulk eigenvalues is ``delta + gamma`` and scatters by
    ``2 (delta + gamma)/d``, as John's statistic does for delta = 0. Unequal variances and frequencies add to it.
    """
    bulk, expected = values[fit.n_outliers :], fit.law.delta + fit.law.gamma
    excess = float(bulk.var() / bulk.mean() ** 2) - expected
    return float(norm.sf(excess * len(values) / (2 * expected)))


def _equal_bulk_level(rows: MemoryRows) -> float:
    """p-value that the variances are equal; with fewer rows than features, those that no outlier explains."""
    if rows.n > rows.d:
        return equal_variances_level(rows.values, rows.n)
    return vocabulary_level(fit_bulk(rows.values, rows.d / (rows.n - 1), 0.0), rows.values)


def _stand_apart(rows: MemoryRows, fit: BulkFit, word: str) -> bool:
    """Whether outliers of fewer rows than features, over a good fit, are more than the first of falling variances."""
    if word != "good" or not fit.n_outliers or not _TELLING_ROWS <= rows.n <= rows.d:
        return False
    return falling_level(rows.values, rows.n, fit.n_outliers) < SIGNIFICANCE


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


def heavy_tails_level(scores: FloatArray) -> float:
    """p-value of the largest kurtosis of m columns: the least of the tests of Anscombe and Glynn, times m."""
    if len(scores) < 20:  # fewer rows than the test is made for
        return 1.0
    heavy = scores[:, (_standardised(scores) ** 4).mean(axis=0) > 3]  # the test is not made for far lighter tails
    if not heavy.shape[1]:
        return 1.0
    found = kurtosistest(heavy, axis=0, alternative="greater").pvalue
    return min(float(np.min(found)) * float(scores.shape[1]), 1.0)


def counts_tokens(scores: FloatArray, inside: int = 0, significance: float = SIGNIFICANCE) -> bool:
    """Whether scores (n, m) along outliers look like counts of tokens: skewed, or heavy-tailed.

    The last `inside` of them lie inside the bulk: of several words that are about as frequent some may lie beyond the
    edge and some not, and each of them alone is hardly skewed.
    """
    y = _standardised(scores[:, : scores.shape[1] - inside])
    levels = [heavy_tails_level(y), joint_skewness_level(y)]
    if inside:
        levels.append(joint_skewness_level(scores, inside))
    return bool(min(levels) < significance / len(levels))


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


def read_isotropic(rows: MemoryRows, delta: float | None = None, factor: float | None = None) -> IsotropicReading:
    """Fit the bulk of isotropic pooled noise, and tell a signal from tokens that are frequent.

    `delta` is d/V where the vocabulary is known, `factor` that of the edge where the weights are known too. Both are
    disregarded where an outlier lies beyond a bulk that varies more than they explain.
    """
    fit = fit_bulk(rows.values, rows.d / (rows.n - 1), delta, 1.0 if factor is None else factor)
    nonzero = min(rows.d, rows.n - 1)
    word = fit_word(fit.distance, nonzero)
    words = f"distance {fit.distance:.4f}, {word} fit"
    if word == "poor":
        # without the word: "poor fit" is a verdict on the simulation, which may well explain these rows
        return IsotropicReading(fit, 0, None, f"not the bulk of isotropic noise (distance {fit.distance:.2f})")
    few = nonzero < _TELLING_FEATURES or (fit.n_outliers > 0 and rows.n <= rows.d)
    unclear = delta is None and few and _equal_bulk_level(rows) < SIGNIFICANCE
    if unclear and not _stand_apart(rows, fit, word):
        seen = f"{rows.n} rows of {rows.d} features"
        reason = f"the spectrum of {seen} cannot tell pooled noise from unequal variances without V"
        return IsotropicReading(fit, 0, None, reason)
    count = fit.n_outliers
    if count and delta is not None and vocabulary_level(fit, rows.values) < SIGNIFICANCE:
        return read_isotropic(rows)
    if factor is None:
        # twice the margin where vocabulary or weights are unknown: eigenvalues of frequent tokens stray beyond the edge
        count = int(np.sum(rows.values[:count] > fit.edge + 2 * fit.margin))
    if not count:
        reason = f"no component stands out of the bulk of isotropic noise ({words})"
        unequal = delta is None and equal_variances_level(rows.values, rows.n) < SIGNIFICANCE
        if unequal:
            reason += "; unequal variances may have the same bulk"
        return IsotropicReading(fit, 0, "no signal", reason, unequal)
    near = factor is None and rows.values[0] <= fit.edge + _NEAR_MARGINS * fit.margin
    scores = rows.scores(count + (_INSIDE_COMPONENTS if near else 0))
    if counts_tokens(scores, scores.shape[1] - count, _NO_HINT if unclear else SIGNIFICANCE):
        reason = (
            f"{count} eigenvalue(s) beyond an isotropic bulk, scored like counts of frequent tokens or a rare class"
        )
        return IsotropicReading(fit, count, None, reason)
    if delta is None and word != "good":
        return IsotropicReading(
            fit, count, None, f"{count} eigenvalue(s) beyond a bulk that is not quite isotropic ({words})"
        )
    bulk = f"scale {fit.law.scale:.4g}, d/V {fit.law.delta:.3g}, edge {fit.edge:.4g} (+{fit.margin:.2g})"
    return IsotropicReading(fit, count, "signal", f"{count} outlier(s) beyond isotropic noise ({bulk}; {words})")
