"""The closed form: bulk, outliers, alignments and thresholds as rational functions of one variable.

The only home of the alignment of the top eigenvector and of the thresholds of a two-class model, for one model and over
arrays of settings; the formulas of a single spike are in :mod:`spikepool.theory.spikes`, token frequencies and token
weights in :mod:`spikepool.theory.token_weights`.

Given the noise Z, the covariance of a pooled column is exactly

    kappa·Z P Z'/V + alpha (mu u + zeta)(mu u + zeta)' + zbar zbar',    zeta = Zs/V, zbar = Z1/V,

with P the projection off the class means, and zeta, zbar of squared norm delta. So the signal's spike has strength
alpha(mu² + delta), its eigenvector aligns with u up to the factor mu²/(mu² + delta), and without centring there is a
second spike of strength delta along zbar. Holds for d, V, N → ∞ and spread-out weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import DomainError, InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.laws.free_product import FreeProductLaw
from spikepool.theory import spikes
from spikepool.theory.finite_size import beside, closed_blur, closed_threshold, gain_strengths, of_top, over_gains
from spikepool.theory.mixing import mixing, neighbours
from spikepool.theory.prediction import Outlier, Prediction, Sizes
from spikepool.theory.token_weights import predict_spread
from spikepool.theory.validity import Draws, few_tokens, mean_of_draws, no_signal, small_sizes, validity_of
from spikepool.world.sequences import TABLES, SequenceWorld


class PredictedArrays(NamedTuple):
    """Predictions over a broadcast shape; the names are those of :class:`spikepool.Prediction`.

    `signal_eigenvalue` and `signal_alignment` are those of the signal's outlier, NaN where there is none; `alignment`
    is that of the top eigenvector, 0 where the top is the bulk or the vocabulary mean. `mu_leading` is the strength
    from which on the top eigenvector is the signal's, `table_alignment` what the top eigenvector of the table itself
    reaches.
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
    table_alignment: FloatArray


def _closed(
    mu: ArrayLike,
    alpha: ArrayLike,
    kappa: ArrayLike,
    delta: ArrayLike,
    gamma: ArrayLike,
    *,
    class_means: bool,
    vocabulary_mean: bool,
) -> PredictedArrays:
    """The core: every number over arrays that broadcast.

    `class_means`: the table's own class means are part of the signal's spike. `vocabulary_mean`: zbar is a spike.
    """
    m, a, k, d, g = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (mu, alpha, kappa, delta, gamma)))
    nothing = np.zeros_like(d)
    zeta, zbar = d if class_means else nothing, d if vocabulary_mean else nothing
    power = m**2 + zeta
    theta = a * power
    star = np.asarray(spikes.critical_excess(d, g))
    edge = np.asarray(spikes.sample_outlier(star, d, g, k))

    def outlier(strength: FloatArray) -> FloatArray:
        x = strength / k - d
        beyond = x > star
        return np.where(beyond, spikes.sample_outlier(np.where(beyond, x, 1.0), d, g, k), np.nan)

    def threshold(ratio: Any) -> FloatArray:
        return np.asarray(np.sqrt(np.maximum(k * ratio / a - zeta, 0.0)))

    signal, vocabulary = outlier(theta), outlier(zbar)
    with np.errstate(divide="ignore", invalid="ignore"):
        purity = np.where(power > 0, m**2 / power, 0.0)
        aligned = purity * np.asarray(spikes.alignment_beyond(theta / k - d, star, d, g))
        sample = threshold(d + star)
        population = threshold(spikes.population_threshold(d))
        overtaking = np.where(zbar > 0, np.sqrt(np.maximum(zbar / a - zeta, 0.0)), 0.0)
    detectable = np.isfinite(signal)
    return PredictedArrays(
        # outliers are in the order of their spikes
        alignment=np.where(detectable & (theta >= zbar), aligned, 0.0),
        eigenvalue=np.fmax(np.fmax(signal, vocabulary), edge),
        edge=edge,
        detectable=detectable & (m > 0),
        signal_eigenvalue=signal,
        signal_alignment=np.where(detectable, aligned, np.nan),
        mu_population=population,
        mu_sample=sample,
        mu_leading=np.maximum(sample, overtaking),
        table_alignment=purity * np.asarray(spikes.population_alignment(power - d, d)),
    )


def predict_arrays(
    *,
    mu: ArrayLike,
    alpha: ArrayLike,
    kappa: ArrayLike,
    delta: ArrayLike,
    gamma: ArrayLike,
    centered: bool = True,
    table: str = "sampled",
) -> PredictedArrays:
    """Alignment, outlier, edge and thresholds over arrays that broadcast against each other.

    1e5 settings take about a tenth of a second. All arguments are given by name.

    Parameters
    ----------
    mu : array_like
        Norm of the signal, at least 0.
    alpha, kappa : array_like
        Signal gain w'Rw and noise gain ‖w‖². Where S is centred only their ratio decides about alignments and
        thresholds, so that ``alpha=ratio, kappa=1.0`` serves; eigenvalues are then in units of kappa.
    delta, gamma : array_like
        Aspect ratios d/V and d/N.
    centered : bool
        Whether the sample mean is subtracted. Without, the vocabulary mean is a spike of strength delta, and `alpha`
        itself decides which outlier is the larger (for weights of unit sum).
    table : {"sampled", "class_centered"}
        As in :class:`spikepool.SequenceModel`.
    """
    check.flag(centered, "centered")
    sampled = check.choice(table, "table", TABLES) == "sampled"
    named = {"mu": mu, "alpha": alpha, "kappa": kappa, "delta": delta, "gamma": gamma}
    arrays = {name: check.finite_array(value, name) for name, value in named.items()}
    for name, value in arrays.items():
        if value.min() < 0 or (name == "kappa" and value.min() == 0):
            raise DomainError(
                f"{name} must be {'above' if name == 'kappa' else 'at least'} 0", float(value.min()), "Check it"
            )
    return _closed(**arrays, class_means=sampled, vocabulary_mean=sampled and not centered)


class Positions(NamedTuple):
    """What the range of the closed form takes from position weights besides their gains.

    Attributes
    ----------
    concentration : float
        Share sum w⁴/kappa² of the noise gain in single positions: one over their number for equal weights.
    gain_variance : float
        Var(a²)/E[a²]² of the pooled sign a = w'xi of a sequence.
    lean : float
        sum over s != t of w_t³ w_s R_ts, over kappa²: how far the positions that carry the noise gain share their sign.
    """

    concentration: float
    gain_variance: float
    lean: float

    @classmethod
    def of(cls, w: FloatArray, R: FloatArray) -> Positions:
        """Those of weights `w` and signs of correlation `R`.

        The variance is ``2(1 − v'Rv/alpha²)`` with v = w ∘ Rw: that of :func:`fluctuations.latent_kurtosis` where R is
        made of blocks, without draws where it is not.
        """
        alpha, v = float(w @ R @ w), w * (R @ w)
        variance = max(0.0, 2 * (1 - float(v @ R @ v) / alpha**2)) if alpha > 0 else 0.0
        concentration = float(np.sum(w**4) / (w @ w) ** 2)
        own = float(w**4 @ np.diag(R) / (w @ w) ** 2)
        return cls(concentration, variance, float(w**3 @ R @ w / (w @ w) ** 2) - own)

    @classmethod
    def of_gains(cls, alpha: float, kappa: float) -> Positions:
        """Those of equal weights, alpha − kappa of whose gain is that of one sign."""
        shared = max(0.0, 1 - kappa / alpha) if alpha > 0 else 1.0
        return cls(kappa, 2 * (1 - shared**2), alpha - kappa)


def predict_gains(world: SequenceWorld, alpha: float, kappa: float, positions: Positions | None = None) -> Prediction:
    """Bulk and outliers of S for weights with signal gain `alpha` and noise gain `kappa`; see the module's formulas.

    `positions` matter to the validity alone; when not given they are those of equal weights.
    """
    alpha, kappa = check.non_negative(alpha, "alpha"), check.positive(kappa, "kappa")
    require_isotropic(world)
    if world.frequencies is not None or world.token_weights is not None:
        places = Positions.of_gains(alpha, kappa) if positions is None else positions
        return predict_spread(world, alpha, kappa, *places)
    return predict_strengths(world, alpha, kappa, (world.mu,), positions)[0]


def predict_strengths(
    world: SequenceWorld, alpha: float, kappa: float, mus: Sequence[float], positions: Positions | None = None
) -> list[Prediction]:
    """The predictions of :func:`predict_gains` at several signal strengths, for little more than the price of one.

    The model's own mu plays no part. For uniform token frequencies, equal token weights and isotropic noise.
    """
    d, V, N = world.d, world.V, world.N
    places = Positions.of_gains(alpha, kappa) if positions is None else positions
    scatter = places.gain_variance / N
    # the strengths asked for, and those at which their draws scatter, in one pass
    beside_mus = [at for mu in mus for at in gain_strengths(mu, world.class_mean_power, scatter)]
    strengths = [*map(float, mus), *beside_mus]
    closed = _world_closed(world, alpha, kappa, mu=np.array(strengths))
    limits = dict(zip(strengths, closed.alignment.tolist(), strict=True))
    outliers_at = dict(zip(strengths, closed.signal_eigenvalue.tolist(), strict=True))
    critical = float(spikes.critical_excess(world.delta, world.gamma))
    vocabulary = _outlier(world, "mean", world.mean_strength, kappa, 0.0, critical)
    bulk = FreeProductLaw(world.delta, world.gamma, kappa)
    edge, mu_sample, mu_population = (
        float(values.flat[0]) for values in (closed.edge, closed.mu_sample, closed.mu_population)
    )
    sizes, small = Sizes(d, V, N, world.centered), small_sizes(d=d, V=V, N=N)
    gain, zeta = alpha / kappa, world.class_mean_power
    crossing = closed_threshold(gain, world.delta, world.gamma, critical, zeta)
    blur = closed_blur(world.delta, world.gamma, critical)

    def draws(at: float, factor: float) -> Draws:
        """Draws at strength `at`, for `factor` times the alignment there."""
        limit = min(1.0, factor * limits[at])
        return of_top(crossing, limit, at, d, lambda: (outliers_at[at] - edge) / (kappa * blur))

    predictions = []
    for j, mu in enumerate(mus):
        power = mu**2 + world.class_mean_power
        theta = alpha * power
        purity = mu**2 / power if power > 0 else 0.0
        signal = _outlier(world, "signal" if mu > 0 else "classes", theta, kappa, purity, critical)
        found = (o for o in (signal, vocabulary) if o is not None)
        outliers = tuple(sorted(found, key=lambda outlier: outlier.eigenvalue, reverse=True))
        leads = not outliers or outliers[0].kind == "signal"
        alignment = float(closed.alignment[j])
        finite = None
        if leads and mu > 0:
            finite = over_gains(draws, mu, zeta, scatter)
        if outliers and outliers[0].kind == "mean":
            left = world.mean_strength / kappa - zeta * gain
            finite = beside(gain / left, mu, d) if left > 0 else None
        x = theta / kappa - world.delta
        few = places.concentration > 0.1 and x > critical
        slope = purity * float(spikes.alignment_slope(x, world.delta, world.gamma)) * theta / kappa if few else 0.0
        predictions.append(
            Prediction(
                alpha=alpha,
                kappa=kappa,
                bulk=bulk,
                edge=edge,
                outliers=outliers,
                alignment=alignment,
                detectable=bool(closed.detectable[j]),
                mu_population=mu_population,
                mu_sample=mu_sample,
                validity=validity_of(
                    no_signal(mu, outliers),
                    mean_of_draws(
                        alignment,
                        finite,
                        d,
                        few_tokens(kappa, mu, mu_sample, slope, places.concentration),
                        mixing(outliers, d, N, edge),
                    ),
                    neighbours(outliers, d, N, edge, top=False),
                    small,
                ),
                sizes=sizes,
                table_alignment=None if world.latent == "gaussian" else float(closed.table_alignment[j]),
                finite_size_alignment=None if finite is None else finite.mean,
            )
        )
    return predictions


def _world_closed(world: SequenceWorld, alpha: float, kappa: float, **changes: ArrayLike | None) -> PredictedArrays:
    """The core at a model, some of mu, delta and gamma replaced by arrays."""
    given: dict[str, ArrayLike] = {"mu": world.mu, "delta": world.delta, "gamma": world.gamma}
    given |= {name: value for name, value in changes.items() if value is not None}
    return _closed(
        alpha=alpha,
        kappa=kappa,
        class_means=world.class_mean_power > 0,
        vocabulary_mean=world.mean_strength > 0,
        **given,
    )


def require_isotropic(world: SequenceWorld) -> None:
    """Raise where no closed form holds: a noise covariance."""
    if world.covariance is not None:
        raise InvalidInputError(
            "the closed form holds for isotropic noise", remedy="Use predict(w, exact=True), which takes a covariance"
        )


def is_plain(world: SequenceWorld) -> bool:
    """Whether the rational closed form holds: no token frequencies, token weights or noise covariance."""
    return world.frequencies is None and world.token_weights is None and world.covariance is None


def require_plain(world: SequenceWorld) -> None:
    """Raise where the rational closed form does not hold."""
    if not is_plain(world):
        raise InvalidInputError(
            "the rational closed form holds for uniform token frequencies, equal token weights and isotropic noise",
            remedy="Use predict(w), or predict(w, exact=True) for a covariance",
        )


def _outlier(
    world: SequenceWorld,
    kind: Literal["signal", "classes", "mean"],
    theta: float,
    kappa: float,
    purity: float,
    critical: float,
) -> Outlier | None:
    """The outlier of a spike of strength `theta`, or None where its excess is at most `critical`."""
    delta, gamma = world.delta, world.gamma
    x = theta / kappa - delta
    if x <= critical:
        return None
    return Outlier(
        kind=kind,
        eigenvalue=float(spikes.sample_outlier(x, delta, gamma, kappa)),
        alignment=purity * float(spikes.alignment_beyond(x, critical, delta, gamma)),
        population_eigenvalue=float(spikes.population_outlier(x, delta, kappa)),
        population_alignment=purity * float(spikes.population_alignment(x, delta)),
    )


def signal_threshold(ratio: ArrayLike, delta: ArrayLike, gamma: ArrayLike, *, class_means: bool) -> FloatArray:
    """Mu at which the signal's outlier appears in S, over arrays of ``ratio = alpha/kappa``, delta and gamma.

    ``sqrt(max(0, (delta + x_star)/ratio − delta))`` with `class_means` (a sampled table and ±1 latents), without the
    last term otherwise; infinite where the weights cancel the signal.
    """
    return _closed(0.0, ratio, 1.0, delta, gamma, class_means=class_means, vocabulary_mean=False).mu_sample


def centred_alignment(
    mu: ArrayLike, ratio: ArrayLike, delta: ArrayLike, gamma: ArrayLike, *, class_means: bool
) -> FloatArray:
    """Alignment of the top eigenvector of a centred S over arrays of mu, ``ratio = alpha/kappa``, delta and gamma.

    ``A(x) mu²/(mu² + delta)`` with `class_means` (a sampled table and ±1 latents: the spike has strength
    ``alpha (mu² + delta)`` and points along mu plus the table's own class mean); ``A(x)`` without.
    """
    return _closed(mu, ratio, 1.0, delta, gamma, class_means=class_means, vocabulary_mean=False).alignment


def table_alignment(mu: ArrayLike, delta: ArrayLike, *, class_means: bool = True) -> FloatArray:
    """Alignment of the top eigenvector of the table itself, E E'/V, with u: pooling has to do better than this.

    The closed form at alpha/kappa = 1 and gamma = 0: ``(1 − delta/mu⁴) mu²/(mu² + delta)`` for a sampled table, 0
    where mu⁴ <= delta. Pooling helps where A(x) exceeds the first factor.
    """
    return _closed(mu, 1.0, 1.0, delta, 0.0, class_means=class_means, vocabulary_mean=False).table_alignment


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

    Zero where the mean of the vocabulary's noise, present when the features are not centred, is the stronger of the two
    spikes. What is not given is the model's own.
    """
    return _world_closed(world, alpha, kappa, mu=mu, delta=delta, gamma=gamma).alignment
