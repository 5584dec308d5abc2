"""The closed form: bulk, outliers, alignments and thresholds as rational functions of one variable.

The only home of the alignment of the top eigenvector and of the thresholds of a two-class model; the formulas of a
single spike are in :mod:`spikepool.theory.spikes`.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.laws.free_product import FreeProductLaw
from spikepool.theory import spikes
from spikepool.theory.prediction import Outlier, Prediction, Sizes
from spikepool.theory.validity import few_tokens, near_threshold, neighbours, small_sizes, validity_of
from spikepool.world.sequences import SequenceWorld


def predict_gains(world: SequenceWorld, alpha: float, kappa: float) -> Prediction:
    """Bulk and outliers of S for any weighting with signal gain `alpha` and noise gain `kappa`.

    Given the noise Z, the covariance of a pooled column is exactly

        kappa·Z P Z'/V + alpha (mu u + zeta)(mu u + zeta)' + zbar zbar',    zeta = Zs/V, zbar = Z1/V,

    with P the projection off the class means, and zeta, zbar of squared norm delta. So the signal's spike has strength
    alpha(mu² + delta), its eigenvector aligns with u up to the factor mu²/(mu² + delta), and without centring there is
    a second spike of strength delta along zbar. Holds for d, V, N → ∞ and spread-out weights.
    """
    alpha, kappa = check.non_negative(alpha, "alpha"), check.positive(kappa, "kappa")
    require_plain(world)
    delta, gamma = world.delta, world.gamma
    found = (
        _outlier(world, "signal", alpha * (world.mu**2 + world.class_mean_power), kappa, world.purity),
        _outlier(world, "mean", world.mean_strength, kappa, 0.0),
    )
    outliers = tuple(sorted((o for o in found if o is not None), key=lambda outlier: outlier.eigenvalue, reverse=True))
    own = world.class_mean_power
    mu_sample = _threshold(float(spikes.sample_threshold(delta, gamma)), alpha, kappa, own)
    excess = float(spikes.spike_excess(alpha * (world.mu**2 + own), delta, kappa))
    return Prediction(
        alpha=alpha,
        kappa=kappa,
        bulk=FreeProductLaw(delta, gamma, kappa),
        edge=float(spikes.bulk_edge(delta, gamma, kappa)),
        outliers=outliers,
        alignment=outliers[0].alignment if outliers else 0.0,
        detectable=found[0] is not None,
        mu_population=_threshold(float(spikes.population_threshold(delta)), alpha, kappa, own),
        mu_sample=mu_sample,
        validity=validity_of(
            few_tokens(kappa, world.mu, mu_sample),
            near_threshold(excess, float(spikes.critical_excess(delta, gamma)), world.d),
            neighbours(outliers, world.d, world.N),
            small_sizes(d=world.d, V=world.V, N=world.N),
        ),
        sizes=Sizes(world.d, world.V, world.N, world.centered),
    )


def require_plain(world: SequenceWorld) -> None:
    """Raise where the closed form does not hold: token frequencies or noise covariance of their own."""
    if world.frequencies is not None or world.covariance is not None:
        raise InvalidInputError(
            "the closed form holds for uniform token frequencies and isotropic noise",
            remedy="Use predict(w, exact=True), which takes both into account",
        )


def _outlier(
    world: SequenceWorld, kind: Literal["signal", "mean"], theta: float, kappa: float, purity: float
) -> Outlier | None:
    """The outlier of a spike of strength `theta`, or None below the sample threshold."""
    delta, gamma = world.delta, world.gamma
    x = float(spikes.spike_excess(theta, delta, kappa))
    if x <= spikes.critical_excess(delta, gamma):
        return None
    return Outlier(
        kind=kind,
        eigenvalue=float(spikes.sample_outlier(x, delta, gamma, kappa)),
        alignment=purity * float(spikes.total_alignment(x, delta, gamma)),
        population_eigenvalue=float(spikes.population_outlier(x, delta, kappa)),
        population_alignment=purity * float(spikes.population_alignment(x, delta)),
    )


def _threshold(ratio: float, alpha: float, kappa: float, own: float) -> float:
    """The mu at which theta/kappa reaches `ratio`; infinite when no signal gets through (alpha = 0)."""
    if alpha == 0:
        return math.inf
    return math.sqrt(max(0.0, kappa * ratio / alpha - own))


def signal_threshold(ratio: ArrayLike, delta: ArrayLike, gamma: ArrayLike, *, class_means: bool) -> FloatArray:
    """Mu at which the signal's outlier appears in S, over arrays of ``ratio = alpha/kappa``, delta and gamma.

    ``sqrt(max(0, (delta + x_star)/ratio − delta))`` with `class_means` (a sampled table and ±1 latents), without the
    last term otherwise; infinite where the weights cancel the signal.
    """
    needed = np.asarray(spikes.sample_threshold(delta, gamma))
    with np.errstate(divide="ignore"):
        needed = needed / np.asarray(ratio, dtype=np.float64)
    extra = np.asarray(delta, dtype=np.float64) if class_means else 0.0
    return np.asarray(np.sqrt(np.maximum(needed - extra, 0.0)))


def centred_alignment(
    mu: ArrayLike, ratio: ArrayLike, delta: ArrayLike, gamma: ArrayLike, *, class_means: bool
) -> FloatArray:
    """Alignment of the top eigenvector of a centred S over arrays of mu, ``ratio = alpha/kappa``, delta and gamma.

    ``A(x) mu²/(mu² + delta)`` with `class_means` (a sampled table and ±1 latents: the spike has strength
    ``alpha (mu² + delta)`` and points along mu plus the table's own class mean); ``A(x)`` without.
    """
    return _signal_alignment(mu, np.asarray(ratio, dtype=np.float64), 1.0, delta, gamma, class_means)


def _signal_alignment(
    mu: ArrayLike, alpha: Any, kappa: float, delta: ArrayLike, gamma: ArrayLike, class_means: bool
) -> FloatArray:
    square = np.square(np.asarray(mu, dtype=np.float64))
    delta = np.asarray(delta, dtype=np.float64)
    power = square + (delta if class_means else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        purity = np.where(power > 0, square / power, 0.0)
    excess = spikes.spike_excess(alpha * power, delta, kappa)
    return np.asarray(purity * np.asarray(spikes.total_alignment(excess, delta, gamma)))


def top_alignment(
    world: SequenceWorld,
    alpha: float,
    kappa: float,
    *,
    mu: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    gamma: ArrayLike | None = None,
) -> FloatArray:
    """Alignment of the top eigenvector with u, as `Prediction.alignment`, broadcast over mu, delta and gamma.

    :func:`centred_alignment`, and zero where the mean of the vocabulary's noise, present when the features are not
    centred, is the stronger of the two spikes. What is not given is the model's own.
    """
    mu = np.asarray(world.mu if mu is None else mu, dtype=np.float64)
    delta = np.asarray(world.delta if delta is None else delta, dtype=np.float64)
    gamma = np.asarray(world.gamma if gamma is None else gamma, dtype=np.float64)
    own = world.class_mean_power > 0
    alignment = _signal_alignment(mu, alpha, kappa, delta, gamma, own)
    if world.mean_strength == 0:
        return alignment
    # outliers are in the order of their spikes; a mean too weak for one leaves a weaker signal without one as well
    theta = alpha * (np.square(mu) + (delta if own else 0.0))
    return np.where(theta < delta, 0.0, alignment)
