"""The ridge classifier of one draw whose table is never drawn.

beta = (S + ridge)⁻¹ C y/n, S = C C'/n, lies in the Krylov space of S at C y, in which conjugate gradients look for
it; one space serves every ridge, since adding a multiple of the identity does not change it. Test scores need the
table once more, through the products of its tokens with beta: known already, because beta lies in the span of the
products.
"""

from __future__ import annotations

import math

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.simulation.krylov import KrylovSpace, krylov_space
from spikepool.simulation.top_pairs import KRYLOV_LIMIT
from spikepool.simulation.undrawn import UndrawnDraw, UndrawnNoise
from spikepool.world.pooling_matrix import PoolingMatrix
from spikepool.world.tokens import pooled_latents

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
    pooling = PoolingMatrix(draw.tokens[n:], w, model.V, run=draw.run)
    if model.latent == "signs":
        scores += along[:, None] * model.signs
        return np.stack([pooling.pool(row) for row in scores])
    return np.stack([pooling.pool(row) for row in scores]) + along[:, None] * pooled_latents(draw.latent[n:], w)
