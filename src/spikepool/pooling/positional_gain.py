"""Whether positional weights deserve to be used: their gain on other sequences, and whether order explains it.

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
from scipy.stats import norm
from scipy.stats import t as student

from spikepool.kit.arrays import FloatArray
from spikepool.kit.statistics import unselected
from spikepool.pooling.positional import PositionalGram, best_nonnegative, shrink

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
