"""Draws of sequences pooled by a query, and the top of their spectrum.

Tokens that never repeat are not drawn: given the scores, the components of a pooled vector off the query, the signal
and the key are independent normal variables of variance kappa_n, exactly in law. A finite vocabulary draws its table.
The best weighting of token pairs (:mod:`spikepool.theory.limits`) is drawn in the same way, T columns per sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from spikepool.errors import SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress
from spikepool.simulation.simulate import SimulationResult
from spikepool.world.pooling_matrix import token_matrix
from spikepool.world.query import QueryWorld, check_white
from spikepool.world.seeds import child_seed, seed_sequence


@dataclass(frozen=True)
class QuerySimulation(SimulationResult):
    """Top eigenpairs off the query over independent draws, and the pair along the query where it is left in.

    Attributes
    ----------
    query_eigenvalue, query_overlap : numpy.ndarray of shape (trials,)
        Of the covariance from which q is not projected out: the eigenpair closest to q (to the span of several
        queries), its eigenvalue and the squared cosine of its eigenvector with it. With coloured noise the direction is
        S_0 q, along which the pooled vectors follow their scores.
    """

    query_eigenvalue: FloatArray
    query_overlap: FloatArray


def simulate_query(
    world: QueryWorld, trials: int = 20, k: int = 1, *, rng: Any = None, progress: bool | None = None
) -> QuerySimulation:
    """Top `k` eigenvalues of S and the alignments of their eigenvectors with u, over independent draws.

    Parameters
    ----------
    world : QueryModel
        What is drawn, anew in each trial.
    trials : int
        Number of draws.
    k : int
        Number of eigenpairs, at most d − p.
    rng : int, SeedSequence or Generator, optional
        Trial i draws from its own child of this seed, whatever the number of trials.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after a couple of seconds.
    """
    trials, k = check.size(trials, "trials"), check.size(k, "k")
    p = world.directions
    if k > world.d - p:
        raise SizeError(f"k must be at most d − {p} = {world.d - p}", k, "Keep fewer eigenpairs")
    cells = world.N * (world.d + 2 * world.T * world.cost) + world.d**2 + (world.V or 0) * world.d
    require_memory(16 * cells, f"simulating d={world.d}, N={world.N}, T={world.T}", "Lower N, T, d or V")
    root = seed_sequence(rng)
    values, alignments = np.empty((trials, k)), np.empty((trials, k))
    along, overlap = np.empty(trials), np.empty(trials)
    with Progress(trials, "simulating", show=progress) as bar:
        for i in range(trials):
            generator = np.random.default_rng(child_seed(root, i))
            d = world.d
            if world.noise is None:
                C = draw_columns(world, generator)
                C -= C.mean(axis=0)
                S = C.T @ C / world.N
                top, vectors = eigh(S[p:, p:], subset_by_index=[d - p - k, d - p - 1])
                values[i], alignments[i] = top[::-1], vectors[0, ::-1] ** 2
                queries = np.eye(d)[:p]
            else:
                drawn = _Coloured(world, generator)
                C = drawn.columns(generator)
                C -= C.mean(axis=0)
                S = C.T @ C / world.N
                f = C @ drawn.query
                rest = C - np.outer(f, (f @ C) / (f @ f))
                top, vectors = eigh(rest.T @ rest / world.N, subset_by_index=[d - k, d - 1])
                values[i], alignments[i] = top[::-1], (drawn.u @ vectors[:, ::-1]) ** 2
                B = drawn.values * drawn.query
                queries = B[None] / np.linalg.norm(B)
            spectrum, vectors = np.linalg.eigh(S)
            shares = ((queries @ vectors) ** 2).sum(axis=0)
            nearest = int(np.argmax(shares))
            along[i], overlap[i] = spectrum[nearest], shares[nearest]
            bar.advance()
    return QuerySimulation(values, alignments, world.V is not None, along, overlap)


@dataclass(frozen=True)
class LearningSimulation:
    """Queries learned from drawn sequences.

    Attributes
    ----------
    overlaps, values : numpy.ndarray of shape (trials, rounds + 1)
        Overlap of the query with k before the first round (0) and after each, and the squared cosine with u of the
        value learned with it.
    token_pca : numpy.ndarray of shape (trials,)
        Overlap with k of the better of the two top components of the tokens of the first batch.
    """

    overlaps: FloatArray
    values: FloatArray
    token_pca: FloatArray


def simulate_learning(
    world: QueryWorld, n_train: int | None = None, *, rounds: int = 3, trials: int = 10, rng: Any = None
) -> LearningSimulation:
    """Learn value and query in turn by gradient steps on drawn tokens; see :mod:`spikepool.theory.learned_query`.

    Parameters
    ----------
    world : QueryModel
        What is drawn; its overlap plays no part. The slope of each round is the model's at the overlap reached.
    n_train : int, optional
        Fresh sequences of each step; the model's N when not given.
    rounds, trials : int
        Gradient steps, and repetitions.
    rng : optional
        Seed; trial i draws from its own child of it.
    """
    n = world.N if n_train is None else check.size(n_train, "n_train", minimum=2)
    rounds, trials = check.size(rounds, "rounds"), check.size(trials, "trials")
    require_memory(24 * n * world.T * world.d, f"{n} sequences of {world.T} tokens", "Lower n_train, T or d")
    root = seed_sequence(rng)
    overlaps, values = np.zeros((trials, rounds + 1)), np.empty((trials, rounds + 1))
    token_pca = np.empty(trials)
    for i in range(trials):
        generator = np.random.default_rng(child_seed(root, i))
        query = np.zeros(world.d)
        for step in range(rounds + 1):
            at = world.replace(overlap=float(np.clip(query[1], 0.0, 1.0)), kernel="softmax", normalize=True)
            at = at.replace(beta=0.0) if step == 0 else at
            tokens, y = _draw_labelled(world, n, generator)
            if step == 0:
                token_pca[i] = _best_component(tokens)
            value = np.einsum("n,nt,ntd->d", y, at.weights(tokens @ query), tokens, optimize=True)
            value -= query * (query @ value)
            value /= np.linalg.norm(value)
            values[i, step] = value[0] ** 2
            if step == rounds:
                break
            tokens, y = _draw_labelled(world, n, generator)
            w, score = at.weights(tokens @ query), tokens @ value
            pull = w * (score - np.sum(w * score, axis=1, keepdims=True))
            query = np.einsum("n,nt,ntd->d", y, pull, tokens, optimize=True)
            query -= value * (value @ query)
            query /= np.linalg.norm(query)
            overlaps[i, step + 1] = query[1]
    return LearningSimulation(overlaps, values, token_pca)


def _draw_labelled(world: QueryWorld, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Tokens (n, T, d) with u and k along the first two axes, relevant ones first, and labels."""
    tokens = rng.standard_normal((n, world.T, world.d))
    y = rng.integers(0, 2, n) * 2.0 - 1
    tokens[:, : world.L, 0] += world.mu * y[:, None]
    tokens[:, : world.L, 1] += world.nu
    return tokens, np.asarray(y, dtype=np.float64)


def _best_component(tokens: FloatArray) -> float:
    """Overlap with k of the better of the two top components of all tokens."""
    rows = tokens.reshape(-1, tokens.shape[2])
    rows = rows - rows.mean(axis=0)
    vectors = np.linalg.eigh(rows.T @ rows)[1]
    return float(np.abs(vectors[1, -2:]).max())


def draw_columns(world: QueryWorld, rng: np.random.Generator) -> FloatArray:
    """Pooled vectors (N, d) in coordinates along q_1, ..., q_p, u, the part of k off the queries, and the rest."""
    if world.V is not None:
        vocabulary = world.vocabulary(rng)
        tokens, _ = world.draw_tokens(rng)
        table = rng.standard_normal((world.V, world.d))
        table[:, 0] = vocabulary.scores
        table[:, 1] += world.mu * vocabulary.signs
        table[:, 2] += world.missed * vocabulary.relevant
        return np.asarray(token_matrix(tokens, world.weights(vocabulary.scores[tokens]), world.V) @ table)
    p = world.directions
    pooled = world.draw_pooled(world.N, rng)
    C = rng.standard_normal((world.N, world.d)) * np.sqrt(pooled.kappa)[:, None]
    C[:, :p] = pooled.f
    C[:, p] += world.mu * pooled.A * (rng.integers(0, 2, world.N) * 2.0 - 1)
    C[:, p + 1] += world.missed * pooled.A
    return C


class _Coloured:
    """Tokens with noise of covariance S_0: directions of the query, of u and of k in its eigenbasis, drawn at random.

    u is orthogonal to k and to the query, as for white noise.
    """

    def __init__(self, world: QueryWorld, rng: np.random.Generator) -> None:
        values = np.asarray(world.noise, dtype=np.float64)
        plain, across, u = np.linalg.qr(rng.standard_normal((world.d, 3)))[0].T
        m = float(world.overlaps[0])
        k = m * plain + np.sqrt(1 - m**2) * across
        query = plain / values if world.matched else plain
        self.query = query / np.sqrt(query @ (values * query))
        off = np.linalg.qr(np.column_stack([k, self.query]))[0]
        u = u - off @ (off.T @ u)
        self.u, self.k = u / np.linalg.norm(u), k
        self.values, self.world = values, world

    def columns(self, rng: np.random.Generator) -> FloatArray:
        """Pooled vectors (N, d); every token's noise is drawn where the vocabulary is finite."""
        world = self.world
        root = np.sqrt(self.values)
        if world.V is not None:
            vocabulary = world.vocabulary(rng)
            tokens, _ = world.draw_tokens(rng)
            table = rng.standard_normal((world.V, world.d)) * root
            table += world.mu * np.outer(vocabulary.signs, self.u) + world.nu * np.outer(vocabulary.relevant, self.k)
            return np.asarray(token_matrix(tokens, world.weights((table @ self.query)[tokens]), world.V) @ table)
        pooled = world.draw_pooled(world.N, rng)
        B = self.values * self.query
        noise = rng.standard_normal((world.N, world.d)) * root
        noise -= np.outer(noise @ self.query, B)  # of covariance S_0 − B B'
        signs = rng.integers(0, 2, world.N) * 2.0 - 1
        C = noise * np.sqrt(pooled.kappa)[:, None] + np.outer(pooled.f[:, 0], B)
        C += world.mu * np.outer(signs * pooled.A, self.u)
        return C + world.nu * np.outer(pooled.A, self.k - (self.query @ self.k) * B)


def simulate_pairs(
    world: QueryWorld, trials: int = 20, k: int = 1, *, rng: Any = None, progress: bool | None = None
) -> SimulationResult:
    """Top `k` eigenpairs of the best weighting of token pairs, sum_n E_n'Phi_n E_n/N, over independent draws.

    Phi_n = R_n (1 + mu² R_n)^{-1} with R_n = E[r r' | scores] of :mod:`spikepool.world.relevance`, and E_n (T × d) the
    tokens of a sequence off the directions of the query and of k. In the eigenbasis of R_n the tokens are T columns
    sqrt(phi_i) (mu xi (v_i'r) u + noise), exactly in law.

    Parameters
    ----------
    world : QueryModel
        What is drawn, anew in each trial; its kernel plays no part. Tokens never repeat and have white noise.
    trials, k, rng, progress
        As in :func:`simulate_query`; k is at most d − 1 − p.
    """
    check_white(world, "the weighting of token pairs")
    trials, k = check.size(trials, "trials"), check.size(k, "k")
    d = world.d - world.directions - 1
    if k > d:
        raise SizeError(f"k must be at most {d}", k, "Keep fewer eigenpairs")
    require_memory(16 * world.N * world.T * world.T, f"pairs of {world.T} tokens", "Lower N or T")
    root = seed_sequence(rng)
    values, alignments = np.empty((trials, k)), np.empty((trials, k))
    step = max(1, (1 << 22) // (world.T * world.d))
    with Progress(trials, "simulating", show=progress) as bar:
        for i in range(trials):
            generator = np.random.default_rng(child_seed(root, i))
            relevant = world.relevance_law.draw(world.N, generator)
            h = world.draw_scores(relevant, generator)
            signs = generator.integers(0, 2, world.N) * 2.0 - 1
            S = np.zeros((d, d))
            for start in range(0, world.N, step):
                rows = slice(start, min(start + step, world.N))
                t, basis = np.linalg.eigh(world.relevance_law.moments(world.evidence(h[rows])))
                t = np.maximum(t, 0.0)
                root_phi = np.sqrt(t / (1 + world.mu**2 * t))
                A = np.einsum("nts,nt->ns", basis, relevant[rows].astype(np.float64))
                C = generator.standard_normal((*t.shape, d))
                C[:, :, 0] += world.mu * signs[rows, None] * A
                C *= root_phi[:, :, None]
                flat = C.reshape(-1, d)
                S += flat.T @ flat / world.N
            top, vectors = eigh(S, subset_by_index=[d - k, d - 1])
            values[i], alignments[i] = top[::-1], vectors[0, ::-1] ** 2
            bar.advance()
    return SimulationResult(values, alignments, False)
