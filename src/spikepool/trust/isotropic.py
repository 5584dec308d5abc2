"""Outliers over the bulk of isotropic pooled noise: the spike behind each, its alignment, and the errors of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from spikepool.kit.statistics import NORMAL_90, unselected
from spikepool.theory import spikes
from spikepool.theory.fluctuations import eigenvalue_std, spike_alignment_std
from spikepool.trust.bulk_fit import TRACY_WIDOM_MARGIN, BulkFit


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
