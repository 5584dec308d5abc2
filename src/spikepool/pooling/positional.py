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

The decision whether positional weights deserve to be used.

**Gain.** Weights from nine folds are scored on the tenth. With the signal variance s_k of a token in fold k,

    a_k = s_k + w'G_k w/w'w,    b_k = s_k + u'G_k u/u'u,    gain = mean(a)/mean(b)

for the weights w of the other folds and the mean u; the error is that of a ratio, ``sd(a − gain·b)/(√10 mean(b))``.
The weights are used when the lower confidence bound exceeds ``1 + min_gain``. Gains that are reported were therefore
selected for being large, and their estimate and interval are conditional on that
(:func:`spikepool.kit.statistics.unselected`).

**Symmetry.** For two independent centred sequences let K_ts = <x_nt, x_n's>. With C_ts = Cov(x_t, x_s), a d x d matrix,
averages over pairs of sequences are unbiased for

    E[(tr K)² − Σ_t K_tt²] = Σ_{t≠s} ‖C_ts‖²             (energy)
    E[tr K² − Σ_t K_tt²]   = Σ_{t≠s} <C_ts, C_ts'>       (symmetric energy)

The antisymmetric parts (C_ts − C_ts')/2 have half of their difference. In the model C_ts is symmetric and the energies
agree. Where order is grammar ("I" before "am") they do not: positions share no latent then, and the mean is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh
from scipy.stats import norm
from scipy.stats import t as student

from spikepool.kit.arrays import BoolArray, FloatArray, IntArray
from spikepool.kit.statistics import unselected

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


# Antisymmetric share of the energy above which, by two standard errors, the structure is order rather than a shared
# latent: 0 in the model, .02 to .06 in time series and MiniLM's last layer, .17 to .49 in other layers and in tables.
ASYMMETRY_LIMIT = 0.05
# Pairs of sequences, operations (about a second) and directions of the antisymmetric energy.
_MOST_PAIRS = 60_000
_PAIR_FLOPS = 2e10
_ENERGY_DIRECTIONS = 48


class Antisymmetry(NamedTuple):
    """Energy of the antisymmetric parts, Σ_{t≠s} ‖(C_ts − C_ts')/2‖², its standard error, and the whole energy.

    Its share is 0 for symmetric matrices, 1 for antisymmetric ones, 1/2 where C_ts and its transpose have nothing to do
    with each other.
    """

    energy: float
    error: float
    whole: float


@dataclass(frozen=True)
class Evidence:
    """What the data say about positional weights.

    Candidate weights (P,), non-negative, of unit sum; the positional correlation (P, P), shrunk; their gain, that is
    (alpha/kappa of the weights)/(alpha/kappa of the mean), with a confidence interval, both conditional on acceptance
    where they are accepted; and why they are or are not.
    """

    weights: FloatArray
    correlation: FloatArray
    gain: float
    interval: tuple[float, float]
    asymmetry: Antisymmetry
    accepted: bool
    reason: str


def weigh(gram: PositionalGram, asymmetry: Antisymmetry, *, confidence: float, min_gain: float) -> Evidence:
    """Weights from a positional Gram matrix, and whether they deserve to be used."""
    shrunk = shrink(gram)
    off = shrunk.off_diagonal
    # a correlation is at most one: the signal variance is at least the largest cross moment
    scale = max(float(gram.signal.mean()), float(np.abs(off - np.diag(np.diag(off))).max()))
    correlation = off / scale if scale > 0 else np.zeros_like(off)
    np.fill_diagonal(correlation, 1.0)
    gain, error, folds = _cross_fitted(gram, scale, shrunk.level)
    normal, tail = float(norm.ppf(0.5 + confidence / 2)), (1 - confidence) / 2
    # the wider quantile of few folds as a normal law of larger deviation
    error *= float(student.ppf(0.5 + confidence / 2, max(folds - 1, 1))) / normal
    lower, upper = gain - normal * error, gain + normal * error
    accepted, reason = False, "no significant gain over the mean"
    if 1 < lower <= 1 + min_gain:
        reason = f"the gain over the mean is significant but may be below the {1 + min_gain:g} that min_gain asks for"
    elif lower > 1 and asymmetry.energy - 2 * asymmetry.error > max(ASYMMETRY_LIMIT * asymmetry.whole, 0.0):
        reason = "positions are tied by their order, not by a shared latent"
    elif lower > 1:
        accepted, reason = True, "positions differ significantly"
        if error > 0:
            cut = 1 + min_gain + normal * error
            lower, gain, upper = (max(unselected(gain, cut, error, p), 1.0) for p in (tail, 0.5, 1 - tail))
    weights = best_nonnegative(shrunk.gram)
    return Evidence(weights, correlation, gain, (lower, upper), asymmetry, accepted, reason)


def _cross_fitted(gram: PositionalGram, scale: float, level: float) -> tuple[float, float, int]:
    """The gain over the mean, its standard error and the folds behind it; see the module's docstring."""
    K, P, _ = gram.sums.shape
    uniform, values = np.full(P, 1.0 / P), []
    mean_signal = float(gram.signal.mean())
    for k in range(K):
        others = np.arange(K) != k
        pairs = gram.pairs[k]
        if not (pairs > 0).any() or not (gram.pairs[others] > 0).any():
            continue
        w = best_nonnegative(shrink(gram, others).gram)
        # pairs this fold never saw are filled by the exchangeable value, for both sides alike
        G = np.where(pairs > 0, gram.sums[k] / np.where(pairs > 0, pairs, 1.0), level)
        np.fill_diagonal(G, np.where(np.diag(pairs) > 0, np.diag(G), 0.0))
        signal = scale + float(gram.signal[k]) - mean_signal
        values.append([signal + v @ G @ v / (v @ v) for v in (w, uniform)])
    a, b = np.array(values).reshape(-1, 2).T
    if len(a) < 2 or not b.mean() > 0:
        return 1.0, np.inf, len(a)
    gain = float(a.mean() / b.mean())
    return gain, float((a - gain * b).std(ddof=1) / np.sqrt(len(a)) / b.mean()), len(a)


def antisymmetry(x: FloatArray) -> Antisymmetry:
    """The antisymmetric energy from pairs of the centred rows `x` (m, T, d).

    Measured within the directions of largest token variance, where text has its structure: the energy found is a
    lower bound, and the noise is that of few directions instead of d.
    """
    m, T, d = x.shape
    if d > _ENERGY_DIRECTIONS:
        flat = x.reshape(-1, d)
        x = x @ eigh(flat.T @ flat, subset_by_index=[d - _ENERGY_DIRECTIONS, d - 1])[1]
    budget = min(_MOST_PAIRS, _PAIR_FLOPS / (2.0 * T * T * x.shape[2]))
    offsets = int(np.clip(budget / m, 1, (m - 1) // 2))
    total = np.zeros((m, 2))
    for shift in range(1, offsets + 1):
        K = np.matmul(x, np.roll(x, -shift, axis=0).transpose(0, 2, 1))
        diagonal = np.einsum("ntt->nt", K)
        own_squares = np.einsum("nt,nt->n", diagonal, diagonal)
        energy = diagonal.sum(axis=1) ** 2 - own_squares
        # ‖(C − C')/2‖² = (‖C‖² − <C, C'>)/2
        odd = (energy - (np.einsum("nts,nst->n", K, K) - own_squares)) / 2
        part = np.column_stack([energy, odd])
        total += part + np.roll(part, shift, axis=0)  # a pair informs on both of its rows
    rows = total / (2 * offsets)
    whole, mean = rows.mean(axis=0)
    # that of a U-statistic (Hoeffding), with the scatter of single pairs counted twice
    error = 2 * rows[:, 1].std(ddof=1) / np.sqrt(m)
    return Antisymmetry(float(mean), float(error), float(whole))
