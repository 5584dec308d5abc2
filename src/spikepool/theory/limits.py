"""What any weights, any weighting of token pairs and any method can reach, given the scores of the tokens.

Given H, all that the weights may look at, a pooled vector c = sum_t w_t e_t has

    E[c c' | H] = mu² (w'R_n w) uu' + |w|² I,      R_n = E[r r' | H],

so that signal over noise is at most lambda_n, the largest eigenvalue of R_n, and **the best weights of a sequence are
the top eigenvector of R_n** (the paper's optimal weights are the case in which H is empty and r are the signs). Columns
of noise kappa and signal strength a² are best combined with squared scale a²/(kappa (kappa + mu² a²)) (Hong, Fessler,
Balzano, arXiv 1810.12862), here lambda/(1 + mu² lambda). With gamma = (d − p)/N the direction u is then found iff

    mean:               mu⁴ (E[(sum_t r_t)²]/T)² > gamma
    best pooling:       mu⁴ E[lambda_n²] > gamma
    best token pairs:   mu⁴ E[tr R_n²] > gamma,

the last for PCA of M = sum_n E_n'Phi_n E_n, Phi_n = R_n (1 + mu² R_n)^{-1}, with the tokens of a sequence as rows of
E_n. Alignments follow the law of :mod:`spikepool.theory.query` with one column of noise phi_i = lambda_i/(1 + mu²
lambda_i) and signal phi_i lambda_i for each eigenvalue of each R_n: all of them for pairs, the largest for pooling.

*Bayes limit.* With squared overlap q of an estimate with u, message passing follows

    q = (mu²/gamma) x/(1 + (mu²/gamma) x),     x = E sum_t (E[xi r_t | H, y])²,     y_t = mu sqrt(q) xi r_t + N(0, 1).

Its weak recovery threshold is that of the pairs. The fixed point reached from the pairs' alignment is what message
passing attains; it is the Bayes limit unless a second, larger fixed point exists. The equations are derived by
heuristics that are standard for low-rank models, and checked by simulation, not proved here.

Limits are for tokens that never repeat and white noise, with the directions of the query and of k removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.results import Result, Table
from spikepool.theory.query_usage import sequence_draws
from spikepool.world.query import QueryWorld, check_white
from spikepool.world.relevance import Relevance

# Drawn sequences of the Bayes limit, times T; its scatter over seeds is about .003.
_BAYES_SCORES = 1 << 19
# Precision of the fixed point of message passing.
_SETTLED = 1e-5


@dataclass(frozen=True)
class QueryLimits(Result, schema="query-limits"):
    """Limits of recovery given the scores; made by :meth:`QueryModel.limits`.

    Attributes
    ----------
    mu_mean, mu_pooling, mu_pairs : float
        Least strengths of the signal at which u is found by the mean, by the best pooling (one vector per sequence),
        and by the best weighting of token pairs. The last one is also the weak recovery threshold of message passing.
    alignment_pooling, alignment_pairs, alignment_bayes : float
        Alignments with u of the best pooling, of the best weighting of pairs and of the Bayes limit, at the model's mu.
    """

    mu_mean: float
    mu_pooling: float
    mu_pairs: float
    alignment_pooling: float
    alignment_pairs: float
    alignment_bayes: float

    def _tables(self) -> list[Table]:
        rows = [
            ("mean", self.mu_mean, None),
            ("best pooling", self.mu_pooling, self.alignment_pooling),
            ("best token pairs", self.mu_pairs, self.alignment_pairs),
            ("Bayes limit", self.mu_pairs, self.alignment_bayes),
        ]
        return [("Limits given the scores", ("", "threshold of mu", "alignment"), rows)]

    def plot(self, ax: Any = None) -> Any:
        """Alignments of the best pooling, of the best token pairs and of the Bayes limit; returns the axes."""
        from spikepool.drawing.predictions import draw_alignments

        pairs = {"best pooling": self.alignment_pooling, "best token pairs": self.alignment_pairs}
        return draw_alignments(pairs | {"Bayes limit": self.alignment_bayes}, ax)


def query_limits(world: QueryWorld, *, rng: int = 0) -> QueryLimits:
    """Thresholds and alignments of the best pooling, of the best token pairs and of the Bayes limit.

    Parameters
    ----------
    world : QueryModel
        The model; its kernel plays no part. Tokens never repeat and have white noise.
    rng : int
        Of the drawn scores, which are those of the kernels "posterior" and "optimal". Another seed changes a threshold
        by about half a percent and an alignment by about .005.
    """
    check_white(world, "a limit")
    seed = check.size(rng, "rng", minimum=0)
    gamma = (world.d - world.directions) / world.N
    looked = world.replace(kernel="optimal", window=None)
    values = np.concatenate([np.linalg.eigvalsh(R) for R in _moments(looked, np.random.SeedSequence(seed))])
    values = np.maximum(values, 0.0)
    top = values[:, -1:]

    def threshold(square: float) -> float:
        return float((gamma / square) ** 0.25) if square > 0 else float("inf")

    pairs = column_alignment(values, world.mu, gamma)
    return QueryLimits(
        threshold(world.mean_gain**2),
        threshold(float(np.mean(top**2))),
        threshold(float(np.mean((values**2).sum(axis=1)))),
        column_alignment(top, world.mu, gamma),
        pairs,
        bayes_alignment(world, start=pairs, rng=np.random.default_rng(np.random.SeedSequence(seed))),
    )


def _moments(world: QueryWorld, seed: np.random.SeedSequence) -> list[FloatArray]:
    """R_n of drawn sequences, in blocks."""
    rng = np.random.default_rng(seed)
    blocks = []
    for relevant in world.relevance_blocks(sequence_draws(world), rng):
        blocks.append(world.relevance_law.moments(world.evidence(world.draw_scores(relevant, rng))))
    return blocks


def column_alignment(values: FloatArray, mu: float, gamma: float) -> float:
    """Alignment with u of PCA of columns sqrt(phi) (mu xi sqrt(lambda) u + noise), phi = lambda/(1 + mu² lambda).

    `values` (n, k) has the k numbers lambda of each of n sequences, and gamma is the dimension over the number of
    sequences. With sums over k and means over n,

        z(m) = −1/m + E sum phi/(1 + gamma phi m),      D(m) = −m E sum phi lambda/(1 + gamma phi m),

    u makes an outlier where mu² D(m) = 1 beyond the edge z'(m) = 0, with alignment m/(mu² dD/dz).
    """
    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    value, count = np.unique(values[values > 0], return_counts=True)
    if mu == 0 or len(value) == 0 or mu**4 * float(count @ value**2) / n <= gamma:
        return 0.0
    weight = count / n
    phi = value / (1 + mu**2 * value)

    def slope(m: float) -> float:
        return 1 / m**2 - gamma * float(weight @ (phi / (1 + gamma * phi * m)) ** 2)

    def excess(m: float) -> float:
        return -(mu**2) * m * float(weight @ (phi * value / (1 + gamma * phi * m))) - 1

    pole = -1 / (gamma * phi.max())
    edge = brentq(slope, pole * (1 - 1e-12), pole * 1e-12)
    if excess(edge) <= 0:
        return 0.0
    m = brentq(excess, edge, edge * 1e-12, xtol=1e-15 * abs(edge))
    change = -(mu**2) * float(weight @ (phi * value / (1 + gamma * phi * m) ** 2))
    return float(np.clip(m * slope(m) / change, 0.0, 1.0))


def bayes_alignment(world: QueryWorld, *, start: float, rng: np.random.Generator) -> float:
    """Fixed point of message passing above the alignment `start` of the pairs; 0 where that is 0.

    The same draws of relevance, scores and noise serve all rounds. A round increases with q, so that rounds from
    `start` rise to a fixed point: it is bracketed by steps that double, and solved for. Where the first round falls,
    by the error of the draws, `start` is the result.
    """
    if start <= 0 or world.mu == 0:
        return 0.0
    law, n = world.relevance_law, max(256, _BAYES_SCORES // world.T)
    relevant = law.draw(n, rng)
    evidence = world.evidence(world.draw_scores(relevant, rng))
    noise = rng.standard_normal(relevant.shape)
    ratio = world.mu**2 * world.N / (world.d - world.directions)

    def rise(q: float) -> float:
        signal = _posterior_signal(law, evidence, relevant, noise, world.mu * np.sqrt(q))
        x = ratio * float(np.mean((signal**2).sum(axis=1)))
        return x / (1 + x) - q

    low, step = start, rise(start)
    if step < _SETTLED:
        return start
    high = low + step
    while rise(high) > 0:  # ends below 1, which no round reaches
        step *= 2
        low, high = high, min(high + step, 1.0)
    return float(brentq(rise, low, high, xtol=_SETTLED))


def _posterior_signal(
    law: Relevance, evidence: FloatArray, relevant: NDArray[np.bool_], noise: FloatArray, a: float
) -> FloatArray:
    """E[xi r_t | H, y] (n, T) for y = a xi r + noise; by symmetry xi = 1 in all draws."""
    y = a * relevant + noise
    plus, p_plus = law.posterior(evidence + a * y - a**2 / 2)
    minus, p_minus = law.posterior(evidence - a * y - a**2 / 2)
    share = 1 / (1 + np.exp(np.clip(minus - plus, -700, 700)))[:, None]
    return np.asarray(share * p_plus - (1 - share) * p_minus)
