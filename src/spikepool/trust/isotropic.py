"""Outliers over the bulk of isotropic pooled noise: the spike behind each, its alignment, and the errors of both.

Fit of the free product bulk to observed eigenvalues: scale and vocabulary ratio, robust to outliers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from spikepool.kit.arrays import FloatArray
from spikepool.kit.showing import NORMAL_90, unselected
from spikepool.laws.free_product import FreeProductLaw
from spikepool.theory import spikes
from spikepool.theory.fluctuations import eigenvalue_std, spike_alignment_std
from spikepool.trust.draws import LARGE_SIDE

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
        Kolmogorov-Smirnov distance between the bulk eigenvalues and the law.
    """

    law: FreeProductLaw
    n_outliers: int
    edge: float
    margin: float
    distance: float


def fit_word(distance: float, d: int) -> str:
    """One of "good", "fair" and "poor", for the distance of a bulk of dimension d."""
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
        law = _match_moments(eigenvalues[count:], gamma, delta)


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
    model = np.asarray(law.cdf(ordered))
    n = len(ordered)
    upper, lower = np.arange(1, n + 1) / n, np.arange(n) / n
    positive = ordered > 1e-10 * ordered[-1]  # at the atom both are steps, compared by their height
    gap = np.maximum(np.abs(upper - model), np.abs(lower - model))[positive]
    step = abs(float(np.mean(~positive)) - law.atom)
    return float(max(gap.max(initial=0.0), step))


@dataclass(frozen=True)
class DiagnosedOutlier:
    """One eigenvalue beyond the bulk.

    Attributes
    ----------
    eigenvalue, standard_error : float
        Observed eigenvalue, and the standard deviation of such an eigenvalue over draws.
    alignment, alignment_standard_error : float
        Estimated squared cosine between its eigenvector and the direction it estimates, with the error of that.
    interval : (float, float)
        90 % interval of the alignment. It begins at 0 when the eigenvalue, selected for lying beyond the edge, may
        come from a spike below the threshold.
    excess : float
        The spike variable x of :mod:`spikepool.theory.spikes`.
    strength : float
        Estimated strength theta of the spike, the variance the signal adds along its direction.
    required_samples : int or None
        Samples that would bring the alignment to the target; None when no number is enough.
    """

    eigenvalue: float
    standard_error: float
    alignment: float
    alignment_standard_error: float
    interval: tuple[float, float]
    excess: float
    strength: float
    required_samples: int | None


def explain(value: float, fit: BulkFit, d: int, target: float, signal_noise: float | None) -> DiagnosedOutlier:
    """Invert an outlier to its spike.

    Parameters
    ----------
    value : float
        Eigenvalue beyond the edge and its margin.
    fit : BulkFit
    d : int
        Dimension.
    target : float
        Alignment to plan for.
    signal_noise : float or None
        alpha times the noise of a token, when the gains are known. The alignment is then with u itself: that with the
        table's own direction h times the squared cosine p = 1 − alpha·delta/theta between h and u.

    Notes
    -----
    With p the error of the alignment A·p has four sources: that of A for a given spike; the eigenvalue's own scatter,
    which moves A and theta together; what theta shows of the latent's sampled variance (2/N relative) and of the
    sampled ‖zeta‖² (2/d), which only p sees; and the angle between u and the part of the eigenvector off h,
    4 A(1−A) p(1−p)/d.
    """
    delta, gamma, scale = fit.law.delta, fit.law.gamma, fit.law.scale
    # the strength itself scatters with the latent, whose law is unknown: a Gaussian one is assumed (signs scatter less)
    latent_std = math.sqrt(2 * gamma / d)
    raw = float(spikes.excess_from_eigenvalue(value, delta, gamma, scale))
    inner = eigenvalue_std(raw, delta, gamma, scale, d)
    scatter = max(inner, fit.margin / TRACY_WIDOM_MARGIN)
    cut = fit.edge + fit.margin

    def state(eigenvalue: float) -> tuple[float, float, float]:
        """Excess, alignment and p of the spike whose outlier lies at `eigenvalue`; no alignment within the bulk."""
        if eigenvalue <= fit.law.support()[1] * (1 + 1e-9):
            x = float(spikes.critical_excess(delta, gamma))
            return x, 0.0, 1.0
        x = float(spikes.excess_from_eigenvalue(eigenvalue, delta, gamma, scale))
        theta = scale * (x + delta)
        p = 1.0 if signal_noise is None else max(0.0, 1 - signal_noise * delta / theta)
        return x, float(spikes.total_alignment(x, delta, gamma)), p

    x, alignment, p = state(unselected(value, cut, scatter))
    ends = [state(unselected(value, cut, scatter, level)) for level in (0.05, 0.95)]
    if alignment == 0:  # as likely below the threshold as above it: the upper end is all that is known
        return DiagnosedOutlier(
            value,
            scatter,
            0.0,
            ends[1][1] * ends[1][2],
            (0.0, ends[1][1] * ends[1][2]),
            raw,
            scale * (raw + delta),
            None,
        )
    step = 1e-5 * x
    slope_l = float(
        spikes.sample_outlier(x + step, delta, gamma, scale) - spikes.sample_outlier(x, delta, gamma, scale)
    )
    slope_a = float(spikes.total_alignment(x + step, delta, gamma)) - alignment
    theta = scale * (x + delta)
    # response of A·p to the eigenvalue
    response = (p * slope_a + alignment * (1 - p) * step / (x + delta)) / slope_l
    variance = (response * inner) ** 2 + (p * spike_alignment_std(x, delta, gamma, d)) ** 2
    if signal_noise is not None:
        variance += (alignment * (1 - p)) ** 2 * (latent_std**2 + 2 / d)
        variance += 4 * alignment * (1 - alignment) * p * (1 - p) / d + 2 * (1 - alignment * p) ** 2 / d**2
    error = min(math.sqrt(variance), 1.0)
    low, high = (a * q for _, a, q in ends)
    reachable = p * float(spikes.population_alignment(x, delta)) > target
    required = math.ceil(d / float(spikes.required_gamma(x, delta, target / p))) if reachable else None
    return DiagnosedOutlier(
        eigenvalue=value,
        standard_error=eigenvalue_std(x, delta, gamma, scale, d, strength_std=latent_std),
        alignment=p * alignment,
        alignment_standard_error=error,
        interval=(
            float(np.clip(min(low, p * alignment - NORMAL_90 * error), 0.0, 1.0)),
            float(np.clip(max(high, p * alignment + NORMAL_90 * error), 0.0, 1.0)),
        ),
        excess=x,
        strength=theta,
        required_samples=required,
    )


def mixed(outliers: Sequence[DiagnosedOutlier], fit: BulkFit, d: int, n: int, target: float) -> list[DiagnosedOutlier]:
    """The same with what sampling mixes them with each other.

    Components of variances a and b turn into each other by an angle that is normal with variance ab/(n (a − b)²) over
    samples of `n` rows. That vanishes in the limit behind :func:`explain`; with a few strong directions it is most of
    the loss. Components that cannot be told apart share their directions, half and half.
    """
    variances = np.array([fit.law.scale + outlier.strength for outlier in outliers])
    found = []
    for i, outlier in enumerate(outliers):
        others = np.delete(variances, i)
        with np.errstate(divide="ignore"):
            shares = np.minimum(variances[i] * others / (n * (variances[i] - others) ** 2), 0.5)
        lost, scatter = min(float(shares.sum()), 1.0), math.sqrt(2 * float(shares @ shares))
        low = outlier.interval[0] * (1 - lost) - NORMAL_90 * outlier.alignment * scatter
        found.append(
            replace(
                outlier,
                alignment=outlier.alignment * (1 - lost),
                alignment_standard_error=math.hypot(outlier.alignment_standard_error, outlier.alignment * scatter),
                interval=(max(low, 0.0), outlier.interval[1]),
                required_samples=_enough_mixed(outlier, fit, d, n * lost, target),
            )
        )
    return found


def _enough_mixed(outlier: DiagnosedOutlier, fit: BulkFit, d: int, loss: float, target: float) -> int | None:
    """Rows for the target when a share `loss`/n of the alignment is mixed away; None when no number is enough."""
    least = outlier.required_samples
    if least is None or not loss:
        return least
    delta, gamma = fit.law.delta, fit.law.gamma
    known = outlier.alignment / float(spikes.total_alignment(outlier.excess, delta, gamma))

    def short(log_rows: float) -> float:
        rows = math.exp(log_rows)
        return target - known * float(spikes.total_alignment(outlier.excess, delta, d / rows)) * (1 - loss / rows)

    low, high = math.log(max(least, loss)), math.log(max(least, loss)) + 20
    if short(low) <= 0:
        return least
    return math.ceil(math.exp(brentq(short, low, high))) if short(high) < 0 else None
