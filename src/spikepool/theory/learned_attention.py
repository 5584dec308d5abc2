"""Pooling weights learned jointly with a ridge classifier: the limit of the paper's fourth curve.

The paper minimises ``g_n(w) = min_beta (1/n)‖y − C(w)'beta‖² + ridge ‖beta‖²`` over weights on the simplex. T stays
fixed while d, V and n grow, so g_n converges to a deterministic function of w and the learned weights to its minimiser.
With p = E[y a] = w'r, r_t = E[y xi_t], alpha = w'Rw, kappa = w'w, c = d/n, S̄ = kappa·MP_delta, and m~ and q of
:mod:`spikepool.theory.ridge`,

    g(w) = ridge·m~ [1 − p² q/(1 + alpha q)].

The loss rewards covariance with the label (p), punishes signal that the label does not need (alpha), and rewards noise
gain (kappa), because more noise fits the training labels better. So learned weights find the weights of the best
alignment only where the label is the signal that R concentrates on; a label that belongs to one position of a chain
draws all weight to that position.

Given the tokens of a training set (``exact=True``), in the symbols of :mod:`spikepool.theory.ridge_given_tokens`,

    g(w) = 1 − b'R b − mu² (a'y/n − g'R b)²/(rho d + mu² (a'a/n − g'R g)),

which has no bias from few effective tokens.

Validity: the losses of two weightings on a single training set differ with a scatter of about ``sqrt((v_1 + v_2)/n)``,
v the variance of ridge/(ridge + x) over the spectrum of C'C/n times the squared share of y that the signal leaves.
Where a different weighting is closer to the minimum than twice that, single runs find either.

The joint ridge loss of learned weights given the tokens of a training set, with its gradient.

In the symbols of :mod:`spikepool.theory.ridge_given_tokens`, W = sum_t w_t W_t, A = WW'/n, b = Wy/n, g = Wa/n, a = W's
the pooled latents, R = (rho + A)^{-1} and rho (d − tr A R) = ridge,

    G(w, rho) = 1 − b'x − mu² N²/D,    N = a'y/n − g'x,    D = rho d + mu² (a'a/n − g'h),    x = R b,  h = R g.

The derivative in w at fixed rho takes products with tokens only, such as x'W_t v = sum_n x[token_nt] v_n; that of rho
follows from the constraint, whose derivative needs R² at pairs of tokens of one sequence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize

from spikepool.errors import ConvergenceError, InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.results import Result, Table
from spikepool.theory.ridge import noise_integrals, ridge_prediction
from spikepool.theory.ridge_given_tokens import effective_ridge
from spikepool.theory.validity import SOUND, Validity, ridge_range, validity_of
from spikepool.world.labels import label_law, label_positions, labels_of
from spikepool.world.pooling_matrix import Projection, token_matrix
from spikepool.world.seeds import child_seed, seed_sequence
from spikepool.world.sequences import SequenceWorld, checked_model
from spikepool.world.signs import sign_blocks, sign_sampler
from spikepool.world.tokens import draw_tokens

# from weights to the loss and its gradient
Objective = Callable[[FloatArray], tuple[float, FloatArray]]


def given_tokens_loss(model: SequenceWorld, ridge: float, n: int, positions: NDArray[np.intp], rng: Any) -> Objective:
    """Loss and gradient as a function of the weights, for the training tokens that ``rng`` draws."""
    d, V, mu = model.d, model.V, model.mu
    require_memory(
        60 * V**2 + 60 * n * model.T,
        f"the usage of V = {V} tokens by {n} sequences of length {model.T}",
        "Use the closed form (exact=False) for large vocabularies and samples",
    )
    tokens, drawn = draw_tokens(model.replace(N=n), child_seed(seed_sequence(rng), 0))
    latent = drawn.astype(np.float64)
    y = labels_of(drawn, positions)
    project = Projection(model.signs if model.table == "class_centered" else None)

    def objective(w: FloatArray) -> tuple[float, FloatArray]:
        usage = token_matrix(tokens, w, V)  # (n, V)
        a = latent @ w
        A = (usage.T @ usage).toarray() / n
        b, g = project(usage.T @ y / n), project(usage.T @ a / n)
        values, vectors = np.linalg.eigh(project(project(A).T))
        values, vectors = np.maximum(values, 0.0), project(vectors)
        rho = effective_ridge(values, ridge, d)
        inverse = 1 / (rho + values)
        x, h = (vectors @ (inverse * (vectors.T @ v)) for v in (b, g))
        N = float(a @ y) / n - float(g @ x)
        D = rho * d + mu**2 * (float(a @ a) / n - float(g @ h))
        loss = 1 - float(b @ x) - mu**2 * N**2 / D

        # (n, T): the two vectors at every token, and pooled over sequences
        xt, ht = x[tokens], h[tokens]
        xn, hn = xt @ w, ht @ w
        by_x = 2 * (xt.T @ (xn - y)) / n  # of −b'x
        by_N = (latent.T @ y - xt.T @ a - latent.T @ xn - ht.T @ y + ht.T @ xn + xt.T @ hn) / n
        by_D = 2 * mu**2 * (latent.T @ a - ht.T @ a - latent.T @ hn + ht.T @ hn) / n
        gradient = by_x - mu**2 * (2 * N / D * by_N - (N / D) ** 2 * by_D)
        # through rho: G_rho = x'x − mu² (2N/D h'x − (N/D)² (d + mu² h'h)), and rho² tr(dA R²) = h_rho drho
        by_rho = float(x @ x) - mu**2 * (2 * N / D * float(h @ x) - (N / D) ** 2 * (d + mu**2 * float(h @ h)))
        square = (vectors * inverse**2) @ vectors.T
        pairs = np.einsum("nts,s->t", square[tokens[:, :, None], tokens[:, None, :]], w)
        slope = d - float(np.sum((values * inverse) ** 2))
        return loss, np.asarray(gradient + by_rho * rho**2 * (2 * pairs / n) / slope)

    return objective


# Two weightings this far apart in total variation are different.
_DIFFERENT = 0.15
# Losses closer than this many standard deviations of their difference are a tie in a single training set.
_TIE = 2.0


@dataclass(frozen=True)
class LearnedAttention(Result, schema="learned-weights"):
    """Weights that minimise the limiting training loss; made by :meth:`SequenceModel.learned_weights`.

    Attributes
    ----------
    weights : numpy.ndarray of shape (T,)
        On the simplex.
    loss : float
        Limit of the training loss at the weights, penalty included.
    accuracy : float
        Test accuracy of the ridge classifier at the weights.
    alpha, kappa : float
        Signal gain w'Rw and noise gain ‖w‖² of the weights.
    covariance : float
        E[y w'xi], what the weights keep of the label.
    best_gain : float
        alpha/kappa over its maximum lambda_max(R): 1 where learning finds the weights of the best alignment.
    validity : Validity
        Whether single runs find these weights, or others of nearly the same loss.
    accuracy_range : tuple of float
        Smallest and largest test accuracy over the weights that single runs find; the mean over runs lies between.
    """

    weights: FloatArray
    loss: float
    accuracy: float
    alpha: float
    kappa: float
    covariance: float
    best_gain: float
    validity: Validity = SOUND
    accuracy_range: tuple[float, float] = (math.nan, math.nan)

    def _tables(self) -> list[Table]:
        header = ("training loss", "test accuracy", "alpha", "kappa", "share of the best alpha/kappa")
        row = (self.loss, self.accuracy, self.alpha, self.kappa, self.best_gain)
        return [("Learned weights", header, [row])]

    def plot(self, ax: Any = None) -> Any:
        """The weights by position, beside those of the mean; returns the axes."""
        from spikepool.drawing.predictions import draw_weights

        return draw_weights(self.weights, ax)


class ProfileLoss(NamedTuple):
    """g, its derivatives in p, alpha and kappa, and n/2 times the variance of the loss of a single training set."""

    value: float
    by_covariance: float
    by_alpha: float
    by_kappa: float
    scatter: float


def profile_loss(
    *, alpha: float, kappa: float, covariance: float, strength: float, delta: float, ratio: float, ridge: float
) -> ProfileLoss:
    """The limiting training loss and its derivatives; parameters as in :func:`spikepool.theory.ridge.ridge_moments`.

    With F(m, kappa) = ridge m + c P(m kappa) − 1 = 0 and P' = J, dm~/dkappa = −c m~ J/(kappa (ridge + c J)).
    """

    def equation(m: float) -> float:
        return float(ridge * m + ratio * noise_integrals(m, kappa, delta)[1] - 1)

    low, high = (1 - 1e-12) / (ridge + ratio * kappa), (1 + 1e-12) / ridge
    m = float(brentq(equation, low, high, xtol=1e-300, rtol=1e-15, maxiter=500))
    I1, _, mJ, _ = noise_integrals(m, kappa, delta)
    q = m * strength * I1
    left = 1 - covariance**2 * q / (1 + alpha * q)
    slope = ridge + ratio * mJ / m
    m_kappa = -ratio * mJ / kappa / slope
    q_kappa = strength * ((I1 - mJ) * m_kappa - m * mJ / kappa)
    by_q = -ridge * m * covariance**2 / (1 + alpha * q) ** 2
    return ProfileLoss(
        value=ridge * m * left,
        by_covariance=-2 * ridge * m * covariance * q / (1 + alpha * q),
        by_alpha=ridge * m * (covariance * q / (1 + alpha * q)) ** 2,
        by_kappa=ridge * left * m_kappa + by_q * q_kappa,
        scatter=max(0.0, ridge**2 * m / slope - (ridge * m) ** 2) * left**2,
    )


def label_covariances(model: SequenceWorld, positions: NDArray[np.intp], draws: int, rng: Any) -> FloatArray:
    """r_t = E[y xi_t] for every position."""
    if model.latent == "signs":
        if len(positions) == 1:
            return np.array(model.R[positions[0]], dtype=np.float64)
        if sign_blocks(model.R) is None:
            xi = sign_sampler(model.R)(check.size(draws, "draws", minimum=2), rng=rng)
            return np.asarray(labels_of(xi, positions) @ xi / len(xi))
    return np.array([label_law(model, w, positions, draws, rng).covariance for w in np.eye(model.T)])


def learned_weights(
    model: SequenceWorld,
    ridge: float = 1.0,
    n_train: int | None = None,
    *,
    label: int | ArrayLike = 0,
    exact: bool = False,
    draws: int = 200_000,
    rng: Any = 0,
) -> LearnedAttention:
    """Weights on the simplex that minimise the limit of the joint ridge loss.

    Parameters
    ----------
    model : SequenceWorld
        With isotropic noise and uniform token frequencies.
    ridge : float
        Penalty, above 0.
    n_train : int, optional
        Training sequences; the model's N when not given.
    label : int or array_like of int
        Position, or positions, whose latents' sum gives the label by its sign.
    exact : bool
        Minimise the loss given the tokens of a drawn training set: no bias from few effective tokens, and weights that
        scatter with the tokens. Takes the eigenvalues of a V x V matrix at every step.
    draws : int
        Draws behind averages over signs when R is not made of blocks.
    rng : optional
        Seed of those draws and of the tokens.

    Returns
    -------
    LearnedAttention
        Where several positions are exchangeable and one of them takes all weight, the first of them.
    """
    checked_model(model)
    if model.covariance is not None or model.frequencies is not None or model.token_weights is not None:
        raise InvalidInputError(
            "the theory of learned weights holds for isotropic noise, uniform token frequencies and no token weights",
            remedy="Drop covariance, frequencies and token_weights, or learn weights on simulated sequences",
        )
    ridge = check.ridge_penalty(ridge)
    n = model.N if n_train is None else check.size(n_train, "n_train")
    positions = label_positions(label, model.T)
    r = label_covariances(model, positions, draws, rng)
    R = np.asarray(model.R, dtype=np.float64)
    world = {
        "strength": model.mu**2 + model.class_mean_power,
        "delta": model.delta,
        "ratio": model.d / n,
        "ridge": ridge,
    }

    def at(w: FloatArray) -> ProfileLoss:
        return profile_loss(alpha=float(w @ R @ w), kappa=float(w @ w), covariance=float(r @ w), **world)

    def closed(w: FloatArray) -> tuple[float, FloatArray]:
        found = at(w)
        return found.value, found.by_covariance * r + 2 * found.by_alpha * (R @ w) + 2 * found.by_kappa * w

    candidates = [minimise_on_simplex(closed, start) for start in _starts(R, r)]
    candidates.sort(key=lambda pair: pair[0])
    loss, w = candidates[0]
    # weights that were tried and are not minima count too: a single training set may prefer them
    rivals = [x for _, x in candidates[1:]] + list(np.eye(model.T)[r * np.sign(r @ w) > 0]) + _block_corners(R, r)
    if exact:
        objective = given_tokens_loss(model, ridge, n, positions, rng)
        loss, w = min((minimise_on_simplex(objective, x) for x in _distinct([w, *rivals])), key=lambda pair: pair[0])

    def accuracy(w: FloatArray) -> float:
        return ridge_prediction(model, w, ridge, n, label=positions, exact=exact, draws=draws, rng=rng).accuracy

    ties = _ties(at, w, rivals, n)
    accuracies = [accuracy(w), *(accuracy(tie.weights) for tie in ties)]
    alpha, kappa = float(w @ R @ w), float(w @ w)
    return LearnedAttention(
        weights=w,
        loss=loss,
        accuracy=accuracies[0],
        alpha=alpha,
        kappa=kappa,
        covariance=float(r @ w),
        best_gain=alpha / kappa / float(np.linalg.eigvalsh(R)[-1]),
        validity=validity_of(
            ties[0].reason(n) if ties else None, None if exact else ridge_range(kappa, signed=False, ratio=model.d / n)
        ),
        accuracy_range=(min(accuracies), max(accuracies)),
    )


def _starts(R: FloatArray, r: FloatArray) -> list[FloatArray]:
    """Inner points near every vertex that the label reaches, the mean, and weights in proportion to r."""
    T = len(r)
    mean = np.full(T, 1 / T)
    corners = [*np.eye(T)[np.abs(r) > 1e-12], *_block_corners(R, r)]
    near = [0.9 * corner + 0.1 * mean for corner in corners]
    size = np.abs(r)
    return [mean, *near, *([0.9 * size / size.sum() + 0.1 * mean] if size.sum() > 0 else [])]


def _block_corners(R: FloatArray, r: FloatArray) -> list[FloatArray]:
    """Equal weights on one position of each block: as much of the label as the block gives, and more noise gain."""
    if sign_blocks(R) is None:
        return []
    first = one_per_block(R)
    corners = []
    for chosen in (first[np.abs(r[first]) > 1e-12], first):
        if len(chosen) > 1:
            corners.append(np.zeros(len(r)))
            corners[-1][chosen] = 1 / len(chosen)
    return corners


def one_per_block(R: FloatArray) -> NDArray[np.intp]:
    """The first position of each block of positions that always have the same sign up to a factor."""
    same = np.abs(R) > 1 - 1e-9
    return np.flatnonzero([not same[t, :t].any() for t in range(len(R))])


def _distinct(weights: list[FloatArray]) -> list[FloatArray]:
    """Weightings without those that are close to an earlier one."""
    kept: list[FloatArray] = []
    for w in weights:
        if all(np.abs(w - other).sum() / 2 > _DIFFERENT for other in kept):
            kept.append(w)
    return kept


def minimise_on_simplex(objective: Objective, start: FloatArray) -> tuple[float, FloatArray]:
    """Value and place of a local minimum of `objective` (value and gradient) over weights >= 0 of unit sum."""
    T = len(start)
    if T == 1:
        return objective(np.ones(1))[0], np.ones(1)
    sum_to_one = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(T)}
    found = minimize(
        lambda w: objective(np.clip(w, 0.0, 1.0) / np.clip(w, 0.0, 1.0).sum()),
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * T,
        constraints=[sum_to_one],
        options={"ftol": 1e-14, "maxiter": 300},
    )
    if not np.isfinite(found.fun):
        raise ConvergenceError("the loss of learned weights is not finite", remedy="Raise the ridge")
    w = np.clip(found.x, 0.0, None)
    w[w < 1e-9] = 0.0
    w = w / w.sum()
    return float(objective(w)[0]), np.asarray(w)


class _Tie(NamedTuple):
    """Different weights, and how far their loss is from the smallest in standard deviations of a training set."""

    weights: FloatArray
    distance: float

    def reason(self, n: int) -> str:
        """Why single runs may find these weights."""
        place = int(np.argmax(self.weights))
        return (
            f"weights with {self.weights[place]:.2g} at position {place} have a loss within "
            f"{max(self.distance, 0):.2g} standard deviations of a single training set of n = {n}: "
            "runs find either, with a mean accuracy in between"
        )


def _ties(at: Callable[[FloatArray], ProfileLoss], w: FloatArray, rivals: list[FloatArray], n: int) -> list[_Tie]:
    """The rivals that single runs may find instead of w, the most likely first, one for each value of the loss."""
    best = at(w)
    ties: dict[float, _Tie] = {}
    for other in rivals:
        if np.abs(other - w).sum() / 2 > _DIFFERENT:
            loss = at(other)
            distance = float((loss.value - best.value) / np.sqrt((loss.scatter + best.scatter) / n + 1e-300))
            if distance < _TIE:
                ties.setdefault(round(loss.value, 9), _Tie(other, distance))
    return sorted(ties.values(), key=lambda tie: tie.distance)
