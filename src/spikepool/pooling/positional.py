"""The positional correlation R, estimated within the leading directions of the tokens, and weights from it.

For tokens x_t, centred by position, and directions U found on other sequences, the estimate of R up to scale is

    G_ts = average over sequences of <U'x_t, U'x_s>      (t ≠ s),

over the sequences in which both positions are observed. In the model ``E[G_ts] = R_ts s`` with s the signal variance of
a token along U: only pairs of DIFFERENT tokens enter, because <x_t, x_t> is swamped by the token's own noise. Sums are
kept in ten folds, which give sampling errors and cross-fits. Positions may be bins of relative positions; pairs of
different tokens within a bin then fill the diagonal too.

Entry (t, s) has sampling variance v_ts. It is moved towards the exchangeable structure (one common value, whose optimum
is the mean) by ``v_ts/(v_ts + tau²)``, with tau² the variance between entries beyond sampling. The weights maximise
w'Gw/w'w over w >= 0, sum 1 (Theorem 5). The diagonal of R only adds a constant to alpha/kappa, so the maximiser needs
no diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import eigsh

from spikepool.kit.arrays import BoolArray, FloatArray, IntArray

# Ten folds: a t-quantile close to the normal's, and nine tenths of the data in each cross-fit.
N_FOLDS = 10
# Most leading directions, and the dimension from which they are iterated for.
MAX_DIRECTIONS = 16
DENSE_FEATURES = 512
# Columns of a Gram matrix from which the best weights are sought.
_MOST_STARTS = 16


@dataclass(frozen=True)
class PositionalGram:
    """Sums (folds, P, P) over pairs of different tokens, numbers of pairs, and signal variance of a token by fold."""

    sums: FloatArray
    pairs: FloatArray
    signal: FloatArray

    def average(self, folds: BoolArray | slice = slice(None)) -> tuple[FloatArray, FloatArray]:
        """G and the number of pairs behind each entry; entries nobody observed are 0 with 0 pairs."""
        pairs = self.pairs[folds].sum(axis=0)
        return self.sums[folds].sum(axis=0) / np.where(pairs > 0, pairs, 1.0), pairs


@dataclass(frozen=True)
class ShrunkGram:
    """G moved towards its average `level`, and the sampling errors of its entries, infinite where none was observed."""

    gram: FloatArray
    level: float
    error: FloatArray

    @property
    def off_diagonal(self) -> FloatArray:
        """The shrunken matrix with zeros on the diagonal where no pair of different tokens informs it."""
        G = self.gram.copy()
        np.fill_diagonal(G, np.where(np.isfinite(np.diag(self.error)), np.diag(G), 0.0))
        return G


def leading_gram(x: FloatArray, observed: BoolArray, labels: IntArray, P: int) -> PositionalGram:
    """G within the leading directions of the cross-position covariance of centred tokens (m, T, d) with P labels.

    Directions are the top eigenvectors of ``M_w = Σ_{t≠s} w_t w_s C_ts`` over the other folds, first for the mean and
    then for the weights that the first round suggests; as many as exceed the most negative eigenvalue, which is
    noise, by a fifth.
    """
    member = np.zeros((*observed.shape, P))
    np.put_along_axis(member, labels[..., None], observed[..., None].astype(np.float64), axis=2)
    rows = [slice(k, None, N_FOLDS) for k in range(N_FOLDS)]
    w = np.full(P, 1.0 / P)
    for _ in range(2):
        omega = np.where(observed, w[labels], 0.0)
        covariances = [_cross_covariance(x[part], omega[part]) for part in rows]
        everything = np.sum(covariances, axis=0)
        grams = [
            _products_within(_leading(everything - covariance), x[part], member[part])
            for covariance, part in zip(covariances, rows, strict=True)
        ]
        sums, pairs, signal = (np.array(column) for column in zip(*grams, strict=True))
        gram = PositionalGram(np.where(pairs > 0, sums, 0.0), pairs, signal)
        w = best_nonnegative(shrink(gram).gram)
    return gram


def _cross_covariance(x: FloatArray, omega: FloatArray) -> FloatArray:
    """Sum over rows of (Σ_t w_t x_t)(...)' minus the terms of a token with itself."""
    weighted = omega[..., None] * x
    pooled, flat = weighted.sum(axis=1), weighted.reshape(-1, x.shape[2])
    return np.asarray(pooled.T @ pooled - flat.T @ flat)


def _leading(M: FloatArray) -> FloatArray:
    """Eigenvectors of M whose eigenvalues stand out on the positive side, at least one."""
    d = len(M)
    if d <= DENSE_FEATURES:
        values, vectors = np.linalg.eigh(M)
        lowest, values, vectors = values[0], values[-MAX_DIRECTIONS:], vectors[:, -MAX_DIRECTIONS:]
    else:
        start = np.random.default_rng(0).standard_normal(d)  # a fixed start gives the same digits every time
        lowest = eigsh(M, 1, which="SA", v0=start, tol=1e-6, return_eigenvectors=False)[0]
        values, vectors = eigsh(M, MAX_DIRECTIONS, which="LA", v0=start, tol=1e-6)
    outside = values > 1.2 * max(-float(lowest), 0.0)
    outside[np.argmax(values)] = True
    return np.asarray(vectors[:, outside])


def _products_within(U: FloatArray, x: FloatArray, member: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Sums of products of different tokens within directions U, their number, and the signal variance of a token."""
    projected = x @ U
    Y = np.matmul(member.transpose(0, 2, 1), projected)
    norms = np.einsum("ntq,ntq->nt", projected, projected)
    sums = np.einsum("npq,nrq->pr", Y, Y, optimize=True) - np.diag(np.einsum("ntp,nt->p", member, norms))
    c = member.sum(axis=1)
    # along = s + q·noise and total = s + d·noise, for signal variance s and noise in each direction
    (d, q), tokens = U.shape, max(float(member.sum()), 1.0)
    along, total = float(norms.sum()), float(np.einsum("ntd,ntd->", x, x))
    signal = (along - total * q / d) / (1 - q / d) if q < d else along
    return sums, c.T @ c - np.diag(c.sum(axis=0)), signal / tokens


def shrink(gram: PositionalGram, folds: BoolArray | slice = slice(None)) -> ShrunkGram:
    """Empirical-Bayes shrinkage of G towards its average, entry by entry."""
    G, pairs = gram.average(folds)
    seen = pairs > 0
    upper = np.triu(seen)
    weight, total = pairs[upper], max(float(pairs[upper].sum()), 1.0)
    level = float((weight * G[upper]).sum() / total)
    # variance of one pair's product, pooled over entries: Var(sum over a fold − pairs·G) = sigma²·pairs·(1 − pairs/all)
    part = gram.pairs[folds]
    expected = part * (1 - part / np.where(seen, pairs, 1.0))
    use = (expected > 0) & upper
    deviation = (gram.sums[folds] - part * G)[use]
    sigma2 = float(deviation @ deviation / expected[use].sum()) if use.any() else 0.0
    variance = np.where(seen, sigma2 / np.where(seen, pairs, 1.0), np.inf)
    # moment estimate of the variance between entries, each entry weighted by its number of pairs
    tau2 = max(float((weight * ((G[upper] - level) ** 2 - variance[upper])).sum() / total), 0.0)
    kept = tau2 / np.where(seen, np.where(seen, variance, 0.0) + tau2, 1.0) if tau2 > 0 else np.zeros_like(G)
    return ShrunkGram(np.where(seen, level + kept * (G - level), level), level, np.sqrt(variance))


def best_nonnegative(G: FloatArray) -> FloatArray:
    """Weights w >= 0 of unit sum that maximise w'Gw/w'w.

    The maximiser is the top eigenvector of a principal block of G, positive there. A start gives a block by a step of
    the power iteration, its eigenvector the next start, until nothing is gained. With negative entries the problem is
    not convex: starts are the uniform weights and the columns of largest sum. Ties go to the uniform weights.
    """
    P = len(G)
    lowest = float(np.linalg.eigvalsh(G)[0])
    spread = max(float(np.abs(G).max()), np.finfo(np.float64).tiny)
    A = G + (max(0.0, -lowest) + 1e-12 * spread) * np.eye(P)
    best = np.full(P, P**-0.5)
    best_value = float(best @ A @ best)
    columns = np.maximum(G, 0.0) + spread * np.eye(P)
    for start in [best, *columns[np.argsort(-columns.sum(axis=1))[:_MOST_STARTS]]]:
        v, value = _on_block(A, start)
        while True:
            w, reached = _on_block(A, np.maximum(A @ v, 0.0))
            if reached <= value + 1e-12 * spread:
                break
            v, value = w, reached
        if value > best_value + 1e-9 * spread:
            best, best_value = v, value
    return np.asarray(best / best.sum())


def _on_block(A: FloatArray, v: FloatArray) -> tuple[FloatArray, float]:
    """Top eigenvector on the support of v, without the positions in which it is negative, and its value."""
    support = np.flatnonzero(v > 1e-9 * v.max())
    while True:
        values, vectors = np.linalg.eigh(A[np.ix_(support, support)])
        top = vectors[:, -1] * (1.0 if vectors[:, -1].sum() > 0 else -1.0)
        if top.min() >= 0:
            weights = np.zeros_like(v)
            weights[support] = top
            return weights, float(values[-1])
        support = support[top > 0]
