"""A query that is learned: by PCA of the tokens, and by gradient steps on labelled sequences.

With phi = L/T, c = d/(nT) and n sequences of tokens that never repeat:

*Token PCA.* All tokens together have the covariance I + nu² phi (1 − phi) kk' + mu² phi uu'. A component of strength
theta is found with the squared overlap (1 − c/theta²)/(1 + c/theta), or not at all for theta² <= c. The first component
is k where nu² (1 − phi) > mu², otherwise u.

*Gradient steps.* Attention is w = softmax(beta h), h = q·e with q of unit norm, and the score of a sequence with label
y = xi is v·c. From uniform attention on, the value v and the query q are learned in turn, each from n fresh sequences:

    v ∝ mean of y c:     (v·u)² = A_v = (mu E[A])² / ((mu E[A])² + (d/n) E[kappa]),
    q ∝ the gradient of mean(y v·c) with respect to q, sum_t w_t (v·(e_t − c)) e_t:
        along q          a Q,  Q = E[Cov_w(h, r)]                     with a = mu sqrt(A_v), r the relevance (1 or 0)
        along k off q    a K,  K = nu sqrt(1 − m²) E[A (1 − A)]
        elsewhere        (d/n) s²,  s² = E sum_t w_t² (1 − 2 w_t + kappa) + a² E sum_t w_t² (r_t − A)²   (squared norm)
        m' = a (m Q + sqrt(1 − m²) K) / sqrt(a² Q² + a² K² + (d/n) s²).

A new sequence is classified by the sign of v·c, correctly with probability E Phi(a A/sqrt(kappa)).

For the first step, w = 1/T, this is s² = (1/T)(1 − 1/T + a² phi (1 − phi)) and K = nu phi (1 − phi).
The gradient is kept orthogonal to the value. Left in, its component along v adds E[Var_w(v·e)²]/n to the squared norm,
a share of T/d, and couples the query to the label from the second step on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

from spikepool.errors import InvalidInputError, UnreachableError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.results import Result, Table, record
from spikepool.theory.query_spectrum import top_alignment
from spikepool.theory.validity import SOUND, Validity, near_threshold, small_sizes, validity_of
from spikepool.world.query import QueryWorld, check_white
from spikepool.world.query_fields import dilute_beta

# Sequences behind the expectations: an overlap is known to about .001.
_DRAWS = 1 << 14
# Largest number of training sequences that is tried.
_LARGEST = 1 << 40
# Share T/d of the gradient along the value from which iterating without projection is not described.
_COUPLED = 0.02


@dataclass(frozen=True)
class LearnedQuery(Result, schema="learned-query"):
    """Limit of a query learned from labelled sequences; made by :meth:`QueryModel.learned`.

    Attributes
    ----------
    n_train : int
        Sequences of one step; value and query of each round see fresh ones.
    overlaps : tuple of float
        Overlap m = q·k before the first round (0, uniform attention) and after each.
    values : tuple of float
        Squared cosine of the value v with u, learned with the query of the same place.
    accuracies : tuple of float
        Share of new sequences whose label is the sign of v·c; the first is that of mean pooling.
    token_pca : float
        Overlap of the component of token PCA along k, found without labels.
    token_pca_signal : float
        Squared cosine with u of the component of token PCA along u: what can be had without pooling.
    model : QueryModel
        The model with the learned overlap.
    validity : Validity
        Whether the numbers lie in the range where their theory holds.
    """

    n_train: int
    overlaps: tuple[float, ...]
    values: tuple[float, ...]
    accuracies: tuple[float, ...]
    token_pca: float
    token_pca_signal: float
    model: QueryWorld
    validity: Validity = SOUND

    @property
    def first_step(self) -> float:
        """Overlap after one gradient step from uniform attention."""
        return self.overlaps[1]

    @property
    def overlap(self) -> float:
        """Overlap after the last round."""
        return self.overlaps[-1]

    @cached_property
    def alignment(self) -> float:
        """Predicted alignment of the model's N sequences pooled by the learned query."""
        return top_alignment(self.model)[0]

    @cached_property
    def mean_alignment(self) -> float:
        """Predicted alignment of the same sequences pooled by the mean."""
        return top_alignment(self.model.replace(beta=0.0))[0]

    def _record(self) -> dict[str, Any]:
        names = ("n_train", "overlaps", "values", "accuracies", "token_pca", "token_pca_signal")
        return record(self, *names, "alignment", "mean_alignment", "validity")

    def _tables(self) -> list[Table]:
        rows = [
            ("overlap after the first step", self.first_step),
            ("overlap after the last round", self.overlap),
            ("overlap of token PCA", self.token_pca),
            ("accuracy, learned query", self.accuracies[-1]),
            ("accuracy, mean pooling", self.accuracies[0]),
            ("alignment, learned query", self.alignment),
            ("alignment, mean pooling", self.mean_alignment),
            ("alignment, PCA of the tokens", self.token_pca_signal),
        ]
        return [(f"A query learned from {self.n_train:,} sequences", ("", "predicted"), rows)]

    def plot(self, ax: Any = None) -> Any:
        """Overlap of the query and alignment of the value after each round; returns the axes."""
        from spikepool.drawing.predictions import draw_rounds

        return draw_rounds(self.overlaps, self.values, ax, token_pca=self.token_pca)


def learned_query(
    world: QueryWorld, n_train: int | None = None, *, rounds: int = 3, orthogonal: bool = True, rng: int = 0
) -> LearnedQuery:
    """Overlap of a query found by token PCA, by one gradient step, and by `rounds` of them.

    Parameters
    ----------
    world : QueryModel
        With a softmax kernel, normalised, and tokens that never repeat. Its `overlap` plays no part. Where `beta` is
        not given, each round uses the slope of the overlap reached so far.
    n_train : int, optional
        Sequences of each step; the model's N when not given.
    rounds : int
        Gradient steps, each followed by a new value.
    orthogonal : bool
        Whether the component of the gradient along the value is removed.
    rng : int
        Of the draws behind the expectations; another seed changes an overlap by about .001.
    """
    n = world.N if n_train is None else check.size(n_train, "n_train", minimum=2)
    rounds = check.size(rounds, "rounds")
    _check_kernel(world)
    orthogonal = check.flag(orthogonal, "orthogonal")
    overlaps, values, accuracies = _StateEvolution(world, orthogonal, check.size(rng, "rng", minimum=0)).run(n, rounds)
    phi, c = world.L / world.T, world.d / (n * world.T)
    return LearnedQuery(
        n,
        tuple(overlaps),
        tuple(values),
        tuple(accuracies),
        float(np.sqrt(pca_overlap(world.nu**2 * phi * (1 - phi), c))),
        pca_overlap(world.mu**2 * phi, world.d / (world.N * world.T)),
        world.replace(overlap=min(max(overlaps[-1], 0.0), 1.0)),
        validity_of(
            small_sizes(d=world.d, n_train=n),
            _two_components(world, phi, c),
            near_threshold((world.nu**2 * phi * (1 - phi)) ** 2, c, world.d, width=1.5),
            _coupled(world) if not orthogonal and rounds > 1 else None,
        ),
    )


def _check_kernel(world: QueryWorld) -> None:
    if world.kernel != "softmax" or not world.normalize:
        raise InvalidInputError(
            "a query is learned for normalised softmax weights",
            world.kernel,
            'Use replace(kernel="softmax", normalize=True)',
        )
    check_white(world, "a learned query")
    if world.window is not None or world.prior is not None or world.run is not None or world.directions > 1:
        raise InvalidInputError(
            "a query is learned for one layer, one direction and exactly L relevant tokens",
            world.relevance,
            'Use relevance="scattered" or "span", without window and prior',
        )


def pca_overlap(theta: float, ratio: float) -> float:
    """Squared overlap (1 − ratio/theta²)/(1 + ratio/theta) of a component of strength theta, 0 for theta² <= ratio."""
    if theta <= 0 or theta**2 <= ratio:
        return 0.0
    return (1 - ratio / theta**2) / (1 + ratio / theta)


def _two_components(world: QueryWorld, phi: float, c: float) -> str | None:
    key, signal = world.nu**2 * phi * (1 - phi), world.mu**2 * phi
    if min(key, signal) <= np.sqrt(c) or abs(key - signal) > 0.2 * max(key, signal):
        return None
    return "the components of token PCA along k and u are of nearly equal strength, and mix"


def _coupled(world: QueryWorld) -> str | None:
    share = world.T / world.d
    if share < _COUPLED:
        return None
    return (
        f"a gradient that is not orthogonal to the value couples them (T/d = {share:.2g}): overlaps after the first "
        "step may be 0.1 too large"
    )


def required_training(world: QueryWorld, overlap: float = 0.5, *, rounds: int = 3) -> int:
    """Smallest number of training sequences per step with which a query of this overlap is learned, to 0.1 %.

    Raises
    ------
    UnreachableError
        When no number is enough: without a signal or a mark, or where every token is relevant.
    """
    target = check.fraction(overlap, "overlap", closed=False)

    _check_kernel(world)
    steps = _StateEvolution(world, True, 0)

    def reached(n: int) -> bool:
        return steps.run(n, rounds)[0][-1] >= target

    low, high = 1, max(2, world.d // world.T)
    while high < _LARGEST and not reached(high):
        low, high = high, 8 * high
    if high >= _LARGEST:
        raise UnreachableError(
            "no number of sequences teaches a query this overlap", target, "Raise mu or nu, or use L < T", limit=0.0
        )
    while high - low > max(1, low // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


class _StateEvolution:
    """One round of value and query, from the overlap m to the next, with the same draws in all rounds."""

    def __init__(self, world: QueryWorld, orthogonal: bool, seed: int) -> None:
        rng = np.random.default_rng(np.random.SeedSequence(seed))
        draws = max(256, min(_DRAWS, (1 << 21) // world.T))
        self.world, self.orthogonal = world, orthogonal
        self.noise, self.along_v = rng.standard_normal((2, draws, world.T))

    def run(self, n: int, rounds: int) -> tuple[list[float], list[float], list[float]]:
        """Overlaps, values and accuracies before the first of `rounds` steps and after each."""
        overlaps, values, accuracies = [0.0], [], []
        for _ in range(rounds + 1):
            value, accuracy, overlap = self.round(overlaps[-1], n)
            values.append(value)
            accuracies.append(accuracy)
            overlaps.append(overlap)
        return overlaps[: rounds + 1], values, accuracies

    def round(self, m: float, n: int) -> tuple[float, float, float]:
        """A_v and the accuracy with a query of overlap m, and the overlap after a gradient step with that value."""
        world, L = self.world, self.world.L
        slope = world.beta if world.beta is not None else dilute_beta(world.nu * m, L, world.T)
        h = self.noise.copy()
        h[:, :L] += world.nu * m
        w = world.replace(kernel="softmax", beta=0.0 if m == 0 else slope).weights(h)
        A, kappa = w[:, :L].sum(axis=1), np.einsum("nt,nt->n", w, w)
        signal, ratio = (world.mu * A.mean()) ** 2, world.d / n
        value = float(signal / (signal + ratio * kappa.mean()))
        a = world.mu * np.sqrt(value)
        Q = float(np.mean(np.einsum("nt,nt->n", w[:, :L], h[:, :L]) - A * np.einsum("nt,nt->n", w, h))) if m else 0.0
        K = world.nu * np.sqrt(1 - m**2) * float(np.mean(A * (1 - A)))
        w2 = w**2
        relevant = w2[:, :L].sum(axis=1)
        spread = relevant * (1 - A) ** 2 + (kappa - relevant) * A**2
        noise = ratio * float(np.mean(kappa - 2 * (w2 * w).sum(axis=1) + kappa**2) + a**2 * spread.mean())
        if not self.orthogonal:
            noise += float(np.mean(self._variance(w, a) ** 2)) / n
        total = np.sqrt(a**2 * (Q**2 + K**2) + noise)
        accuracy = float(np.mean(ndtr(a * A / np.sqrt(kappa))))
        return value, accuracy, float(a * (m * Q + np.sqrt(1 - m**2) * K) / total) if total > 0 else 0.0

    def _variance(self, w: FloatArray, a: float) -> FloatArray:
        """Var_w(v·e) of each sequence."""
        score = self.along_v.copy()
        score[:, : self.world.L] += a
        return np.asarray(np.einsum("nt,nt->n", w, score**2) - np.einsum("nt,nt->n", w, score) ** 2)
