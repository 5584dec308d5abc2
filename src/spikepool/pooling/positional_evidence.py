r"""The decision whether positional weights deserve to be used.

1. **Candidates.** Two estimates of the same R: over all directions and all rows, and within the leading directions
   on the probe rows. Each gives shrunken, non-negative weights.
2. **Cross-fit.** Weights from nine folds are scored on the tenth: the gain in alpha/kappa over the mean, free of
   selection bias, with a standard error over folds. The candidate with the larger lower bound goes on.
3. **Decide.** Spectral weights are used when the lower confidence bound of the gain exceeds `min_gain` AND the
   cross-position covariances are nearly symmetric, as a latent shared by positions makes them; else the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from spikepool.kit.arrays import FloatArray
from spikepool.pooling.positional import PositionalGram
from spikepool.pooling.positional_weights import ShrunkGram, best_nonnegative, shrink
from spikepool.pooling.probe import Antisymmetry, DirectionalGram

# Sequences below which ten folds are not independent evidence: of pure noise weights were accepted in 38 of 40 draws of
# two sequences, 12 % of three and up to 12 % of ten, and in 1 % of thirty and more.
FEWEST_SEQUENCES = 30
# Antisymmetric energy, in units of the energy that weights could exploit, above which the structure is order rather
# than a shared latent. 0 in the model; .2 to 85 on the real corpora measured. It must exceed the limit by
# ASYMMETRY_Z standard errors.
ASYMMETRY_LIMIT = 0.05
ASYMMETRY_Z = 2.0
# The same as a share of the whole energy: 0 in the model, .02 to .03 in two sets of time series, .05 to .08 in MiniLM's
# last layer, .27 to .48 in a decoder's hidden states and in static tables, where weights do not help.
ASYMMETRY_SHARE = 0.1


@dataclass(frozen=True)
class Evidence:
    """What the data say about positional weights.

    Attributes
    ----------
    weights : array (P,)
        Candidate weights, non-negative, of unit sum.
    correlation : array (P, P)
        Estimated positional correlation, shrunk, of unit diagonal.
    correlation_error : array (P, P)
        Standard error of its off-diagonal entries before shrinkage; infinite where no pair was observed.
    gain : float
        Cross-fitted estimate of (alpha/kappa of the weights)/(alpha/kappa of the mean).
    interval : tuple of float
        Two-sided confidence interval of the gain.
    intensity : float
        Average share by which entries were shrunk, between 0 and 1.
    view : {"all", "leading"}
        Directions behind the estimate.
    asymmetry : Antisymmetry
        Antisymmetric energy of the cross-position structure.
    accepted : bool
        Whether the weights deserve to be used.
    reason : str
        Why, in one clause.
    """

    weights: FloatArray
    correlation: FloatArray
    correlation_error: FloatArray
    gain: float
    interval: tuple[float, float]
    intensity: float
    view: str
    asymmetry: Antisymmetry
    accepted: bool
    reason: str

    def with_sink(self) -> Evidence:
        """The same for sequences whose first position, a sink, was left out: weight zero, correlated with nothing."""
        P = len(self.weights) + 1
        correlation, error = np.eye(P), np.full((P, P), np.inf)
        correlation[1:, 1:], error[1:, 1:] = self.correlation, self.correlation_error
        weights = np.concatenate([[0.0], self.weights])
        return replace(self, weights=weights, correlation=correlation, correlation_error=error)


@dataclass(frozen=True)
class _Candidate:
    view: str
    shrunk: ShrunkGram
    weights: FloatArray
    scale: float  # signal variance of a token, in the units of the Gram matrix
    gain: float
    error: float  # standard error of the gain
    folds: int


def weigh(
    gram: PositionalGram,
    directional: DirectionalGram | None,
    asymmetry: Antisymmetry,
    *,
    confidence: float,
    min_gain: float,
) -> Evidence:
    """Compare the candidates and decide; see the module's docstring.

    Parameters
    ----------
    gram : PositionalGram
        Over all directions and rows.
    directional : DirectionalGram or None
        Result of :func:`spikepool.pooling.probe.directional_gram`.
    asymmetry : Antisymmetry
        Result of :func:`spikepool.pooling.probe.antisymmetry`.
    confidence : float
        Level of the two-sided interval of the gain.
    min_gain : float
        Gain over the mean, minus one, that the lower bound must exceed.
    """
    candidates = []
    if directional is not None:
        candidates.append(_candidate("leading", directional.gram, directional.signal))
        # the scale of all directions follows from that of the leading ones: same R, other units
        w = candidates[0].weights
        within, overall = (_score(w, _off_diagonal(shrink(g))) for g in (directional.gram, gram))
        candidates.append(_candidate("all", gram, directional.signal * overall / within if within > 0 else np.nan))
    else:
        candidates.append(_candidate("all", gram, np.nan))

    def interval(c: _Candidate) -> tuple[float, float]:
        quantile = float(student.ppf(0.5 + confidence / 2, max(c.folds - 1, 1)))
        return c.gain - quantile * c.error, c.gain + quantile * c.error

    best = max(candidates, key=lambda c: interval(c)[0])
    bounds = interval(best)
    P = len(best.weights)
    correlation, error = np.eye(P), np.full((P, P), np.inf)
    if best.scale > 0:
        correlation = _off_diagonal(best.shrunk) / best.scale
        np.fill_diagonal(correlation, 1.0)
        error = best.shrunk.standard_error / best.scale
    if not bounds[0] > 1 + min_gain:
        accepted, reason = False, _too_small(bounds[0], min_gain)
    elif directional is not None and _ordered(asymmetry, directional.energy):
        accepted, reason = False, "positions are tied by their order, not by a shared latent"
    else:
        accepted, reason = True, "positions differ significantly"
    return Evidence(
        weights=best.weights,
        correlation=correlation,
        correlation_error=error,
        gain=best.gain,
        interval=bounds,
        intensity=best.shrunk.intensity,
        view=best.view,
        asymmetry=asymmetry,
        accepted=accepted,
        reason=reason,
    )


def _too_small(lower: float, min_gain: float) -> str:
    """Why a lower bound of the gain is not enough."""
    if not lower > 1:
        return "no significant gain over the mean"
    return f"the gain over the mean is significant but may be below the {1 + min_gain:g} that min_gain asks for"


def _ordered(asymmetry: Antisymmetry, useful: float) -> bool:
    """Whether the antisymmetric energy is significantly more than its allowed part of the useful or whole energy."""
    surely = asymmetry.energy - ASYMMETRY_Z * asymmetry.error
    if surely <= 0:
        return False
    return surely > ASYMMETRY_LIMIT * useful or surely > ASYMMETRY_SHARE * asymmetry.energy / asymmetry.share


def _candidate(view: str, gram: PositionalGram, signal: float) -> _Candidate:
    full = shrink(gram)
    off = _off_diagonal(full)
    P = len(off)
    # a correlation is at most one: the signal variance is at least the largest cross moment
    scale = float(np.abs(off[~np.eye(P, dtype=bool)]).max()) if P > 1 else 0.0
    if np.isfinite(signal):
        scale = max(scale, signal)
    differences = _cross_fitted(gram, full.level)
    denominator = scale + _score(np.full(P, 1.0 / P), off)
    folds = len(differences)
    gain, error = 1.0, np.inf
    if folds >= 2 and scale > 0 and denominator > 0:
        gain = 1 + float(differences.mean()) / denominator
        error = float(differences.std(ddof=1)) / np.sqrt(folds) / denominator
    return _Candidate(view, full, best_nonnegative(full.gram), scale, gain, error, folds)


def _off_diagonal(shrunk: ShrunkGram) -> FloatArray:
    """The shrunken matrix with zeros on the diagonal where no pair of different tokens informs it."""
    G = shrunk.gram.copy()
    np.fill_diagonal(G, np.where(np.isfinite(np.diag(shrunk.standard_error)), np.diag(G), 0.0))
    return G


def _score(w: FloatArray, G: FloatArray) -> float:
    return float(w @ G @ w / (w @ w))


def _cross_fitted(gram: PositionalGram, level: float) -> FloatArray:
    """For each fold with data, w'Gw/w'w on the fold, w from the others, minus that of the mean."""
    K, P, _ = gram.sums.shape
    uniform = np.full(P, 1.0 / P)
    differences = []
    for k in range(K):
        others = np.arange(K) != k
        pairs = gram.pairs[k]
        if not (pairs > 0).any() or not (gram.pairs[others] > 0).any():
            continue
        w = best_nonnegative(shrink(gram, others).gram)
        # pairs this fold never saw are filled by the exchangeable value, for both sides alike
        G = np.where(pairs > 0, gram.sums[k] / np.where(pairs > 0, pairs, 1.0), level)
        np.fill_diagonal(G, np.where(np.diag(pairs) > 0, np.diag(G), 0.0))
        differences.append(_score(w, G) - _score(uniform, G))
    return np.array(differences)
