"""Test accuracies of the ridge classifier of pooled sequences, simulated.

*A draw whose table is never drawn.* beta = (S + ridge)⁻¹ C y/n, S = C C'/n, lies in the Krylov space of S at C y, in
which conjugate gradients look for it; one space serves every ridge, since adding a multiple of the identity does not
change it. Test scores need the table once more, through the products of its tokens with beta: known already, because
beta lies in the span of the products.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress
from spikepool.kit.threads import task_threads
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

# Token positions from which threads are worth their overhead.
_THREADED_SIZE = 1 << 21
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
