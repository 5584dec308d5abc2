"""Draws of the model written from its definition, for Monte Carlo tests. Nothing here calls the library."""

import numpy as np
import scipy.linalg
import scipy.sparse


def draw_table(rng, d, V, mu, *, class_centered=False):
    """Embeddings (V, d) of tokens with class + first, − second half; the signal is along the first axis."""
    table = rng.standard_normal((V, d))
    if class_centered:
        for half in (slice(0, V // 2), slice(V // 2, V)):
            table[half] -= table[half].mean(axis=0)
    table[: V // 2, 0] += mu
    table[V // 2 :, 0] -= mu
    return table


def draw_tokens(rng, xi, V):
    """A token of class xi for each position."""
    return rng.integers(0, V // 2, size=xi.shape) + np.where(xi > 0, 0, V // 2)


def pool(table, tokens, w):
    """Pooled rows (N, d) with weights w, of shape (T,) or (N, T)."""
    N, T = tokens.shape
    entries = np.broadcast_to(w, (N, T)).ravel()
    W = scipy.sparse.csr_array((entries, (np.repeat(np.arange(N), T), tokens.ravel())), shape=(N, len(table)))
    return W @ table


def top_pair(C, k=1):
    """Top k eigenvalues of the centred covariance of rows C and squared first coordinates of their eigenvectors."""
    C = C - C.mean(axis=0)
    d = C.shape[1]
    values, vectors = scipy.linalg.eigh(C.T @ C / len(C), subset_by_index=[d - k, d - 1])
    return values[::-1], vectors[0, ::-1] ** 2


def mean_and_error(draws):
    """Mean over the first axis and its standard error."""
    draws = np.asarray(draws, dtype=float)
    return draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
