"""What predictions are judged by, how candidates are weighed, and the paired test between two of them.

**Classes.** Scores f (n, K) of candidate c are log-probabilities up to a scale. Several candidates predict

    p = softmax(Σ_c v_c f_c),    v = argmax Σ_i w_i [log p(y_i | x_i) + (r/n)² (1/K) Σ_k log p(k | x_i)]   over v >= 0,

f_c of row i being those of a fit without its fold. The second term acts as r²/n further rows whose classes are random:
v is near zero, and p near 1/K, where the n rows left out do not support more. With few rows the weights themselves are
noise: the share m/n of them (at most 1, m = `equal_rows`) is replaced by equal weights of the contenders, the
candidates with the head of the reference, but not its pooling, that are not below the best of them by two standard
errors of likelihood.

**Numbers.** Predicted values f (n, 1) are averaged, v >= 0 with Σ v = 1, so that the squared error is least. That is
the likelihood of a normal law.

**Paired test.** Two predictions are compared by the difference of the log-likelihoods of each row, its mean and its
standard error, in which rows of one group are one unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax, logsumexp

from spikepool.kit.arrays import AnyArray, BoolArray, FloatArray, IntArray


class Objective(Protocol):
    """What is predicted, and how predictions are judged."""

    @property
    def target(self) -> AnyArray:
        """Class numbers or real numbers, (n,)."""

    @property
    def classes(self) -> int | None:
        """Number of classes; None for real numbers."""

    def weigh(self, scores: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
        """Weights v (m,) of the candidates with these scores, on rows of positive weight."""

    def shrunk(
        self, v: FloatArray, scores: Sequence[FloatArray], weights: FloatArray, contenders: BoolArray
    ) -> FloatArray:
        """The weights that predict, given those of largest likelihood."""

    def equal_share(self, weights: FloatArray) -> float:
        """Share of the weights that does not depend on the scores."""

    def likelihood(self, scores: FloatArray) -> FloatArray:
        """Log-likelihood of each row, (n,)."""

    def score(self, scores: FloatArray) -> FloatArray:
        """What a reader calls good, for each row: 1 where the class is right, or its part of R²."""


def indicators(target: AnyArray, classes: int | None) -> FloatArray:
    """Targets of a regression: −1 and 1, (n, K) or (n, 1) for two classes; numbers as they are, (n, 1)."""
    if classes is None:
        return np.asarray(target, dtype=np.float64)[:, None]
    columns = np.arange(1, 2) if classes == 2 else np.arange(classes)
    return np.where(target[:, None] == columns, 1.0, -1.0)


@dataclass(frozen=True, eq=False)
class Classes:
    """Class numbers (n,), judged by the likelihood of a softmax.

    `random_rows` and `equal_rows` are r and m of the module's docstring; both were chosen on texts with 8 and 32 rows
    per class (docs/benchmarks/choose.md). `least_scale` is the smallest scale of a candidate that predicts alone.
    """

    target: IntArray
    classes: int
    random_rows: float = 16.0
    equal_rows: float = 50.0
    least_scale: float = 0.02

    def weigh(self, scores: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
        """V >= 0 of largest likelihood: a convex problem of few unknowns."""
        here = np.flatnonzero(weights > 0)
        share = weights[here] / weights[here].sum()
        stack = np.stack([one[here] for one in scores])
        more = (self.random_rows / len(here)) ** 2
        right = stack[:, np.arange(len(here)), self.target[here]] + more * stack.mean(axis=2)
        gain = right @ share

        def loss(v: FloatArray) -> tuple[float, FloatArray]:
            total = np.tensordot(v, stack, axes=1)
            normal = logsumexp(total, axis=1)
            p = np.exp(total - normal[:, None]) * share[:, None]
            value = (1 + more) * float(share @ normal) - float(v @ gain)
            return value, (1 + more) * np.einsum("cnk,nk->c", stack, p) - gain

        start = np.full(len(scores), 1 / len(scores))
        # one candidate keeps its order of the classes, however small its scale
        least = self.least_scale if len(scores) == 1 else 0.0
        solution = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(least, None)] * len(scores))
        return np.asarray(solution.x)

    def shrunk(
        self, v: FloatArray, scores: Sequence[FloatArray], weights: FloatArray, contenders: BoolArray
    ) -> FloatArray:
        """Weights moved towards equal ones of the contenders, the more the fewer rows were left out."""
        share = self.equal_share(weights)
        if not contenders.any():
            return v
        equal = contenders / contenders.sum()
        total = np.tensordot(equal, np.stack(scores), axes=1)
        return np.asarray((1 - share) * v + share * self.weigh([total], weights)[0] * equal)

    def equal_share(self, weights: FloatArray) -> float:
        """The share m/n of equal weights, at most 1."""
        return min(1.0, self.equal_rows / int((weights > 0).sum()))

    def likelihood(self, scores: FloatArray) -> FloatArray:
        """Logarithm of the probability of the row's class."""
        return np.asarray(log_softmax(scores, axis=1)[np.arange(len(scores)), self.target])

    def score(self, scores: FloatArray) -> FloatArray:
        """1 where the class is right."""
        return np.asarray(scores.argmax(axis=1) == self.target, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Real numbers (n,), judged by squared error relative to their `variance`."""

    target: FloatArray
    variance: float
    classes: None = None

    def weigh(self, scores: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
        """V >= 0 of unit sum and least squared error."""
        root = np.sqrt(weights)
        residuals = np.stack([root * (one[:, 0] - self.target) for one in scores])
        return simplex_weights(residuals @ residuals.T)

    def shrunk(
        self, v: FloatArray, scores: Sequence[FloatArray], weights: FloatArray, contenders: BoolArray
    ) -> FloatArray:
        """The weights as they are."""
        return v

    def equal_share(self, weights: FloatArray) -> float:
        """None of the weights is replaced."""
        return 0.0

    def likelihood(self, scores: FloatArray) -> FloatArray:
        """Minus half of the squared error, in units of the variance."""
        return np.asarray(-((scores[:, 0] - self.target) ** 2) / (2 * self.variance))

    def score(self, scores: FloatArray) -> FloatArray:
        """1 minus the squared error, in units of the variance: its mean is R²."""
        return np.asarray(1 + 2 * self.likelihood(scores))


@dataclass(frozen=True, eq=False)
class Task:
    """Targets, row weights, folds and clusters of the learning rows.

    Attributes
    ----------
    objective : Objective
        What is predicted.
    weights : array (n,)
        Row weights.
    folds : array (n,)
        Fold of each row; −1 for a row that only trains.
    clusters : array (n,)
        Rows of one number are one unit of the paired test.
    judging : array (n,)
        Weights with which predictions are compared: zero for a row that is never left out, and for one whose class is
        missing in the other folds, which says nothing of how good a prediction is where classes are known.
    """

    objective: Any
    weights: FloatArray
    folds: IntArray
    clusters: IntArray
    judging: FloatArray

    @property
    def Y(self) -> FloatArray:
        """The targets of a regression, (n, k)."""
        return indicators(self.objective.target, self.objective.classes)

    @property
    def fold_count(self) -> int:
        """Folds whose rows are left out."""
        return int(self.folds.max(initial=-1)) + 1

    def paired(self, difference: FloatArray) -> tuple[float, float]:
        """Mean of a difference (n,) between two predictions, and its standard error."""
        return paired(difference, self.judging, self.clusters)

    def average(self, values: FloatArray) -> float:
        """Mean of values (n,) over the rows that judge."""
        return float(self.judging @ values / self.judging.sum())


def simplex_weights(gram: FloatArray, least: float = 0.01, sum_weight: float = 1e3) -> FloatArray:
    """V >= 0 of unit sum that minimises v'Gv, by non-negative least squares.

    Weights below the share `least` are dropped: they change predictions by less than their error. `sum_weight` is the
    weight of the equation Σ v = 1 against the others, relative to their size; v is normalised afterwards.
    """
    m = len(gram)
    scale = float(np.trace(gram)) / m
    if scale <= 0:
        return np.full(m, 1 / m)
    values, vectors = np.linalg.eigh(gram / scale)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    v, _ = nnls(np.vstack([root, sum_weight * np.ones(m)]), np.r_[np.zeros(m), sum_weight])
    v = np.where(v < least * v.sum(), 0.0, v)
    return np.asarray(v / v.sum())


def paired(difference: FloatArray, weights: FloatArray, clusters: IntArray) -> tuple[float, float]:
    """Weighted mean of a paired difference and its cautious standard error, with clusters as the independent units.

    Cautious: as if the largest difference had been seen once more in each direction, so that a few differing rows, all
    in favour, are not significant.
    """
    total = float(weights.sum())
    mean = float(weights @ difference) / total
    sums = np.bincount(clusters, weights * (difference - mean))
    units = len(np.unique(clusters))
    if units < 2:
        return mean, float("inf")
    largest = float(np.abs(np.bincount(clusters, weights * difference)).max())
    energy = float((sums**2).sum()) * units / (units - 1) + 2 * largest**2
    return mean, float(np.sqrt(energy)) / total
