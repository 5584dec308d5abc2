r"""Which pooling serves a linear model best: cross-validation with the weights relearned in every fold.

Every candidate pools the same rows, a ridge on the pooled features is fitted on the other folds, and each row is scored
once under each candidate; differences are therefore paired. The mean stays unless something is better beyond doubt:

1. a fixed rule replaces it when its gain exceeds ``Z_REQUIRED`` standard errors;
2. a learned candidate replaces what stands then when it is better by ``Z_REQUIRED`` standard errors more. Its weights
   are those that its folds found (:mod:`spikepool.pooling.fold_agreement`).

Standard errors count clusters (groups, repeated rows) and not rows, and are a little larger than the plain ones: as if
the largest difference had been seen once more in each direction. Five rows that differ, all in favour, are no proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.gcv import fit_ridge
from spikepool.kit.progress import Progress
from spikepool.kit.threads import Map
from spikepool.pooling.candidates import Candidate
from spikepool.pooling.fold_agreement import agreeing_pooling
from spikepool.pooling.learning_rows import LearningRows
from spikepool.pooling.pooled_loss import PooledRidgeLoss
from spikepool.pooling.poolings import LEARNED, LearnedWeights, PositionPooling, QueryPooling, fixed_pooling
from spikepool.pooling.scores import PositionScores, QueryScores, Scores

Score = Callable[[FloatArray, IntArray], FloatArray]

FIXED_CANDIDATES = ("mean", "last", "first", "ramp", "concat")
# Two standard errors at each step: over 46 samples of 26 tasks one loss beyond a standard error (−.6 ± .6 points).
Z_REQUIRED = 2.0
# Penalties on the parameters of the scores, for targets of unit variance.
QUERY_PENALTY = 5e-3
HEADS_PENALTY = 5e-4


@dataclass(frozen=True)
class Learner:
    """How weights are learned."""

    heads: int
    max_steps: int
    ridge: float | None

    def learn(self, name: str, data: LearningRows, Y: FloatArray, rows: IntArray) -> LearnedWeights:
        """The learned pooling `name` from some of the rows."""
        z = data.z[rows]
        if name == "query":
            scores: Scores = QueryScores(z)
            rho = QUERY_PENALTY
        else:
            scores, rho = PositionScores.of(data.observed[rows], self.heads), HEADS_PENALTY
        found = PooledRidgeLoss(z, data.usable[rows], Y[rows], scores, rho).minimise(self.max_steps)
        if name == "query":
            return QueryPooling(found[None], data.space)
        return PositionPooling(found.reshape(1, self.heads, 2, -1), data.space)


@dataclass(frozen=True)
class Choice:
    """The pooling chosen, what it was compared with, and the fixed rule that it had to beat.

    A learned one comes with what its folds found.
    """

    name: str
    candidates: tuple[Candidate, ...]
    rival: str
    rival_gain: float
    rival_error: float
    pooling: LearnedWeights | None = None


def choose_pooling(
    data: LearningRows,
    Y: FloatArray,
    folds: IntArray,
    clusters: IntArray,
    score: Score,
    learner: Learner,
    over_tasks: Map,
    progress: bool | None = None,
) -> Choice:
    """Compare all candidates and choose; see the module's docstring.

    Parameters
    ----------
    data : LearningRows
        The sequences.
    Y : array (n, k)
        Targets.
    folds, clusters : arrays (n,) of int
        Fold and cluster of each row.
    score : callable
        ``score(values, rows)``: score of each of `rows`, larger is better, given predicted values.
    learner : Learner
        How weights are learned.
    over_tasks : callable
        Map over the folds of a candidate; they share nothing, so threads do not change the numbers.
    progress : bool, optional
        Show a progress bar.
    """
    count = int(folds.max()) + 1
    scores: dict[str, FloatArray] = {}
    found: dict[str, list[LearnedWeights]] = {}
    names = (*FIXED_CANDIDATES, *LEARNED)
    with Progress(len(names), "comparing poolings", show=progress) as bar:
        for name in names:
            # features of one candidate at a time: together they would be as large as the tokens
            fixed = None if name in LEARNED else data.features(fixed_pooling(name))
            scores[name], found[name] = _fold_scores(name, fixed, data, Y, folds, count, score, learner, over_tasks)
            bar.advance()
    choice = decide(scores, clusters)
    if choice.name not in LEARNED:
        return choice
    whole = learner.learn(choice.name, data, Y, np.arange(len(Y)))
    gain = scores[choice.name] - scores[choice.rival]
    return replace(choice, pooling=agreeing_pooling(found[choice.name], whole, data, gain, folds))


def _fold_scores(
    name: str,
    fixed: FloatArray | None,
    data: LearningRows,
    Y: FloatArray,
    folds: IntArray,
    count: int,
    score: Score,
    learner: Learner,
    over_tasks: Map,
) -> tuple[FloatArray, list[LearnedWeights]]:
    """Score of every row under one candidate, from the other folds; and the pooling of each fold, where learned."""

    def one_fold(k: int) -> tuple[FloatArray, LearnedWeights | None]:
        train, test = np.flatnonzero(folds != k), np.flatnonzero(folds == k)
        pooling: LearnedWeights | None = None
        if fixed is None:
            pooling = learner.learn(name, data, Y, train)
            C = data.features(pooling)
        else:
            C = fixed
        seen, unseen = C[train], C[test]
        del C
        fitted = fit_ridge(seen, Y[train], learner.ridge, standardize=True, overwrite=True)
        return score(fitted.predict(unseen), test), pooling

    result = np.empty(len(Y))
    found = []
    for k, (values, pooling) in enumerate(over_tasks(one_fold, count)):
        result[folds == k] = values
        if pooling is not None:
            found.append(pooling)
    return result, found


def decide(scores: dict[str, FloatArray], clusters: IntArray) -> Choice:
    """The choice from the score of every row under every candidate."""
    against_mean = {name: paired(s - scores["mean"], clusters) for name, s in scores.items()}
    rival = _best({n: g for n, g in against_mean.items() if n not in LEARNED}, "mean")
    against_rival = {name: paired(scores[name] - scores[rival], clusters) for name in scores if name in LEARNED}
    name = _best(against_rival, rival)
    candidates = tuple(Candidate(n, n in LEARNED, float(s.mean()), *against_mean[n]) for n, s in scores.items())
    return Choice(name, candidates, rival, *paired(scores[name] - scores[rival], clusters))


def _best(gains: dict[str, tuple[float, float]], incumbent: str) -> str:
    """The candidate of largest gain among those that are clearly better, else the incumbent."""
    better = {n: gain for n, (gain, error) in gains.items() if gain > Z_REQUIRED * error and gain > 0}
    return max(better, key=lambda n: better[n]) if better else incumbent


def paired(difference: FloatArray, clusters: IntArray) -> tuple[float, float]:
    """Mean of a paired difference and its cautious standard error, with clusters as the independent units."""
    mean = float(difference.mean())
    totals = np.bincount(clusters, difference - mean)
    units = len(np.unique(clusters))
    if units < 2:
        return mean, float("inf")
    largest = float(np.abs(np.bincount(clusters, difference)).max())
    energy = float((totals**2).sum()) * units / (units - 1) + 2 * largest**2
    return mean, float(np.sqrt(energy)) / len(difference)
