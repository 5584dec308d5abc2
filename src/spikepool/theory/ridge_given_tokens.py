"""Test accuracy of ridge classification given the token usage of a training set: right at any T.

The score of a sequence is ``sum_t w_t f_{x_t}`` with one number f_v = e_v'beta for each token of the vocabulary. Given
the training usage W (V x n) and labels y, and over the Gaussian noise Z of the table, f is a Gaussian vector whose
moments are explicit. Put A = WW'/n, b = Wy/n, a = W's the pooled latents, g = Wa/n, and let rho be the effective ridge,

    rho (d − tr A R) = ridge,    R = (rho + A)⁻¹.

Then, with beta_u = u'beta and up to collective shifts that vanish as d grows,

    beta_u = mu (a'y/n − g'R b) / (rho d + mu² (a'a/n − g'R g)),    r = R (b − mu beta_u g)
    f_v = mu beta_u s_v + r_v + noise_v,    Var noise_v = sigma² (R²)_vv
    sigma² = rho² (‖r‖² + d beta_u²)/(d − tr A²R²)

The mean is the deterministic equivalent of E'(EAE' + ridge)⁻¹E b; the variance comes from its derivative in A along
bb', because −d/deps of that resolvent at A + eps·bb' is exactly f f'. A class-centred table replaces A, b, g by their
projections off the class means; with Gaussian latents ``mu beta_u s_v`` becomes ``mu beta_u w'xi`` of the sequence.
In the limit of spread-out weights this gives the closed form of :mod:`spikepool.theory.ridge`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import ComplexArray, FloatArray
from spikepool.kit.memory import require_memory
from spikepool.theory.prediction import RidgePrediction
from spikepool.world.labels import block_label, flipped, labels_of, node_count, positive_probability
from spikepool.world.pooling_matrix import Projection, token_matrix
from spikepool.world.seeds import child_seed, seed_sequence
from spikepool.world.sequences import SequenceWorld
from spikepool.world.signs import SignBlocks, sign_blocks, sign_patterns
from spikepool.world.tokens import draw_tokens

# Test tokens drawn at most when the average over test sequences is by Monte Carlo: bounds the memory.
_MAX_TEST_TOKENS = 20_000_000
# Usages of drawn training sets that are averaged.
_USAGES = 3
# Longest Fourier sum, each term of which runs over the vocabulary.
_MAX_TERMS = 10_000


@dataclass(frozen=True)
class TokenScores:
    """Law of the token scores given the training usage.

    Attributes
    ----------
    signal : float
        mu·beta_u, multiplied by the pooled latent of a sequence.
    offsets : ndarray of shape (V,)
        r, what training sequences that share a token add to its score.
    variances : ndarray of shape (V,)
        Variance of each token's noise.
    """

    signal: float
    offsets: FloatArray
    variances: FloatArray


def effective_ridge(values: FloatArray, ridge: float, d: int) -> float:
    """The rho with rho (d − tr A (rho + A)⁻¹) = ridge, from the eigenvalues of A."""

    def equation(rho: float) -> float:
        return float(rho * (d - np.sum(values / (rho + values))) - ridge)

    # tr A R lies between 0 and tr A/rho; margins as the ends round together for a large ridge
    low, high = (1 - 1e-12) * ridge / d, (1 + 1e-12) * (ridge + float(values.sum())) / d
    return float(brentq(equation, low, high, xtol=1e-300, rtol=1e-14, maxiter=500))


def token_scores(
    model: SequenceWorld,
    w: FloatArray,
    ridge: float,
    n_train: int,
    positions: NDArray[np.intp],
    rng: Any,
    flips: float = 0.0,
) -> TokenScores:
    """Draw a training set of `n_train` sequences and solve for the law of the token scores."""
    d, V, mu = model.d, model.V, model.mu
    require_memory(
        40 * V**2 + 40 * n_train * model.T,
        f"the usage of V = {V} tokens by {n_train} sequences of length {model.T}",
        "Use the closed form (exact=False) for large vocabularies and samples",
    )
    tokens, latent = draw_tokens(model.replace(N=n_train), rng)
    y = flipped(labels_of(latent, positions), flips, np.random.default_rng(child_seed(seed_sequence(rng), 9)))
    a = latent @ w
    usage = token_matrix(tokens, w, V)
    A = (usage.T @ usage).toarray() / n_train
    b, g = usage.T @ y / n_train, usage.T @ a / n_train
    project = Projection(model.signs if model.table == "class_centered" else None)
    A, b, g = project(project(A).T), project(b), project(g)
    values, vectors = np.linalg.eigh(A)
    values = np.maximum(values, 0.0)  # a Gram matrix: negative by rounding only
    vectors = project(vectors)  # the null space of A mixes with the class means; what enters is its part off them

    rho = effective_ridge(values, ridge, d)
    R = 1 / (rho + values)
    b_hat, g_hat = vectors.T @ b, vectors.T @ g
    numerator = float(a @ y) / n_train - float(g_hat @ (R * b_hat))
    beta_u = mu * numerator / (rho * d + mu**2 * (float(a @ a) / n_train - float(g_hat @ (R * g_hat))))
    r_hat = R * (b_hat - mu * beta_u * g_hat)
    freedom = d - float(np.sum((values * R) ** 2))
    sigma2 = rho**2 * (float(r_hat @ r_hat) + d * beta_u**2) / freedom
    return TokenScores(mu * beta_u, vectors @ r_hat, sigma2 * (vectors**2 @ R**2))


def exact_ridge_accuracy(
    model: SequenceWorld,
    w: FloatArray,
    ridge: float,
    n_train: int,
    positions: NDArray[np.intp],
    *,
    flips: float = 0.0,
    draws: int,
    rng: Any,
) -> RidgePrediction:
    """Mean accuracy given drawn usages; see :func:`spikepool.theory.ridge.ridge_accuracy` for the parameters.

    The error is that of the mean: the scatter over usages, and that of the test sequences where these are drawn.
    """
    if model.covariance is not None:
        raise InvalidInputError(
            "the ridge accuracy is known for isotropic noise only",
            remedy="Drop the covariance, or use spikepool.simulation.ridge.simulate_ridge",
        )
    root = seed_sequence(rng)
    found = [
        _given_usage(model, w, ridge, n_train, positions, flips, draws, child_seed(root, 100 + k) if k else root)
        for k in range(_USAGES)
    ]
    accuracies = np.array([p.accuracy for p in found])
    scatter = float(accuracies.var(ddof=1)) / _USAGES
    drawn = sum(p.accuracy_error**2 for p in found) / _USAGES**2
    return RidgePrediction(
        float(accuracies.mean()),
        float(np.sqrt(scatter + drawn)),
        float(np.mean([p.mean for p in found])),
        float(np.mean([p.std for p in found])),
    )


def _given_usage(
    model: SequenceWorld,
    w: FloatArray,
    ridge: float,
    n_train: int,
    positions: NDArray[np.intp],
    flips: float,
    draws: int,
    root: np.random.SeedSequence,
) -> RidgePrediction:
    """The prediction for one drawn usage; its error is that of drawn test sequences."""
    scores = token_scores(model, w, ridge, n_train, positions, child_seed(root, 0), flips)
    shared = float(np.mean(model.signs * scores.offsets)) if model.latent == "signs" else 0.0
    mean = scores.signal + shared
    scatter = float(scores.variances.mean() + np.mean((scores.offsets - shared * model.signs) ** 2))
    std = float(np.sqrt(w @ w * scatter))
    if std == 0:  # beta = 0: no label information reached the training columns
        return RidgePrediction(0.5, 0.0, mean, 0.0)
    blocks = sign_blocks(model.R) if model.latent == "signs" else None
    if blocks is not None:
        accuracy = _block_accuracy(model, w, scores, blocks, positions)
        if accuracy is not None:
            return RidgePrediction(accuracy, 0.0, mean, std)
    count = max(2, min(check.size(draws, "draws", minimum=2), _MAX_TEST_TOKENS // model.T))
    tokens, latent = draw_tokens(model.replace(N=count), child_seed(root, 1))
    y = labels_of(latent, positions)
    score = scores.signal * (latent @ w) + scores.offsets[tokens] @ w
    noise = np.sqrt(scores.variances[tokens] @ w**2)
    probabilities = ndtr(y * score / noise)
    error = float(probabilities.std(ddof=1) / np.sqrt(count))
    return RidgePrediction(float(probabilities.mean()), error, mean, std)


def _block_accuracy(
    model: SequenceWorld, w: FloatArray, scores: TokenScores, blocks: SignBlocks, positions: NDArray[np.intp]
) -> float | None:
    """Exact average over test sequences by Fourier inversion, for signs in independent blocks.

    None when the noise is so small against the scores that the sum would be long; drawing is then as good.
    """
    block_label(blocks, w, positions)  # refuses labels that can tie or have too many signs
    member = np.zeros(len(w))
    member[positions] = 1.0
    votes = blocks.totals(member)
    voting = np.flatnonzero(votes)
    f = scores.signal * model.signs + scores.offsets
    frequencies = np.full(model.V, 2 / model.V) if model.frequencies is None else model.frequencies.copy()
    for first in (0, 1):
        frequencies[first::2] /= frequencies[first::2].sum()

    def token_transform(t: FloatArray, weight: float) -> dict[int, ComplexArray]:
        """E exp(i t weight f_x) over tokens of each class."""
        phase = np.exp(1j * np.outer(t, weight * f) - np.outer(t**2, weight**2 * scores.variances / 2))
        return {1: phase[:, 0::2] @ frequencies[0::2], -1: phase[:, 1::2] @ frequencies[1::2]}

    def transform(t: FloatArray) -> ComplexArray:
        by_block = [{1: np.ones(len(t), complex), -1: np.ones(len(t), complex)} for _ in range(blocks.count)]
        known: dict[float, dict[int, ComplexArray]] = {}
        for weight, block, sign in zip(w, blocks.block, blocks.sign, strict=True):
            if weight == 0:
                continue
            if weight not in known:
                known[weight] = token_transform(t, weight)
            for s in (1, -1):
                by_block[block][s] *= known[weight][int(s * sign)]
        free = np.ones(len(t), complex)
        for block in np.setdiff1d(np.arange(blocks.count), voting):
            free *= (by_block[block][1] + by_block[block][-1]) / 2
        total: ComplexArray = np.zeros(len(t), dtype=np.complex128)
        patterns = sign_patterns(len(voting))
        for pattern in patterns:
            value = free.copy()
            for block, s in zip(voting, pattern, strict=True):
                value *= by_block[block][int(s)]
            # the characteristic function of y·score is that of the score, conjugated where y = −1
            total += value if pattern @ votes[voting] > 0 else value.conj()
        return np.asarray(total / len(patterns), dtype=np.complex128)

    bounded = float(np.abs(w).sum() * np.abs(f).max())
    weight2 = float(w @ w)
    bound = bounded + 9.0 * float(np.sqrt(weight2 * scores.variances.max()))
    noise = float(np.sqrt(weight2 * scores.variances.min()))
    if node_count(bound, noise) > _MAX_TERMS:
        return None
    return positive_probability(transform, bound, noise)
