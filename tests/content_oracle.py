"""Plain numpy for content attention: tokens drawn one by one, posteriors by enumeration. No code of the library."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np


class Setting(NamedTuple):
    """A law of the relevant places: kind, T, L, and the run length of a chain or the prior of each position."""

    kind: str
    T: int
    L: int
    run: float | None = None
    prior: tuple[float, ...] | None = None


def draw_relevance(rng, setting, n):
    T, L = setting.T, setting.L
    if setting.prior is not None:
        return rng.random((n, T)) < np.array(setting.prior)
    if setting.kind == "span":
        start = rng.integers(0, T - L + 1, n)[:, None]
        return (np.arange(T) >= start) & (np.arange(T) < start + L)
    if setting.kind == "chain":
        phi = L / T
        r = np.zeros((n, T), dtype=bool)
        r[:, 0] = rng.random(n) < phi
        for t in range(1, T):
            r[:, t] = rng.random(n) < np.where(r[:, t - 1], 1 - 1 / setting.run, phi / (1 - phi) / setting.run)
        return r
    return np.argsort(rng.random((n, T)), axis=1) < L


def configurations(setting):
    """All relevance vectors that are possible, and their probabilities."""
    T, L = setting.T, setting.L
    if setting.kind == "span":
        rows = np.array([[float(j <= t < j + L) for t in range(T)] for j in range(T - L + 1)])
        return rows, np.full(len(rows), 1 / len(rows))
    if setting.kind == "scattered" and setting.prior is None:
        chosen = list(itertools.combinations(range(T), L))
        rows = np.zeros((len(chosen), T))
        for i, places in enumerate(chosen):
            rows[i, list(places)] = 1
        return rows, np.full(len(rows), 1 / len(rows))
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=T)))
    if setting.prior is not None:
        return rows, np.prod(np.where(rows > 0, setting.prior, 1 - np.array(setting.prior)), axis=1)
    phi, leave = L / T, 1 / setting.run
    enter = phi / (1 - phi) * leave
    step = {(0, 0): 1 - enter, (0, 1): enter, (1, 0): leave, (1, 1): 1 - leave}
    chance = [(phi if r[0] else 1 - phi) * np.prod([step[a, b] for a, b in itertools.pairwise(r)]) for r in rows]
    return rows, np.array(chance)


def enumerate_posterior(setting, evidence):
    """log E[exp(l'r)], p and R by summation over all configurations."""
    rows, chance = configurations(setting)
    rows, chance = rows[chance > 0], chance[chance > 0]
    log = evidence @ rows.T + np.log(chance)
    top = log.max(axis=1, keepdims=True)
    weight = np.exp(log - top)
    total = weight.sum(axis=1, keepdims=True)
    weight /= total
    return (top + np.log(total))[:, 0], weight @ rows, np.einsum("nc,cs,ct->nst", weight, rows, rows, optimize=True)


def draw_tokens(rng, setting, *, d, n, mu, nu, m=1.0):
    """Tokens (n, T, d) with u, k along the first axes, the query m k + sqrt(1 − m²) e_3, signs and relevance."""
    q = np.zeros(d)
    q[1], q[2] = m, np.sqrt(1 - m**2)
    r = draw_relevance(rng, setting, n)
    xi = rng.choice([-1.0, 1.0], n)
    X = rng.standard_normal((n, setting.T, d))
    X[..., 0] += mu * xi[:, None] * r
    X[..., 1] += nu * r
    return X, q, xi, r


def top_pair(C, q):
    """Top eigenvalue and the alignment with u of pooled vectors off q."""
    C = C - C.mean(axis=0)
    C = C - np.outer(C @ q, q)
    values, vectors = np.linalg.eigh(C.T @ C / len(C))
    return values[-1], vectors[0, -1] ** 2


def mean_and_error(rows):
    rows = np.asarray(rows)
    return rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
