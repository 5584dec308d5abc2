"""Data-dependent attention at the scaling tau/sqrt(d) (open problem iii of the paper).

The scores tau <x_t, x_s>/sqrt(d) of distinct tokens tend to independent
N(0, tau²) variables, one for each pair s < t, independent of the signs: the signal adds mu² tau/sqrt(d), which
:func:`predict_attention` takes into account. The weights w = A'1/T of a sequence stay random, and S depends on them
through

    kappa_n = ‖w_n‖²,    alpha_n = w_n'R w_n,

one pair per sequence. The population knows their means kappa and alpha. The bulk and the outlier of the sample also
know the spread of kappa_n over sequences, which does not vanish with d (one softmax row over six tokens at tau = 2:
alignment .54 with it, .59 without; see :func:`spikepool.theory.varying_gains.predict_varying`).

That w depends on the noise of its own tokens adds terms like
``E[d(w_t w_s)/d score_ts] (ZZ'/V)²/sqrt(d)`` to the covariance, of norm O(d^{−1/2}): nothing is left in the limit, but
the bias at finite d is visible (d = 800, delta = .625, T = 10, tau = 4: eigenvalue +3 %, alignment −.01).

Row t holds the softmax of k = t − 1 exchangeable scores. With Q_k = E‖softmax‖² and e_k = Q_k/k − 1/k²,
exchangeability and the unit sum of a row fix every second moment of it, so that with w0 the score-free causal weights

    kappa = ‖w0‖² + T⁻² sum_k k e_k,
    alpha = w0'R w0 + T⁻² sum_k e_k (tr R_k − (1'R_k 1 − tr R_k)/(k − 1)),    R_k the leading k x k block,

and, with X = exp(tau g) and ``1/S² = ∫ s exp(−sS) ds``, Q_k is a single integral

    Q_k = k ∫ s E[X² exp(−sX)] (E exp(−sX))^{k−1} ds.

Both integrals are done by the trapezoidal rule in log s and g, which converges exponentially here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from spikepool.errors import DomainError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.results import Result, Table
from spikepool.theory.closed_form import require_plain
from spikepool.theory.prediction import Prediction
from spikepool.theory.varying_gains import predict_varying
from spikepool.world.attention import score_exponent
from spikepool.world.correlation import average_correlation
from spikepool.world.sequences import SequenceWorld, checked_model
from spikepool.world.tokens import latent_sampler
from spikepool.world.weights import causal_weights

METHODS = ("quadrature", "monte_carlo")

# Steps of the trapezoidal rule. All integrands are analytic in a strip of half-width pi/2 in log s and tau·g, so a
# step h leaves an error of about exp(−pi²/h): below 1e-17.
_LOG_S_STEP = 0.22
_SCORE_STEP = 0.22
_NORMAL_RANGE = 9.5
# The grids grow with tau; scores of such a spread already pick one token (Q_2 = .989 at tau = 50).
_LARGEST_TAU = 50.0
# exp(−e^30) is zero: larger exponents would only overflow.
_LARGEST_EXPONENT = 30.0
_CHUNK = 1 << 21
# Groups of sequences by kappa_n that stand for the law of the gains; at 50 and 200 alignments agree to 1e-4.
_QUANTILES = 64
# Score entries drawn in all by default when sampling: about ten seconds of work.
_SAMPLED_ENTRIES = 100_000_000


@dataclass(frozen=True)
class AttentionGains(Result, schema="gains"):
    """Signal and noise gain of data-dependent attention.

    Attributes
    ----------
    alpha, kappa : float
        E[w'Rw] and E‖w‖².
    alpha_error, kappa_error : float
        Quadrature: difference to the rule with steps twice as long, an upper estimate. Monte Carlo: standard error.
    method : {"quadrature", "monte_carlo"}
        How the means were found.
    quantiles : numpy.ndarray of shape (m, 2)
        Pairs (alpha_n, kappa_n) of equal mass, by increasing kappa_n: the law of the gains over sequences, from draws.
        Its means are `alpha` and `kappa`.
    """

    alpha: float
    kappa: float
    alpha_error: float
    kappa_error: float
    method: str
    quantiles: FloatArray = field(repr=False, compare=False)

    @property
    def kappa_spread(self) -> float:
        """Standard deviation of kappa_n over sequences, relative to its mean."""
        return float(self.quantiles[:, 1].std() / self.kappa)

    def _tables(self) -> list[Table]:
        rows = [("alpha", self.alpha, self.alpha_error), ("kappa", self.kappa, self.kappa_error)]
        return [(f"Gains of attention by {self.method.replace('_', ' ')}", ("", "value", "error"), rows)]

    def plot(self, ax: Any = None) -> Any:
        """Both gains with twice their error; returns the axes."""
        from spikepool.drawing.predictions import draw_gains

        return draw_gains((self.alpha, self.kappa), (self.alpha_error, self.kappa_error), ax)


def softmax_square(tau: float, k: ArrayLike) -> Any:
    """Q_k = E‖softmax(tau g_1, ..., tau g_k)‖² for independent standard normal g; 1/k at tau = 0, 1 at k = 1.

    Parameters
    ----------
    tau : float
        Standard deviation of the scores, |tau| <= 50.
    k : int or array_like of int
        Number of scores.
    """
    tau = abs(check.finite_number(tau, "tau"))
    counts = np.asarray(k)
    if counts.dtype.kind not in "iu" or counts.size == 0 or counts.min() < 1:
        raise DomainError("k must be positive integers", k, "Pass counts of at least 1")
    return _softmax_square(tau, counts.ravel(), 1.0).reshape(counts.shape)[()]


def _softmax_square(tau: float, counts: NDArray[Any], coarsening: float) -> FloatArray:
    """Q_k by the double trapezoidal rule with steps multiplied by `coarsening`."""
    if tau > _LARGEST_TAU:
        raise DomainError(f"tau must be at most {_LARGEST_TAU:g}", tau, "Beyond it attention picks one token")
    if tau == 0:
        return np.asarray(1.0 / counts)
    step_g = coarsening * _SCORE_STEP / max(tau, 1.0)
    g = np.arange(-_NORMAL_RANGE, _NORMAL_RANGE + step_g, step_g)
    density = np.exp(-(g**2) / 2) * step_g / np.sqrt(2 * np.pi)
    step_s = coarsening * _LOG_S_STEP
    reach = _NORMAL_RANGE * tau
    log_s = np.arange(-reach - 20.0, reach + 4.5, step_s)
    square = np.empty(len(log_s))  # s² E[X² exp(−sX)]
    log_laplace = np.empty(len(log_s))  # log E exp(−sX)
    rows = max(1, _CHUNK // len(g))
    for start in range(0, len(log_s), rows):
        part = slice(start, start + rows)
        sx = np.exp(np.minimum(log_s[part, None] + tau * g, _LARGEST_EXPONENT))
        decay = np.exp(-sx)
        square[part] = (sx**2 * decay) @ density
        laplace = decay @ density
        # near s = 0 the power k − 1 needs 1 − E exp(−sX) to relative precision
        near_one = laplace >= 0.5
        with np.errstate(divide="ignore"):  # log 0 = −inf is meant
            log_laplace[part] = np.log(laplace)
        log_laplace[part][near_one] = np.log1p(np.expm1(-sx[near_one]) @ density)
    values = np.empty(len(counts))
    rows = max(1, _CHUNK // len(log_s))
    log_laplace = np.maximum(log_laplace, -1e300)  # so that a power of zero, k = 1, stays one
    for start in range(0, len(counts), rows):
        k = counts[start : start + rows]
        power = np.maximum((k[:, None] - 1.0) * log_laplace, -800.0)  # exp(−800) is zero
        values[start : start + rows] = k * (np.exp(power) @ square) * step_s
    return values


def attention_gains(
    R: ArrayLike, tau: float, *, method: str = "quadrature", draws: int | None = None, rng: Any = None
) -> AttentionGains:
    """Alpha and kappa of causal self-attention with tau/sqrt(d) score scaling, in the limit of large d.

    Parameters
    ----------
    R : array_like of shape (T, T) or (n, T, T)
        Positional correlation, or one for each sequence (only their average enters).
    tau : float
        Inverse temperature; ``tau = 0`` gives :func:`spikepool.causal_weights`.
    method : {"quadrature", "monte_carlo"}
        The quadrature is deterministic and serves any T, checking R being the longest part of it; Monte Carlo draws
        independent normal scores and runs the softmax.
    draws : int, optional
        Sequences drawn by Monte Carlo; by default as many as ten seconds allow, at most 100,000.
    rng : optional
        Seed of Monte Carlo.

    See Also
    --------
    predict_attention : the spectrum that follows.
    """
    R = average_correlation(R)
    tau = abs(check.finite_number(tau, "tau"))
    if check.choice(method, "method", METHODS) == "monte_carlo":
        return _sampled_gains(R, tau, draws, rng)
    T = len(R)
    w = causal_weights(T)
    base = float(w @ R @ w), float(w @ w)
    k = np.arange(2, T)
    if len(k) == 0 or tau == 0:
        return AttentionGains(*base, 0.0, 0.0, method, np.array([base]))
    trace = np.cumsum(np.diag(R))[1 : T - 1]
    block = np.diag(np.cumsum(np.cumsum(R, axis=0), axis=1))[1 : T - 1]

    def additions(coarsening: float) -> FloatArray:
        excess = _softmax_square(tau, k, coarsening) / k - 1 / k**2
        return np.array([excess @ (trace - (block - trace) / (k - 1)), excess @ k]) / T**2

    fine = additions(1.0)
    error = np.abs(fine - additions(2.0))
    alpha, kappa = (float(value) for value in base + fine)
    quantiles = gain_quantiles(_drawn_gains(R, tau, _spread_draws(T), check.generator(0)), (alpha, kappa))
    return AttentionGains(alpha, kappa, float(error[0]), float(error[1]), method, quantiles)


def _spread_draws(T: int) -> int:
    """Sequences behind the law of the gains: about a tenth of a second of work."""
    return int(min(4000, max(200, _SAMPLED_ENTRIES // 50 // T**2)))


def gain_quantiles(values: FloatArray, means: tuple[float, float]) -> FloatArray:
    """Means (m, 2) of pairs (alpha_n, kappa_n) over groups of equal size by kappa_n, scaled to the given means."""
    order = np.argsort(values[:, 1], kind="stable")
    groups = np.array_split(values[order], min(_QUANTILES, len(values)))
    quantiles = np.array([group.mean(axis=0) for group in groups])
    quantiles[:, 0] = np.maximum(quantiles[:, 0], 0.0)
    scale = quantiles.mean(axis=0)
    return np.asarray(quantiles * np.where(scale > 0, np.asarray(means) / np.where(scale > 0, scale, 1.0), 1.0))


def _sampled_gains(R: FloatArray, tau: float, draws: int | None, rng: Any) -> AttentionGains:
    """Means of w'Rw and w'w over sequences of independent normal scores."""
    T = len(R)
    if draws is None:
        draws = int(min(100_000, max(100, _SAMPLED_ENTRIES // T**2)))
    draws = check.size(draws, "draws", minimum=2)
    values = _drawn_gains(R, tau, draws, check.generator(rng))
    alpha, kappa = values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(draws)
    quantiles = gain_quantiles(values, (float(alpha), float(kappa)))
    return AttentionGains(float(alpha), float(kappa), float(error[0]), float(error[1]), "monte_carlo", quantiles)


def _drawn_gains(R: FloatArray, tau: float, draws: int, generator: np.random.Generator) -> FloatArray:
    """Pairs (w'Rw, w'w) of sequences of independent normal scores."""
    T = len(R)
    values = np.empty((draws, 2))
    rows = max(1, _CHUNK // T)
    for start in range(0, draws, rows):
        n = min(rows, draws - start)
        w = np.zeros((n, T))
        w[:, 0] = 1.0
        for t in range(1, T):
            scores = tau * generator.standard_normal((n, t))
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            w[:, :t] += scores / scores.sum(axis=1, keepdims=True)
        w /= T
        values[start : start + n] = np.stack([np.einsum("nt,nt->n", w @ R, w), np.einsum("nt,nt->n", w, w)], axis=1)
    return values


def predict_attention(
    model: SequenceWorld, tau: float, *, scaling: str | float = "sqrt_d", draws: int | None = None, rng: Any = 0
) -> Prediction:
    """What :meth:`SequenceModel.predict` says of weights, for data-dependent causal attention.

    The score of tokens s < t is ``tau (e_t e_s + sqrt(d) g_ts)/d^c`` with e_t = mu xi_t + h_t the embedding along u,
    h_t and g_ts standard normal, and c the exponent of the scaling. A strong signal or a small d therefore changes the
    weights, and their dependence on h_t changes the signal:

        kappa = E‖w‖²,    alpha = E[a² + 2 a (w'h)/mu],    a = w'xi.

    For mu² tau/d^c → 0 these are :func:`attention_gains`; the difference from them is averaged over draws with the
    same g for both, so that it vanishes smoothly.

    Parameters
    ----------
    model : SequenceModel
        With isotropic noise and uniform token frequencies.
    tau : float
        Inverse temperature.
    scaling : {"sqrt_d", "d"} or float
        Power of d that divides the scores: 1/2, 1, or any exponent in between.
    draws : int, optional
        Sequences drawn for the difference; by default as many as a second allows, at most 20,000.
    rng : optional
        Seed of these draws.
    """
    model = checked_model(model)
    require_plain(model)
    exponent = score_exponent(scaling)
    tau = check.finite_number(tau, "tau")
    spread = abs(tau) * model.d ** (0.5 - exponent)
    gains = attention_gains(model.R, spread)
    quantiles = gains.quantiles
    if model.mu > 0 and tau != 0:
        pairs, added = _signal_terms(model, tau / model.d**exponent, draws, rng)
        quantiles = gain_quantiles(pairs, (max(0.0, gains.alpha + added[0]), gains.kappa + added[1]))
    return predict_varying(model, quantiles[:, 0], quantiles[:, 1])


def _signal_terms(model: SequenceWorld, factor: float, draws: int | None, rng: Any) -> tuple[FloatArray, FloatArray]:
    """Pairs (alpha_n, kappa_n) of draws, and what the components of the embeddings along u add to their means."""
    T, d, mu = model.T, model.d, model.mu
    if draws is None:
        draws = int(min(20_000, max(200, _SAMPLED_ENTRIES // 10 // T**2)))
    draws = check.size(draws, "draws", minimum=2)
    generator = check.generator(rng)
    latents = latent_sampler(model)
    total, pairs = np.zeros(2), np.empty((draws, 2))
    rows = max(1, _CHUNK // T)
    for start in range(0, draws, rows):
        n = min(rows, draws - start)
        xi = np.asarray(latents(generator, n), dtype=np.float64)
        h = generator.standard_normal((n, T))
        e = mu * xi + h
        with_signal, without = np.zeros((n, T)), np.zeros((n, T))
        with_signal[:, 0] = without[:, 0] = 1.0
        for t in range(1, T):
            noise = np.sqrt(d) * generator.standard_normal((n, t))
            without[:, :t] += softmax(factor * noise, axis=1)
            with_signal[:, :t] += softmax(factor * (e[:, t : t + 1] * e[:, :t] + noise), axis=1)
        w, w0 = with_signal / T, without / T
        a = np.einsum("nt,nt->n", w, xi)
        signal = a**2 + 2 * a * np.einsum("nt,nt->n", w, h) / mu
        pairs[start : start + n] = np.column_stack([signal, np.sum(w**2, axis=1)])
        total[0] += float(np.sum(signal - np.einsum("nt,nt->n", w0, xi) ** 2))
        total[1] += float(np.sum(w**2) - np.sum(w0**2))
    return pairs, total / draws
