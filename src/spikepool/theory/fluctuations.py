"""Error bars of a prediction: how far one draw of S scatters around the limits of :mod:`spikepool.theory.spikes`.

Write ``C/sqrt(N) = sqrt(tau) û v̂' + B`` with û = h/‖h‖, h = mu u + zeta the sampled signal, v̂ = a/‖a‖, a_n = w'xi_n and
``tau = ‖h‖² ‖a‖²/N``. The eigenvalue lambda of the outlier and the squared cosine A of its eigenvector with û solve

    Psi(lambda) = lambda g(lambda) g~(lambda) − (1/sqrt(tau) − f(lambda))² = 0,    A = −g(lambda) / (tau Psi'(lambda))

    g = û'(lambda − BB')⁻¹û,    g~ = v̂'(lambda − B'B)⁻¹v̂,    f = û'(lambda − BB')⁻¹B v̂

exactly, for any size. û and v̂ are in general position to B, so with I_j = ∫ (lambda − x)^{−j} dF over the bulk
law, and the same for the companion law of B'B,

    Cov(û'K^i û, û'K^j û) = (2/d)(I_{i+j} − I_i I_j)    (and the same with N for v̂)
    Cov(û'K^i B v̂, û'K^j B v̂) = (1/N) ∫ x (lambda − x)^{−i−j} dF

are of order 1/d, so these forms scatter by d^{−1/2} while the traces themselves move by 1/d only. The delta method on
(g, g', g~, g~', f, f', tau) gives both standard deviations. In the variable x of :mod:`spikepool.theory.spikes` every
integral is rational, because ``g = x/(kappa (x+delta)(x+gamma))`` and ``g~ = x/(kappa (x+1)(x+delta))`` at lambda(x).

What moves tau: ‖zeta‖² and u'zeta (the sampled table), and ‖a‖²/N (the sampled signs), whose variance needs E[(w'xi)⁴].

Validity: Gaussian noise and spread-out weights, as the closed forms; an outlier apart from the edge,
``x − x_star`` well above ``x_star d^{−1/3}`` (closer, the law is not normal). For the prefix model at T = 10, d = 300
the standard deviations agree with simulation within 5 %, also for weights spread over three tokens only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import DomainError, InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.results import Result, Table
from spikepool.theory import spikes
from spikepool.theory.closed_form import predict_gains
from spikepool.theory.mixing import neighbours
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
from spikepool.world.sequences import SequenceWorld
from spikepool.world.signs import sign_blocks

# Draws behind E[(w'xi)^4] when the signs are not made of blocks; its relative error of about 0.5 % is far below
# what the fourth moment contributes to the standard deviations.
_MOMENT_DRAWS = 100_000
# Excess, in units of the largest of 1, delta and gamma, beyond which differences of integrals would be rounding (all of
# them at 1e8, as in a feature of other units than the rest). There the leading powers hold to one in ten thousand.
_STRONG = 1e4


@dataclass(frozen=True)
class Fluctuations(Result, schema="fluctuations"):
    """Standard deviations of the signal's outlier over independent draws of table, tokens and signs.

    Attributes
    ----------
    detectable : bool
        Whether there is an outlier to speak of.
    eigenvalue, alignment : float or None
        The limits around which a draw scatters: the outlier of S and its squared cosine with u. None if not
        detectable.
    eigenvalue_std, alignment_std : float or None
        Their standard deviations over draws; None when not detectable.
    strength_std : float
        Relative standard deviation of the spike's strength theta = alpha ‖h‖².
    validity : Validity
        Whether the deviations lie in the range where they hold: an outlier apart from the edge, spread-out weights.
    """

    detectable: bool
    eigenvalue: float | None
    alignment: float | None
    eigenvalue_std: float | None
    alignment_std: float | None
    strength_std: float
    validity: Validity = SOUND

    def _tables(self) -> list[Table]:
        rows = [
            ("eigenvalue", self.eigenvalue, self.eigenvalue_std),
            ("alignment", self.alignment, self.alignment_std),
        ]
        return [("", ("signal's outlier", "limit", "deviation of one draw"), rows)] if self.detectable else []

    def _notes(self) -> list[str]:
        if self.detectable:
            return list(super()._notes())
        return ["No outlier: the signal is below its threshold, and there is nothing that could scatter."]

    def plot(self, ax: Any = None) -> Any:
        """Normal law of the alignment of one draw, with its limit; returns the axes."""
        from spikepool.drawing.predictions import draw_scatter

        return draw_scatter(self, ax)


def _truncated_reciprocal(x: float, shift: float) -> FloatArray:
    """Taylor coefficients of 1/(x + h + shift) in h, to third order."""
    return (-1.0) ** np.arange(4) / (x + shift) ** np.arange(1, 5)


def _transform_derivatives(x: float, delta: float, gamma: float) -> tuple[float, FloatArray, FloatArray]:
    """lambda, and g, g~ with their first three derivatives in lambda, at the outlier of excess x (kappa = 1)."""
    r0, q = delta + gamma + delta * gamma, delta * gamma
    l1 = 1 - r0 / x**2 - 2 * q / x**3
    l2 = 2 * r0 / x**3 + 6 * q / x**4
    l3 = -6 * r0 / x**4 - 24 * q / x**5
    # derivatives of the inverse function x(lambda)
    x1, x2, x3 = 1 / l1, -l2 / l1**3, (3 * l2**2 - l1 * l3) / l1**5

    def in_lambda(a: float, b: float) -> FloatArray:
        series = np.convolve([x, 1.0], np.convolve(_truncated_reciprocal(x, a), _truncated_reciprocal(x, b)))[:4]
        f1, f2, f3 = series[1], 2 * series[2], 6 * series[3]
        return np.array([series[0], f1 * x1, f2 * x1**2 + f1 * x2, f3 * x1**3 + 3 * f2 * x1 * x2 + f1 * x3])

    return float(spikes.sample_outlier(x, delta, gamma)), in_lambda(delta, gamma), in_lambda(1.0, delta)


@dataclass(frozen=True)
class _Linearised:
    """Variance of (lambda, A) from the directions û and v̂, and their response to a relative change of tau."""

    eigenvalue_variance: float
    alignment_variance: float
    eigenvalue_response: float
    alignment_response: float


def _linearise(excess: float, delta: float, gamma: float, d: int) -> _Linearised:
    x = check.positive(excess, "excess")
    delta = check.non_negative(delta, "delta")
    gamma = check.positive(gamma, "gamma")
    d = check.size(d, "d")
    star = float(spikes.critical_excess(delta, gamma))
    if x <= star:
        raise DomainError(f"excess must exceed the threshold {star:.12g}", x, "Below it no outlier exists")
    strong = _STRONG * max(1.0, delta, gamma)
    if x > strong:  # lambda ~ x and 1 − A ~ gamma/x
        part, ratio = _linearise(strong, delta, gamma, d), x / strong
        return _Linearised(
            part.eigenvalue_variance * ratio,
            part.alignment_variance / ratio**2,
            part.eigenvalue_response * ratio,
            part.alignment_response / ratio,
        )
    lam, g, h = _transform_derivatives(x, delta, gamma)
    tau = x + delta
    slope = g[0] * h[0] + lam * (g[1] * h[0] + g[0] * h[1])  # Psi'
    curvature = 2 * (g[1] * h[0] + g[0] * h[1]) + lam * (g[2] * h[0] + 2 * g[1] * h[1] + g[0] * h[2])
    # linear forms in (g, g', g~, g~', f, f', log tau)
    psi = np.array([lam * h[0], 0, lam * g[0], 0, 2 / math.sqrt(tau), 0, 1 / tau])
    psi_slope = np.array([h[0] + lam * h[1], lam * h[0], g[0] + lam * g[1], lam * g[0], 0, 2 / math.sqrt(tau), 0])
    to_lambda = -psi / slope
    to_log_a = g[1] / g[0] * to_lambda - (psi_slope + curvature * to_lambda) / slope
    to_log_a[0] += 1 / g[0]
    to_log_a[6] -= 1.0
    covariance = np.zeros((6, 6))
    N = d / gamma
    for start, size, values in ((0, d, g), (2, N, h)):
        i1, i2, i3, i4 = values * [1, -1, 1 / 2, -1 / 6]  # I_j from the derivatives
        covariance[start, start] = 2 / size * (i2 - i1**2)
        covariance[start, start + 1] = covariance[start + 1, start] = -2 / size * (i3 - i1 * i2)
        covariance[start + 1, start + 1] = 2 / size * (i4 - i2**2)
    i1, i2, i3, i4 = g * [1, -1, 1 / 2, -1 / 6]
    covariance[4, 4] = (lam * i2 - i1) / N
    covariance[4, 5] = covariance[5, 4] = -(lam * i3 - i2) / N
    covariance[5, 5] = (lam * i4 - i3) / N
    A = -g[0] / (tau * slope)
    return _Linearised(
        float(to_lambda[:6] @ covariance @ to_lambda[:6]),
        float(A**2 * (to_log_a[:6] @ covariance @ to_log_a[:6])),
        float(to_lambda[6]),
        float(A * to_log_a[6]),
    )


def eigenvalue_std(
    excess: float, delta: float, gamma: float, kappa: float, d: int, *, strength_std: float = 0.0
) -> float:
    """Standard deviation of the outlier eigenvalue ``lambda(excess)`` over draws.

    Parameters
    ----------
    excess, delta, gamma, kappa : float
        As in :mod:`spikepool.theory.spikes`; `excess` above its threshold.
    d : int
        Dimension; N = d/gamma and V = d/delta follow.
    strength_std : float
        Relative standard deviation of the spike's strength theta (0: only the directions are random).
    """
    kappa = check.positive(kappa, "kappa")
    strength_std = check.non_negative(strength_std, "strength_std")
    part = _linearise(excess, delta, gamma, d)
    return kappa * math.sqrt(part.eigenvalue_variance + (part.eigenvalue_response * strength_std) ** 2)


def spike_alignment_std(excess: float, delta: float, gamma: float, d: int, *, strength_std: float = 0.0) -> float:
    """Standard deviation over draws of the alignment A(excess) with the spike's own direction h/‖h‖.

    Parameters as in :func:`eigenvalue_std`; the noise gain kappa plays no part.
    """
    strength_std = check.non_negative(strength_std, "strength_std")
    part = _linearise(excess, delta, gamma, d)
    return math.sqrt(part.alignment_variance + (part.alignment_response * strength_std) ** 2)


def latent_kurtosis(R: ArrayLike, w: ArrayLike) -> float:
    """E[(w'xi)⁴]/E[(w'xi)²]² for signs of correlation `R`.

    Exact when R is made of blocks (``3 − 2 sum W_b⁴/(sum W_b²)²`` with W_b the weight of block b); otherwise from
    100,000 draws of :func:`spikepool.sign_sampler`, with a relative error of about half a percent.
    """
    R = check.symmetric_psd(R, "R")
    w = check.weight_vector(w, len(R))
    blocks = sign_blocks(R)
    if blocks is not None:
        squares = blocks.totals(w) ** 2
        total = float(squares.sum())
        if total == 0:
            raise DomainError("w'xi is identically zero: the weights cancel the signal", w, "Use other weights")
        return 3.0 - 2.0 * float(squares @ squares) / total**2
    from spikepool.world.signs import sign_sampler

    a = sign_sampler(R)(_MOMENT_DRAWS, rng=0) @ w
    second = float(np.mean(a**2))
    if second == 0:
        raise DomainError("w'xi is identically zero: the weights cancel the signal", w, "Use other weights")
    return float(np.mean(a**4)) / second**2


def fluctuations(model: SequenceWorld, w: ArrayLike) -> Fluctuations:
    """Standard deviations of the signal's outlier and of its alignment with the true u, over draws of the world.

    The eigenvector is ``c û + s n`` with n uniform in the complement of û, and ``u'û = (mu + u'zeta)/‖h‖``; so to the
    scatter of A are added that of the angle between u and h (correlated with the strength) and of n'u.

    Parameters
    ----------
    model : SequenceWorld
        With isotropic noise and uniform token frequencies.
    w : array_like of shape (T,)
        Pooling weights.

    Notes
    -----
    ``2(1 − alignment)²/d²`` is added to the alignment's variance: that of the squared coordinate of a random direction,
    which is all there is when mu = 0.
    """
    if model.covariance is not None or model.frequencies is not None or model.token_weights is not None:
        raise InvalidInputError(
            "fluctuations are known for isotropic noise, uniform token frequencies and no token weights only",
            remedy="Drop covariance, frequencies and token_weights, or estimate the scatter with model.simulate",
        )
    alpha, kappa = model.gains(w)
    d, V, N, mu, delta, gamma = model.d, model.V, model.N, model.mu, model.delta, model.gamma
    sampled = model.latent == "signs" and model.table == "sampled"
    zeta2 = delta if sampled else 0.0
    norm2 = mu**2 + zeta2  # limit of ‖h‖²
    excess = alpha * norm2 / kappa - delta
    if alpha * norm2 == 0 or excess <= float(spikes.critical_excess(delta, gamma)):
        return Fluctuations(False, None, None, None, None, 0.0)
    kurtosis = 3.0 if model.latent == "gaussian" else latent_kurtosis(model.R, w)
    latent_variance = max(kurtosis - 1.0, 0.0) / N  # relative variance of ‖a‖²/N
    # independent inputs of the sampled table: u'zeta of variance 1/V, ‖zeta‖² of variance 2 delta/V
    table_variances = np.array([1 / V, 2 * delta / V]) if sampled else np.zeros(2)
    strength_response = np.array([2 * mu, 1.0]) / norm2  # of log ‖h‖²
    cosine2 = mu**2 / norm2
    cosine_response = np.array([2 * mu / norm2, 0.0]) - cosine2 * strength_response
    part = _linearise(excess, delta, gamma, d)
    A = float(spikes.total_alignment(excess, delta, gamma))
    strength_variance = latent_variance + float(table_variances @ strength_response**2)
    eigenvalue_variance = part.eigenvalue_variance + part.eigenvalue_response**2 * strength_variance
    table_response = cosine2 * part.alignment_response * strength_response + A * cosine_response
    alignment_variance = (
        cosine2**2 * (part.alignment_variance + part.alignment_response**2 * latent_variance)
        + float(table_variances @ table_response**2)
        + 4 * A * (1 - A) * cosine2 * (1 - cosine2) / d
        + 2 * (1 - A * cosine2) ** 2 / d**2
    )
    return Fluctuations(
        True,
        float(spikes.sample_outlier(excess, delta, gamma, kappa)),
        A * cosine2,
        kappa * math.sqrt(eigenvalue_variance),
        math.sqrt(alignment_variance),
        math.sqrt(strength_variance),
        validity_of(
            too_high(few_tokens(kappa, mu, 0.0)),
            near_threshold(excess, float(spikes.critical_excess(delta, gamma)), d, NEAR_FLUCTUATIONS),
            neighbours(predict_gains(model, alpha, kappa).outliers, d, N),
            small_sizes(d=d, V=V, N=N),
        ),
    )
