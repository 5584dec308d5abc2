"""The joint ridge loss of learned weights given the tokens of a training set, with its gradient.

In the symbols of :mod:`spikepool.theory.ridge_given_tokens`, W = sum_t w_t W_t, A = WW'/n, b = Wy/n, g = Wa/n, a = W's
the pooled latents, R = (rho + A)^{-1} and rho (d − tr A R) = ridge,

    G(w, rho) = 1 − b'x − mu² N²/D,    N = a'y/n − g'x,    D = rho d + mu² (a'a/n − g'h),    x = R b,  h = R g.

The derivative in w at fixed rho takes products with tokens only, such as x'W_t v = sum_n x[token_nt] v_n; that of rho
follows from the constraint, whose derivative needs R² at pairs of tokens of one sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.theory.ridge_given_tokens import effective_ridge
from spikepool.world.class_centring import Projection
from spikepool.world.labels import labels_of
from spikepool.world.pooling_matrix import token_matrix
from spikepool.world.seeds import child_seed, seed_sequence
from spikepool.world.sequences import SequenceWorld
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
