"""Accuracy of ridge regression on vectors pooled by a query, at a fixed query.

Labels y = ±1 are the signs of N sequences, and b minimises (1/N) sum_n (y_n − b'c_n)² + lam |b|². With
D = 1 + gamma kappa m, expectations over (A, kappa) and gamma = (d − p)/N,

    1/m = lam + E[kappa/D],
    b_u = mu E[A/D]/(1/m + mu² E[A²/D])                                             (the coefficient along u),
    |b|² = (b_u² + gamma m² E[kappa (1 − mu A b_u)²/D²])/(1 − gamma m² E[kappa²/D²]),

a new sequence is classified correctly with probability E Phi(mu A b_u/sqrt(kappa |b|²)), and the squared cosine of b
with u is b_u²/|b|². The query's own direction and that of k carry no label; they count as two of d noise directions.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.theory.query_usage import sequence_draws
from spikepool.world.query import QueryWorld, check_white


def ridge_accuracy(world: QueryWorld, ridge: float = 1.0, n_train: int | None = None, *, rng: int = 0) -> float:
    """Share of new sequences that ridge on their pooled vectors classifies correctly.

    Parameters
    ----------
    world : QueryModel
        Tokens never repeat and have white noise.
    ridge : float
        lam > 0, of the mean square error.
    n_train : int, optional
        Labelled sequences; the model's N when not given.
    rng : int
        Of the draws behind the expectations; another seed changes an accuracy by about .002.
    """
    return ridge_numbers(world, ridge, n_train, rng=rng)[0]


def ridge_numbers(
    world: QueryWorld, ridge: float = 1.0, n_train: int | None = None, *, rng: int = 0
) -> tuple[float, float]:
    """Accuracy, and squared cosine of the coefficients with u."""
    check_white(world, "this accuracy")
    lam = check.positive(ridge, "ridge")
    n = world.N if n_train is None else check.size(n_train, "n_train", minimum=2)
    generator = np.random.default_rng(np.random.SeedSequence(check.size(rng, "rng", minimum=0)))
    pooled = world.draw_pooled(sequence_draws(world), generator)
    A, kappa, mu = pooled.A, pooled.kappa, world.mu
    if kappa.max() == 0:
        raise InvalidInputError("all weights are 0", world.kernel, "Use weights that are not")
    gamma = (world.d - world.directions) / n

    def excess(log_m: float) -> float:
        m = np.exp(log_m)
        return float(1 / m - lam - np.mean(kappa / (1 + gamma * kappa * m)))

    low = -np.log(lam + kappa.mean())
    m = float(np.exp(brentq(excess, low - 1e-9, -np.log(lam) + 1e-9, xtol=1e-14)))
    D = 1 + gamma * kappa * m
    b = mu * np.mean(A / D) / (1 / m + mu**2 * np.mean(pooled.square / D))
    residual = 1 - 2 * mu * b * A + (mu * b) ** 2 * pooled.square
    noise = gamma * m**2 * np.mean(kappa * residual / D**2)
    q = (b**2 + noise) / (1 - gamma * m**2 * np.mean(kappa**2 / D**2))
    score = np.divide(mu * A * b, np.sqrt(kappa * q), out=np.zeros_like(A), where=kappa > 0)
    return float(np.mean(ndtr(score))), float(b**2 / q)
