"""Which tokens of a sequence are relevant: draws, and what their scores say about them.

r (T,) has r_t = 1 for a relevant token and 0 for another. A score h_t = s r_t + N(0, 1) of strength s multiplies the
odds of r_t by exp(l_t), with the evidence l_t = s h_t − s²/2. Given the evidence of a whole sequence,

    P(r | l) ∝ P(r) exp(sum_t l_t r_t),     p_t = P(r_t = 1 | l),     R_n = E[r r' | l].

Four laws of r, each computed exactly:

* :class:`Scattered`: L of the T tokens, all choices equally likely. p_t = x_t e_{L−1}(x without t)/e_L(x) with x = e^l
  and e_j the elementary symmetric polynomials.
* :class:`Independent`: P(r_t = 1) = pi_t. p_t = sigma(l_t + logit pi_t), R_n = p p' + diag(p (1 − p)).
* :class:`Span`: L neighbours at a uniform place. The place j has probability ∝ exp(sum of l over the span), and R_n is
  the mean of the indicators 1_j 1_j'.
* :class:`Chain`: a stationary two-state Markov chain; forward-backward recursions.

All of them work in ratios that neither overflow nor cancel, at any size of the evidence.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, logsumexp

from spikepool.kit.arrays import FloatArray

# Entries of the largest array of a batch of pairwise moments.
_BLOCK = 1 << 22


class Relevance(Protocol):
    """A law of the relevance r of a sequence of T tokens."""

    T: int

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """`n` independent draws of r, (n, T)."""

    def posterior(self, evidence: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log E[exp(l'r)], (n,), and the probabilities p (n, T), for evidence l (n, T)."""

    def quadratic(self, evidence: FloatArray, w: FloatArray) -> FloatArray:
        """E[(w'r)² | l] = w'R_n w, (n,), for weights w (n, T)."""

    def moments(self, evidence: FloatArray) -> FloatArray:
        """R_n = E[r r' | l], (n, T, T)."""


def prior_moments(relevance: Relevance) -> FloatArray:
    """E[r r'] before any score is seen, (T, T)."""
    return np.asarray(relevance.moments(np.zeros((1, relevance.T)))[0])


class Independent:
    """Tokens that are relevant independently, with probabilities `prior` (T,)."""

    def __init__(self, prior: FloatArray) -> None:
        self.prior = np.asarray(prior, dtype=np.float64)
        self.T = len(self.prior)
        with np.errstate(divide="ignore"):
            self._logit = np.log(self.prior) - np.log1p(-self.prior)

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """`n` independent draws of r."""
        return rng.random((n, self.T)) < self.prior

    def posterior(self, evidence: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log E[exp(l'r)] = sum_t log(1 − pi_t + pi_t e^{l_t}), and p."""
        with np.errstate(divide="ignore"):
            terms = np.logaddexp(np.log1p(-self.prior), np.log(self.prior) + evidence)
        return terms.sum(axis=-1), np.asarray(expit(evidence + self._logit))

    def quadratic(self, evidence: FloatArray, w: FloatArray) -> FloatArray:
        """(w'p)² + sum_t w_t² p_t (1 − p_t)."""
        p = self.posterior(evidence)[1]
        return np.asarray((w * p).sum(axis=1) ** 2 + (w**2 * p * (1 - p)).sum(axis=1))

    def moments(self, evidence: FloatArray) -> FloatArray:
        """Return p p' + diag(p (1 − p))."""
        p = self.posterior(evidence)[1]
        R = p[:, :, None] * p[:, None, :]
        diagonal = np.arange(self.T)
        R[:, diagonal, diagonal] = p
        return R


class Scattered:
    """Exactly L relevant tokens among T, all choices equally likely.

    With any c, P(r | l) is that of independent tokens of probabilities q_t = sigma(l_t + c), given that L of them are
    relevant. For c with sum_t q_t near L the count L is about the most likely one, so that sums of probabilities over
    the counts of prefixes and suffixes have no small denominators.
    """

    def __init__(self, T: int, L: int) -> None:
        self.T, self.L = T, L
        self._log_choices = float(gammaln(T + 1) - gammaln(L + 1) - gammaln(T - L + 1))

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """`n` independent draws of r."""
        relevant = np.zeros((n, self.T), dtype=bool)
        relevant[:, : self.L] = True
        return np.asarray(rng.permuted(relevant, axis=1))

    def posterior(self, evidence: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log(e_L(x)/binom(T, L)), and p."""
        if self.L == self.T:
            return evidence.sum(axis=-1), np.ones_like(evidence)
        c = _tilt(evidence, self.L)
        counts = _Counts((evidence + c[:, None]).T, self.L)
        tilted = np.logaddexp(0.0, evidence + c[:, None]).sum(axis=-1) - self.L * c
        return np.log(counts.chance) + tilted - self._log_choices, counts.marginals().T

    def quadratic(self, evidence: FloatArray, w: FloatArray) -> FloatArray:
        """The second moment of sum_t w_t r_t, token by token for each count."""
        if self.L == self.T:
            return np.asarray(w.sum(axis=1) ** 2)
        odds = (evidence + _tilt(evidence, self.L)[:, None]).T
        q, other = expit(odds), expit(-odds)
        # moments of order 0, 1, 2 of the sum so far, on each count
        m = np.zeros((3, self.L + 1, len(evidence)))
        m[0, 0] = 1.0
        for t, x in enumerate(w.T):
            joined = q[t] * np.stack([m[0], m[1] + x * m[0], m[2] + 2 * x * m[1] + x**2 * m[0]])[:, :-1]
            m *= other[t]
            m[:, 1:] += joined
        return np.asarray(m[2, self.L] / m[0, self.L])

    def moments(self, evidence: FloatArray) -> FloatArray:
        """q_s q_t P(L − 2 others)/P(L), with the probabilities p on the diagonal."""
        if self.L == self.T:
            return np.ones((len(evidence), self.T, self.T))
        R = np.empty((len(evidence), self.T, self.T))
        step = max(1, _BLOCK // (self.T * (self.T + self.L)))
        for start in range(0, len(evidence), step):
            rows = evidence[start : start + step]
            counts = _Counts((rows + _tilt(rows, self.L)[:, None]).T, self.L)
            R[start : start + step] = counts.pairs().transpose(2, 0, 1)
        return R


def _tilt(evidence: FloatArray, L: int) -> FloatArray:
    """Return c (n,) with |sum_t sigma(l_t + c) − L| <= .1, by Newton's method inside a bracket."""
    T = evidence.shape[1]
    centre = np.log(L) - np.log(T - L)
    low, high = centre - evidence.max(axis=1), centre - evidence.min(axis=1)
    c = np.clip(centre - evidence.mean(axis=1), low, high)
    for _ in range(200):
        q = expit(evidence + c[:, None])
        excess = q.sum(axis=1) - L
        if np.all(np.abs(excess) <= 0.1):
            break
        low, high = np.where(excess < 0, c, low), np.where(excess > 0, c, high)
        slope = np.maximum((q * (1 - q)).sum(axis=1), 1e-300)
        with np.errstate(over="ignore"):
            step = c - excess / slope
        c = np.where((step > low) & (step < high), step, (low + high) / 2)
    return np.asarray(c)


class _Counts:
    """Independent tokens with log-odds (T, n), given that L of them are relevant.

    `before[t]` (L + 1, n) has the probabilities of the counts 0, ..., L among the tokens before t, `after[t]` among
    those from t on; `chance` (n,) is the probability of L among all.
    """

    def __init__(self, odds: FloatArray, L: int) -> None:
        T, n = odds.shape
        self.q, self.other, self.L = expit(odds), expit(-odds), L
        self.before, self.after = np.zeros((T + 1, L + 1, n)), np.zeros((T + 1, L + 1, n))
        self.before[0, 0] = self.after[T, 0] = 1.0
        for t in range(T):
            self._with(t, self.before[t], self.before[t + 1])
        for t in reversed(range(T)):
            self._with(t, self.after[t + 1], self.after[t])
        self.chance = self.before[T, L]

    def _with(self, t: int, counts: FloatArray, out: FloatArray) -> None:
        """Probabilities of the counts when token t joins."""
        np.multiply(counts, self.other[t], out=out)
        out[1:] += self.q[t] * counts[:-1]

    def marginals(self) -> FloatArray:
        """P(r_t = 1), (T, n): the counts before and after t leave one for t."""
        p = np.empty_like(self.q)
        for t in range(len(p)):
            rest = np.einsum("jn,jn->n", self.before[t, : self.L], self.after[t + 1, self.L - 1 :: -1][: self.L])
            p[t] = self.q[t] * rest / self.chance
        return np.asarray(np.minimum(p, 1.0))

    def pairs(self) -> FloatArray:
        """P(r_s = 1, r_t = 1), (T, T, n)."""
        T, n = self.q.shape
        R = np.zeros((T, T, n))
        R[np.arange(T), np.arange(T)] = self.marginals()
        if self.L < 2:
            return R
        for s in range(T - 1):
            without = self.before[s].copy()  # counts before t without s
            for t in range(s + 1, T):
                rest = np.einsum("jn,jn->n", without[: self.L - 1], self.after[t + 1, self.L - 2 :: -1][: self.L - 1])
                R[s, t] = R[t, s] = self.q[s] * self.q[t] * rest / self.chance
                longer = np.empty_like(without)
                self._with(t, without, longer)
                without = longer
        return R


class Span:
    """L neighbouring tokens at a place that is uniform over the T − L + 1 possible ones."""

    def __init__(self, T: int, L: int) -> None:
        self.T, self.L = T, L
        self.places = T - L + 1
        place, token = np.arange(self.places)[:, None], np.arange(T)
        self._holds = ((token >= place) & (token < place + L)).astype(np.float64)

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """`n` independent draws of r."""
        return self._holds[rng.integers(0, self.places, n)] > 0

    def place(self, evidence: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log E[exp(l'r)] (n,), and the probability of each place (n, T − L + 1)."""
        total = np.lib.stride_tricks.sliding_window_view(evidence, self.L, axis=-1).sum(axis=-1)
        log_sum = logsumexp(total, axis=-1)
        return np.asarray(log_sum - np.log(self.places)), np.exp(total - log_sum[..., None])

    def posterior(self, evidence: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log of the mean over places, and p_t, the sum of the probabilities of the places that hold t."""
        log_mean, place = self.place(evidence)
        return log_mean, np.minimum(place @ self._holds, 1.0)

    def quadratic(self, evidence: FloatArray, w: FloatArray) -> FloatArray:
        """sum_j P(place j) (sum of w over place j)²."""
        total = np.lib.stride_tricks.sliding_window_view(w, self.L, axis=-1).sum(axis=-1)
        return np.asarray((self.place(evidence)[1] * total**2).sum(axis=1))

    def moments(self, evidence: FloatArray) -> FloatArray:
        """sum_j P(place j) 1_j 1_j'."""
        pairs = (self._holds[:, :, None] * self._holds[:, None, :]).reshape(self.places, -1)
        return np.asarray((self.place(evidence)[1] @ pairs).reshape(-1, self.T, self.T))


class Chain:
    """A stationary two-state Markov chain: share `phi` of relevant tokens, runs of mean length `run`.

    P(0 | 1) = 1/run and P(1 | 0) = phi/((1 − phi) run); corr(r_s, r_t) = lambda^{|t − s|} with
    lambda = 1 − 1/((1 − phi) run). At run = 1/(1 − phi) the tokens are independent.
    """

    def __init__(self, T: int, phi: float, run: float) -> None:
        self.T, self.phi, self.run = T, phi, run
        # at the shortest run rounding could make the probability larger than 1
        self.leave, self.enter = 1 / run, min(1.0, phi / ((1 - phi) * run))

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """`n` independent draws of r."""
        chance = rng.random((n, self.T))
        r = np.empty((n, self.T), dtype=bool)
        r[:, 0] = chance[:, 0] < self.phi
        for t in range(1, self.T):
            r[:, t] = chance[:, t] < np.where(r[:, t - 1], 1 - self.leave, self.enter)
        return r

    def _backward(self, evidence: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The chain given the evidence, which is Markov again.

        log E[exp(l'r)] and P(r_0 = 1), (n,) each; P(r_t = 1 | r_{t−1} = 1) and P(r_t = 1 | r_{t−1} = 0), (n, T), from
        t = 1 on.
        """
        n = len(evidence)
        stay, enter = np.zeros_like(evidence), np.zeros_like(evidence)
        # log of E[exp(sum of l after t) | r_t = 1] and its difference to that given r_t = 0
        log_one, ahead = np.zeros(n), np.zeros(n)
        with np.errstate(divide="ignore"):
            logs = np.log([[self.enter, 1 - self.enter], [1 - self.leave, self.leave]])
        for t in reversed(range(1, self.T)):
            odds = evidence[:, t] + ahead
            enter[:, t] = expit(odds + logs[0, 0] - logs[0, 1])
            stay[:, t] = expit(odds + logs[1, 0] - logs[1, 1])
            zero = np.logaddexp(odds + logs[0, 0], logs[0, 1])
            one = np.logaddexp(odds + logs[1, 0], logs[1, 1])
            log_one = log_one - ahead + one
            ahead = one - zero
        odds = evidence[:, 0] + ahead
        log_zero = log_one - ahead
        total = log_zero + np.logaddexp(odds + np.log(self.phi), np.log1p(-self.phi))
        return total, np.asarray(expit(odds + np.log(self.phi) - np.log1p(-self.phi))), stay, enter

    def posterior(self, evidence: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log E[exp(l'r)], and p forward along the chain given the evidence."""
        total, first, stay, enter = self._backward(evidence)
        p = np.empty_like(evidence)
        p[:, 0] = first
        for t in range(1, self.T):
            p[:, t] = p[:, t - 1] * stay[:, t] + (1 - p[:, t - 1]) * enter[:, t]
        return total, p

    def quadratic(self, evidence: FloatArray, w: FloatArray) -> FloatArray:
        """The second moment of sum_t w_t r_t, token by token along the chain given the evidence."""
        _, first, stay, enter = self._backward(evidence)
        # moments of order 0, 1, 2 of the sum so far, where the last token is irrelevant or relevant
        zero, one = np.zeros((3, len(evidence))), np.zeros((3, len(evidence)))
        zero[0], one[0] = 1 - first, first
        for t, x in enumerate(w.T):
            if t:
                zero, one = (
                    zero * (1 - enter[:, t]) + one * (1 - stay[:, t]),
                    zero * enter[:, t] + one * stay[:, t],
                )
            one = np.stack([one[0], one[1] + x * one[0], one[2] + 2 * x * one[1] + x**2 * one[0]])
        return np.asarray(zero[2] + one[2])

    def moments(self, evidence: FloatArray) -> FloatArray:
        """P(r_s = 1) P(r_t = 1 | r_s = 1), the latter forward along the chain given the evidence."""
        _, first, stay, enter = self._backward(evidence)
        n, T = evidence.shape
        R = np.empty((n, T, T))
        p = first
        reached = np.empty((n, T))  # P(r_t = 1 | r_s = 1) for s <= t
        for t in range(T):
            if t:
                p = p * stay[:, t] + (1 - p) * enter[:, t]
                reached[:, :t] = reached[:, :t] * stay[:, t, None] + (1 - reached[:, :t]) * enter[:, t, None]
            reached[:, t] = 1.0
            R[:, t, t] = p
            R[:, t, :t] = R[:, np.arange(t), np.arange(t)] * reached[:, :t]
            R[:, :t, t] = R[:, t, :t]
        return R


def top_pair(R: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Largest eigenvalue (n,) and its unit eigenvector (n, T), of non-negative sum, of symmetric matrices (n, T, T)."""
    values, vectors = np.linalg.eigh(R)
    top = vectors[:, :, -1]
    return values[:, -1], np.where(top.sum(axis=1, keepdims=True) < 0, -top, top)
