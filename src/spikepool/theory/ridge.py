"""Test accuracy of ridge classification of pooled sequences, in closed form (open problem vi of the paper).

The classifier is ``beta = (C C' + ridge·n I)⁻¹ C y`` on n training sequences; a test sequence is classified by the sign
of beta'c. Write a = w'xi for its pooled latent, p = E[y a], c = d/n, ``h = mu u + zeta`` for the sampled signal, of
squared norm mu² + delta, and S̄ = kappa·MP_delta for the law of the pooled noise. With m~ the root of

    m~ (ridge + c ∫ s/(1 + m~ s) dS̄) = 1

and q = m~ (mu² + delta) ∫ dS̄/(1 + m~ s), chi = c ∫ (m~ s/(1 + m~ s))² dS̄, J = ∫ s/(1 + m~ s)² dS̄, the score is
asymptotically ``a·mean + sqrt(var)·g`` with g standard normal and

    mean = beta'h      = p q/(1 + alpha q)
    var  = beta'S̄beta  = [ p² (mu² + delta) m~² J/(1 + alpha q)² + v chi ]/(1 − chi),    v = E(y − a·mean)²

so that ``accuracy = E Phi(y a mean/sqrt(var))``. Only p, alpha and E[y²] = 1 enter mean and var, so any label that is a
function of the signs is covered; the expectation runs over the joint law of (y, a). All integrals follow from the
Stieltjes transform of MP_delta at a negative real point.

Accuracy stays above one half at mu = 0 for a sampled table, whose classes have means of their own by chance.

*Few training sequences.* Their labels are not balanced: their mean scatters by 1/sqrt(n). A sampled table has a mean of
squared norm delta, which all sequences share, so that beta'(mean) = (mean label) q0/(1 + q0) shifts every score, with
q0 = m~ delta ∫ dS̄/(1 + m~ s). Over training sets it adds ``(q0/(1 + q0))²/n`` to var. The accuracy is the limit without
it, and `validity` reports the difference where it exceeds .01.

Validity: d, V, n → ∞ with spread-out weights. At T = 10, d = 300, V = 500, n = 640 the closed form is off by at most
.015 (worst at ridge = .001, where it is too high, because the same tokens recur). ``exact=True`` conditions on a drawn
token usage (:mod:`spikepool.theory.ridge_given_tokens`) and has no such bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar

from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.theory.prediction import RidgePrediction
from spikepool.theory.validity import ridge_range, unbalanced_labels, validity_of
from spikepool.world.labels import flip_probability, label_law, label_positions
from spikepool.world.sequences import SequenceWorld, checked_model

# The optimal ridge is sought within this factor of the mean noise eigenvalue, either way; beyond it the
# classifier is at one of its two limits (least squares, or the difference of class means) to four digits.
_RIDGE_DECADES = 5.0


def noise_integrals(m: float, kappa: float, delta: float) -> tuple[float, float, float, float]:
    """∫ 1/(1+ms), ∫ ms/(1+ms), m ∫ s/(1+ms)² and ∫ (ms/(1+ms))² over kappa·MP_delta, free of cancellation."""
    zeta = 1 / (m * kappa)
    b = 1 - delta + zeta
    root = np.hypot(b, 2 * np.sqrt(delta * zeta))
    # Stieltjes transform of MP_delta at −zeta: the positive root of delta·zeta·t² + b·t − 1 = 0
    t = 2 / (b + root) if b >= 0 else (root - b) / (2 * delta * zeta)
    P = t / (1 + delta * t)
    return zeta * t, P, zeta * P / root, P * (delta * zeta * t + P / t) / root


def ridge_moments(
    *, alpha: float, kappa: float, covariance: float, strength: float, delta: float, ratio: float, ridge: float
) -> tuple[float, float]:
    """Limits of beta'h and beta'S̄beta; see the module's formulas.

    Parameters
    ----------
    alpha, kappa : float
        E[a²] and the noise gain.
    covariance : float
        p = E[y a].
    strength : float
        Squared norm of h: mu² + delta for a sampled table, mu² for a class-centred one.
    delta, ratio : float
        d/V and d/n_train.
    ridge : float
        Regularisation, above 0.
    """
    m = _resolvent(kappa, delta, ratio, ridge)
    I1, _, mJ, square = noise_integrals(m, kappa, delta)
    chi = ratio * square
    q = m * strength * I1
    p = covariance
    mean = p * q / (1 + alpha * q)
    v = max(1 - 2 * p * mean + alpha * mean**2, 0.0)  # a mean square: negative by rounding only
    # 1 − chi = m (ridge + c J), without cancellation when the training set is nearly interpolated
    var = (p**2 * strength * m * mJ / (1 + alpha * q) ** 2 + v * chi) / (ridge * m + ratio * mJ)
    return float(mean), float(var)


def _resolvent(kappa: float, delta: float, ratio: float, ridge: float) -> float:
    """The root m~ of the module's first equation."""

    def equation(m: float) -> float:
        return float(ridge * m + ratio * noise_integrals(m, kappa, delta)[1] - 1)

    # ∫ ms/(1+ms) lies between 0 and m·kappa; the margins keep the bracket valid when both ends round together
    low, high = (1 - 1e-12) / (ridge + ratio * kappa), (1 + 1e-12) / ridge
    return float(brentq(equation, low, high, xtol=1e-300, rtol=1e-15, maxiter=500))


def shift_variance(*, kappa: float, mean_power: float, delta: float, ratio: float, ridge: float, n_train: int) -> float:
    """Variance over training sets of the shift that unbalanced labels give all scores: (q0/(1 + q0))²/n.

    `mean_power` is the squared norm of the table's mean, delta for a sampled table; the others as in
    :func:`ridge_moments`.
    """
    m = _resolvent(kappa, delta, ratio, ridge)
    q = m * mean_power * noise_integrals(m, kappa, delta)[0]
    return float((q / (1 + q)) ** 2 / n_train)


def ridge_prediction(
    model: SequenceWorld,
    w: ArrayLike,
    ridge: float = 1.0,
    n_train: int | None = None,
    *,
    label: int | ArrayLike = 0,
    label_noise: float = 0.0,
    exact: bool = False,
    draws: int = 200_000,
    rng: Any = 0,
) -> RidgePrediction:
    """Predicted accuracy with its error and the law of the scores; parameters as in :func:`ridge_accuracy`."""
    checked_model(model)
    w = check.weight_vector(w, model.T)
    ridge = check.ridge_penalty(ridge)
    n_train = model.N if n_train is None else check.size(n_train, "n_train")
    positions = label_positions(label, model.T)
    flips = flip_probability(label_noise)
    if model.token_weights is not None:
        raise InvalidInputError(
            "the theory of the ridge accuracy has no token weights",
            remedy="Use spikepool.simulate_ridge, or drop token_weights",
        )
    if check.flag(exact, "exact"):
        from spikepool.theory.ridge_given_tokens import exact_ridge_accuracy

        return exact_ridge_accuracy(model, w, ridge, n_train, positions, flips=flips, draws=draws, rng=rng)
    if model.covariance is not None or model.frequencies is not None:
        raise InvalidInputError(
            "the closed form of the ridge accuracy holds for isotropic noise and uniform token frequencies",
            remedy="Use exact=True for token frequencies, spikepool.simulation.ridge.simulate_ridge for a covariance",
        )
    alpha, kappa = model.gains(w)
    law = label_law(model, w, positions, draws, rng)
    mean, var = ridge_moments(
        alpha=alpha,
        kappa=kappa,
        covariance=(1 - 2 * flips) * law.covariance,
        strength=model.mu**2 + model.class_mean_power,
        delta=model.delta,
        ratio=model.d / n_train,
        ridge=ridge,
    )
    std = float(np.sqrt(var))
    accuracy, error = law.accuracy(mean / std if mean != 0 else 0.0)
    shift = shift_variance(
        kappa=kappa,
        mean_power=model.delta if model.table == "sampled" else 0.0,
        delta=model.delta,
        ratio=model.d / n_train,
        ridge=ridge,
        n_train=n_train,
    )
    shifted = law.accuracy(mean / float(np.sqrt(var + shift)))[0] if mean != 0 else accuracy
    validity = validity_of(
        ridge_range(kappa, bool(np.min(w) < 0), model.d / n_train), unbalanced_labels(accuracy, shifted, n_train)
    )
    return RidgePrediction(accuracy, error, mean, std, validity)


def ridge_accuracy(
    model: SequenceWorld,
    w: ArrayLike,
    ridge: float = 1.0,
    n_train: int | None = None,
    *,
    label: int | ArrayLike = 0,
    label_noise: float = 0.0,
    exact: bool = False,
    draws: int = 200_000,
    rng: Any = 0,
) -> float:
    """Test accuracy of the ridge classifier trained on pooled sequences.

    Parameters
    ----------
    model : SequenceWorld
        The world; both kinds of table and of latent are covered.
    w : array_like of shape (T,)
        Pooling weights.
    ridge : float
        Regularisation lambda of ``(C C' + lambda n I)⁻¹ C y``, above 0.
    n_train : int, optional
        Training sequences; the model's N when not given.
    label : int or array_like of int
        Position, or positions, whose latents' sum gives the label by its sign. The default, the first position, is the
        prefix's sign in the prefix model.
    label_noise : float
        Probability in [0, 1/2) that a training label is flipped; the accuracy is that of the true labels of test
        sequences. It enters as E[y a] times 1 − 2 label_noise.
    exact : bool
        Condition on the token usage of drawn training sets: no small-T bias, any token frequencies. The mean of three
        usages, whose scatter is the error that :func:`ridge_prediction` gives. Takes the eigenvalues of V x V matrices.
    draws : int
        Draws behind the average over signs when R is not made of blocks of equal signs (0, ±1 entries); for blocks the
        average is exact.
    rng : optional
        Seed of those draws and of the usage; fixed by default, so that equal arguments give equal numbers.

    Returns
    -------
    float
        In [0, 1]; :func:`ridge_prediction` also gives its error.
    """
    return ridge_prediction(
        model, w, ridge, n_train, label=label, label_noise=label_noise, exact=exact, draws=draws, rng=rng
    ).accuracy


class OptimalRidge(NamedTuple):
    """Best ridge, its accuracy, and whether it sits at an end of the range searched (then the limit is as good)."""

    ridge: float
    accuracy: float
    at_limit: bool


def optimal_ridge(
    model: SequenceWorld, w: ArrayLike, n_train: int | None = None, *, label: int | ArrayLike = 0, rng: Any = 0
) -> OptimalRidge:
    """The ridge of the highest predicted accuracy.

    Searched on a grid over ten decades around the mean noise eigenvalue kappa, then refined; for some worlds the
    accuracy increases towards one of the ends, which `at_limit` reports.
    """
    _, kappa = checked_model(model).gains(w)

    def loss(log_ratio: float) -> float:
        return -ridge_accuracy(model, w, kappa * 10.0**log_ratio, n_train, label=label, rng=rng)

    grid = np.linspace(-_RIDGE_DECADES, _RIDGE_DECADES, 41)
    losses = [loss(x) for x in grid]
    best = int(np.argmin(losses))
    if best in (0, len(grid) - 1):
        return OptimalRidge(float(kappa * 10.0 ** grid[best]), -losses[best], True)
    found = minimize_scalar(loss, bounds=(grid[best - 1], grid[best + 1]), method="bounded", options={"xatol": 1e-6})
    x, value = (float(found.x), float(found.fun)) if found.fun <= losses[best] else (grid[best], losses[best])
    return OptimalRidge(float(kappa * 10.0**x), -value, False)


class RankedWeights(NamedTuple):
    """One entry of :func:`rank_weights`."""

    name: str
    accuracy: float
    ridge: float


def rank_weights(
    model: SequenceWorld,
    weights: Mapping[str, ArrayLike],
    ridge: float | None = 1.0,
    n_train: int | None = None,
    *,
    label: int | ArrayLike = 0,
    rng: Any = 0,
) -> list[RankedWeights]:
    """Candidate weights by predicted accuracy, best first; `ridge` None gives each its own optimal ridge."""
    if not hasattr(weights, "items") or not weights:
        raise InvalidInputError("weights must be a mapping that is not empty", weights, "Pass {name: weights, ...}")
    ranked = []
    for name, w in weights.items():
        if ridge is None:
            best = optimal_ridge(model, w, n_train, label=label, rng=rng)
            ranked.append(RankedWeights(name, best.accuracy, best.ridge))
        else:
            accuracy = ridge_accuracy(model, w, ridge, n_train, label=label, rng=rng)
            ranked.append(RankedWeights(name, accuracy, float(ridge)))
    return sorted(ranked, key=lambda entry: entry.accuracy, reverse=True)
