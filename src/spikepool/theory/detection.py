"""Is there a signal at all? Tests on the top eigenvalue and on the trace of S, their p-values and their power.

*Top eigenvalue.* Its law under noise alone is that of :mod:`spikepool.theory.prediction`. Above the transition the
outlier is normal around lambda(x) with the standard deviation of :mod:`spikepool.theory.fluctuations`. Below it the top
eigenvalue follows the same law as under noise alone, and the power is the level.

*Trace.* tr S is normal with mean ``m + alpha mu²`` and variance ``2 kappa² r0``, r0 = delta + gamma + delta gamma, in
the limit of spread-out weights (the last term is that of tokens that recur within a sequence). So it has power at any
mu, below the transition too, wherever the noise level is known:

    power = Phi(alpha mu²/(kappa sqrt(2 r0)) − z_level)       to leading order.

What the eigenvectors of S say of u is another matter: below the transition, nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from spikepool.kit import validation as check
from spikepool.kit.showing import html_table, record
from spikepool.theory import spikes
from spikepool.theory.closed_form import predict_gains, require_plain
from spikepool.theory.fluctuations import fluctuations, latent_kurtosis
from spikepool.theory.prediction import cautions
from spikepool.theory.validity import (
    NEAR_FLUCTUATIONS,
    SOUND,
    Validity,
    few_tokens,
    near_threshold,
    small_sizes,
    validity_of,
)
from spikepool.world.sequences import SequenceWorld, checked_model


@dataclass(frozen=True)
class DetectionPower:
    """Probability that a test at a given level finds the signal; made by :meth:`SequenceModel.detection_power`.

    Attributes
    ----------
    level : float
        Probability of a false alarm.
    critical : float
        Top eigenvalue above which the first test rejects noise.
    top, trace : float
        Power of the test on the top eigenvalue, and of the test on the trace.
    validity : Validity
        Near the transition the power of the top eigenvalue lies between the level and what the normal law says.
    """

    level: float
    critical: float
    top: float
    trace: float
    validity: Validity = SOUND

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return record(self)

    def _repr_html_(self) -> str:
        rows = [("top eigenvalue", self.top), ("trace", self.trace)]
        return html_table(("test", "power"), rows, title=f"Power at level {self.level:g}") + cautions(self.validity)

    def plot(self, ax: Any = None) -> Any:
        """The power of both tests, with the level; returns the axes."""
        from spikepool.drawing.predictions import draw_power

        return draw_power({"top eigenvalue": self.top, "trace": self.trace}, self.level, ax)


def detection_power(model: SequenceWorld, w: ArrayLike, level: float = 0.05) -> DetectionPower:
    """Power of the top eigenvalue and of the trace to tell this model from noise alone (mu = 0).

    Parameters
    ----------
    model : SequenceWorld
        With isotropic noise and uniform token frequencies, and a known noise level.
    w : array_like of shape (T,)
        Pooling weights.
    level : float
        Probability of a false alarm.
    """
    model = checked_model(model)
    require_plain(model)
    level = check.fraction(level, "level", closed=False)
    alpha, kappa = model.gains(w)
    prediction = predict_gains(model, alpha, kappa)
    critical = prediction.noise_edge.critical(level)
    scatter = fluctuations(model, w)
    top = level
    if scatter.detectable and scatter.eigenvalue is not None and scatter.eigenvalue_std is not None:
        top = max(level, float(ndtr((scatter.eigenvalue - critical) / scatter.eigenvalue_std)))
    power = model.mu**2 + model.class_mean_power
    validity = validity_of(
        near_threshold(
            float(spikes.spike_excess(alpha * power, model.delta, kappa)),
            float(spikes.critical_excess(model.delta, model.gamma)),
            model.d,
            NEAR_FLUCTUATIONS,
        ),
        few_tokens(kappa, model.mu, prediction.mu_sample),
        small_sizes(d=model.d, V=model.V, N=model.N),
    )
    return DetectionPower(level, critical, top, _trace_power(model, w, alpha, kappa, level), validity)


def _trace_power(model: SequenceWorld, w: ArrayLike, alpha: float, kappa: float, level: float) -> float:
    """Power of the trace, with the terms of order 1/d in its variance under the signal.

    They are those of the pooled latents, mu⁴ alpha² (kurtosis − 1)/N, and of their product with the noise,
    4 mu² (alpha²/V + alpha kappa/N), where the classes' own means are part of the table.
    """
    if alpha == 0 or model.mu == 0:
        return level
    mu2 = model.mu**2
    square = np.square(np.asarray(w, dtype=np.float64))
    shared = 1 + np.asarray(model.R) if model.latent == "signs" else np.ones((model.T, model.T))
    repeats = float(square @ shared @ square - np.sum(np.diag(shared) * square**2))
    noise = 2 * kappa**2 * (model.delta + model.gamma) + 2 * model.delta * model.gamma * repeats
    kurtosis = 3.0 if model.latent == "gaussian" else latent_kurtosis(model.R, w)
    own = alpha**2 / model.V if model.class_mean_power else 0.0
    signal = mu2**2 * alpha**2 * max(kurtosis - 1, 0.0) / model.N + 4 * mu2 * (own + alpha * kappa / model.N)
    shift = alpha * mu2 * (1 - 1 / model.N if model.centered else 1.0)
    return float(ndtr((shift - math.sqrt(noise) * float(ndtri(1 - level))) / math.sqrt(noise + signal)))
