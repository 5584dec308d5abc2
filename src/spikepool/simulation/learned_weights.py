"""Weights on the simplex, learned jointly with ridge: the experiment of the paper's last appendix.

For tokens x_nt, targets y and pooled rows c_n(w) = sum_t w_t x_nt it minimises

    g(w) = min_beta (1/n)‖y − C(w) beta‖² + lam‖beta‖² = (1/n) y'(y − C beta),    beta = (C'C + lam n I)^{-1} C'y,

and by the envelope theorem (beta is optimal, so only the explicit dependence on w counts)

    dg/dw_t = −(2/n) sum_n (y − C beta)_n <beta, x_nt>.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk
from scipy.optimize import minimize

from spikepool.errors import ConvergenceError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.threads import single_threaded_blas

_WEIGHTS_TOLERANCE = {"ftol": 1e-12, "gtol": 1e-7}
# Multiply-adds of one solve below which the BLAS is kept to one thread: many small solves in a row, and handing each to
# several threads costs more than it saves.
_SINGLE_THREAD_WORK = 10**9


@dataclass(frozen=True)
class LearnedWeights:
    """Result of :func:`learn_weights`.

    Attributes
    ----------
    weights : array (T,)
        Best weights found, on the simplex.
    loss : float
        g(w), the joint ridge loss.
    coef : array (d,)
        Ridge solution at the weights.
    losses : array (restarts,)
        Final loss of every start; their spread shows how far from convex the problem is.
    evaluations : int
        Number of evaluations of loss and gradient.
    """

    weights: FloatArray
    loss: float
    coef: FloatArray
    losses: FloatArray
    evaluations: int


def softmax(phi: FloatArray) -> FloatArray:
    """exp(phi) over its sum, without overflow."""
    e = np.exp(phi - phi.max())
    return np.asarray(e / e.sum())


def joint_loss(x: FloatArray, y: FloatArray, ridge: float, w: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """g(w), its gradient dg/dw, and beta(w)."""
    n, _, d = x.shape
    C = np.matmul(w, x)
    A = dsyrk(1.0, C.T)  # upper triangle of C'C
    A[np.diag_indices(d)] += ridge * n
    beta = np.asarray(cho_solve(cho_factor(A, overwrite_a=True, check_finite=False), C.T @ y, check_finite=False))
    residual = y - C @ beta
    return float(y @ residual) / n, (-2.0 / n) * (residual @ (x @ beta)), beta


def learn_weights(
    X: ArrayLike, y: ArrayLike, ridge: float = 1.0, *, restarts: int = 5, max_iter: int = 500, rng: Any = 0
) -> LearnedWeights:
    """Minimise (1/n)‖y − C(w)beta‖² + ridge‖beta‖² over weights on the simplex and beta.

    ``w = softmax(phi)``, beta in closed form at every step, gradient by the envelope theorem, L-BFGS-B from the uniform
    weights and from random starts.

    Parameters
    ----------
    X : array_like (n, T, d)
        Tokens.
    y : array_like (n,)
        Targets.
    ridge : float
        Penalty lam; 1 in the paper.
    restarts : int
        Number of starts; the first is uniform, the others are standard normal phi.
    max_iter : int
        Iterations of each start.
    rng : optional
        Seed of the random starts.
    """
    x = check.finite_array(X, "X", ndim=3)
    n, T, d = x.shape
    target = check.finite_array(y, "y", ndim=1)
    if len(target) != n:
        raise ShapeError(f"y must have one value for each of the {n} sequences", target, "Match X and y")
    ridge = check.positive(ridge, "ridge")
    restarts, max_iter = check.size(restarts, "restarts"), check.size(max_iter, "max_iter")
    generator = check.generator(rng)
    evaluations = 0

    def objective(phi: FloatArray) -> tuple[float, FloatArray]:
        nonlocal evaluations
        evaluations += 1
        w = softmax(phi)
        value, gradient, _ = joint_loss(x, target, ridge, w)
        return value, w * (gradient - gradient @ w)

    found = []
    with single_threaded_blas() if n * d * min(n, d) < _SINGLE_THREAD_WORK else nullcontext():
        for start in (np.zeros(T), *(generator.standard_normal(T) for _ in range(restarts - 1))):
            options = {"maxiter": max_iter, **_WEIGHTS_TOLERANCE}
            found.append(minimize(objective, start, jac=True, method="L-BFGS-B", options=options))
    losses = np.array([float(result.fun) for result in found])
    if not np.isfinite(losses).all():
        raise ConvergenceError("the joint ridge loss is not finite", remedy="Rescale X or raise the ridge")
    weights = softmax(found[int(np.argmin(losses))].x)
    coef = joint_loss(x, target, ridge, weights)[2]
    return LearnedWeights(weights, float(losses.min()), coef, losses, evaluations)
