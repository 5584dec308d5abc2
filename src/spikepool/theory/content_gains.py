"""Closed forms of what content attention gains where signs are known, and their range.

For weights w that see H, p_t = P(r_t = 1 | H) and E[A] = E sum_t w_t p_t, so by Cauchy-Schwarz

    (E A)²/E kappa <= E sum_t p_t²,      with equality iff w_t is a multiple of p_t,

and the gain over the mean is at most G = T E sum_t p_t²/(E sum_t r_t)², between 1 and T/L (:func:`posterior_gain`, by
Monte Carlo). This is the criterion where signs are known; for PCA, which averages A², see
:mod:`spikepool.theory.limits`. Here `strength` is s = nu m, what a mark adds to a score, and phi = L/T.

* Own score alone, or independent relevance: :func:`gate_gain`; no number of layers beats one gate there.
* One span of L tokens: :func:`span_gain_dilute` for few relevant tokens; :func:`block_gain` for known borders.
* Weak marks, any law of r: :func:`weak_gain` with the effective number of :func:`effective_neighbours_span` or
  :func:`effective_neighbours_chain`.
* A prior pi_t for each position: :func:`prior_gains`.

Between dilute and weak marks there is no closed form for spans.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from spikepool.errors import DomainError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.world.query import QueryWorld

# Nodes of the mean over a normal score: the integrand is a sigmoid, and 200 nodes give ten digits up to strength 5.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(200)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
# Drawn scores of `posterior_gain`.
_SCORES = 1 << 20


def posterior_gain(world: QueryWorld, *, rng: int = 0) -> float:
    """G = T E sum_t p_t²/(E sum_t r_t)² of the posterior probabilities given all scores, by Monte Carlo.

    The largest (E A)²/E kappa of any weights that see the scores, over that of the mean. The standard error is about
    one percent.
    """
    generator = np.random.default_rng(check.size(rng, "rng", minimum=0))
    law = world.relevance_law
    relevant = law.draw(max(1024, _SCORES // world.T), generator)
    p = law.posterior(world.evidence(world.draw_scores(relevant, generator)))[1]
    return float(np.mean((p**2).sum(axis=1)) * world.T / world.expected**2)


def gate_gain(strength: float, share: ArrayLike) -> FloatArray:
    """Return g(phi) = (1/phi) E sigma(s²/2 + s g + logit phi), g standard normal: the gain of the own score's gate.

    Exact for independent relevance of share phi. It is e^{s²} as phi → 0, 1 at phi = 1, and decreasing.

    Parameters
    ----------
    strength : float
        s, at most 5: beyond, the quadrature is not tested.
    share : array_like
        phi, in (0, 1].
    """
    s = check.non_negative(strength, "strength")
    phi = check.finite_array(share, "share")
    if s > 5 or phi.min() <= 0 or phi.max() > 1:
        raise DomainError("gate_gain needs a strength of at most 5 and shares in (0, 1]", s, "Use posterior_gain")
    with np.errstate(divide="ignore"):
        logit = np.log(phi) - np.log1p(-phi)
    return np.asarray(expit(s**2 / 2 + s * _NODES + logit[..., None]) @ _WEIGHTS / phi)


def span_gain_dilute(strength: float, L: int) -> float:
    """[L e^{L s²} + 2 sum_{i<L} i e^{i s²}]/L²: the gain of two layers for one span of L tokens.

    For L e^{L s²} << T. It is 10 % too large where L e^{L s²}/T is about .05 to .2, and without meaning beyond.
    """
    s2, i = check.non_negative(strength, "strength") ** 2, np.arange(1, check.size(L, "L"))
    return float((L * np.exp(L * s2) + 2 * np.sum(i * np.exp(i * s2))) / L**2)


def block_gain(strength: float, L: int, share: float) -> float:
    """Return g(phi) at strength s sqrt(L): relevance in blocks of L tokens with known borders, independent blocks.

    Exact for such blocks. For a span with unknown borders it is an upper estimate, 2 to 19 % above for T <= 100.
    """
    return float(gate_gain(check.non_negative(strength, "strength") * np.sqrt(check.size(L, "L")), share))


def weak_gain(strength: float, share: float, neighbours: float = 1.0) -> float:
    """1 + s² (1 − phi)² m_eff: the gain to first order in s², for any law of r.

    m_eff = sum_s corr(r_t, r_s)² is the effective number of neighbours that tell of a token: 1 for its own score. For
    s² m_eff below about .2.
    """
    phi = check.fraction(share, "share")
    return 1 + check.non_negative(strength, "strength") ** 2 * (1 - phi) ** 2 * check.positive(neighbours, "neighbours")


def effective_neighbours_span(L: int) -> float:
    """Return m_eff = 2L/3 + 1/(3L) of a span of L tokens, for L << T, away from the ends of a sequence."""
    L = check.size(L, "L")
    return 2 * L / 3 + 1 / (3 * L)


def effective_neighbours_chain(share: float, run: float) -> float:
    """Return m_eff = (1 + lambda²)/(1 − lambda²), lambda = 1 − 1/((1 − phi) run), of a chain much longer than a run."""
    correlation = 1 - 1 / ((1 - check.fraction(share, "share")) * check.positive(run, "run"))
    return (1 + correlation**2) / (1 - correlation**2)


class PriorGains(NamedTuple):
    """Gains over the mean of weights that see positions, content, or both."""

    position: float
    content: float
    both: float


def prior_gains(strength: float, prior: ArrayLike) -> PriorGains:
    """Gains for independent relevance with a probability pi_t for each position.

    With g of :func:`gate_gain`,

        position  T sum pi_t²/(sum pi_t)² = 1 + cv²(pi),
        content   g(mean pi) for equal pi_t, the gate that does not know the position,
        both      T sum pi_t² g(pi_t)/(sum pi_t)², the gate with the logit of each position's own pi_t.

    `position` and `both` are exact; they multiply in the dilute limit, where g is e^{s²} everywhere, and `both` falls
    short of the product otherwise.
    """
    pi = check.finite_array(prior, "prior", ndim=1)
    if pi.min() < 0 or pi.max() > 1 or pi.sum() == 0:
        raise DomainError("prior must be probabilities that are not all 0", float(pi.max()), "Pass one per position")
    inside = pi[pi > 0]
    scale = len(pi) / pi.sum() ** 2
    return PriorGains(
        float(scale * np.sum(pi**2)),
        float(gate_gain(strength, pi.mean())),
        float(scale * np.sum(inside**2 * gate_gain(strength, inside))),
    )
