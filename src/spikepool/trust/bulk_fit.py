"""Fit of the free product bulk to observed eigenvalues: scale and vocabulary ratio, robust to outliers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.laws.free_product import FreeProductLaw
from spikepool.trust.effort import LARGE_SIDE

# Margin beyond the edge in units of the edge's fluctuation scale. The Tracy-Widom law (beta = 1) exceeds 3.3 once in a
# thousand draws; the rest is room for the error of the fit and for tokens that a draw happens to use much more often
# than others, so that false outliers stay below one draw in a hundred, also with four effective tokens a sequence.
TRACY_WIDOM_MARGIN = 3.6
# Central quantiles used for the robust start; the top fifth may hold outliers.
_LEVELS = np.linspace(0.05, 0.8, 16)
# Share of the eigenvalues that must not be zero for that start.
FEWEST_NONZERO = 1 - float(_LEVELS[-1])
# Kolmogorov-Smirnov distances up to which a fit is called good and fair, as (constant, multiple of 1/d). Eigenvalues
# are rigid: under the model the distance is 1.5/d to 3/d plus the departure of finite sequences from the limit
# (.002 to .01 for three or more effective tokens). A signal is claimed over a good fit, which all but one in a hundred
# of the model's signals have, or over a fair one where the vocabulary is given: smoothly falling variances have one.
_GOOD_FIT = (0.012, 2.0)
_FAIR_FIT = (0.03, 3.0)


@dataclass(frozen=True)
class BulkFit:
    """A fitted bulk.

    Attributes
    ----------
    law : FreeProductLaw
        The fitted law.
    n_outliers : int
        Eigenvalues beyond the edge and its margin.
    edge : float
        Right edge of the bulk: that of the law times the edge factor.
    margin : float
        Width added to the edge, 3.6 times its fluctuation scale.
    distance : float
        Kolmogorov-Smirnov distance between the bulk eigenvalues that are not zero and the law.
    """

    law: FreeProductLaw
    n_outliers: int
    edge: float
    margin: float
    distance: float


def fit_word(distance: float, d: int) -> str:
    """One of "good", "fair" and "poor", for the distance of a bulk with d eigenvalues that are not zero."""
    for word, (constant, multiple) in (("good", _GOOD_FIT), ("fair", _FAIR_FIT)):
        if distance <= constant + multiple / d:
            return word
    return "poor"


def edge_scale(law: FreeProductLaw, d: int) -> float:
    """Fluctuation scale of the largest of `d` eigenvalues: ``(b d)^{−2/3}`` for a density ``(b/π) sqrt(edge − x)``."""
    left, right = law.support()
    if right == left:
        return 0.0
    step = 1e-6 * (right - left)
    b = np.pi * float(law.pdf(right - step)) / np.sqrt(step)
    return float((b * d) ** (-2 / 3))


def edge_factor(weights: FloatArray, d: int, V: int, n: int) -> float:
    """How far the edge of a finite sequence length lies beyond that of the spread-out limit, as a ratio.

    The exact law for one draw of uniform tokens (:class:`spikepool.GeneralizedLaw`), whose edge depends on the weights
    and the ratios only; sizes are therefore scaled down to what is quick to decompose. At d = 300 the largest
    eigenvalue of drawn noise lies below this edge by 4 % for single tokens, 2 % for two and 1 % for four.
    """
    from spikepool.laws.atomic import AtomicLaw
    from spikepool.laws.generalized import GeneralizedLaw

    shrink = min(1.0, LARGE_SIDE / max(V, n))
    small_V, small_n = max(2, round(V * shrink)), max(2, round(n * shrink))
    tokens = np.random.default_rng(0).integers(0, small_V, size=(small_n, len(weights)))
    W = np.zeros((small_V, small_n))
    np.add.at(W, (tokens.ravel(), np.repeat(np.arange(small_n), len(weights))), np.tile(weights, small_n))
    W -= W.mean(axis=1, keepdims=True)
    usage = AtomicLaw(np.maximum(np.linalg.eigvalsh(W @ W.T) * small_V / small_n, 0.0))
    exact = GeneralizedLaw(noise=AtomicLaw([1.0]), usage=usage, delta=d / V).support()[1]
    limit = FreeProductLaw(d / V, d / n, float(weights @ weights)).support()[1]
    return max(1.0, exact / limit)


def fit_bulk(eigenvalues: FloatArray, gamma: float, delta: float | None = None, factor: float = 1.0) -> BulkFit:
    """Fit ``scale · (MP_delta ⊠ MP_gamma)`` to all d eigenvalues of a sample covariance.

    A robust start matches central quantiles; then the eigenvalues beyond the edge are set aside and the first two
    moments of the rest are matched (mean ``scale``, variance ``scale² (delta + gamma)``), until the count is stable.
    Moments of d eigenvalues scatter by 1/d only, so that the edge is known far better than it fluctuates.

    Parameters
    ----------
    eigenvalues : array of shape (d,)
        In descending order, zeros included.
    gamma : float
        Ratio d over the number of samples.
    delta : float, optional
        Ratio d/V when the vocabulary is known; fitted when not.
    factor : float
        Ratio of the bulk's edge to that of the law, from :func:`edge_factor` when weights and vocabulary are known.
    """
    d, nonzero = len(eigenvalues), int(np.count_nonzero(eigenvalues))
    law = _start(eigenvalues, gamma, delta)
    seen: set[int] = set()
    while True:
        edge, margin = factor * law.support()[1], TRACY_WIDOM_MARGIN * edge_scale(law, d)
        count = min(int(np.sum(eigenvalues > edge + margin)), max(nonzero - 2, 0))
        if count in seen:
            return BulkFit(law, count, edge, margin, _distance(eigenvalues[count:], law))
        seen.add(count)
        # an outlier takes one dimension and one row away from the bulk, which counts where rows are few
        ratio = (d - count) / (d / gamma - count) if gamma > 1 else gamma
        law = _match_moments(eigenvalues[count:], ratio, delta)


def _match_moments(bulk: FloatArray, gamma: float, delta: float | None) -> FreeProductLaw:
    mean = float(bulk.mean())
    if delta is None:
        delta = max(float(bulk.var()) / mean**2 - gamma, 0.0)
    return FreeProductLaw(delta, gamma, mean)


def _start(eigenvalues: FloatArray, gamma: float, delta: float | None) -> FreeProductLaw:
    """Scale, and delta when it is not given, from central quantiles of the continuous part."""
    from scipy.optimize import minimize_scalar

    atom = max(0.0, 1 - 1 / gamma) if gamma > 1 else 0.0
    levels = atom + (1 - atom) * _LEVELS
    observed = np.quantile(eigenvalues, levels)

    def scaled(ratio: float) -> tuple[float, float]:
        law = FreeProductLaw(ratio, gamma)
        left, right = law.support()
        grid = left + (right - left) * np.linspace(0, 1, 400) ** 3  # only a start: interpolation is good enough
        quantiles = np.interp(levels, law.cdf(grid), grid)
        # least squares through the origin, in relative terms
        scale = float(np.sum(observed / quantiles) / len(quantiles))
        return scale, float(np.mean((observed / (scale * quantiles) - 1) ** 2))

    if delta is not None:
        return FreeProductLaw(delta, gamma, scaled(delta)[0])
    # a vocabulary smaller than the samples' rank would show as an atom: d/V is at most about max(1, gamma)
    best = minimize_scalar(lambda ratio: scaled(ratio)[1], bounds=(0.0, max(1.0, gamma)), method="bounded")
    return FreeProductLaw(float(best.x), gamma, scaled(float(best.x))[0])


def _distance(bulk: FloatArray, law: FreeProductLaw) -> float:
    """Kolmogorov-Smirnov distance of the bulk eigenvalues to the law."""
    ordered = np.sort(bulk)
    positive = ordered > 1e-10 * ordered[-1]
    step = abs(float(np.mean(~positive)) - law.atom)
    # with fewer rows than dimensions most eigenvalues are zero whatever the rows are: the others are compared
    share = 1 - law.atom
    model = (np.asarray(law.cdf(ordered[positive])) - law.atom) / share if share > 0 else np.zeros(0)
    m = len(model)
    gap = np.maximum(np.abs(np.arange(1, m + 1) / m - model), np.abs(np.arange(m) / m - model)) if m else model
    return float(max(gap.max(initial=0.0), step))
