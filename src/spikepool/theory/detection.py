"""Is there a signal at all? Tests on the top eigenvalue and on the trace of S, their p-values and their power.

*Top eigenvalue.* Its law at mu = 0 of the same model is :func:`null_top`. Above the transition the
outlier is normal around lambda(x) with the standard deviation of :mod:`spikepool.theory.fluctuations`. Below it the top
eigenvalue follows the same law as under noise alone, and the power is the level.

*Trace.* tr S is normal with mean ``m + alpha mu²`` and variance ``2 kappa² r0``, r0 = delta + gamma + delta gamma, in
the limit of spread-out weights (the last term is that of tokens that recur within a sequence). The squared norms of the
table's class means and of the vocabulary mean add ``2 delta²/d`` times alpha² and, where S is not centred, times 1. So
the trace has power at any mu, below the transition too, wherever the noise level is known:

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
from spikepool.kit.results import Result, Table
from spikepool.laws.measures import EXACT_SIZE
from spikepool.theory import spikes
from spikepool.theory.closed_form import predict_gains, require_plain
from spikepool.theory.fluctuations import eigenvalue_std, fluctuations, latent_kurtosis
from spikepool.theory.given_tokens import prepare_tokens
from spikepool.theory.prediction import NoiseEdge, NullTop, Sizes, noise_edge
from spikepool.theory.validity import (
    NEAR_FLUCTUATIONS,
    SOUND,
    Validity,
    few_tokens,
    near_threshold,
    small_sizes,
    too_high,
    validity_of,
)
from spikepool.world.sequences import SequenceWorld, checked_model
from spikepool.world.tokens import draw_tokens

# Effective tokens, (sum w²)²/sum w⁴, from which on the edge of the closed form is that of null draws: at level .05 and
# d = 200 mean weights over ten tokens reject in .04 to .06 of null draws, causal ones (2 to 4 tokens) in .13 to .28.
_SPREAD = 9.0
# Draws of the tokens behind a null law with few effective tokens.
_NULL_DRAWS = 6


@dataclass(frozen=True)
class DetectionPower(Result, schema="power"):
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

    def _tables(self) -> list[Table]:
        rows = [("top eigenvalue", self.top), ("trace", self.trace)]
        return [(f"Power at level {self.level:g}", ("test", "power"), rows)]

    def plot(self, ax: Any = None) -> Any:
        """The power of both tests, with the level; returns the axes."""
        from spikepool.drawing.predictions import draw_power

        return draw_power({"top eigenvalue": self.top, "trace": self.trace}, self.level, ax)


def null_top(model: SequenceWorld, w: ArrayLike) -> NullTop:
    """Law of the top eigenvalue of S at mu = 0 of this model.

    Spread-out weights: Tracy-Widom at the edge of the closed form, or a normal law around the outlier that the table's
    own class means or the vocabulary mean make. Few effective tokens, frequencies, token weights or a covariance: a
    mixture of the laws given the tokens of several draws, whose edge the closed form misses.
    """
    model = checked_model(model).replace(mu=0.0)
    alpha, kappa = model.gains(w)
    delta, gamma, d = model.delta, model.gamma, model.d
    varied = model.frequencies is not None or model.token_weights is not None or model.covariance is not None
    reasons = []
    if not varied:
        critical = float(spikes.critical_excess(delta, gamma))
        for name, strength in (("class means", alpha * model.class_mean_power), ("mean", model.mean_strength)):
            excess = strength / kappa - delta
            if strength > 0 and abs(excess / critical - 1) < NEAR_FLUCTUATIONS * d ** (-1 / 3):
                reasons.append(
                    f"at mu = 0 the spike of the table's {name} is near its threshold, where the top eigenvalue "
                    "follows neither of its two laws: a test at level 0.05 may reject in up to 0.2 of null draws"
                )
    square = np.square(np.asarray(w, dtype=np.float64))
    effective = kappa**2 / float(square @ square)  # tokens that carry the squared weight
    if not varied and effective >= _SPREAD:
        prediction = predict_gains(model, alpha, kappa)
        if not prediction.outliers:
            return NullTop((prediction.noise_edge,), (), tuple(reasons))
        top = prediction.outliers[0]
        std = fluctuations(model, w).eigenvalue_std if top.kind == "classes" else None
        return NullTop((), ((top.eigenvalue, std or _table_std(model, kappa, top.eigenvalue)),), tuple(reasons))
    if min(model.V, model.N) > EXACT_SIZE:
        reasons.append("the null law given the tokens is not computed at this size; the closed form's edge is used")
        return NullTop((predict_gains(model, alpha, kappa).noise_edge,), (), tuple(reasons))
    if not varied:
        reasons.append(
            f"{effective:.3g} effective tokens: the null law is an average over {_NULL_DRAWS} draws of the tokens, and "
            "a test at level 0.05 may reject in 0.01 to 0.1 of null draws"
        )
    edges, outliers = [], []
    for i in range(_NULL_DRAWS):
        edge, outlier = _null_given_tokens(model, w, i)
        if outlier is None:
            edges.append(edge)
        else:
            outliers.append((outlier, _table_std(model, kappa, outlier)))
    return NullTop(tuple(edges), tuple(outliers), tuple(reasons))


def _null_given_tokens(model: SequenceWorld, w: ArrayLike, seed: int) -> tuple[NoiseEdge, float | None]:
    """Edge given the tokens of one draw, and the largest outlier beyond it."""
    prepared = prepare_tokens(model, draw_tokens(model, seed), w, rng=seed)
    law, places = prepared.null_law()
    edge = noise_edge(law, prepared.kappa, Sizes(model.d, model.V, model.N, model.centered))
    top = float(places.max()) if len(places) else -math.inf
    return edge, top if top > edge.centre else None


def _table_std(model: SequenceWorld, kappa: float, eigenvalue: float) -> float:
    """Standard deviation of an outlier whose direction is a mean of the table's noise, of squared norm known to 2/d."""
    least = 1.001 * float(spikes.bulk_edge(model.delta, model.gamma, kappa))
    excess = float(spikes.excess_from_eigenvalue(max(eigenvalue, least), model.delta, model.gamma, kappa))
    return eigenvalue_std(excess, model.delta, model.gamma, kappa, model.d, strength_std=math.sqrt(2 / model.d))


def detection_power(model: SequenceWorld, w: ArrayLike, level: float = 0.05) -> DetectionPower:
    """Power of the top eigenvalue and of the trace to tell this model from the same one at mu = 0.

    Parameters
    ----------
    model : SequenceWorld
        With isotropic noise and uniform token frequencies, and a known noise level.
    w : array_like of shape (T,)
        Pooling weights.
    level : float
        Probability of a false alarm.

    Notes
    -----
    The null hypothesis is mu = 0 of this model (:func:`null_top`): the table's own class means, and the vocabulary mean
    of an S that is not centred, are part of it and count as no signal.
    """
    model = checked_model(model)
    require_plain(model)
    level = check.fraction(level, "level", closed=False)
    alpha, kappa = model.gains(w)
    prediction = predict_gains(model, alpha, kappa)
    null = null_top(model, w)
    critical = null.critical(level)
    scatter = fluctuations(model, w)
    top = level
    if model.mu > 0 and scatter.eigenvalue is not None and scatter.eigenvalue_std is not None:
        seen = float(ndtr((scatter.eigenvalue - critical) / scatter.eigenvalue_std))
        top = max(level, seen)
        if not model.centered:  # the vocabulary mean's outlier may exceed the critical value beside the signal's
            top = max(top, 1 - (1 - level) * (1 - seen))
    power = model.mu**2 + model.class_mean_power
    validity = validity_of(
        *null.reasons,
        near_threshold(
            float(spikes.spike_excess(alpha * power, model.delta, kappa)),
            float(spikes.critical_excess(model.delta, model.gamma)),
            model.d,
            NEAR_FLUCTUATIONS,
        ),
        too_high(few_tokens(kappa, model.mu, prediction.mu_sample)),
        small_sizes(d=model.d, V=model.V, N=model.N),
    )
    return DetectionPower(level, critical, top, _trace_power(model, w, alpha, kappa, level), validity)


def _trace_power(model: SequenceWorld, w: ArrayLike, alpha: float, kappa: float, level: float) -> float:
    """Power of the trace: normal with the variances of :func:`_trace_variance` under the null and under the signal."""
    if alpha == 0 or model.mu == 0:
        return level
    null, signal = (math.sqrt(_trace_variance(model.replace(mu=mu), w, alpha, kappa)) for mu in (0.0, model.mu))
    shift = alpha * model.mu**2 * (1 - 1 / model.N if model.centered else 1.0)
    return float(ndtr((shift - null * float(ndtri(1 - level))) / signal))


def _trace_variance(model: SequenceWorld, w: ArrayLike, alpha: float, kappa: float) -> float:
    """Variance of tr S, with its terms of order 1/d.

        2 kappa² (delta + gamma) + 2 delta gamma sum_{t != s} (1 + R_ts) w_t² w_s²        (table, sequences, repeats)
        + (2 delta²/d) sum (s² − kappa²)            over s = alpha and, for an S that is not centred, s = 1
        + [h² alpha² (kurtosis − 1) + 4 h alpha kappa + 4 delta kappa]/N + 4 mu² alpha²/V,       h = mu² + delta.

    The second line is that of the squared norms of the class means and of the vocabulary mean, ``||zeta||²`` and
    ``||zbar||²``, of variance 2 delta²/d each; the last two terms of the third line are those of the vocabulary mean
    and of a table with class means of its own. A table without them has neither.
    """
    delta, gamma, mu2 = model.delta, model.gamma, model.mu**2
    square = np.square(np.asarray(w, dtype=np.float64))
    shared = 1 + np.asarray(model.R) if model.latent == "signs" else np.ones((model.T, model.T))
    repeats = float(square @ shared @ square - np.sum(np.diag(shared) * square**2))
    variance = 2 * kappa**2 * (delta + gamma) + 2 * delta * gamma * repeats
    kurtosis = 3.0 if model.latent == "gaussian" else latent_kurtosis(model.R, w)
    h = mu2 + model.class_mean_power
    variance += (h**2 * alpha**2 * max(kurtosis - 1, 0.0) + 4 * h * alpha * kappa) / model.N
    if model.class_mean_power:
        variance += 2 * delta**2 / model.d * (alpha**2 - kappa**2) + 4 * mu2 * alpha**2 / model.V
    if model.mean_strength:
        variance += 2 * delta**2 / model.d * (1 - kappa**2) + 4 * delta * kappa / model.N
    return variance
