"""The closed form over arrays of settings, and the gradient of the alignment in the weights.

The numbers of :func:`spikepool.theory.closed_form.predict_gains`, with numpy broadcasting instead of a model: 1e5
settings take about a tenth of a second.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import DomainError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.theory import spikes
from spikepool.theory.closed_form import require_plain
from spikepool.world.sequences import TABLES, SequenceWorld, checked_model


class PredictedArrays(NamedTuple):
    """Predictions over a broadcast shape; the names are those of :class:`spikepool.Prediction`.

    `signal_eigenvalue` and `signal_alignment` are those of the signal's outlier, NaN where there is none; `alignment`
    is that of the top eigenvector, 0 where the top is the bulk or the vocabulary mean.
    """

    alignment: FloatArray
    eigenvalue: FloatArray
    edge: FloatArray
    detectable: NDArray[np.bool_]
    signal_eigenvalue: FloatArray
    signal_alignment: FloatArray
    mu_population: FloatArray
    mu_sample: FloatArray
    mu_leading: FloatArray


def predict_arrays(
    mu: ArrayLike,
    alpha: ArrayLike,
    kappa: ArrayLike,
    delta: ArrayLike,
    gamma: ArrayLike,
    *,
    centered: bool = True,
    table: str = "sampled",
) -> PredictedArrays:
    """Alignment, outlier, edge and thresholds over arrays that broadcast against each other.

    Parameters
    ----------
    mu : array_like
        Norm of the signal, at least 0.
    alpha, kappa : array_like
        Signal gain w'Rw and noise gain ‖w‖². Where S is centred only their ratio decides about alignments and
        thresholds, so that ``predict_arrays(mu, ratio, 1.0, ...)`` serves; eigenvalues are then in units of kappa.
    delta, gamma : array_like
        Aspect ratios d/V and d/N.
    centered : bool
        Whether the sample mean is subtracted. Without, the vocabulary mean is a spike of strength delta, and `alpha`
        itself decides which outlier is the larger (for weights of unit sum).
    table : {"sampled", "class_centered"}
        As in :class:`spikepool.SequenceModel`.

    Returns
    -------
    PredictedArrays
        `mu_leading` is the strength from which on the top eigenvector is the signal's.
    """
    check.flag(centered, "centered")
    sampled = check.choice(table, "table", TABLES) == "sampled"
    values = [check.finite_array(v, name) for v, name in ((mu, "mu"), (alpha, "alpha"), (kappa, "kappa"))]
    ratios = [check.finite_array(v, name) for v, name in ((delta, "delta"), (gamma, "gamma"))]
    for value, name in zip([*values, *ratios], ("mu", "alpha", "kappa", "delta", "gamma"), strict=True):
        if value.min() < 0 or (name == "kappa" and value.min() == 0):
            raise DomainError(
                f"{name} must be {'above' if name == 'kappa' else 'at least'} 0", float(value.min()), "Check it"
            )
    strength, a, k, d, g = np.broadcast_arrays(*values, *ratios)
    own = d if sampled else np.zeros_like(d)
    mean = np.zeros_like(d) if centered or not sampled else d
    power = strength**2 + own
    star = np.asarray(spikes.critical_excess(d, g))
    edge = np.asarray(spikes.bulk_edge(d, g, k))

    def outlier(theta: FloatArray) -> FloatArray:
        x = theta / k - d
        found = x > star
        return np.where(found, spikes.sample_outlier(np.where(found, x, 1.0), d, g, k), np.nan)

    theta = a * power
    signal, vocabulary = outlier(theta), outlier(mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        purity = np.where(power > 0, strength**2 / power, 0.0)
        aligned = purity * np.asarray(spikes.total_alignment(theta / k - d, d, g))
        sample = np.sqrt(np.maximum(k * (d + star) / a - own, 0.0))
        population = np.sqrt(np.maximum(k * np.asarray(spikes.population_threshold(d)) / a - own, 0.0))
        overtaking = np.sqrt(np.maximum(mean / a - own, 0.0))
    detectable = np.isfinite(signal)
    leads = detectable & (theta >= mean)
    return PredictedArrays(
        alignment=np.where(leads, aligned, 0.0),
        eigenvalue=np.fmax(np.fmax(signal, vocabulary), edge),
        edge=edge,
        detectable=detectable,
        signal_eigenvalue=signal,
        signal_alignment=np.where(detectable, aligned, np.nan),
        mu_population=population,
        mu_sample=sample,
        mu_leading=np.maximum(sample, overtaking),
    )


def alignment_gradient(model: SequenceWorld, w: ArrayLike) -> FloatArray:
    """Gradient in w of the alignment of the signal's outlier, in closed form; zero where it is not detectable.

        A = purity·A(x),  x = (alpha/kappa)(mu² + delta) − delta,
        dA/dw = purity·A'(x)·(mu² + delta)·2 (R w − (alpha/kappa) w)/kappa.

    The derivative is along all of R^T; weights of unit sum move along its projection off the ones vector.
    """
    model = checked_model(model)
    require_plain(model)
    alpha, kappa = model.gains(w)
    weights = np.asarray(w, dtype=np.float64)
    power = model.mu**2 + model.class_mean_power
    x = alpha / kappa * power - model.delta
    if x <= float(spikes.critical_excess(model.delta, model.gamma)):
        return np.zeros(model.T)
    slope = float(alignment_slope(x, model.delta, model.gamma))
    return np.asarray(
        model.purity * slope * power * 2 * (np.asarray(model.R) @ weights - alpha / kappa * weights) / kappa
    )


def alignment_slope(excess: ArrayLike, delta: ArrayLike, gamma: ArrayLike) -> Any:
    """Derivative of the total alignment in the excess, 0 below the threshold.

    With A = 1 − gamma/(x+gamma) − r0/(x (x+gamma)) − 2q/(x² (x+gamma)),
    ``A' = [gamma x³ + r0 x (2x + gamma) + 2q (3x + 2 gamma)]/(x³ (x + gamma)²)``.
    """
    x, d, g = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (excess, delta, gamma)))
    q, r0 = d * g, d + g + d * g
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (g * x**3 + r0 * x * (2 * x + g) + 2 * q * (3 * x + 2 * g)) / (x**3 * (x + g) ** 2)
    return np.where(x > np.asarray(spikes.critical_excess(d, g)), slope, 0.0)[()]
