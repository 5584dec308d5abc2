"""Pooling weights on the simplex, learned jointly with ridge: the experiment of the paper's last appendix."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from spikepool.errors import ConvergenceError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.kit.threads import single_threaded_blas
from spikepool.simulation.joint_ridge import METHODS, JointRidge


@dataclass(frozen=True)
class LearnedWeights:
    """Result of :func:`learn_weights`.

    Attributes
    ----------
    weights : array (T,)
        Best weights found, on the simplex.
    loss : float
        g(w), the joint ridge loss.
    coef : array (d,) or (d, k)
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


_TOLERANCE = {"ftol": 1e-12, "gtol": 1e-7}
# Multiply-adds of one solve below which the BLAS is kept to one thread.
_SINGLE_THREAD_WORK = 10**9


def softmax(phi: FloatArray) -> FloatArray:
    """exp(phi) over its sum, without overflow."""
    e = np.exp(phi - phi.max())
    return np.asarray(e / e.sum())


def learn_weights(
    X: ArrayLike,
    y: ArrayLike,
    ridge: float = 1.0,
    *,
    mask: ArrayLike | None = None,
    intercept: bool = False,
    restarts: int = 5,
    max_iter: int = 500,
    method: str | None = None,
    rng: Any = 0,
) -> LearnedWeights:
    """Minimise (1/n)‖y − C(w)beta‖² + ridge‖beta‖² over weights on the simplex and beta.

    ``w = softmax(phi)``, beta in closed form at every step, gradient by the envelope theorem, L-BFGS-B from the uniform
    weights and from random starts.

    Parameters
    ----------
    X : array_like (n, T, d)
        Tokens.
    y : array_like (n,) or (n, k)
        Targets.
    ridge : float
        Penalty lam; 1 in the paper.
    mask : array_like (n, T), optional
        True where a token is observed; weights are renormalised over the observed positions of a row.
    intercept : bool
        Centre features and targets. The paper does not.
    restarts : int
        Number of starts; the first is uniform, the others are standard normal phi.
    max_iter : int
        Iterations of each start.
    method : {"moments", "primal", "dual"}, optional
        How loss and gradient are evaluated; the cheapest by shape by default.
    rng : optional
        Seed of the random starts.
    """
    x = check.finite_array(X, "X", ndim=3) if mask is None else _masked(X, mask)
    n, T, _ = x.shape
    targets = check.finite_array(y, "y")
    if targets.ndim not in (1, 2) or len(targets) != n:
        raise ShapeError(f"y must have one row for each of the {n} sequences", targets, "Match X and y")
    if method is not None:
        check.choice(method, "method", METHODS)
    restarts = check.size(restarts, "restarts")
    max_iter = check.size(max_iter, "max_iter")
    observed = None if mask is None else _observed(mask, n, T)
    if observed is not None and not observed.any(axis=1).all():
        rows = np.flatnonzero(~observed.any(axis=1))[:10]
        raise ShapeError("rows without any observed token", rows, "Drop them")
    Y = targets if targets.ndim == 2 else targets[:, None]
    problem = JointRidge(x, observed, Y, check.positive(ridge, "ridge"), intercept=bool(intercept), method=method)
    generator = check.generator(rng)
    starts = random_starts(T, restarts, generator)
    result = minimise(problem, starts, max_iter)
    coef = problem.coefficients(result.weights)
    return LearnedWeights(
        result.weights, result.loss, coef if targets.ndim == 2 else coef[:, 0], result.losses, result.evaluations
    )


def random_starts(T: int, count: int, rng: np.random.Generator) -> list[FloatArray]:
    """Starting points phi: uniform weights first, then standard normal ones."""
    starts: list[FloatArray] = [np.zeros(T)]
    starts += [np.asarray(rng.standard_normal(T)) for _ in range(count - 1)]
    return starts


def _masked(X: ArrayLike, mask: ArrayLike) -> FloatArray:
    """X with zeros where nothing is observed, finite elsewhere."""
    x = np.array(X, dtype=np.float64)
    if x.ndim != 3:
        raise ShapeError("X must have 3 dimensions", x.shape, "Pass (n, T, d)")
    x[~_observed(mask, x.shape[0], x.shape[1])] = 0.0
    return check.finite_array(x, "X", ndim=3)


def _observed(mask: ArrayLike, n: int, T: int) -> BoolArray:
    """`mask` as a boolean (n, T) array."""
    given = np.asarray(mask)
    if given.shape != (n, T) or given.dtype.kind not in "biuf" or not np.isin(given, (0, 1)).all():
        raise ShapeError(f"mask must be boolean of shape ({n}, {T})", given.shape, "Use True where a token is present")
    return given.astype(np.bool_)


def minimise(problem: JointRidge, starts: list[FloatArray], max_iter: int) -> LearnedWeights:
    """L-BFGS-B in phi from each start; the best result (its `coef` left empty)."""
    evaluations = 0

    def objective(phi: FloatArray) -> tuple[float, FloatArray]:
        nonlocal evaluations
        evaluations += 1
        w = softmax(phi)
        value, gradient = problem.evaluate(w)
        return value, w * (gradient - gradient @ w)

    best: Any = None
    losses = []
    for start in starts:
        # many small solves in a row: handing each to several threads costs more than it saves
        small = problem.n * problem.d * min(problem.n, problem.d) < _SINGLE_THREAD_WORK
        with single_threaded_blas() if small else nullcontext():
            found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": max_iter, **_TOLERANCE})
        # status 1 is the limit of iterations: a valid point that is not the minimum
        if not np.isfinite(found.fun):
            raise ConvergenceError("the joint ridge loss is not finite", remedy="Rescale X or raise the ridge")
        losses.append(float(found.fun))
        if best is None or found.fun < best.fun:
            best = found
    return LearnedWeights(softmax(best.x), float(best.fun), np.empty(0), np.array(losses), evaluations)
