"""The ridge classifier of pooled sequences, simulated: with given weights, and with weights learned jointly.

*A draw whose table is never drawn.* beta = (S + ridge)⁻¹ C y/n, S = C C'/n, lies in the Krylov space of S at C y, in
which conjugate gradients look for it; one space serves every ridge, since adding a multiple of the identity does not
change it. Test scores need the table once more, through the products of its tokens with beta: known already, because
beta lies in the span of the products.

*Weights on the simplex, learned jointly with ridge*, are the experiment of the paper's last appendix. For tokens x_nt,
targets y and pooled rows c_n(w) = sum_t w_t x_nt it minimises

    g(w) = min_beta (1/n)‖y − C(w) beta‖² + lam‖beta‖² = (1/n) y'(y − C beta),    beta = (C'C + lam n I)^{-1} C'y,

and by the envelope theorem (beta is optimal, so only the explicit dependence on w counts)

    dg/dw_t = −(2/n) sum_n (y − C beta)_n <beta, x_nt>.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from spikepool.errors import ConvergenceError, InvalidInputError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress
from spikepool.kit.threads import single_threaded_blas, task_threads
from spikepool.simulation.krylov import KrylovSpace, krylov_space
from spikepool.simulation.simulate import takes_drawn_table
from spikepool.simulation.top_pairs import KRYLOV_LIMIT
from spikepool.simulation.undrawn import UndrawnDraw, UndrawnNoise, UndrawnSource
from spikepool.world.labels import flip_probability, flipped, label_positions, labels_of
from spikepool.world.pooled_latents import pooled_latents, with_token_weights
from spikepool.world.pooling_matrix import PoolingMatrix
from spikepool.world.sampling import Sample, draw_sample
from spikepool.world.seeds import seed_sequence
from spikepool.world.sequences import SequenceWorld, checked_model

# Bound on the error of beta relative to its length: the share of test sequences whose score it could turn is below it.
_TOLERANCE = 1e-8


def held_out_scores(draw: UndrawnDraw, w: FloatArray, y: FloatArray, ridges: FloatArray) -> FloatArray | None:
    """Scores (ridges, n_test) of the sequences that follow the ``len(y)`` training ones; None without convergence."""
    model, n = draw.model, len(y)
    training = UndrawnDraw(model.replace(N=n, centered=False), draw.tokens[:n], draw.latent[:n], draw.table, draw.run)
    noise = UndrawnNoise(training, w)
    u, mu = noise.u, model.mu
    target = noise.forward(y)
    target[: len(u)] += mu * float(noise.b @ y) * u
    target /= n
    length = float(np.linalg.norm(target))
    found: list[FloatArray] = []

    def over(space: KrylovSpace) -> float:
        theta, Y = np.linalg.eigh(space.projected)
        solutions = (length * Y[0] / (theta + ridges[:, None])) @ Y.T
        residuals = np.abs(float(space.coupling[0, 0]) * solutions[:, -1])
        # S is positive semi-definite: an error of beta is at most its residual over the ridge
        errors = residuals / (ridges * np.linalg.norm(solutions, axis=1))
        worst = float(errors.max())
        if worst <= _TOLERANCE:
            found.append(solutions @ space.basis)
        return math.log(worst / _TOLERANCE) if worst else -math.inf

    krylov_space(lambda x: noise.apply(x, mu), target[None] / length, over, max_dimension=min(KRYLOV_LIMIT, model.d, n))
    if not found:
        return None
    beta = found[0]
    scores = draw.table.adjoint(beta)
    along = mu * (beta[:, : len(u)] @ u)
    pooling = PoolingMatrix(draw.tokens[n:], w, model.V, token_weights=model.token_weights, run=draw.run)
    if model.latent == "signs":
        scores += along[:, None] * model.signs
        return np.stack([pooling.pool(row) for row in scores])
    pooled = pooled_latents(draw.latent[n:], with_token_weights(w, model, draw.tokens[n:]))
    return np.stack([pooling.pool(row) for row in scores]) + along[:, None] * pooled


# Token positions from which threads are worth their overhead.
_THREADED_SIZE = 1 << 21


class RidgeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Two-class least squares with ridge penalty and no intercept, the classifier of the paper's experiment.

    ``beta = (C C' + ridge·n I)⁻¹ C y`` with the pooled columns C and labels y = ±1; a sequence is classified by the
    sign of beta'c.

    Parameters
    ----------
    ridge : float
        Penalty, above 0.
    weights : array_like of shape (T,), optional
        Pooling weights for token input (n, T, d); the mean when not given. Features given as (n, d) are taken as
        already pooled.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels; the second counts as +1.
    coef_ : ndarray of shape (d,)
        beta.
    n_features_in_ : int
        d.
    """

    def __init__(self, ridge: float = 1.0, weights: ArrayLike | None = None) -> None:
        self.ridge = ridge
        self.weights = weights

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _pool(self, X: Any, *, reset: bool) -> FloatArray:
        """Pooled features (n, d) of token input (n, T, d), or of features given as (n, d)."""
        if np.asarray(X).ndim != 3:
            if self.weights is not None:
                raise ShapeError("with weights, X must be tokens of shape (n, T, d)", np.asarray(X), "Pass 3 axes")
            return np.asarray(validate_data(self, X, reset=reset, dtype=np.float64))
        tokens = check_array(X, allow_nd=True, dtype=np.float64)
        T = tokens.shape[1]
        w = np.full(T, 1 / T) if self.weights is None else check.weight_vector(self.weights, T)
        if reset:
            self.n_features_in_ = tokens.shape[2]
        elif tokens.shape[2] != self.n_features_in_:
            raise ShapeError(f"X must have {self.n_features_in_} features", tokens, "Use the features of the fit")
        return np.asarray(np.einsum("t,ntd->nd", w, tokens))

    def fit(self, X: ArrayLike, y: ArrayLike) -> RidgeClassifier:
        """Fit on tokens (n, T, d) or pooled features (n, d) with labels of two classes."""
        ridge = check.ridge_penalty(self.ridge)
        C = self._pool(X, reset=True)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(C, labels)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) != 2:
            noun = "class" if len(self.classes_) == 1 else "classes"
            raise InvalidInputError(
                f"Only binary classification is supported. y has {len(self.classes_)} {noun}",
                self.classes_,
                "Pass labels of two kinds, or wrap in OneVsRestClassifier",
            )
        signs = 2.0 * codes - 1.0
        n, d = C.shape
        if d <= n:
            self.coef_ = np.linalg.solve(C.T @ C + ridge * n * np.eye(d), C.T @ signs)
        else:
            self.coef_ = C.T @ np.linalg.solve(C @ C.T + ridge * n * np.eye(n), signs)
        return self

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Scores beta'c; positive for the second class."""
        check_is_fitted(self)
        return np.asarray(self._pool(X, reset=False) @ self.coef_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels by the sign of the score."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(np.intp)])


def simulate_ridge(
    model: SequenceWorld,
    w: ArrayLike,
    ridge: float | ArrayLike = 1.0,
    n_train: int | None = None,
    *,
    n_test: int = 4000,
    trials: int = 20,
    label: int | ArrayLike = 0,
    label_noise: float = 0.0,
    rng: Any = None,
    table_drawn: bool | None = None,
) -> FloatArray:
    """Test accuracies of the classifier over independent draws of table, training and test sequences.

    Parameters
    ----------
    model, w, ridge, n_train, label, label_noise
        As in :func:`spikepool.theory.ridge.ridge_accuracy`; several values of `ridge` share each draw.
    n_test : int
        Fresh test sequences of each draw, from the same table.
    trials : int
        Number of draws.
    rng : optional
        Seed.
    table_drawn : bool, optional
        Whether the table is drawn; by default not where its noise is Gaussian. The law of the results is the same,
        their numbers are others.

    Returns
    -------
    ndarray of shape (trials,) or (trials, number of ridges)
    """
    checked_model(model)
    w = check.weight_vector(w, model.T)
    ridges = check.finite_array(ridge, "ridge")
    for value in ridges.ravel():
        check.ridge_penalty(float(value))
    if ridges.ndim > 1:
        raise ShapeError("ridge must be a number or a list of numbers", ridges, "Flatten it")
    n_train = model.N if n_train is None else check.size(n_train, "n_train")
    n_test = check.size(n_test, "n_test")
    positions = label_positions(label, model.T)
    trials = check.size(trials, "trials")
    flips = flip_probability(label_noise)
    world = model.replace(N=n_train + n_test)
    source = None if takes_drawn_table(model, [w], table_drawn) else UndrawnSource(world)
    generator = check.generator(rng)
    require_memory(8 * trials * ridges.size, f"{trials:,} trials", "Ask for fewer trials")
    result = np.empty((trials, ridges.size))
    with Progress(trials, "ridge classifier") as progress:
        for trial in range(trials):
            if source is None:
                sample = draw_sample(world, rng=generator)
                y = labels_of(sample.latent, positions)
                trained = flipped(y[:n_train], flips, generator)
                scores = _drawn_scores(sample, w, trained, ridges.ravel())
            else:
                with task_threads(large=world.N * world.T > _THREADED_SIZE) as run:
                    draw = source.draw(seed_sequence(generator), run=run)
                    y = labels_of(draw.latent, positions)
                    trained = flipped(y[:n_train], flips, generator)
                    found = held_out_scores(draw, w, trained, ridges.ravel())
                    scores = _drawn_scores(draw.sample(), w, trained, ridges.ravel()) if found is None else found
            result[trial] = np.mean(scores * y[n_train:] > 0, axis=1)
            progress.advance()
    return result[:, 0] if ridges.ndim == 0 else result


def _drawn_scores(sample: Sample, w: FloatArray, y: FloatArray, ridges: FloatArray) -> FloatArray:
    """Scores (ridges, n_test) of the sequences that follow the ``len(y)`` training ones, by a full decomposition."""
    C, n = sample.pooled(w), len(y)
    train, test = C[:, :n], C[:, n:]
    values, vectors = np.linalg.eigh(train @ train.T / n)
    target = vectors.T @ (train @ y) / n
    # one decomposition serves every ridge
    beta = vectors @ (target[:, None] / (values[:, None] + ridges))
    return np.asarray((test.T @ beta).T)


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
